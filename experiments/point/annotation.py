"""Predicted times of a run, for the nodes of its ONNX file."""

from pathlib import Path

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import LayerFigures, operators_of
from dsascape.hw_models.text.quantities import PS_PER_S, format_ps
from dsascape.workloads import WorkloadError, zoo_entry
from dsascape.workloads.annotate import Annotated, Prediction, annotated, external_files
from dsascape.workloads.reimport import read_bytes


def annotated_file(outcome: Outcome, layers: list[LayerFigures], model: str, place: Path) -> Annotated:
    """Return the ONNX file of ``model`` with the predicted times of a run; it is meant to be written to ``place``.

    ``model`` is a name of the zoo, whose files have no weights, or a path. Raises ``WorkloadError`` for a file with
    weights in other files, if ``place`` is in another folder than it.
    """
    path = Path(model) if model.endswith(".onnx") else None
    content = zoo_entry(model).read_bytes() if path is None else read_bytes(path)
    if path is not None and path.resolve().parent != place.resolve().parent and external_files(content):
        raise WorkloadError(f"--annotate has {place}; {path} has weights in other files: needs the same folder")
    operators, ops = operators_of(outcome), {op.name: op for op in outcome.schedule.graph.ops}
    predictions = [
        Prediction(
            layer.shown, layer.critical_s, format_ps(round(layer.critical_s * PS_PER_S)),
            tuple((name, ops[name].outputs) for name in operators.get(layer.layer, ())),
        )
        for layer in layers
    ]  # fmt: skip
    record = outcome.record
    facts = {
        "hardware": record.hardware, "policy": record.policy, "batch": str(record.batch), "dtype": record.dtype,
        "latency_seconds": repr(record.latency_s),
    }  # fmt: skip
    return annotated(content, model, predictions, facts)
