"""Lowering of typed ONNX nodes to the operators of a Graph, each with its loop nests."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

import onnx

from dsascape.workloads.graph import Batch, Graph, Op, Rebuild, Role, Tensor, WorkloadError
from dsascape.workloads.loopnest import Access, LoopNest
from dsascape.workloads.mask_bands import KnownGraph, mask_of
from dsascape.workloads.onnx_file import OnnxFile
from dsascape.workloads.operands import misfit
from dsascape.workloads.operators import NOT_TAKEN, RULES, NodeContext, OperatorRule, UnsupportedOperatorError, kind_of
from dsascape.workloads.operators.registry import Lowered
from dsascape.workloads.walk_state import MALFORMED, Typed, Walk, attributes_of, dtype_of, node_error, node_name

_MATRIX_RANK = 2


def build_graph(
    file: OnnxFile, name: str, walk: Walk, inputs: Sequence[str], batch: Batch, rebuild: Rebuild
) -> Graph:
    """Return the graph of the nodes of ``walk`` that an output of ``file`` depends on.

    Raises ``WorkloadError`` if nothing is left to run, or naming the node that cannot be lowered.
    """
    outputs = [entry.name for entry in file.model.graph.output]
    live = live_nodes(walk, outputs)
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
    ops = tuple(op for op in map(lowering.lower, live) if op is not None)
    if not ops:
        raise WorkloadError(f"{file.where}: all outputs are empty, so there is nothing to run")
    results = tuple(name for name in kept if name in lowering.tensors)
    try:
        return Graph(
            name, ops, lowering.tensors, tuple(inputs), results, batch.size, rebuild, batch.dims, batch.missing
        )
    except WorkloadError as error:
        raise WorkloadError(f"{file.where}: {error}") from error


def live_nodes(walk: Walk, outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes of ``walk`` that one of ``outputs`` depends on, in walk order."""
    needed, live = set(outputs), []
    for node in reversed(walk.nodes):
        if any(name in needed for name in node.output):
            live.append(node)
            needed.update(name for name in node.input if name)
    return live[::-1]


@dataclass(slots=True)
class _Lowering:
    """State of one lowering: tensors so far, and operator names in use."""

    file: OnnxFile
    walk: Walk
    used: set[str]
    """Tensors that a live node reads, and network outputs."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    writers: dict[str, onnx.NodeProto] = field(default_factory=dict)
    """Node that computes each tensor."""

    def __post_init__(self) -> None:
        self.writers.update({name: node for node in (*self.walk.of_weights, *self.walk.nodes) for name in node.output})

    def add(self, name: str, typed: Typed, role: Role) -> None:
        """Add a network input or weight."""
        try:
            self.tensors[name] = _tensor(name, typed, role, ())
        except WorkloadError as error:
            raise WorkloadError(f"{self.file.where}: {error}") from error

    def lower(self, node: onnx.NodeProto) -> Op | None:
        """Return ``node`` as an operator that writes the outputs in use; None if they are all empty.

        Raises ``WorkloadError`` naming the node for one that has no loop nests, or operands that do not fit it.
        """
        try:
            return self._lowered(node)
        except MALFORMED as error:
            text = str(error) if isinstance(error, ValueError) else f"is malformed: {type(error).__name__} {error}"
            raise node_error(self.file.where, node, f": {text}") from error

    def _lowered(self, node: onnx.NodeProto) -> Op | None:
        kind = kind_of(node.domain, node.op_type)
        rule = RULES.get(kind)
        if rule is None:
            raise UnsupportedOperatorError(f"{NOT_TAKEN.get(kind, 'has no loop nest')}; cut the network before it")
        inputs = tuple(self.tensors[name] if name else None for name in node.input)
        outputs = tuple(self._output(name, rule, inputs) for name in node.output)
        written = [t for t in outputs if t is not None and t.name in self.used and t.elements]
        if not written:
            return None
        values = self.walk.values
        constants = {t.name: values[t.name] for t in inputs if t is not None and t.name in values}
        name = self._unique(node_name(node))
        context = NodeContext(name, kind, attributes_of(node), inputs, outputs, constants, self.file.opset)
        lowered = _built(rule, context, self.walk.types)
        wrong = None if rule.partial else misfit(lowered.nests)
        if wrong is not None:
            raise UnsupportedOperatorError(wrong)
        nests = _needed(lowered.nests, {t.name for t in written})
        touched = {access.tensor for nest in nests for access in (*nest.reads, nest.write)}
        passed = (*lowered.internals, *(t for t in outputs if t is not None and t not in written))
        internals = tuple(t for t in passed if t.name in touched)
        read = tuple(dict.fromkeys(t.name for t in inputs if t is not None and t.name in touched))
        mask = mask_of(context, KnownGraph(self.writers, values, self.walk.types))
        band, masks = (None, ()) if mask is None or nests[1:] else (mask.band, mask.inputs)
        op = Op(name, kind, read, tuple(t.name for t in written), nests, internals, band, masks)
        self.tensors.update({t.name: t for t in written})
        return op

    def _output(self, name: str, rule: OperatorRule, inputs: Sequence[Tensor | None]) -> Tensor | None:
        typed = self.walk.types.get(name)
        if typed is None:
            return None
        return _tensor(name, typed, "activation", _memory_order(rule.layout, typed.shape, inputs))

    def _unique(self, name: str) -> str:
        candidate, number = name, 1
        while candidate in self.taken:
            number += 1
            candidate = f"{name}#{number}"
        self.taken.add(candidate)
        return candidate


def _built(rule: OperatorRule, context: NodeContext, taken: Container[str]) -> Lowered:
    """Return an operator's loop nests; internal tensors are renamed where the file uses their names (``taken``)."""
    lowered = rule.build(context)
    if not any(tensor.name in taken for tensor in lowered.internals):
        return lowered
    # an operand may have an internal tensor's name: while nests are built, operands have aliases
    aliases = {t.name: f"operand {n}" for n, t in enumerate(context.inputs) if t is not None}
    inputs = tuple(None if t is None else replace(t, name=aliases[t.name]) for t in context.inputs)
    constants = {aliases[name]: value for name, value in context.constants.items()}
    lowered = rule.build(replace(context, inputs=inputs, constants=constants))
    called = {alias: name for name, alias in aliases.items()}
    for tensor in lowered.internals:
        free = tensor.name
        while free in taken:
            free += "'"
        called[tensor.name] = free

    def renamed(access: Access) -> Access:
        return replace(access, tensor=called.get(access.tensor, access.tensor))

    nests = tuple(
        replace(
            nest,
            reads=tuple(map(renamed, nest.reads)),
            write=renamed(nest.write),
            carried=None if nest.carried is None else renamed(nest.carried),
        )
        for nest in lowered.nests
    )
    internals = tuple(replace(tensor, name=called[tensor.name]) for tensor in lowered.internals)
    return replace(lowered, nests=nests, internals=internals)


def _tensor(name: str, typed: Typed, role: Role, order: tuple[int, ...]) -> Tensor:
    return Tensor(name, typed.shape, dtype_of(name, typed.element), role, order)


def _needed(nests: Sequence[LoopNest], wanted: set[str]) -> tuple[LoopNest, ...]:
    """Return the nests that the tensors ``wanted`` depend on."""
    kept = []
    for nest in reversed(nests):
        if nest.write.tensor in wanted:
            kept.append(nest)
            wanted.update(read.tensor for read in nest.reads)
    return tuple(reversed(kept))


def _memory_order(layout: str, shape: tuple[int, ...], inputs: Sequence[Tensor | None]) -> tuple[int, ...]:
    """Return the order in which an output lies in memory: channels innermost for images, else row-major.

    Elementwise results inherit the order of their operands. Where operands differ, as an image and a transposed one do,
    the one that is not row-major decides: its producer, such as a convolution, continues in its registers. A
    concatenation takes the order of its first part.
    """
    rank = len(shape)
    row_major = tuple(range(rank))
    if layout == "channels_last" and rank > _MATRIX_RANK:
        return (0, *range(2, rank), 1)
    if layout in ("inherit", "as_first"):
        data = [t.order for t in inputs if t is not None and t.role != "weight" and len(t.order) == rank]
        deciding = data[:1] if layout == "as_first" else data
        return next((order for order in deciding if order != row_major), row_major)
    return row_major
