"""Networks by the name that a user types (of the zoo, or the path of an ONNX file), or from an ONNX file's bytes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from dsascape.workloads.cache import cached
from dsascape.workloads.graph import Graph, WorkloadError
from dsascape.workloads.language.configurations import CONTEXT, LANGUAGE_MODELS, PROMPT, TOKENS, Decoder
from dsascape.workloads.reimport import Sizes, naming, options_of, read_bytes, read_network
from dsascape.workloads.zoo import zoo_entry, zoo_names


def load_network(
    name_or_path: str | Path,
    *,
    batch: int | None = None,
    sequence: int | None = None,
    simplify: bool = False,
    dims: Mapping[str, int] | None = None,
    image: int | None = None,
    batch_dims: Mapping[str, int] | None = None,
) -> Graph:
    """Return the network of the zoo called ``name_or_path``, or the one in that file if it ends in ``.onnx``.

    The keywords are import options, see `Sizes`; batch and sequence default to those of the zoo's entry or of the file.
    Raises ``WorkloadError`` for an unknown name (with the nearest ones), a file that cannot be imported, and sizes that
    the network cannot be resized to.
    """
    if not isinstance(name_or_path, str | Path):
        kind = type(name_or_path).__name__
        raise TypeError(f"name_or_path: has a {kind}; needs a network's name, or the path of an ONNX file")
    sizes: Sizes = {
        "batch": batch, "sequence": sequence, "simplify": simplify, "dims": dims, "image": image,
        "batch_dims": batch_dims,
    }  # fmt: skip
    path = Path(name_or_path)
    if path.suffix == ".onnx":
        if path.stem in zoo_names() and not path.exists():
            raise WorkloadError(f"{path}: no such file; the network of the zoo is {path.stem}, without .onnx")
        where = str(path)
        options = options_of(where, sizes)
        with naming(where):
            content = read_bytes(path)
            return cached(content, where, options, lambda: read_network(content, where, path.stem, options))
    entry = zoo_entry(str(name_or_path))
    if batch is None:
        sizes["batch"] = entry.default_batch
    if sequence is None:
        sizes["sequence"] = entry.sequence
    if entry.is_language_model:
        sizes["dims"] = open_dims(entry.name, dims or {})
    options = options_of(entry.name, sizes)
    with naming(entry.name):
        return cached(
            entry.identity,
            entry.name,
            options,
            lambda: read_network(entry.read_bytes(), entry.name, entry.name, options, stripped=True),
        )


def open_dims(name: str, given: Mapping[str, int]) -> dict[str, int]:
    """Return the open sizes of the language model ``name``; raise ``WorkloadError`` for more tokens than it takes.

    The state of a state space has no context: it does not grow.
    """
    model, (context, tokens) = LANGUAGE_MODELS[name], pass_sizes(given)
    if context + tokens > model.longest:
        raise WorkloadError(
            f"{name}: context and tokens are {context + tokens} together ({context}, {tokens});"
            f" needs {model.longest} at most"
        )
    dims = {**given, CONTEXT: context, TOKENS: tokens}
    return {each: size for each, size in dims.items() if each != CONTEXT or isinstance(model, Decoder)}


def pass_sizes(given: Mapping[str, int]) -> tuple[int, int]:
    """Return the tokens that the caches of a language model hold before a pass, and those that the pass processes.

    Behind a context, one token by default; without a context, a prompt of ``PROMPT`` tokens.
    """
    context = given.get(CONTEXT, 0)
    return context, given.get(TOKENS, 1 if context else PROMPT)


def import_onnx(source: str | Path | bytes, *, name: str | None = None, **sizes: Unpack[Sizes]) -> Graph:
    """Return the network in an ONNX file: a path, or its bytes.

    ``sizes``: import options, see `Sizes`. Without them the file's own sizes stay; a batch that the file leaves open
    becomes 1. Shape arithmetic is always folded. Raises ``WorkloadError`` naming file, node and operator for what
    cannot be imported.
    """
    where = (name or "model") if isinstance(source, bytes) else str(source)
    with naming(where):
        options = options_of(where, sizes)
        content = source if isinstance(source, bytes) else read_bytes(Path(source))
        return read_network(content, where, name or Path(where).stem, options)
