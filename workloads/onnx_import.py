"""Import of an ONNX file as a Graph: static shapes, folded shape arithmetic, every operator as loop nests."""

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import onnx
from onnx import helper

from dsascape.workloads.batch.follow import BatchFlow, Target
from dsascape.workloads.batch.search import NoBatch, find_batch
from dsascape.workloads.carry_over import CarryOver
from dsascape.workloads.edits import Edit, edited_walk
from dsascape.workloads.graph import Batch, Graph, WorkloadError
from dsascape.workloads.input_shapes import InputTypes, input_types, rescaled_types
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


def graph_from_file(
    file: OnnxFile, name: str, options: ImportOptions, rounds: tuple[tuple[Edit, ...], ...] = ()
) -> Graph:
    """Return the network of a parsed file at the sizes of ``options``, with the edits of ``rounds`` applied."""
    sized = _sized(file, options, rounds)
    settled = replace(options, batch_dims=sized.batch.dims)
    rebuild = Reimport(zlib.compress(_stripped(file), 1), file.where, name, settled, rounds)
    return build_graph(file, name, sized.walk, sized.inputs, sized.batch, rebuild)


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
    inputs = input_types(file, options)
    walk = walk_file(file, inputs.types)
    wanted, ratio = rescaled_types(file, inputs.types, options)
    if wanted != inputs.types:
        before = walk
        with _naming_image(options.image):
            walk = walk_file(file, wanted, Rewalk(before, lambda state: CarryOver(state, before, ratio)))
    walk, batch = _at_batch(file, walk, replace(inputs, types=wanted), options)
    outputs = [entry.name for entry in file.model.graph.output]
    walk = simplified(walk, outputs) if options.simplify else without_copies(walk, outputs)
    for edits in rounds:
        walk = edited_walk(file, walk, edits)
    filled = tuple(name for name, given in wanted.items() if 0 not in given.shape)
    return _Sized(walk, filled, batch)


def _at_batch(file: OnnxFile, walk: Walk, inputs: InputTypes, options: ImportOptions) -> tuple[Walk, Batch]:
    """Return the walk at the requested batch, and the batch itself.

    Raises ``WorkloadError`` for a batch other than 1 if no dimension of the network's inputs is a batch.
    """
    wanted, given = options.batch, options.batch_dims
    if inputs.stated:
        name, dim = inputs.stated[0]
        return walk, Batch(inputs.types[name].shape[dim], inputs.stated)
    flow: BatchFlow | NoBatch = NoBatch("the user states that it has none")
    if given != ():
        flow = find_batch(file, walk, inputs.types, given or ())
    if isinstance(flow, NoBatch):
        if given:
            raise WorkloadError(f"{file.where}: {flow.reason}")
        if wanted not in (None, 1):
            raise WorkloadError(
                f"{file.where}: has no batch that can become {wanted}: {flow.reason}; name its dimension with"
                " --batch-dim INPUT:DIM (in YAML: batch_dim)"
            )
        return walk, Batch(1, (), flow.reason)
    if wanted is None or wanted == flow.own:
        return walk, Batch(flow.own, flow.dims)
    batch_flow, before, types = flow, walk, dict(inputs.types)
    for name, _ in flow.dims:
        types[name] = typed(file.where, name, types[name].element, flow.tensors[name].at(wanted))
    walk = walk_file(file, types, Rewalk(before, lambda state: Target(state, batch_flow, wanted)))
    return walk, Batch(wanted, flow.dims)


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
