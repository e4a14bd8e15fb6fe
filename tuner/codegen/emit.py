"""From a loop program to TIR: each loop of the tree becomes a loop, each statement a store into its buffer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import te, tirx
from tvm.sym import Analyzer

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.nodes import (
    Ahead,
    Buffer,
    Guard,
    Loop,
    LoopKind,
    Node,
    Nodes,
    Outlined,
    Reach,
    Stage,
    Statement,
    loops_of,
    statements_of,
)
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Scope
from dsascape.scheduler.kernels.values.access import Stored
from dsascape.scheduler.kernels.values.packing import Packing
from dsascape.scheduler.kernels.values.statements import Statements
from dsascape.tuner.codegen.local_values import with_local_values
from dsascape.tuner.codegen.tvm_values import TvmValues
from dsascape.workloads.executable import Executable
from dsascape.workloads.subgraph import Subgraph

_KINDS: Mapping[LoopKind, Any] = {
    "serial": tirx.ForKind.SERIAL, "parallel": tirx.ForKind.PARALLEL, "vector": tirx.ForKind.VECTORIZED,
    "unrolled": tirx.ForKind.UNROLLED,
}  # fmt: skip
_SCOPES: Mapping[Scope, str] = {"register": "local", "stack": "global", "global": "global"}
_OUTLINED = "compute_scope"
"""Code for a statement under this attribute is a function, which no compiler puts back where it is called."""


@dataclass(frozen=True)
class CpuFunction:
    """The code of one kernel."""

    function: Any
    """The PrimFunc; parameters are inputs, then outputs."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    packings: Mapping[str, Packing]
    """How the weights among the inputs lie, where it is not as the network has them."""


def cpu_function(layer: Layer, executable: Executable, program: LoopProgram, name: str) -> CpuFunction:
    """Return the function ``name`` of ``program``; raise ``UnsupportedKernelError`` naming what has no code."""
    return function_of([(layer, program)], executable, name)


def function_of(layers: Sequence[tuple[Layer, LoopProgram]], executable: Executable, name: str) -> CpuFunction:
    """Return the function ``name`` of layers that are computed one after the other, as their programs say.

    Tensors that only later layers read are memory of the function. Raises ``UnsupportedKernelError`` naming what has no
    code.
    """
    graph, ops = layers[0][0].graph, tuple(sorted([op for layer, _ in layers for op in layer.ops]))
    escaping = {*Subgraph(graph, ops).computed_outputs, layers[-1][0].sink.name}
    between = frozenset([each for layer, _ in layers for each in layer.outputs if each not in escaping])
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    packings: dict[str, Packing] = {}
    bodies = []
    for number, (layer, program) in enumerate(layers):
        before = {**{each: own for each, own in inputs.items() if each not in packings}, **outputs}
        emitting = Emitting(layer, executable, program, LayerContext(before, between, number))
        bodies.append(emitting.body())
        outputs |= {each: emitting.buffers[each] for each in layer.outputs}
        inputs |= {each: own for each, own in emitting.values.inputs.items() if each not in outputs}
        packings |= {each: own for each, own in emitting.values.packings.items() if each in inputs}
    results = [each for each in outputs if each not in between]
    memory = [tirx.AllocBuffer(own) for each, own in outputs.items() if each in between]
    body = bodies[0] if len(bodies) == 1 else tirx.SeqStmt([*memory, *bodies])
    function = tirx.PrimFunc([*inputs.values(), *[outputs[each] for each in results]], body)
    function = with_local_values(function.with_attr("tirx.noalias", True)).with_attr("global_symbol", name)
    return CpuFunction(function, tuple(inputs), tuple(results), packings)


@dataclass(frozen=True)
class LayerContext:
    """What the code of a layer needs from the other layers of its function."""

    before: Mapping[str, Any] = field(default_factory=dict)
    """Buffers of tensors that layers in front read or compute."""
    between: frozenset[str] = frozenset()
    """Tensors that are only memory of the function."""
    number: int = 0
    """Number of the layer, for names of outlined functions."""


_ALONE = LayerContext()


class Emitting(Statements):
    """A function in the making."""

    values_of: type[TvmValues] = TvmValues
    """What makes expressions of the kernel's elements."""

    def __init__(
        self, layer: Layer, executable: Executable, program: LoopProgram, context: LayerContext = _ALONE
    ) -> None:
        super().__init__(layer, program, self.values_of(layer, executable, buffers=context.before))
        self.variables = {name: tirx.Var(name, "int32") for name in program.extents}
        """Loop variables by name; loops that were fused are expressions of the fused one."""
        self.dealt: dict[str, tuple[Any, Any]] = {}
        """By loop with iterations from both ends in turn: its variable, and what binds the one they are numbered by."""
        self.parts: dict[str, tuple[Any, Any]] = {}
        """Variable and iterations of loops that run in part: the loop's is what the first iteration is, plus this."""
        self.inside: dict[str, list[Buffer]] = {}
        self.buffers: dict[str, Any] = {}
        self._part = -1
        self._context = context

    def body(self) -> Any:
        """Return the statements of the whole layer."""
        for loop in self.program.loops.values():
            self.split(loop)
            if loop.reach is not None:
                self._begin_late(loop, loop.reach)
        self.declare()
        return self._with_buffers("", self.nodes(self.program.body))

    def declare(self) -> None:
        """Describe what the kernel computes, and declare its buffers."""
        self.describe()
        for buffer in self.program.buffers:
            self._declare(buffer)

    def split(self, loop: Loop) -> None:
        """Express the loops that a fused loop stands for by its variable."""
        rest = self.variables[loop.name]
        for number, (name, extent) in enumerate(reversed(loop.fused)):
            is_outermost = number == len(loop.fused) - 1
            self.variables[name] = rest if is_outermost else tirx.floormod(rest, extent)
            rest = tirx.floordiv(rest, extent)
        if loop.dealt:
            whole, own = self.variables[loop.name], self.variables[loop.dealt]
            half, number = tirx.floordiv(own, 2), dict(loop.fused).get(loop.dealt, loop.extent)
            value = tirx.Select(tirx.floormod(own, 2) == 0, half, number - 1 - half)
            self.variables[loop.dealt] = variable = tirx.Var(loop.dealt, "int32")
            self.dealt[loop.name] = whole, tirx.Bind(variable, value)

    def _declare(self, buffer: Buffer) -> None:
        stage = self.stages[buffer.name]
        dtype = self.dtype_of(stage)
        shape = buffer.shape
        if buffer.name in self._context.between:
            shape = (shape[0] + 1, *shape[1:])  # vectors may be loaded beyond the end: nothing else touches that memory
        self.buffers[buffer.name] = own = tirx.decl_buffer(
            shape, dtype, self.values.name(buffer.name), scope=_SCOPES[buffer.scope]
        )
        is_result = buffer.name in self.layer.outputs
        if not is_result:
            self.inside.setdefault(buffer.inside, []).append(buffer)
        found = self._stored(stage, buffer, own)
        self.take_in(stage, found)

    def _stored(self, stage: Stage, buffer: Buffer, own: Any) -> Stored:
        first = [self.value(each) for each in buffer.first]
        if buffer.scope != "register":
            starts = first if any(each.terms or each.offset for each in buffer.first) else ()
            return Stored(lambda *place: tirx.BufferLoad(own, list(place)), stage.order, tuple(starts))
        analyzer = Analyzer()

        def element(*place: Any) -> Any:
            moved = [analyzer.simplify(each - first[dim]) for each, dim in zip(place, stage.order, strict=True)]
            return tirx.BufferLoad(own, [*moved, *([0] if buffer.partial_sums > 1 else [])])

        return Stored(element, stage.order)

    def _with_buffers(self, loop: str, body: Any) -> Any:
        own = [tirx.AllocBuffer(self.buffers[each.name]) for each in self.inside.get(loop, ())]
        return body if not own else tirx.SeqStmt([*own, *(body.seq if isinstance(body, tirx.SeqStmt) else [body])])

    def nodes(self, nodes: Nodes) -> Any:
        """Return the statements of nodes, one after the other."""
        found = [self.node(node) for node in nodes]
        return found[0] if len(found) == 1 else tirx.SeqStmt(found)

    def node(self, node: Node) -> Any:
        """Return the statement of a node."""
        if isinstance(node, Statement):
            return self.statement(node)
        assert not isinstance(node, Ahead), "kernels of CPUs have no copies ahead of time"
        body = self.nodes(node.body)
        if isinstance(node, Outlined):
            self._part += 1
            body = self._with_buffers(self._take_registers(node), body)
            name = tvm.ir.StringImm(f"layer{self._context.number}_part{self._part}")
            return tirx.AttrStmt(tirx.const(0, "int32"), _OUTLINED, name, body)
        if isinstance(node, Guard):
            conditions = [self.value(each.value) < each.limit for each in node.conditions]
            return tirx.IfThenElse(tirx.all(*conditions), body, None)
        body = self._with_buffers(node.name, body)
        variable, extent = self.parts.get(node.name) or (self.variables[node.name], node.extent)
        if node.dealt:
            variable, bound = self.dealt[node.name]
            body = tirx.SeqStmt([bound, *(body.seq if isinstance(body, tirx.SeqStmt) else [body])])
        return tirx.For(variable, 0, extent, _KINDS[node.kind], body)

    def _take_registers(self, node: Outlined) -> str:
        """Have a function's register tiles be its own, also where it has no loops over them; return under which name.

        Their memory would not be held in registers if the function were handed it.
        """
        computed, name = {each.stage for _, each in statements_of(node.body)}, f"function {self._part}"
        own = {loop.name for loop in loops_of(node.body)}
        for loop, buffers in list(self.inside.items()):
            taken = [each for each in buffers if each.scope == "register" and each.name in computed and loop not in own]
            self.inside[loop] = [each for each in buffers if each not in taken]
            self.inside.setdefault(name, []).extend(taken)
        return name

    def _begin_late(self, loop: Loop, reach: Reach) -> None:
        """Express a loop that runs in part by one from zero: TVM 0.27 leaves out parts of loops that are not."""
        begin, extent = self._part_of(loop, reach)
        own = self.variables[loop.name]
        self.parts[loop.name] = own, extent
        self.variables[loop.name] = own + begin

    def _part_of(self, loop: Loop, reach: Reach) -> tuple[Any, Any]:
        """Return the first iteration of a loop that runs, and how many do."""
        step, zero = reach.step, tirx.const(0, "int32")
        size = loop.extent * (step if reach.part in ("touched", "whole") else 1)
        first = zero if reach.first is None else te.max(self.value(reach.first), 0)
        end = tirx.const(size, "int32")
        for limit in (reach.end, reach.stop):
            end = end if limit is None else te.min(self.value(limit), end)
        end = te.max(end, 0)

        def down(value: Any) -> Any:
            return value if step == 1 else tirx.floordiv(value, step)

        def up(value: Any) -> Any:
            return value if step == 1 else tirx.floordiv(value + (step - 1), step)

        begin, stop = {
            "touched": lambda: (down(first), up(end)), "whole": lambda: (up(first), down(end)),
            "before": lambda: (first, te.min(up(first) * step, end)),
            "behind": lambda: (te.max(up(first), down(end)) * step, end),
        }[reach.part]()
        return begin, te.max(stop - begin, 0)

    def load(self, name: str, indices: Sequence[Any]) -> Any:
        """Return what a buffer has at ``indices``."""
        return tirx.BufferLoad(self.buffers[name], list(indices))

    def store(self, name: str, value: Any, indices: Sequence[Any]) -> Any:
        """Return the statement that stores ``value`` in a buffer."""
        return tirx.BufferStore(self.buffers[name], value, list(indices))

    def buffer_dtype(self, name: str) -> str:
        """Return the dtype of a buffer."""
        return str(self.buffers[name].dtype)
