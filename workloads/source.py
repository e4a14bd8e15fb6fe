"""An imported network's operators as its file states them, for rewriting passes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx

from dsascape.workloads.edits import Constant, Edit, Node, as_proto, edited_walk, plain_node
from dsascape.workloads.graph import FLOATS, Batch, CastRebuild, Graph, Tensor
from dsascape.workloads.loopnest import Operations
from dsascape.workloads.lowering import build_graph
from dsascape.workloads.onnx_file import OnnxFile
from dsascape.workloads.onnx_import import file_and_walk
from dsascape.workloads.operators import RULES
from dsascape.workloads.reimport import Reimport, naming
from dsascape.workloads.walk import Walker
from dsascape.workloads.walk_state import Walk, WalkState, dtype_of


@dataclass(frozen=True, slots=True)
class Drafted:
    """Properties that a tried operator would have in the network."""

    shape: tuple[int, ...]
    is_float: bool
    computed_once: bool
    """Whether it reads weights only, so that its result is a weight itself."""
    operations: Operations
    """Operations at run time; none if it is computed once."""


@dataclass(frozen=True, eq=False)
class Source:
    """The operators of a network as its file has them, and the values of its scalars."""

    graph: Graph
    nodes: tuple[Node | None, ...]
    """One node per operator of the graph, in its order; None where attributes are not all numbers and text."""
    scalars: Mapping[str, float]
    """Values of the weights of one element that the file holds, by name."""
    file: OnnxFile
    walk: Walk
    rebuild: Reimport
    casts: tuple[str, ...]
    """Dtypes that floating-point tensors were cast to after the import, in order."""

    def draft(self) -> "Draft":
        """Return a draft on which operators can be tried without changing the network."""
        return Draft(self)

    def edited(self, edits: Sequence[Edit]) -> Graph:
        """Return the network with ``edits``, at its own dtype; raise ``WorkloadError`` if they do not fit it."""
        if not edits:
            return self.graph
        old = self.graph
        rebuild = replace(self.rebuild, rounds=(*self.rebuild.rounds, tuple(edits)))
        with naming(self.file.where):
            walk = edited_walk(self.file, self.walk, edits)
            batch = Batch(old.batch, old.batch_dims, old.no_batch)
            graph = build_graph(self.file, old.name, walk, old.inputs, batch, rebuild)
        for dtype in self.casts:
            graph = graph.with_dtype(dtype)
        return graph


class Draft:
    """Scratch copy of a network on which new operators are typed and lowered one by one, in run order."""

    def __init__(self, source: Source) -> None:
        walk = source.walk
        self._state = WalkState(source.file.where, dict(walk.types), dict(walk.values), set(walk.weights))
        self._opset = source.file.opset
        self._walker = Walker(source.file, self._state, None)

    def is_float(self, name: str) -> bool:
        """Whether a tensor holds floating-point numbers."""
        return dtype_of(name, self._state.types[name].element) in FLOATS

    def element_type(self, name: str) -> int:
        """Return the number that ONNX has for the type of a tensor's elements."""
        return self._state.types[name].element

    def add_constant(self, constant: Constant) -> None:
        """Add a weight of one element that later operators may read."""
        self._state.types.setdefault(constant.name, replace(self._state.types[constant.like], shape=()))
        self._state.weights.add(constant.name)

    def add_like(self, name: str, like: str) -> None:
        """Add tensor ``name``, of the same type as ``like``, which an equivalent operator writes."""
        self._state.types[name] = self._state.types[like]

    def add(self, node: Node) -> Drafted:
        """Add ``node``, whose output later operators may read; raise ``WorkloadError`` if its operands misfit."""
        proto, state = as_proto(node), self._state
        self._walker.visit(proto)
        (output,) = node.outputs
        typed = state.types[output]
        once = output in state.weights
        operations = Operations() if once else self._operations(proto, node.kind)
        return Drafted(typed.shape, self.is_float(output), once, operations)

    def _operations(self, proto: onnx.NodeProto, kind: str) -> Operations:
        state = self._state
        outputs = tuple(
            Tensor(name, state.types[name].shape, dtype_of(name, state.types[name].element), "activation")
            for name in proto.output
        )
        context = replace(state.context(proto, kind, self._opset), outputs=outputs)
        return sum((nest.operations() for nest in RULES[kind].build(context).nests), Operations())


def source_of(graph: Graph) -> Source | None:
    """Return the file's operators behind ``graph``; None if it was not imported: their semantics are unknown."""
    casts: list[str] = []
    rebuild = graph.rebuild
    while isinstance(rebuild, CastRebuild):
        casts.append(rebuild.dtype)
        rebuild = rebuild.rebuild
    if not isinstance(rebuild, Reimport):
        return None
    file, walk = file_and_walk(rebuild)
    by_output = {name: node for node in walk.nodes for name in node.output if name}
    nodes = tuple(plain_node(by_output[op.outputs[0]]) for op in graph.ops)
    scalars = {name: value.reshape(-1)[0] for name, value in walk.values.items() if value.size == 1}
    numbers = {name: float(value) for name, value in scalars.items() if value.dtype.kind in "biuf"}
    return Source(graph, nodes, numbers, file, walk, rebuild, tuple(reversed(casts)))
