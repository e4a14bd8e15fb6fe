"""Types of a network's inputs; sizes that the file leaves open come from the import options."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
class OpenDims:
    """Dimensions of a file's inputs whose size the file leaves open."""

    places: Mapping[str, Dims]
    """Inputs, each with its dimension, by the name of the size."""
    batches: tuple[str, ...]
    """Names that the options declare to be the batch, or else those that mean one."""


@dataclass(frozen=True, slots=True)
class InputTypes:
    """Types of all inputs, at the file's own sizes where it states them."""

    types: Mapping[str, Typed]
    sizes: Mapping[str, int]
    """Size of each open dimension, by name."""
    batch: Dims
    """Dimensions declared to be the batch, by the options or by their names; empty where analysis has to find them."""
    is_open: bool
    """Whether the file leaves the size of one of these open."""
    guessed: tuple[str, ...]
    """Open dimensions of unknown meaning that got the batch's size because they come first."""


def open_dims(file: OnnxFile, options: ImportOptions) -> OpenDims:
    """Return the sizes that the inputs of ``file`` leave open.

    Raises ``WorkloadError`` for inputs without a rank, and for options that name a size or an input that is not there.
    """
    entries = _entries(file)
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
    places = {name: tuple(dims) for name, dims in opened.items()}
    return OpenDims(places, tuple(_batches(options, places)))


def input_types(file: OnnxFile, options: ImportOptions, opened: OpenDims, batch: Sequence[str]) -> InputTypes:
    """Return type and shape of every input; sizes that the file leaves open come from the options.

    A name stands for one size wherever it appears, and a size that the options state stays as it is. The dimensions
    ``batch`` get the batch size. Where no dimension is called a batch, an open first dimension gets it, unless its name
    denotes something else. Raises ``WorkloadError`` for an open size without a value.
    """
    entries, given = _entries(file), options.batch_dims or ()
    sizes, guessed = dict(options.dims), []
    fixed = [size for size in (_fixed_size(entries, *place) for place in given) if size]
    for name, places in opened.places.items():
        first = min(dim for _, dim in places)
        if name in batch:
            together = [sizes[other] for other in batch if other in sizes]
            sizes.setdefault(name, next(iter((*fixed, *together)), options.batch or 1))
        elif name in opened.batches:
            sizes.setdefault(name, 1)
        elif not opened.batches and first == 0 and not names_something_else(name):
            guessed += [name] if name not in sizes else []
            sizes.setdefault(name, options.batch or 1)
        elif first == 1 and options.sequence is not None:
            sizes.setdefault(name, options.sequence)
    types = {entry.name: _typed(file, entry, sizes) for entry in entries}
    declared = dict.fromkeys((*(place for name in batch for place in opened.places[name]), *given))
    resolved = {name: sizes[name] for name in opened.places}
    return InputTypes(types, resolved, tuple(declared), bool(batch), tuple(guessed))


def _entries(file: OnnxFile) -> list[onnx.ValueInfoProto]:
    return [entry for entry in file.model.graph.input if entry.name not in file.weights]


def _fixed_size(entries: Iterable[onnx.ValueInfoProto], name: str, dim: int) -> int:
    """Return the size that the file states for dimension ``dim`` of input ``name``; 0 where it leaves it open."""
    size, opened = next(list(_dims(entry))[dim] for entry in entries if entry.name == name)
    return 0 if opened is not None else size


def _batches(options: ImportOptions, opened: Mapping[str, Dims]) -> list[str]:
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

    The sequence is dimension 1 of tokens; images are other inputs of rank 4 whose last two dimensions are equal. Sizes
    that ``options.dims`` states stay; raises ``WorkloadError`` where nothing else has the requested size.
    """
    sequence, image = options.sequence, options.image
    ratio = Fraction(1)
    stated = _stated_places(file, options)
    wanted, images = {}, 0
    for name, before in own.items():
        shape = list(before.shape)
        tokens = len(shape) >= _MATRIX_RANK and DTYPES.get(before.element) in ("int64", "int32", "bool")
        if sequence is not None and tokens and shape[1] != sequence and (name, 1) not in stated:
            ratio = Fraction(sequence, shape[1])
            shape[1] = sequence
        if image is not None and not tokens and len(shape) == _IMAGE_RANK and shape[2] == shape[3] > 1:
            if shape[2] != image and stated.intersection([(name, 2), (name, 3)]):
                raise WorkloadError(
                    f"{file.where}: input {name!r} has images of {shape[2]} x {shape[3]} as --dim states, and the"
                    f" option image has {image}; give one of them"
                )
            shape[2:] = [image, image]
            images += 1
        wanted[name] = typed(file.where, name, before.element, shape)
    if sequence is not None and not any(t.shape[1:2] == (sequence,) for t in wanted.values()):
        raise WorkloadError(
            f"{file.where}: has no input of tokens whose length no --dim states, so the option sequence does not apply"
            if any(dim == 1 for _, dim in stated)
            else f"{file.where}: has no input of tokens, so the option sequence does not apply"
        )
    if image is not None and not images:
        raise WorkloadError(f"{file.where}: has no input of square images, so the option image does not apply")
    return wanted, ratio


def _stated_places(file: OnnxFile, options: ImportOptions) -> set[tuple[str, int]]:
    """Return the dimensions whose size ``options.dims`` states: inputs, each with the dimension."""
    named = {name for name, _ in options.dims}
    return {
        (entry.name, dim) for entry in _entries(file) for dim, (_, name) in enumerate(_dims(entry)) if name in named
    }
