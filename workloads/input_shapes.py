"""Types of a network's inputs; sizes that the file leaves open come from the import options."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import onnx

from dsascape.workloads.batch.names import names_a_batch, names_something_else
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.onnx_file import OnnxFile
from dsascape.workloads.reimport import Dims, ImportOptions
from dsascape.workloads.walk_state import DTYPES, Typed, typed

_MATRIX_RANK, _IMAGE_RANK = 2, 4


@dataclass(frozen=True, slots=True)
class InputTypes:
    """Types of all inputs, at the file's own sizes where it states them."""

    types: Mapping[str, Typed]
    stated: Dims
    """Open dimensions that the file or the user declares to be the batch."""


def input_types(file: OnnxFile, options: ImportOptions) -> InputTypes:
    """Return type and shape of every input; sizes that the file leaves open come from the options.

    A name stands for one size wherever it appears. A dimension that is named like a batch, or that the options declare
    to be one, gets the batch size. Where there is none, an open first dimension does, unless its name denotes something
    else. Raises ``WorkloadError`` for an open size without a value.
    """
    entries = [entry for entry in file.model.graph.input if entry.name not in file.weights]
    for entry in entries:
        if not entry.type.HasField("tensor_type") or not entry.type.tensor_type.HasField("shape"):
            raise WorkloadError(f"{file.where}: input {entry.name!r} is not a tensor of known rank")
    if not entries:
        raise WorkloadError(f"{file.where}: has no inputs, so there is nothing to run")
    opened: dict[str, list[tuple[str, int]]] = {}
    for entry in entries:
        for dim, (_, name) in enumerate(_dims(entry)):
            if name is not None:
                opened.setdefault(name, []).append((entry.name, dim))
    _check_names(file.where, dict(options.dims), opened)
    _check_batch_dims(file.where, options.batch_dims or (), entries)
    batches = _batches(options, opened)
    sizes = dict(options.dims)
    for name, places in opened.items():
        first = min(dim for _, dim in places)
        if name in batches:
            sizes[name] = options.batch or sizes.get(name, 1)
        elif not batches and first == 0 and not names_something_else(name):
            sizes.setdefault(name, options.batch or 1)
        elif first == 1 and options.sequence is not None:
            sizes.setdefault(name, options.sequence)
    types = {entry.name: _typed(file, entry, sizes) for entry in entries}
    return InputTypes(types, tuple(place for name in batches for place in opened[name]))


def _batches(options: ImportOptions, opened: Mapping[str, list[tuple[str, int]]]) -> list[str]:
    """Return the open dimensions that are declared the batch, by the options or else by their names."""
    if options.batch_dims is not None:
        return [name for name, places in opened.items() if set(places).intersection(options.batch_dims)]
    anonymous = {f"{name}[{dim}]" for places in opened.values() for name, dim in places}
    return [name for name in opened if name not in anonymous and names_a_batch(name)]


def _typed(file: OnnxFile, entry: onnx.ValueInfoProto, sizes: Mapping[str, int]) -> Typed:
    shape = []
    for dim, (size, name) in enumerate(_dims(entry)):
        if name is not None and name not in sizes:
            raise WorkloadError(
                f"{file.where}: input {entry.name!r} has an open size {name!r} in dimension {dim};"
                f" give it as --dim {name}=SIZE (in YAML: dims: {{{name}: SIZE}})"
            )
        shape.append(size if name is None else sizes[name])
    return typed(file.where, entry.name, entry.type.tensor_type.elem_type, shape)


def _check_names(where: str, sizes: Iterable[str], opened: Iterable[str]) -> None:
    names = sorted(opened)
    for name in sizes:
        if name not in names:
            listed = ", ".join(map(repr, names)) or "none"
            raise WorkloadError(f"{where}: has no open dimension {name!r}; open dimensions: {listed}")


def _check_batch_dims(where: str, dims: Dims, entries: Iterable[onnx.ValueInfoProto]) -> None:
    ranks = {entry.name: len(entry.type.tensor_type.shape.dim) for entry in entries}
    for name, dim in dims:
        if name not in ranks:
            inputs = ", ".join(map(repr, ranks))
            raise WorkloadError(f"{where}: batch-dim names input {name!r}; the inputs are: {inputs}")
        if not 0 <= dim < ranks[name]:
            raise WorkloadError(
                f"{where}: batch-dim names dimension {dim} of input {name!r}; it has dimensions 0 to {ranks[name] - 1}"
                if ranks[name]
                else f"{where}: batch-dim names dimension {dim} of input {name!r}; it has no dimensions"
            )


def _dims(entry: onnx.ValueInfoProto) -> Iterator[tuple[int, str | None]]:
    """Yield the size of every dimension, with a name if it is open: the file's, or INPUT[DIMENSION]."""
    for place, dim in enumerate(entry.type.tensor_type.shape.dim):
        fixed = dim.HasField("dim_value") and dim.dim_value > 0
        yield dim.dim_value, None if fixed else dim.dim_param or f"{entry.name}[{place}]"


def rescaled_types(
    file: OnnxFile, own: Mapping[str, Typed], options: ImportOptions
) -> tuple[dict[str, Typed], Fraction]:
    """Return the input types at the requested sequence length and image size, and the ratio new/old sequence length.

    The sequence is dimension 1 of tokens; images are other inputs of rank 4 whose last two dimensions are equal.
    """
    sequence, image = options.sequence, options.image
    ratio = Fraction(1)
    wanted, images = {}, 0
    for name, before in own.items():
        shape = list(before.shape)
        tokens = len(shape) >= _MATRIX_RANK and DTYPES.get(before.element) in ("int64", "int32", "bool")
        if sequence is not None and tokens and shape[1] != sequence:
            ratio = Fraction(sequence, shape[1])
            shape[1] = sequence
        if image is not None and not tokens and len(shape) == _IMAGE_RANK and shape[2] == shape[3] > 1:
            shape[2:] = [image, image]
            images += 1
        wanted[name] = typed(file.where, name, before.element, shape)
    if sequence is not None and not any(t.shape[1:2] == (sequence,) for t in wanted.values()):
        raise WorkloadError(f"{file.where}: has no input of tokens, so the option sequence does not apply")
    if image is not None and not images:
        raise WorkloadError(f"{file.where}: has no input of square images, so the option image does not apply")
    return wanted, ratio
