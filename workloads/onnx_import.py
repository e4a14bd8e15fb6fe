"""From an ONNX file to a Graph: shapes made static, shape arithmetic folded, every operator a loop nest."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import TypeVar

import onnx
from onnx import helper

from workloads.edits import Edit, edited_walk
from workloads.graph import Graph, WorkloadError
from workloads.known import DTYPES, Typed, Walk, typed
from workloads.lowering import build_graph
from workloads.onnx_file import OnnxFile, parse_onnx
from workloads.reimport import ImportOptions, Reimport, naming
from workloads.rescale import Change
from workloads.simplify import simplified
from workloads.walk import walk_file

_MATRIX_RANK, _IMAGE_RANK = 2, 4


def graph_from_file(
    file: OnnxFile, name: str, options: ImportOptions, rounds: tuple[tuple[Edit, ...], ...] = ()
) -> Graph:
    """Return the network of a parsed file, rescaled where the file's sizes are not the ones asked for, then edited."""
    own = _input_shapes(file, options)
    own_batch = next((typed.shape[0] for typed in own.values() if typed.shape), 1)
    walk = _walked(file, own, own_batch, options, rounds)
    rebuild = Reimport(zlib.compress(_stripped(file), 1), file.where, name, options, rounds)
    return build_graph(file, name, walk, tuple(own), options.batch or own_batch, rebuild)


def walk_again(source: Reimport) -> tuple[Walk, int]:
    """Return the nodes that a network's operators were made of, with types and known values, and their opset."""
    file, walk = file_and_walk(source)
    return walk, file.opset


def file_and_walk(source: Reimport) -> tuple[OnnxFile, Walk]:
    """Return the file of a network, and the nodes that its operators were made of, with types and known values."""
    with naming(source.where):
        file = parse_onnx(source.content(), source.where)
        own = _input_shapes(file, source.options)
        own_batch = next((typed.shape[0] for typed in own.values() if typed.shape), 1)
        return file, _walked(file, own, own_batch, source.options, source.rounds)


def _walked(
    file: OnnxFile,
    own: dict[str, Typed],
    own_batch: int,
    options: ImportOptions,
    rounds: tuple[tuple[Edit, ...], ...],
) -> Walk:
    walk = walk_file(file, own)
    wanted, change = _wanted_shapes(file, own, own_batch, options)
    if wanted != own:
        with _naming_image(options.image):
            walk = walk_file(file, wanted, before=walk, change=change)
    if options.simplify:
        walk = simplified(walk, [entry.name for entry in file.model.graph.output])
    for edits in rounds:
        walk = edited_walk(file, walk, edits)
    return walk


@contextmanager
def _naming_image(image: int | None) -> Iterator[None]:
    """Say of a network that cannot be taken at other sizes than its own that it was asked for at that of ``image``."""
    try:
        yield
    except WorkloadError as error:
        if image is None:
            raise
        raise WorkloadError(f"{error}; the network does not follow to images of {image} x {image}") from None


def _input_shapes(file: OnnxFile, options: ImportOptions) -> dict[str, Typed]:
    """Return type and shape of every input; sizes that the file leaves open come from the options.

    A name stands for one size wherever it appears.
    """
    entries = [entry for entry in file.model.graph.input if entry.name not in file.weights]
    for entry in entries:
        if not entry.type.HasField("tensor_type") or not entry.type.tensor_type.HasField("shape"):
            raise WorkloadError(f"{file.where}: input {entry.name!r} is not a tensor of known rank")
    if not entries:
        raise WorkloadError(f"{file.where}: has no inputs, so there is nothing to run")
    opened: dict[str, int] = {}
    for entry in entries:
        for place, (_, name) in enumerate(_dims(entry)):
            if name is not None:
                opened[name] = min(place, opened.get(name, place))
    sizes = dict(options.dims)
    _check_known(file.where, sizes, opened)
    for free, place in opened.items():
        if place == 0:
            sizes.setdefault(free, options.batch or 1)
        elif place == 1 and options.sequence is not None:
            sizes.setdefault(free, options.sequence)
    inputs = {}
    for entry in entries:
        shape = []
        for place, (size, name) in enumerate(_dims(entry)):
            if name is not None and name not in sizes:
                raise WorkloadError(
                    f"{file.where}: input {entry.name!r} has an open size {name!r} in dimension {place};"
                    f" give it as --dim {name}=SIZE (in YAML: dims: {{{name}: SIZE}})"
                )
            shape.append(size if name is None else sizes[name])
        inputs[entry.name] = typed(file.where, entry.name, entry.type.tensor_type.elem_type, shape)
    return inputs


def _check_known(where: str, sizes: Iterable[str], opened: Mapping[str, int]) -> None:
    for name in sizes:
        if name not in opened:
            listed = ", ".join(map(repr, sorted(opened))) or "none"
            raise WorkloadError(f"{where}: has no open dimension {name!r}; those that it has: {listed}")


def _dims(entry: onnx.ValueInfoProto) -> Iterator[tuple[int, str | None]]:
    """Yield the size of every dimension, with a name if it is open: the file's, or INPUT[DIMENSION]."""
    for place, dim in enumerate(entry.type.tensor_type.shape.dim):
        fixed = dim.HasField("dim_value") and dim.dim_value > 0
        yield dim.dim_value, None if fixed else dim.dim_param or f"{entry.name}[{place}]"


def _wanted_shapes(
    file: OnnxFile, own: dict[str, Typed], own_batch: int, options: ImportOptions
) -> tuple[dict[str, Typed], Change]:
    """Return the input shapes asked for.

    The batch is dimension 0; the sequence is dimension 1 of tokens; images are numbers in four dimensions, the last two
    of which are equal.
    """
    batch, sequence, image = options.batch, options.sequence, options.image
    ratio = Fraction(1)
    wanted, images = {}, 0
    for name, before in own.items():
        shape = list(before.shape)
        if batch is not None and shape and shape[0] == own_batch:
            shape[0] = batch
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
    return wanted, Change(own_batch, batch or own_batch, ratio)


def _stripped(file: OnnxFile) -> bytes:
    """Return the file without the values of large weights, which nothing here needs."""
    graph = _without(file.model.graph, "initializer")
    listed = {entry.name for entry in graph.input}
    for tensor in file.model.graph.initializer:
        if tensor.name in file.constants:
            graph.initializer.append(tensor)
        elif tensor.name not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    model = _without(file.model, "graph", "metadata_props")
    model.graph.CopyFrom(graph)
    entry = model.metadata_props.add()
    entry.key, entry.value = "weights", ",".join(sorted(file.weights))
    return model.SerializeToString()


_Message = TypeVar("_Message", onnx.ModelProto, onnx.GraphProto)


def _without(message: _Message, *left_out: str) -> _Message:
    """Return a copy of ``message`` without those fields, which are never copied: they can hold gigabytes."""
    copy = type(message)()
    for field, value in message.ListFields():
        if field.name in left_out:
            continue
        if field.is_repeated:
            getattr(copy, field.name).extend(value)
        elif field.message_type is not None:
            getattr(copy, field.name).CopyFrom(value)
        else:
            setattr(copy, field.name, value)
    return copy
