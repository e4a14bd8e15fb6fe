"""From typed ONNX nodes to the operators of a Graph, each lowered to its loop nests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx
from onnx import helper

from workloads.graph import Graph, Op, Rebuild, Role, Tensor, WorkloadError
from workloads.known import Typed, Walk, node_name
from workloads.onnx_file import DTYPES, OnnxFile
from workloads.operators import RULES, NodeContext, UnsupportedOperatorError

_MATRIX_RANK = 2


def build_graph(
    file: OnnxFile, name: str, walk: Walk, inputs: Sequence[str], batch: int, rebuild: Rebuild
) -> Graph:
    """Return the graph of those nodes of ``walk`` that an output of ``file`` depends on."""
    outputs = [entry.name for entry in file.model.graph.output]
    live = _live_nodes(walk, outputs)
    written = {name for node in live for name in node.output}
    kept = tuple(output for output in outputs if output in written)
    if not kept:
        raise WorkloadError(f"{file.where}: no output depends on the inputs, so there is nothing to run")
    used = {name for node in live for name in node.input if name} | set(kept)
    lowering = _Lowering(file, walk, used)
    for tensor, typed in walk.types.items():
        if tensor in inputs:
            lowering.add(tensor, typed, "input")
        elif tensor in walk.weights and tensor in used:
            lowering.add(tensor, typed, "weight")
    ops = tuple(lowering.lower(node) for node in live)
    return Graph(name, ops, lowering.tensors, tuple(inputs), kept, batch, rebuild)


def _live_nodes(walk: Walk, outputs: Sequence[str]) -> list[onnx.NodeProto]:
    needed, live = set(outputs), []
    for node in reversed(walk.nodes):
        if any(name in needed for name in node.output):
            live.append(node)
            needed.update(name for name in node.input if name)
    return live[::-1]


@dataclass(slots=True)
class _Lowering:
    """The tensors and operator names of a graph in the making."""

    file: OnnxFile
    walk: Walk
    used: set[str]
    """Tensors that somebody reads."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def add(self, name: str, typed: Typed, role: Role, order: tuple[int, ...] = ()) -> Tensor:
        if typed.element not in DTYPES:
            kind = onnx.TensorProto.DataType.Name(typed.element)
            raise WorkloadError(f"{self.file.where}: tensor {name!r} is of type {kind}, which is not taken")
        self.tensors[name] = Tensor(name, typed.shape, DTYPES[typed.element], role, order)
        return self.tensors[name]

    def lower(self, node: onnx.NodeProto) -> Op:
        """Return ``node`` as an operator; only outputs that somebody reads, and the first one, are kept."""
        rule = RULES.get(node.op_type)
        if rule is None:
            raise WorkloadError(
                f"{self.file.where}: node {node_name(node)!r}: operator {node.op_type} has no loop nest;"
                " cut the network before it"
            )
        inputs = tuple(self.tensors[name] if name else None for name in node.input)
        names = [name for place, name in enumerate(node.output) if name and (name in self.used or place == 0)]
        outputs = []
        for name in names:
            typed = self.walk.types[name]
            outputs.append(
                self.add(name, typed, "activation", _memory_order(rule.layout, typed.shape, inputs))
            )
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        values = self.walk.values
        constants = {t.name: values[t.name] for t in inputs if t is not None and t.name in values}
        op_name = self._unique(node_name(node))
        context = NodeContext(
            op_name, node.op_type, attributes, inputs, tuple(outputs), constants, self.file.opset
        )
        try:
            lowered = rule.build(context)
        except (UnsupportedOperatorError, ValueError, IndexError, KeyError, TypeError) as error:
            raise WorkloadError(
                f"{self.file.where}: node {node_name(node)!r} ({node.op_type}): {error}"
            ) from error
        read = {access.tensor for nest in lowered.nests for access in nest.reads}
        kept = tuple(dict.fromkeys(t.name for t in inputs if t is not None and t.name in read))
        return Op(op_name, node.op_type, kept, tuple(names), lowered.nests, lowered.internals)

    def _unique(self, name: str) -> str:
        candidate, number = name, 1
        while candidate in self.taken:
            number += 1
            candidate = f"{name}#{number}"
        self.taken.add(candidate)
        return candidate


def _memory_order(layout: str, shape: tuple[int, ...], inputs: Sequence[Tensor | None]) -> tuple[int, ...]:
    """Return the order in which an output lies in memory: channels innermost for images, else row-major."""
    rank = len(shape)
    row_major = tuple(range(rank))
    if layout == "channels_last" and rank > _MATRIX_RANK:
        return (0, *range(2, rank), 1)
    if layout == "inherit":
        data = (t.order for t in inputs if t is not None and t.role != "weight" and len(t.order) == rank)
        return next(data, row_major)
    return row_major
