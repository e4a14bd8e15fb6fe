"""Language models by name, as ONNX files without weights."""

from dsascape.workloads.language.configurations import LANGUAGE_MODELS, Decoder
from dsascape.workloads.language.decoder import decoder_model
from dsascape.workloads.language.state_space import state_space_model


def model_file(name: str) -> bytes:
    """Return the model called ``name`` as an ONNX file without weights, its batch, tokens and context open."""
    sizes = LANGUAGE_MODELS[name]
    return decoder_model(name, sizes) if isinstance(sizes, Decoder) else state_space_model(name, sizes)
