"""What the statements of a loop program load and store: places in arrays, as expressions of the loops around them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dsascape.scheduler.kernels.cost.places import Position, Run, Use
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.columns import alike, anywhere, same
from dsascape.scheduler.kernels.loops.naive import NaiveProgram, reduction_extents
from dsascape.scheduler.kernels.loops.nodes import (
    FACTOR,
    SUMS,
    Buffer,
    Condition,
    Stage,
    Statement,
    reads_of,
    strides_of,
)
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Layout, Running
from dsascape.workloads.index import Index, by_stride
from dsascape.workloads.loopnest import Access, LoopNest, Operations
from dsascape.workloads.spaced import spaced_loops


@dataclass(frozen=True, slots=True)
class _Overhang:
    """How tiles of a statement stick out of its tensor."""

    shape: tuple[int, ...]
    beyond: frozenset[int]
    """Dimensions in which they do."""
    vector_dim: int
    """Dimension along which vectors lie; -1 where there are none."""


_Done = tuple[tuple[Use, ...], Use, Operations]


class Reads:
    """The loads and stores of one program's statements; each is worked out once."""

    def __init__(self, naive: NaiveProgram, program: LoopProgram) -> None:
        self.naive, self.program = naive, program
        self._known: list[tuple[Statement, _Done]] = []
        self._buffers: Mapping[str, Buffer] = {each.name: each for each in program.buffers}
        self._stages: Mapping[str, Stage] = {each.name: each for each in program.stages}
        self._layouts: Mapping[str, Layout] = {each.tensor: each for each in program.layouts}
        self._extents: Mapping[str, int] = program.extents
        self._run: Run | None = None
        self._share = 1.0
        self._made: list[tuple[str, tuple[Position, ...]]] = []
        """Elements that the statement has computed where they are read."""
        self._vectors = {name for name, loop in program.loops.items() if loop.kind == "vector"}
        self._overhang = _Overhang((), frozenset(), -1)

    def unrolled(self, program: LoopProgram) -> "Reads":
        """Return the reads of the same program with other loops unrolled: of statements they are the same."""
        found = Reads(self.naive, program)
        found._known = self._known
        return found

    def of(self, statement: Statement) -> "_Done":
        """Return what a statement loads, what it stores, and the operations of one execution."""
        found = next((done for each, done in self._known if each is statement), None)
        if found is None:
            found = self._of(statement)
            self._known.append((statement, found))
        return found

    def _of(self, statement: Statement) -> "_Done":
        stage = self._stages[statement.stage]
        element = [Position(each) for each in statement.element]
        self._overhang = self._overhang_of(stage, statement)
        self._run = self._run_of(stage, statement)
        self._extents = {**self.program.extents, **dict(() if self._run is None else self._run.loops)}
        stored = self._own(stage, element, None if statement.source else statement.place)
        loads: list[Use] = []
        self._made = []
        made = self._add_statement(loads, stage, statement, element, stored)
        return tuple(loads), stored, made

    def _add_statement(
        self, loads: list[Use], stage: Stage, statement: Statement, element: Sequence[Position], stored: Use
    ) -> Operations:  # fmt: skip
        role, running = statement.role, self._running(stage)
        if role == "first":
            return Operations()
        if role == "fold":
            assert statement.place is not None
            source = self._stages[statement.source or stage.name]
            loads += [stored, self._own(source, element, statement.place.shifted(statement.distance))]
            return Operations(simple=1)
        if running is not None and (role == "correct" or stage.kind != "sum"):
            return self._add_running(loads, stage, running, element, stored)
        if stage.kind == "copy":
            return self._add_copy(loads, stage, element)
        copies = self.program.copies(stage.name)
        if stage.kind == "map":
            return self._add_map(loads, stage, element, copies)
        loads.append(stored)
        return self._add_term(loads, stage, statement, element, copies)

    def _add_running(
        self, loads: list[Use], stage: Stage, running: Running, element: Sequence[Position], stored: Use
    ) -> Operations:  # fmt: skip
        """Add the loads of a running statistic, of its factor, or of a sum that is corrected by that."""
        factor, maximum = running.maximum + FACTOR, running.maximum
        if stage.name == running.stage:
            loads += [stored, *self._statistics(running, stage, element, (factor,))]
            return Operations(simple=1)
        names = {
            factor: (maximum, maximum + SUMS, maximum), maximum: (maximum, maximum + SUMS),
            running.total: (running.total, running.total + SUMS, factor),
        }[stage.name]  # fmt: skip
        loads += [self._own(self._stages[name], element) for name in names]
        return Operations(simple=1, special=int(stage.name == factor))

    def _overhang_of(self, stage: Stage, statement: Statement) -> _Overhang:
        if self._buffers[stage.name].scope == "global":
            return _Overhang((), frozenset(), -1)
        places = list(enumerate(statement.element))
        along = next((dim for dim, each in places if any(loop in self._vectors for loop, _ in each.terms)), -1)
        beyond = frozenset(dim for dim, each in places if anywhere(each.span(self._extents)[1] > stage.shape[dim]))
        return _Overhang(stage.shape, beyond, along)

    def _running(self, stage: Stage) -> Running | None:
        """Return the softmax that a stage is a statistic of, or sums up with."""
        found = self.program.running.values()
        return next((
            each for each in found
            if stage.name in (each.stage, each.maximum, each.total, each.maximum + FACTOR)
        ), None)  # fmt: skip

    def _statistics(
        self, running: Running, stage: Stage, element: Sequence[Position], names: Sequence[str]
    ) -> Iterator[Use]:  # fmt: skip
        """Yield the statistics of the row that an element of the products with a softmax belongs to."""
        nest = stage.nests[0]
        rows = self.naive.stages[running.tensor].nests[0]
        read = next(each for each in nest.reads if each.tensor == running.tensor)
        total = next(each for each in rows.reads if each.tensor == running.total)
        loops = self._loops(nest, element) | {
            number: Position(Affine()) for number, each in enumerate(nest.loops) if each.reduction
        }
        place = [self._index(index, loops)[0] for index in read.indices]
        row = self._loops(rows, place)
        own = [self._index(index, row)[0] for index in total.indices]
        yield from [self._own(self._stages[name], own) for name in names]

    def _add_term(
        self, loads: list[Use], stage: Stage, statement: Statement, element: Sequence[Position],
        copies: Mapping[str, str],
    ) -> Operations:  # fmt: skip
        nest = stage.nests[0]
        loops = self._loops(nest, element) | self._reduced(stage, statement)
        for loop, each in spaced_loops(nest).items():
            rest = self._index(each.rest, loops)[0]
            first = rest.cut(each.common)[0] * each.factor
            loops[loop] = loops[loop] * each.period + first.cut(each.period)[1]
        made = nest.per_iteration
        for read in reads_of(stage, (nest,)):
            made += self._add_read(loads, nest, read, loops, copies)
        return made

    def _reduced(self, stage: Stage, statement: Statement) -> dict[int, Position]:
        """Return the iteration of every reduction loop."""
        nest = stage.nests[0]
        found = {number: Position(Affine()) for number, each in enumerate(nest.loops) if each.reduction}
        found |= {loop: Position(value) for loop, value in statement.reduced}
        if self._run is not None:
            names = [name for name, _ in self._run.loops]
            found |= {loop: Position(Affine(0, ((name, 1),))) for loop, name in zip(stage.run, names, strict=True)}
        return found

    @staticmethod
    def _run_of(stage: Stage, statement: Statement) -> Run | None:
        """Return the reduction loops that a statement goes through as one; None where each has its own."""
        if statement.run is None:
            return None
        extents, loops = reduction_extents(stage.nests[0]), stage.nests[0].loops
        return Run(
            statement.run, tuple([(f"{loops[loop].name} of {stage.name}", extents[loop]) for loop in stage.run])
        )  # fmt: skip

    def _add_copy(self, loads: list[Use], stage: Stage, element: Sequence[Position]) -> Operations:
        if stage.source in self._stages and stage.source != stage.tensor:
            source = self._stages[stage.source]
            own = self.program.buffer(stage.source).partial_sums
            loads.append(self._own(source, element, Affine() if alike(own > 1) else None))
            return Operations()
        size = self.naive.layer.described(stage.source).shape
        conditions = self._inside([(each, most) for each, most in zip(element, size, strict=True)])
        return self._add_source(loads, stage.source, element, conditions)

    def _add_map(
        self, loads: list[Use], stage: Stage, element: Sequence[Position], copies: Mapping[str, str],
        around: tuple[Condition, ...] = (),
    ) -> Operations:  # fmt: skip
        made = Operations()
        for nest in stage.nests:
            loops = self._loops(nest, element)
            inside = (*around, *self._written(nest, element)) if len(stage.nests) > 1 else around
            made = max(made, nest.per_output, key=lambda each: each.flops)
            before, self._share = self._share, self._share * (self._part(nest, element) if stage.nests[1:] else 1.0)
            for read in reads_of(stage, (nest,)):
                made += self._add_read(loads, nest, read, loops, copies, inside)
            self._share = before
            running = self.program.running.get(stage.name + SUMS)
            if running is not None:  # sums of products with exponentials become those with the softmax
                loads += self._statistics(running, stage, element, (running.total,))
                made += Operations(special=1)
        return made

    def _written(self, nest: LoopNest, element: Sequence[Position]) -> list[Condition]:
        """Return the conditions under which a nest writes an element, one of several that write a tensor."""
        found = []
        ranges = [(0, loop.extent) for loop in nest.loops]
        for index, own, size in zip(nest.write.indices, element, nest.write.shape, strict=True):
            low, high = index.span(ranges)
            if own.is_known:
                found += [Condition(own.value * -1, 1 - low)] if low > 0 else []
                found += [Condition(own.value, high)] if high < size else []
        return found

    @staticmethod
    def _part(nest: LoopNest, element: Sequence[Position]) -> float:
        """Return the share of a tensor that a nest writes, along dimensions of which it is not known where that is."""
        ranges = [(0, loop.extent) for loop in nest.loops]
        found = 1.0
        for index, own, size in zip(nest.write.indices, element, nest.write.shape, strict=True):
            low, high = index.span(ranges)
            found *= 1.0 if own.is_known else (high - low) / size
        return found

    def _add_read(
        self, loads: list[Use], nest: LoopNest, read: Access, loops: Mapping[int, Position],
        copies: Mapping[str, str], around: tuple[Condition, ...] = (),
    ) -> Operations:  # fmt: skip
        """Add the loads of one read; return the operations of what is computed where it is read."""
        element, limits, clamped = [], [], []
        for index, size in zip(read.indices, read.shape, strict=True):
            position, is_exact = self._index(index, loops)
            element.append(position)
            low, high = index.span([(0, loop.extent) for loop in nest.loops])
            if is_exact and not index.clamp and (low < 0 or high > size):
                limits.append((position, size))
            elif is_exact and self._is_clamped(nest, read, len(element) - 1):
                clamped.append((position, size))
        copy = copies.get(read.tensor)
        if copy is not None:
            use = self._own(self._stages[copy], element)
            _add(loads, use)
            return Operations()
        return self._add_source(
            loads, read.tensor, element, (*around, *self._inside(limits)), self._inside(clamped)
        )  # fmt: skip

    def _is_clamped(self, nest: LoopNest, read: Access, dim: int) -> bool:
        """Whether the border's element stands in where tiles stick out, along a dimension of what is read.

        Not where vectors go on beyond the end of its rows in memory, or of its panels.
        """
        over, layout = self._overhang, self._layouts.get(read.tensor)
        if nest.write.shape != over.shape or not over.beyond or (layout is not None and layout.dim == dim):
            return False
        moving = {loop for loop, _ in read.indices[dim].terms if nest.loops[loop].extent > 1}
        if not any(loop in moving for each in over.beyond for loop, _ in nest.write.indices[each].terms):
            return False
        order = self.naive.order_of(read.tensor, len(read.shape))
        innermost = next((each for each in reversed(order) if read.shape[each] > 1), -1)
        along = nest.write.indices[over.vector_dim] if over.vector_dim >= 0 else None
        return innermost != dim or along is None or nest.moving(read.indices[dim]) != nest.moving(along)

    def _inside(self, limits: Sequence[tuple[Position, int]]) -> tuple[Condition, ...]:
        """Return the conditions that positions are from 0 to below a size, as far as loops may leave that."""
        found = []
        for each, size in limits:
            if each.is_known:
                low, end = each.value.span(self._extents)
                found += [Condition(each.value * -1, 1)] if anywhere(low < 0) else []
                found += [Condition(each.value, size)] if anywhere(end > size) else []
        return tuple(found)

    def _add_source(
        self, loads: list[Use], name: str, element: Sequence[Position], conditions: tuple[Condition, ...],
        clamped: tuple[Condition, ...] = (),
    ) -> Operations:  # fmt: skip
        """Add the loads of an element of a tensor or a stage: of what is computed where it is read, what that loads."""
        stage = self._stages.get(name)
        if stage is not None and name not in self.program.inlined:
            use = replace(self._own(stage, element), conditions=conditions, run=self._run, share=self._share)
            _add(loads, use)
            return Operations()
        inlined = self.naive.stages.get(name)
        if inlined is not None:
            if any(name == other and same(tuple(element), at) for other, at in self._made):
                return Operations()  # code computes it once
            self._made.append((name, tuple(element)))
            return self._add_map(loads, inlined, element, {}, conditions)
        tensor = self.naive.layer.graph.tensors[name]
        if tensor.role == "weight" and all(size == 1 for size in tensor.shape):
            return Operations()  # a constant in the code
        address, size = self._address(name, element), self.naive.element_bytes(name)
        use = Use(name, "global", address, conditions, size, clamped, self._run, self._share)
        _add(loads, use)
        return Operations()

    def _address(self, name: str, element: Sequence[Position]) -> Position:
        """Return where an element of a tensor from outside lies."""
        shape, layout = self.naive.layer.graph.tensors[name].shape, self._layouts.get(name)
        if layout is None:
            order = self.naive.order_of(name, len(shape))
            return self._flat([element[dim] for dim in order], strides_of([shape[dim] for dim in order], None))
        panel, place = self._cut(element[layout.dim], layout.panel)
        sizes = (-(-shape[layout.dim] // layout.panel), *[shape[dim] for dim in layout.order], layout.panel)
        return self._flat([panel, *[element[dim] for dim in layout.order], place], strides_of(sizes, None))

    def _own(self, stage: Stage, element: Sequence[Position], place: Affine | None = None) -> Use:
        """Return an element of a stage's buffer, at a place among its partial sums."""
        buffer = self._buffers[stage.name]
        found = [
            replace(element[dim], value=element[dim].value + buffer.first[dim] * -1) for dim in stage.order
        ]
        found += [] if alike(buffer.partial_sums == 1) else [Position(Affine() if place is None else place)]
        address = self._flat(found, buffer.strides)
        if alike(buffer.slots > 1):
            own = Affine(0, ((buffer.inside, buffer.elements),))
            address = replace(address, value=address.value + own)
        return Use(stage.name, buffer.scope, address, (), buffer.element_bytes)

    def _flat(self, places: Sequence[Position], strides: Sequence[int]) -> Position:
        """Return the place in memory of an element at an index of each dimension."""
        return self._in_loops(Position.summed(zip(places, strides, strict=True)))

    def _loops(self, nest: LoopNest, element: Sequence[Position]) -> dict[int, Position]:
        """Return the iterations of the loops that write an element."""
        found = {number: Position(Affine()) for number, loop in enumerate(nest.loops) if loop.extent == 1}
        for index, own in zip(nest.write.indices, element, strict=True):
            rest = own.moved(-index.offset)
            moving = [each for each in sorted(index.terms, key=by_stride) if nest.loops[each[0]].extent > 1]
            for loop, stride in moving:
                found[loop], rest = (rest, Position(Affine())) if stride == 1 else self._cut(rest, stride)
        return found

    def _cut(self, whole: Position, part: int) -> tuple[Position, Position]:
        """Return quotient and rest of an index by a divisor; as unknown where they are no expressions of loops."""
        apart = whole.value.apart(part, 1, self._extents) if whole.is_known else None
        if apart is not None:
            return Position(apart[0]), Position(apart[1])
        return whole.cut(part)

    def _in_loops(self, position: Position) -> Position:
        """Return an expression of the program's loops alone: iterations of loops that run as one are put together."""
        run = self._run
        if run is None:
            return position
        own, strides = dict(position.value.terms), run.strides()
        used = {name: own.pop(name) for name, _ in run.loops if name in own}
        unknown = position.unknown
        if not unknown.isdisjoint(strides):
            unknown = unknown.difference(strides).union([name for name, _ in run.value.terms])
        left = replace(position, value=Affine(position.value.offset, tuple(own.items())), unknown=unknown)
        if not used:
            return left
        stride = next(iter(used.values())) // strides[next(iter(used))]
        is_one: Any = True
        for name, extent in run.loops:
            if extent > 1:
                is_one = is_one & (used.get(name, 0) == stride * strides[name])
        if alike(is_one):
            return left + Position(run.value * stride)
        return left + Position.chosen_by(run.value)

    def _index(self, index: Index, loops: Mapping[int, Position]) -> tuple[Position, bool]:
        """Return the index of a dimension, and whether it says what is beyond a border."""
        found = Position.summed([
            (loops[loop], stride or int(index.opaque)) for loop, stride in index.terms if loop in loops
        ], index.offset)  # of what data chooses, strides are 0
        if index.opaque or index.table:
            return Position.chosen_by(found.value), False
        if index.window != 1:
            return (found if index.divisor == 1 else found.cut(index.divisor)[0]).windowed(index.window), False
        if index.divisor == 1:
            return found, found.is_known
        if found.is_known and found.value.divides(index.divisor, self._extents):
            return Position(found.value.divided(index.divisor)), True
        quotient, _ = self._cut(found, index.divisor)
        return quotient, quotient.is_known


def _add(loads: list[Use], use: Use) -> None:
    """Add a load, unless it is among them: code reads it once."""
    if not any(same(use, each) for each in loads):
        loads.append(use)
