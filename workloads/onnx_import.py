"""From an ONNX file to a Graph: shapes made static, shape arithmetic folded, every operator a loop nest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from workloads.constants import fold
from workloads.graph import Graph, Op, Tensor, WorkloadError
from workloads.onnx_file import DTYPES, OnnxFile, parse_onnx, read_onnx
from workloads.operators import RULES, NodeContext, UnsupportedOperatorError
from workloads.operators.registry import Array
from workloads.rescale import Change, RescaleError, broadcast_conflict, rescaled_like, rescaled_reshape

_MATRIX_RANK = 2
_BROADCASTING = frozenset({"Add", "Sub", "Mul", "Div", "Where", "Pow", "Min", "Max", "And", "Or", "Equal", "Sum"})
_LARGEST_TENSOR = 2**44
"""Elements; beyond it a shape is a mistake in the file."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What the walk knows of a tensor: element type of the ONNX standard and shape."""

    element: int
    shape: tuple[int, ...]

    @property
    def proto(self) -> onnx.TypeProto:
        return helper.make_tensor_type_proto(self.element, self.shape)


@dataclass(frozen=True, slots=True)
class Walk:
    """One pass over a file at given input shapes."""

    types: Mapping[str, Typed]
    values: Mapping[str, Array]
    weights: frozenset[str]
    """Tensors that do not depend on the network's inputs."""
    nodes: tuple[onnx.NodeProto, ...]
    """Those that compute at run time."""


@dataclass(frozen=True, slots=True)
class _Reimport:
    """Rebuilds the network from its file at another batch size; pickles as the bytes of the stripped file."""

    data: bytes
    where: str
    name: str
    sequence: int | None

    def __call__(self, batch: int) -> Graph:
        return graph_from_file(parse_onnx(self.data, self.where), self.name, batch=batch, sequence=self.sequence)


def import_onnx(
    source: str | Path | bytes, *, name: str | None = None, batch: int | None = None, sequence: int | None = None
) -> Graph:
    """Return the network in an ONNX file (a path, or its bytes) at ``batch`` and ``sequence`` length.

    Without them the file's own sizes stay; a batch that the file leaves open becomes 1. Raises ``WorkloadError``
    naming file, node and operator for what cannot be taken.
    """
    if isinstance(source, bytes):
        file = parse_onnx(source, name or "model")
    else:
        file = read_onnx(Path(source))
    return graph_from_file(file, name or Path(file.where).stem, batch=batch, sequence=sequence)


def graph_from_file(file: OnnxFile, name: str, *, batch: int | None, sequence: int | None) -> Graph:
    """Return the network of a parsed file, rescaled where the file's sizes are not the ones asked for."""
    for option, value in (("batch", batch), ("sequence", sequence)):
        if value is not None and value < 1:
            raise WorkloadError(f"{file.where}: {option} has {value}; needs at least 1")
    own = _input_shapes(file, batch, sequence)
    walk = _Walker(file, own).run()
    own_batch = next((typed.shape[0] for typed in own.values() if typed.shape), 1)
    wanted, change = _wanted_shapes(file, own, own_batch, batch, sequence)
    if wanted != own:
        walk = _Walker(file, wanted, before=walk, change=change).run()
    stripped = _stripped(file)
    reimport = _Reimport(stripped, file.where, name, sequence)
    return _build(file, name, walk, tuple(own), batch or own_batch, reimport)


def _input_shapes(file: OnnxFile, batch: int | None, sequence: int | None) -> dict[str, Typed]:
    """Return type and shape of every input; sizes that the file leaves open come from the options."""
    inputs: dict[str, Typed] = {}
    for entry in file.model.graph.input:
        if entry.name in file.weights:
            continue
        kind = entry.type.tensor_type
        if not entry.type.HasField("tensor_type") or not kind.HasField("shape"):
            raise WorkloadError(f"{file.where}: input {entry.name!r} is not a tensor of known rank")
        shape = []
        for place, dim in enumerate(kind.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                shape.append(dim.dim_value)
            elif place == 0:
                shape.append(batch or 1)
            elif place == 1 and sequence is not None:
                shape.append(sequence)
            else:
                raise WorkloadError(
                    f"{file.where}: input {entry.name!r} has an open size {dim.dim_param or '?'!r} in dimension {place};"
                    " only the batch (0) and, with the option sequence, dimension 1 can be set: export it with fixed sizes"
                )
        inputs[entry.name] = Typed(kind.elem_type, tuple(shape))
    if not inputs:
        raise WorkloadError(f"{file.where}: has no inputs, so there is nothing to run")
    return inputs


def _wanted_shapes(
    file: OnnxFile, own: dict[str, Typed], own_batch: int, batch: int | None, sequence: int | None
) -> tuple[dict[str, Typed], Change]:
    """Return the input shapes asked for. The batch is dimension 0; the sequence is dimension 1 of token inputs."""
    ratio = Fraction(1)
    wanted = {}
    for name, typed in own.items():
        shape = list(typed.shape)
        if batch is not None and shape and shape[0] == own_batch:
            shape[0] = batch
        tokens = len(shape) >= _MATRIX_RANK and DTYPES.get(typed.element) in ("int64", "int32", "bool")
        if sequence is not None and tokens and shape[1] != sequence:
            ratio = Fraction(sequence, shape[1])
            shape[1] = sequence
        wanted[name] = Typed(typed.element, tuple(shape))
    if sequence is not None and not any(t.shape[1:2] == (sequence,) for t in wanted.values()):
        raise WorkloadError(f"{file.where}: has no input of tokens, so the option sequence does not apply")
    return wanted, Change(own_batch, batch or own_batch, ratio)


class _Walker:
    """Types every tensor of a file, in order. With ``before``, carries shape constants over to the new sizes."""

    def __init__(
        self, file: OnnxFile, inputs: Mapping[str, Typed], *, before: Walk | None = None, change: Change | None = None
    ) -> None:
        self._file = file
        self._before = before
        self._change = change
        self._types: dict[str, Typed] = dict(inputs)
        self._values: dict[str, Array] = dict(file.constants)
        self._weights: set[str] = set(file.weights)
        self._nodes: list[onnx.NodeProto] = []
        self._recorded = {} if before else _typed_values(file.model.graph.value_info)
        self._opsets = list(file.model.opset_import)
        for tensor in file.model.graph.initializer:
            self._types[tensor.name] = Typed(tensor.data_type, tuple(tensor.dims))
        for sparse in file.model.graph.sparse_initializer:
            self._types[sparse.values.name] = Typed(sparse.values.data_type, tuple(sparse.dims))
        for entry in file.model.graph.input:
            if entry.name not in self._types:
                self._types.update(_typed_values([entry]))

    def run(self) -> Walk:
        for node in _sorted_nodes(self._file, set(self._types)):
            self._visit(node)
        return Walk(self._types, self._values, frozenset(self._weights), tuple(self._nodes))

    def _visit(self, node: onnx.NodeProto) -> None:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        inputs = [name for name in node.input if name]
        if node.op_type == "Shape" and node.domain in ("", "ai.onnx"):
            shape = self._types[inputs[0]].shape
            self._know(node.output[0], np.asarray(shape[attributes.get("start", 0) : attributes.get("end")], np.int64))
            return
        if node.op_type == "Size":
            self._know(node.output[0], np.asarray(np.prod(self._types[inputs[0]].shape), np.int64))
            return
        constant = all(name in self._weights for name in inputs)
        if all(name in self._values for name in inputs):
            folded = fold(node, attributes, [self._values[name] for name in inputs], self._file.opset)
            if folded is not None:
                for name, value in zip(node.output, folded, strict=False):
                    self._know(name, value)
                return
        if self._before is not None:
            node = self._carried_over(node, self._before)
        for name, typed in self._infer(node).items():
            self._types[name] = typed
        if constant:
            self._weights.update(name for name in node.output if name)
        else:
            self._nodes.append(node)

    def _know(self, name: str, value: Array) -> None:
        self._values[name] = value
        self._weights.add(name)
        self._types[name] = Typed(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    def _infer(self, node: onnx.NodeProto) -> dict[str, Typed]:
        """Return the types of the node's outputs by the ONNX standard's own rule."""
        if node.domain not in ("", "ai.onnx"):
            raise self._error(
                node, f"is of the custom domain {node.domain!r}; export the network with standard ONNX operators only"
            )
        try:
            schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=self._file.opset, domain="")
        except onnx.defs.SchemaError:
            raise self._error(node, f"is not an operator of ONNX opset {self._file.opset}") from None
        known = {name: self._types[name].proto for name in node.input if name}
        data = {
            name: numpy_helper.from_array(np.ascontiguousarray(self._values[name]), name)
            for name in node.input
            if name in self._values
        }
        try:
            found = infer_node_outputs(schema, node, known, data, opset_imports=self._opsets)
        except (InferenceError, RuntimeError, ValueError, TypeError) as error:
            text = str(error).strip().splitlines()
            raise self._error(node, f"does not fit its inputs {self._shapes_of(node)}: {text[-1] if text else error}") from None
        return {name: self._static(node, name, found.get(name)) for name in node.output if name}

    def _static(self, node: onnx.NodeProto, name: str, found: onnx.TypeProto | None) -> Typed:
        if found is not None and found.HasField("tensor_type"):
            kind = found.tensor_type
            dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
            if kind.HasField("shape") and all(size >= 0 for size in dims):
                if np.prod([float(size) for size in dims]) > _LARGEST_TENSOR:
                    raise self._error(node, f"writes {name!r} of shape {dims}, which no machine holds")
                if 0 in dims:
                    raise self._error(node, f"writes {name!r} of shape {dims}, which has no elements")
                return Typed(kind.elem_type, tuple(dims))
        recorded = self._recorded.get(name)
        if recorded is not None:
            return recorded
        shown = "of unknown rank" if found is None else str([d.dim_value or d.dim_param or "?" for d in found.tensor_type.shape.dim])
        raise self._error(
            node, f"writes {name!r}, whose shape {shown} is not known before the network runs; cut the network before it"
        )

    def _shapes_of(self, node: onnx.NodeProto) -> str:
        return ", ".join(str(list(self._types[name].shape)) for name in node.input if name)

    def _carried_over(self, node: onnx.NodeProto, before: Walk) -> onnx.NodeProto:
        """Return ``node`` with constants that the file ties to its own batch or sequence replaced."""
        assert self._change is not None
        inputs = list(node.input)
        data = inputs[0] if inputs else ""
        target = inputs[1] if len(inputs) > 1 else ""
        old, new = before.types.get(data), self._types.get(data)
        if old is None or new is None:
            return node
        stuck = target in self._values and np.array_equal(self._values[target], before.values.get(target, ()))
        try:
            if node.op_type == "Reshape" and stuck and old != new:
                reshaped = rescaled_reshape(old.shape, before.types[node.output[0]].shape, new.shape, self._change)
                return self._with_input(node, 1, np.asarray(reshaped, np.int64))
            if node.op_type == "Expand" and stuck:
                wanted = rescaled_like(old.shape, new.shape, before.types[node.output[0]].shape)
                return self._with_input(node, 1, np.asarray(wanted, np.int64))
            if node.op_type == "Resize" and len(inputs) > 3 and inputs[3] in self._values and old != new:  # noqa: PLR2004
                wanted = rescaled_like(old.shape, new.shape, before.types[node.output[0]].shape)
                return self._with_input(node, 3, np.asarray(wanted, np.int64))
            if node.op_type == "Slice" and self._change.sequence_ratio > 1:
                return self._open_ended(node, old.shape, new.shape)
        except RescaleError as error:
            raise self._error(node, f"cannot change batch or sequence: {error}") from None
        if node.op_type == "Concat":
            return self._conforming_concat(node, before)
        if node.op_type in _BROADCASTING:
            return self._conforming(node, before)
        return node

    def _open_ended(self, node: onnx.NodeProto, old: Sequence[int], new: Sequence[int]) -> onnx.NodeProto:
        """Return a slice that went to the end of a dimension in the file and still does."""
        ends, axes = self._values.get(node.input[2]), self._values.get(node.input[3])
        if ends is None or axes is None:
            return node
        grown = [
            int(new[a]) if int(e) == old[a] and new[a] > old[a] else int(e)
            for e, a in zip(ends.reshape(-1), axes.reshape(-1), strict=True)
        ]
        return self._with_input(node, 2, np.asarray(grown, np.int64))

    def _conforming(self, node: onnx.NodeProto, before: Walk) -> onnx.NodeProto:
        """Return ``node`` with weights that no longer broadcast (position tables, masks) cut or grown to fit."""
        names = list(node.input)
        olds, news = [before.types[n].shape for n in names], [self._types[n].shape for n in names]
        for place, name in enumerate(names):
            wanted = broadcast_conflict(olds, news, place) if name in self._weights else None
            if wanted is not None:
                node = self._with_weight(node, place, wanted)
        return node

    def _conforming_concat(self, node: onnx.NodeProto, before: Walk) -> onnx.NodeProto:
        """Return a join whose constant parts (class tokens) follow the batch of the other parts."""
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        live = [n for n in node.input if n not in self._weights]
        for place, name in enumerate(node.input):
            if name in self._weights and live:
                old, new = before.types[live[0]].shape, self._types[live[0]].shape
                mine = list(self._types[name].shape)
                wanted = tuple(
                    new[d] if d != axis % len(mine) and mine[d] == old[d] else size for d, size in enumerate(mine)
                )
                if wanted != tuple(mine):
                    node = self._with_weight(node, place, wanted)
        return node

    def _with_weight(self, node: onnx.NodeProto, place: int, shape: tuple[int, ...]) -> onnx.NodeProto:
        name = f"{node.input[place]}[{'x'.join(map(str, shape))}]"
        self._types[name] = Typed(self._types[node.input[place]].element, shape)
        self._weights.add(name)
        return _with_input_name(node, place, name)

    def _with_input(self, node: onnx.NodeProto, place: int, value: Array) -> onnx.NodeProto:
        name = f"{node.output[0]}:{node.input[place]}"
        self._know(name, value)
        return _with_input_name(node, place, name)

    def _error(self, node: onnx.NodeProto, text: str) -> WorkloadError:
        return WorkloadError(f"{self._file.where}: node {_node_name(node)!r} ({node.op_type}) {text}")


def _with_input_name(node: onnx.NodeProto, place: int, name: str) -> onnx.NodeProto:
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    changed.input[place] = name
    return changed


def _node_name(node: onnx.NodeProto) -> str:
    return node.name or next((name for name in node.output if name), "?")


def _typed_values(entries: Any) -> dict[str, Typed]:
    """Return those entries of a graph's inputs or value_info that are tensors of static shape."""
    typed = {}
    for entry in entries:
        kind = entry.type.tensor_type
        if entry.type.HasField("tensor_type") and all(d.HasField("dim_value") for d in kind.shape.dim):
            typed[entry.name] = Typed(kind.elem_type, tuple(d.dim_value for d in kind.shape.dim))
    return typed


def _sorted_nodes(file: OnnxFile, ready: set[str]) -> list[onnx.NodeProto]:
    """Return the nodes so that each comes after what it reads; raise where that cannot be."""
    waiting = list(file.model.graph.node)
    ordered: list[onnx.NodeProto] = []
    while waiting:
        later = []
        for node in waiting:
            if all(not name or name in ready for name in node.input):
                ordered.append(node)
                ready.update(node.output)
            else:
                later.append(node)
        if len(later) == len(waiting):
            node = later[0]
            missing = next(name for name in node.input if name and name not in ready)
            raise WorkloadError(
                f"{file.where}: node {_node_name(node)!r} ({node.op_type}) reads {missing!r}, which nothing before it"
                " writes: the graph has a cycle or a missing input"
            )
        waiting = later
    return ordered


def _build(  # noqa: PLR0913 - what a graph is made of
    file: OnnxFile, name: str, walk: Walk, inputs: tuple[str, ...], batch: int, rebuild: _Reimport
) -> Graph:
    """Return the graph of the live nodes, each lowered to loop nests."""
    outputs = tuple(entry.name for entry in file.model.graph.output)
    live = _live_nodes(walk, outputs)
    kept = tuple(o for o in outputs if o in {name for node in live for name in node.output})
    if not kept:
        raise WorkloadError(f"{file.where}: no output depends on the inputs, so there is nothing to run")
    used = {name for node in live for name in node.input if name}
    used.update(kept)
    tensors: dict[str, Tensor] = {}
    for tensor, typed in walk.types.items():
        if tensor in inputs or (tensor in walk.weights and tensor in used):
            role = "input" if tensor in inputs else "weight"
            tensors[tensor] = Tensor(tensor, typed.shape, _dtype(file, tensor, typed), role)  # type: ignore[arg-type]
    ops, taken = [], set[str]()
    for node in live:
        op_name = _unique(_node_name(node), taken)
        ops.append(_lower(file, node, op_name, walk, tensors, used))
    return Graph(name, tuple(ops), tensors, inputs, kept, batch, rebuild)


def _live_nodes(walk: Walk, outputs: Sequence[str]) -> list[onnx.NodeProto]:
    needed, live = set(outputs), []
    for node in reversed(walk.nodes):
        if any(name in needed for name in node.output):
            live.append(node)
            needed.update(name for name in node.input if name)
    return live[::-1]


def _unique(name: str, taken: set[str]) -> str:
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}#{number}"
    taken.add(candidate)
    return candidate


def _dtype(file: OnnxFile, name: str, typed: Typed) -> str:
    try:
        return DTYPES[typed.element]
    except KeyError:
        kind = onnx.TensorProto.DataType.Name(typed.element)
        raise WorkloadError(f"{file.where}: tensor {name!r} is of type {kind}, which is not taken") from None


def _lower(  # noqa: PLR0913 - one node and its surroundings
    file: OnnxFile, node: onnx.NodeProto, op_name: str, walk: Walk, tensors: dict[str, Tensor], used: set[str]
) -> Op:
    rule = RULES.get(node.op_type)
    if rule is None:
        raise WorkloadError(
            f"{file.where}: node {_node_name(node)!r}: operator {node.op_type} has no loop nest; cut the network before it"
        )
    inputs = tuple(tensors[name] if name else None for name in node.input)
    names = [name for place, name in enumerate(node.output) if name and (name in used or place == 0)]
    outputs = []
    for name in names:
        typed = walk.types[name]
        order = _memory_order(rule.layout, typed.shape, inputs)
        outputs.append(Tensor(name, typed.shape, _dtype(file, name, typed), "activation", order))
        tensors[name] = outputs[-1]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    constants = {t.name: walk.values[t.name] for t in inputs if t is not None and t.name in walk.values}
    context = NodeContext(op_name, node.op_type, attributes, inputs, tuple(outputs), constants, file.opset)
    try:
        lowered = rule.build(context)
    except (UnsupportedOperatorError, ValueError, IndexError, KeyError, TypeError) as error:
        raise WorkloadError(f"{file.where}: node {_node_name(node)!r} ({node.op_type}): {error}") from error
    read = {access.tensor for nest in lowered.nests for access in nest.reads}
    kept = tuple(dict.fromkeys(t.name for t in inputs if t is not None and t.name in read))
    return Op(op_name, node.op_type, kept, tuple(names), lowered.nests, lowered.internals)


def _memory_order(layout: str, shape: tuple[int, ...], inputs: Sequence[Tensor | None]) -> tuple[int, ...]:
    """Return the order in which an output lies in memory: images with channels innermost, the rest row-major."""
    rank = len(shape)
    row_major = tuple(range(rank))
    if layout == "channels_last" and rank > _MATRIX_RANK:
        return (0, *range(2, rank), 1)
    if layout == "inherit":
        return next((t.order for t in inputs if t is not None and t.role != "weight" and len(t.order) == rank), row_major)
    return row_major


def _stripped(file: OnnxFile) -> bytes:
    """Return the file without the values of large weights, which nothing here needs."""
    model = onnx.ModelProto()
    model.CopyFrom(file.model)
    weights = set(file.weights)
    small = [t for t in model.graph.initializer if t.name in file.constants]
    large = [t for t in model.graph.initializer if t.name not in file.constants]
    listed = {entry.name for entry in model.graph.input}
    inputs = [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in large if t.name not in listed]
    kept = [onnx.TensorProto.FromString(t.SerializeToString()) for t in small]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.graph.input.extend(inputs)
    del model.metadata_props[:]
    entry = model.metadata_props.add()
    entry.key, entry.value = "weights", ",".join(sorted(weights))
    return model.SerializeToString()
