"""Import of an ONNX file as a Graph: static shapes, folded shape arithmetic, every operator as loop nests."""

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import onnx
from onnx import helper

from dsascape.workloads.batch.counting import with_sized_tensors
from dsascape.workloads.batch.declared import batch_choices
from dsascape.workloads.batch.follow import Target
from dsascape.workloads.batch.search import NoBatch, find_batch
from dsascape.workloads.carry_over import CarryOver
from dsascape.workloads.edits import Edit, edited_walk
from dsascape.workloads.graph import Batch, Graph, WorkloadError
from dsascape.workloads.input_shapes import InputTypes, OpenDims, input_types, open_dims, rescaled_types
from dsascape.workloads.lowering import build_graph
from dsascape.workloads.onnx_file import WEIGHTS_KEY, OnnxFile, parse_onnx
from dsascape.workloads.reimport import ImportOptions, Reimport, naming
from dsascape.workloads.simplify import simplified, without_copies
from dsascape.workloads.walk import Rewalk, walk_file
from dsascape.workloads.walk_state import Walk, typed


@dataclass(frozen=True, slots=True)
class _Sized:
    """A file walked at the requested sizes."""

    walk: Walk
    inputs: tuple[str, ...]
    batch: Batch
    tensors_of_batch: frozenset[str]
    """Tensors that have the batch; empty where that is unknown."""
    settled: ImportOptions
    """Options that give the same network at any other batch."""


def graph_from_file(
    file: OnnxFile, name: str, options: ImportOptions, rounds: tuple[tuple[Edit, ...], ...] = ()
) -> Graph:
    """Return the network of a parsed file at the sizes of ``options``, with the edits of ``rounds`` applied."""
    sized = _sized(file, options, rounds)
    rebuild = Reimport(zlib.compress(_stripped(file), 1), file.where, name, sized.settled, rounds)
    graph = build_graph(file, name, sized.walk, sized.inputs, sized.batch, rebuild)
    return with_sized_tensors(graph, sized.tensors_of_batch)


def walk_again(source: Reimport) -> tuple[Walk, int]:
    """Return the walk that a network's operators were lowered from (nodes, types, known values), and the opset."""
    file, walk = file_and_walk(source)
    return walk, file.opset


def file_and_walk(source: Reimport) -> tuple[OnnxFile, Walk]:
    """Return the file of a network, and the walk that its operators were lowered from (nodes, types, known values)."""
    with naming(source.where):
        file = parse_onnx(source.content(), source.where, stripped=True)
        return file, _sized(file, source.options, source.rounds).walk


def _sized(file: OnnxFile, options: ImportOptions, rounds: tuple[tuple[Edit, ...], ...]) -> _Sized:
    opened = open_dims(file, options)
    own = input_types(file, options, opened, opened.batches)
    resized: list[tuple[Walk, InputTypes, _AtBatch]] = []
    for names in batch_choices(file, opened, options, own.types):
        inputs = own if names == opened.batches else input_types(file, options, opened, names)
        walk, inputs = _at_lengths(file, inputs, options)
        resized.append((walk, inputs, _at_batch(file, walk, inputs, options)))
        if not resized[-1][-1].batch.missing:
            break
    else:
        del resized[1:]
    walk, inputs, at_batch = resized[-1]
    _check_sizes(file, opened, inputs, at_batch.batch, options)
    walk = at_batch.walk
    outputs = [entry.name for entry in file.model.graph.output]
    walk = simplified(walk, outputs) if options.simplify else without_copies(walk, outputs)
    for edits in rounds:
        walk = edited_walk(file, walk, edits)
    filled = tuple(name for name, given in inputs.types.items() if 0 not in given.shape)
    batch = at_batch.batch
    others = [(n, size) for n, size in inputs.sizes.items() if not set(opened.places[n]).intersection(batch.dims)]
    settled = replace(
        options, batch=None if batch.missing else batch.size, batch_dims=batch.dims, dims=tuple(sorted(others))
    )
    return _Sized(walk, filled, batch, at_batch.tensors, settled)


def _at_lengths(file: OnnxFile, inputs: InputTypes, options: ImportOptions) -> tuple[Walk, InputTypes]:
    """Return the walk at the requested sequence length and image size, and the types of the inputs there."""
    walk = walk_file(file, inputs.types)
    wanted, ratio = rescaled_types(file, inputs.types, options)
    if wanted == inputs.types:
        return walk, inputs
    before = walk
    with _naming_image(options.image):
        walk = walk_file(file, wanted, Rewalk(before, lambda state: CarryOver(state, before, ratio)))
    return walk, replace(inputs, types=wanted)


@dataclass(frozen=True, slots=True)
class _AtBatch:
    """A file walked at the requested batch."""

    walk: Walk
    batch: Batch
    tensors: frozenset[str] = frozenset()
    """Tensors that have the batch; empty where that is unknown."""


def _at_batch(file: OnnxFile, walk: Walk, inputs: InputTypes, options: ImportOptions) -> _AtBatch:
    """Return the walk at the requested batch, and the batch itself.

    A network whose batch is not found, or cannot change, is taken at the batch that its file has. Raises
    ``WorkloadError`` for any other, and for a dimension stated to be the batch whose elements are mixed.
    """
    wanted, given = options.batch, options.batch_dims
    if given == ():
        missing = "the user states that it has none"
        if wanted not in (None, 1):
            raise _no_batch(file, wanted, missing)
        return _AtBatch(walk, Batch(1, (), missing))
    flow = find_batch(file, walk, inputs.types, inputs.batch)
    if isinstance(flow, NoBatch):
        return _AtBatch(walk, _unchanged(file, inputs, flow, options))
    batch_flow, batch = flow, Batch(flow.own if wanted is None else wanted, flow.dims)
    if batch.size != flow.own:
        before, types = walk, dict(inputs.types)
        for name, _ in flow.dims:
            types[name] = typed(file.where, name, types[name].element, flow.tensors[name].at(batch.size))
        walk = walk_file(file, types, Rewalk(before, lambda state: Target(state, batch_flow, batch.size)))
    return _AtBatch(walk, batch, flow.tensors_in(walk))


def _unchanged(file: OnnxFile, inputs: InputTypes, flow: NoBatch, options: ImportOptions) -> Batch:
    """Return the batch of a network whose batch does not flow through it, at the size that the file or its user has.

    An open dimension that is called the batch still is one where nothing speaks against it.
    """
    wanted = options.batch
    if not inputs.batch:
        if wanted in (None, 1) or wanted in flow.sizes:
            return Batch(wanted or 1, (), flow.reason)
        raise _no_batch(file, wanted, flow.reason)
    name, dim = inputs.batch[0]
    size = inputs.types[name].shape[dim]
    if inputs.is_open and not flow.mixes:
        return Batch(size, inputs.batch)
    if options.batch_dims is None or (wanted == size and not flow.mixes):
        return Batch(size, (), flow.reason)
    raise WorkloadError(f"{file.where}: {flow.reason}")


def _check_sizes(
    file: OnnxFile, opened: OpenDims, inputs: InputTypes, batch: Batch, options: ImportOptions
) -> None:
    """Raise ``WorkloadError`` if a stated size is not the batch's, or an open one is neither stated nor the batch's."""
    dims = set(batch.dims)
    for name, size in options.dims:
        if dims.intersection(opened.places[name]) and size != batch.size:
            raise WorkloadError(
                f"{file.where}: dimension {name!r} is stated as {size} by --dim, and is the batch, of which"
                f" {batch.size} are requested; give one of them"
            )
    for name in inputs.guessed:
        if batch.size > 1 and dims and not dims.intersection(opened.places[name]):
            entry, dim = opened.places[name][0]
            raise WorkloadError(
                f"{file.where}: input {entry!r} has an open size {name!r} in dimension {dim} that is not the batch;"
                f" give it as --dim {name}=SIZE (in YAML: dims: {{{name}: SIZE}})"
            )


def _no_batch(file: OnnxFile, wanted: int | None, reason: str) -> WorkloadError:
    return WorkloadError(
        f"{file.where}: has no batch that can become {wanted}: {reason}; name its dimension with"
        " --batch-dim INPUT:DIM (in YAML: batch_dim)"
    )


@contextmanager
def _naming_image(image: int | None) -> Iterator[None]:
    """Add to a ``WorkloadError`` that the network was requested at images of ``image`` x ``image`` pixels."""
    try:
        yield
    except WorkloadError as error:
        if image is None:
            raise
        raise WorkloadError(f"{error}; the network cannot be resized to images of {image} x {image}") from None


def _stripped(file: OnnxFile) -> bytes:
    """Return the serialized file without the values of large weights, which no import needs."""
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
    entry.key, entry.value = WEIGHTS_KEY, json.dumps(sorted(file.weights))
    return model.SerializeToString()


_Message = TypeVar("_Message", onnx.ModelProto, onnx.GraphProto)


def _without(message: _Message, *left_out: str) -> _Message:
    """Return a copy of ``message`` without the fields ``left_out``, which can hold gigabytes and are never copied."""
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
