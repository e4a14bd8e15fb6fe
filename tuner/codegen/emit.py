"""From a loop program to TIR: each loop of the tree becomes a loop, each statement a store into its buffer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import te, tirx
from tvm.sym import Analyzer

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.naive import reduction_extents
from dsascape.scheduler.kernels.loops.nodes import (
    FACTOR,
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
from dsascape.tuner.codegen.access import Stored
from dsascape.tuner.codegen.functions import dtype_of
from dsascape.tuner.codegen.local_values import with_local_values
from dsascape.tuner.codegen.packing import Packing
from dsascape.tuner.codegen.softmax_in_parts import SoftmaxInParts
from dsascape.tuner.codegen.sources import Place, stored_in
from dsascape.tuner.codegen.stage_values import StageValues
from dsascape.workloads.executable import Executable

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
    return Emitting(layer, executable, program).function(name)


class Emitting:
    """A function in the making."""

    def __init__(self, layer: Layer, executable: Executable, program: LoopProgram) -> None:
        self.layer, self.program = layer, program
        self.values = StageValues(layer, executable)
        self.values.packings = {
            each.tensor: Packing(each.dim, each.panel, each.order) for each in program.layouts
        }  # fmt: skip
        self.stages = {stage.name: stage for stage in program.stages}
        self.variables = {name: tirx.Var(name, "int32") for name in program.extents}
        """Loop variables by name; loops that were fused are expressions of the fused one."""
        self.dealt: dict[str, tuple[Any, Any]] = {}
        """By loop with iterations from both ends in turn: its variable, and what binds the one they are numbered by."""
        self.parts: dict[str, tuple[Any, Any]] = {}
        """Variable and iterations of loops that run in part: the loop's is what the first iteration is, plus this."""
        self.inside: dict[str, list[Buffer]] = {}
        self.buffers: dict[str, Any] = {}
        self.spans = program.extents
        self._part = -1
        self.vector_loops = {name for name, loop in program.loops.items() if loop.kind == "vector"}

    def function(self, name: str) -> CpuFunction:
        """Return the finished function."""
        for loop in self.program.loops.values():
            self.split(loop)
            if loop.reach is not None:
                self._begin_late(loop, loop.reach)
        self.declare()
        body = self._with_buffers("", self.nodes(self.program.body))
        values, outputs = self.values, self.layer.outputs
        parameters = [*values.inputs.values(), *[self.buffers[each] for each in outputs]]
        function = tirx.PrimFunc(parameters, body).with_attr("tirx.noalias", True)
        function = with_local_values(function).with_attr("global_symbol", name)
        packings = {each: packing for each, packing in values.packings.items() if each in values.inputs}
        return CpuFunction(function, tuple(values.inputs), outputs, packings)

    def declare(self) -> None:
        """Describe what the kernel computes, and declare its buffers."""
        program = self.program
        for step in program.running.values():
            softmax = SoftmaxInParts(self.values, step)
            self.values.softmaxes |= dict.fromkeys((step.stage, step.maximum, step.total), softmax)
        self.values.describe({stage.name for stage in program.stages} - program.inlined)
        for buffer in program.buffers:
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
        self.buffers[buffer.name] = own = tirx.decl_buffer(
            buffer.shape, dtype, self.values.name(buffer.name), scope=_SCOPES[buffer.scope]
        )
        is_result = buffer.name in self.layer.outputs
        if not is_result:
            self.inside.setdefault(buffer.inside, []).append(buffer)
        found = self._stored(stage, buffer, own)
        self.take_in(stage, found)

    def take_in(self, stage: Stage, found: Stored) -> None:
        """Have a stage's elements read from its buffer."""
        self.values.own[stage.name] = found
        if stage.kind != "sum" and stage.name == stage.tensor and stage.name not in self.program.inlined:
            self.values.stored[stage.tensor] = found

    def _stored(self, stage: Stage, buffer: Buffer, own: Any) -> Stored:
        first = [self.value(each) for each in buffer.first]
        if buffer.scope != "register":
            starts = first if any(each.terms or each.offset for each in buffer.first) else ()
            return stored_in(own, stage.order, starts)
        analyzer = Analyzer()

        def element(*place: Any) -> Any:
            moved = [analyzer.simplify(each - first[dim]) for each, dim in zip(place, stage.order, strict=True)]
            return tirx.BufferLoad(own, [*moved, *([0] if buffer.partial_sums > 1 else [])])

        return Stored(element, stage.order)

    def dtype_of(self, stage: Stage) -> str:
        """Return the dtype of a stage's buffer: of sums, that of what is added."""
        if stage.kind != "sum":
            return self.values.dtype(self.values.described(stage.tensor))
        self.values.place = Place(copies=self.program.copies(stage.name))
        zero = [tirx.const(0, "int32")] * len(stage.shape)
        loops = {loop: tirx.const(0, "int32") for loop, each in enumerate(stage.nests[0].loops) if each.reduction}
        return dtype_of(self.values.term(stage, zero, loops))

    def value(self, expression: Affine) -> Any:
        """Return an expression of loops as one of their variables."""
        value: Any = tirx.const(expression.offset, "int32")
        for loop, stride in expression.terms:
            variable = self.variables[loop]
            term = variable if stride == 1 else variable * stride
            value = term if isinstance(value, tirx.IntImm) and not value.value else value + term
        return value

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
            return tirx.AttrStmt(tirx.const(0, "int32"), _OUTLINED, tvm.ir.StringImm(f"part{self._part}"), body)
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

    def statement(self, statement: Statement) -> Any:
        """Return what one iteration of a statement stores."""
        stage, values = self.stages[statement.stage], self.values
        values.place = self._place(stage, statement)
        element = self.element(statement)
        name, place = stage.name, None if statement.source else statement.place
        indices = self._indices(name, statement.element, place)
        running = self._running(stage, statement, element)
        if running is not None:
            value = running
        elif statement.role == "first":
            value = values.first(stage, self.buffer_dtype(name))
        elif statement.role == "fold":
            assert statement.place is not None
            source, far = statement.source or name, statement.place.shifted(statement.distance)
            other = self.load(source, self._indices(source, statement.element, far))
            value = values.combined(stage, self.load(name, indices), other)
        elif stage.kind == "sum":
            term = values.term(stage, element, self._reduced(stage, statement))
            value = values.combined(stage, self.load(name, indices), term)
        elif stage.kind == "copy":
            value = self._copied(stage, statement, element)
        else:
            value = values.result(stage, element)
        return self.store(name, value, indices)

    def _running(self, stage: Stage, statement: Statement, element: Sequence[Any]) -> Any:
        """Return what is stored of a running statistic or of a sum to be corrected; None for anything else."""
        of_softmax, name = self.values.softmaxes, stage.name
        if statement.role == "correct":
            value = self.load(name, self._indices(name, statement.element, None))
            return self.values.sharing.within(lambda: of_softmax[name].corrected(stage, element, value))
        maximum = name.removesuffix(FACTOR)
        if maximum != name and maximum in of_softmax:
            return self.values.sharing.within(lambda: of_softmax[maximum].factor(element))
        if statement.role == "update" and stage.kind == "map":
            return self.values.sharing.within(lambda: of_softmax[name].updated(name, element))
        return None

    def element(self, statement: Statement) -> list[Any]:
        """Return the element that a statement computes."""
        return [self.value(each) for each in statement.element]

    def _indices(self, name: str, element: Sequence[Affine], place: Affine | None) -> list[Any]:
        """Return where an element lies in a buffer, at a place among its partial sums."""
        buffer, order = self.program.buffer(name), self.stages[name].order
        found = [self.value(element[dim] + buffer.first[dim] * -1) for dim in order]
        return found if place is None else [*found, self.value(place)]

    def load(self, name: str, indices: Sequence[Any]) -> Any:
        """Return what a buffer has at ``indices``."""
        return tirx.BufferLoad(self.buffers[name], list(indices))

    def store(self, name: str, value: Any, indices: Sequence[Any]) -> Any:
        """Return the statement that stores ``value`` in a buffer."""
        return tirx.BufferStore(self.buffers[name], value, list(indices))

    def buffer_dtype(self, name: str) -> str:
        """Return the dtype of a buffer."""
        return str(self.buffers[name].dtype)

    def _reduced(self, stage: Stage, statement: Statement) -> dict[int, Any]:
        """Return the iteration of every reduction loop."""
        nest = stage.nests[0]
        found = {
            loop: tirx.const(0, "int32")
            for loop, each in enumerate(nest.loops) if each.reduction and each.extent == 1
        }  # fmt: skip
        found |= {loop: self.value(value) for loop, value in statement.reduced}
        if statement.run is None:
            return found
        rest, extents = self.value(statement.run), reduction_extents(nest)
        for number, loop in enumerate(reversed(stage.run)):
            extent, is_outermost = extents[loop], number == len(stage.run) - 1
            found[loop] = rest if is_outermost else tirx.floormod(rest, extent)
            rest = rest if is_outermost else tirx.floordiv(rest, extent)
        return found

    def _copied(self, stage: Stage, statement: Statement, element: Sequence[Any]) -> Any:
        """Return an element of a copy: of another stage as it is, of a tensor with padding around it.

        Vectors that stick out of the tensor are copied whole, with whatever lies behind a row: it is not used.
        """
        values = self.values
        if stage.source in self.stages and stage.source != stage.tensor:
            return values.own[stage.source].at(element)
        tensor = values.described(stage.source)
        reader = next(each for each in self.program.stages if stage.name in self.program.copies(each.name).values())
        inside = []
        for dim, (value, span, size) in enumerate(zip(element, statement.element, tensor.shape, strict=True)):
            lo, hi = span.span(self.spans)
            inside += [value >= 0] if lo < 0 else []
            inside += [value < size] if hi > size and not self._is_loose(stage, reader, dim) else []
        fill = values.fill_of(reader, tensor)
        source = values.tensor(stage.source)
        return values.sharing.within(lambda: values.where(inside, lambda: source.at(element), fill))

    def _is_loose(self, stage: Stage, reader: Stage, dim: int) -> bool:
        """Whether vectors may be copied beyond the end of a dimension along which the reader's vectors lie."""
        before, self.values.place = self.values.place, self._place_of(reader)
        try:
            nest = reader.nests[0]
            reads = [read for read in nest.reads if read.tensor == stage.source]
            self.values.place = Place(
                reader.name, self.values.place.shape, vector_dim=self.values.place.vector_dim
            )  # fmt: skip
            return all(self.values.is_loose(nest, read, dim) for read in reads)
        finally:
            self.values.place = before

    def _place_of(self, stage: Stage) -> Place:
        statement = next(each for _, each in statements_of(self.program.body) if each.stage == stage.name)
        return self._place(stage, statement)

    def _place(self, stage: Stage, statement: Statement) -> Place:
        spans = [each.span(self.spans) for each in statement.element]
        vector_dim = next(
            (
                dim
                for dim, each in enumerate(statement.element)
                if any(loop in self.vector_loops for loop, _ in each.terms)
            ),
            -1,
        )
        limits = zip(spans, stage.shape, strict=True)
        is_result = self.program.buffer(stage.name).scope == "global"
        beyond = frozenset() if is_result else frozenset(dim for dim, ((_, hi), size) in enumerate(limits) if hi > size)
        before = frozenset(dim for dim, (lo, _) in enumerate(spans) if lo < 0)
        return Place(stage.name, stage.shape, beyond, before, vector_dim, self.program.copies(stage.name))

