"""What each statement of a loop program stores: its value, and where, for all kinds of numbers.

The code generator has the values be expressions of loop variables; the interpreter has them be numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.naive import reduction_extents
from dsascape.scheduler.kernels.loops.nodes import FACTOR, Stage, Statement, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.values.access import Stored
from dsascape.scheduler.kernels.values.packing import Packing
from dsascape.scheduler.kernels.values.softmax_in_parts import SoftmaxInParts
from dsascape.scheduler.kernels.values.sources import Place
from dsascape.scheduler.kernels.values.stage_values import StageValues


class Statements(ABC):
    """The statements of one program.

    ``values``: of the layer's stages, which this completes by what the program says of its buffers.
    """

    def __init__(self, layer: Layer, program: LoopProgram, values: StageValues) -> None:
        self.layer, self.program, self.values, self.numbers = layer, program, values, values.numbers
        values.packings = {each.tensor: Packing(each.dim, each.panel, each.order) for each in program.layouts}
        self.stages = {stage.name: stage for stage in program.stages}
        self.variables: dict[str, Any] = {}
        """Values of loops by name, those that fused loops stand for among them."""
        self.spans = program.extents
        self.vector_loops = {name for name, loop in program.loops.items() if loop.kind == "vector"}

    @abstractmethod
    def load(self, name: str, indices: Sequence[Any]) -> Any:
        """Return what a buffer has at ``indices``."""

    @abstractmethod
    def store(self, name: str, value: Any, indices: Sequence[Any]) -> Any:
        """Store ``value`` in a buffer, or return the statement that does."""

    @abstractmethod
    def buffer_dtype(self, name: str) -> str:
        """Return the dtype of a buffer."""

    def describe(self) -> None:
        """Describe what the kernel computes."""
        for step in self.program.running.values():
            softmax = SoftmaxInParts(self.values, step)
            self.values.softmaxes |= dict.fromkeys((step.stage, step.maximum, step.total), softmax)
        self.values.describe({stage.name for stage in self.program.stages} - self.program.inlined)

    def take_in(self, stage: Stage, found: Stored) -> None:
        """Have a stage's elements read from its buffer."""
        self.values.own[stage.name] = found
        if stage.kind != "sum" and stage.name == stage.tensor and stage.name not in self.program.inlined:
            self.values.stored[stage.tensor] = found

    def dtype_of(self, stage: Stage) -> str:
        """Return the dtype of a stage's buffer: of sums, that of what is added."""
        if stage.kind != "sum":
            return self.values.dtype(self.values.described(stage.tensor))
        self.values.place = Place(copies=self.program.copies(stage.name))
        zero = self.numbers.const(0, "int32")
        loops = {loop: zero for loop, each in enumerate(stage.nests[0].loops) if each.reduction}
        return self.numbers.dtype_of(self.values.term(stage, [zero] * len(stage.shape), loops))

    def value(self, expression: Affine) -> Any:
        """Return an expression of loops as one of their variables."""
        is_left_out = expression.terms and not expression.offset
        value: Any = None if is_left_out else self.numbers.const(expression.offset, "int32")
        for loop, stride in expression.terms:
            variable = self.variables[loop]
            term = variable if stride == 1 else variable * stride
            value = term if value is None else value + term
        return value

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
            return self.numbers.within(lambda: of_softmax[name].corrected(stage, element, value))
        maximum = name.removesuffix(FACTOR)
        if maximum != name and maximum in of_softmax:
            return self.numbers.within(lambda: of_softmax[maximum].factor(element))
        if statement.role == "update" and stage.kind == "map":
            return self.numbers.within(lambda: of_softmax[name].updated(name, element))
        return None

    def element(self, statement: Statement) -> list[Any]:
        """Return the element that a statement computes."""
        return [self.value(each) for each in statement.element]

    def _indices(self, name: str, element: Sequence[Affine], place: Affine | None) -> list[Any]:
        """Return where an element lies in a buffer, at a place among its partial sums."""
        buffer, order = self.program.buffer(name), self.stages[name].order
        found = [self.value(element[dim] + buffer.first[dim] * -1) for dim in order]
        return found if place is None else [*found, self.value(place)]

    def _reduced(self, stage: Stage, statement: Statement) -> dict[int, Any]:
        """Return the iteration of every reduction loop."""
        nest = stage.nests[0]
        found = {
            loop: self.numbers.const(0, "int32")
            for loop, each in enumerate(nest.loops) if each.reduction and each.extent == 1
        }  # fmt: skip
        found |= {loop: self.value(value) for loop, value in statement.reduced}
        if statement.run is None:
            return found
        rest, extents = self.value(statement.run), reduction_extents(nest)
        for number, loop in enumerate(reversed(stage.run)):
            extent, is_outermost = extents[loop], number == len(stage.run) - 1
            found[loop] = rest if is_outermost else self.numbers.floor_modulo(rest, extent)
            rest = rest if is_outermost else self.numbers.floor_divide(rest, extent)
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
        return self.numbers.within(lambda: self.numbers.where(inside, lambda: source.at(element), fill))

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
