"""Operands of a product on their way through shared memory: which part of them a step of the depth takes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx

from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.tuner.codegen.access import affine
from dsascape.tuner.codegen.arithmetic import UnsupportedKernelError
from dsascape.tuner.codegen.gpu.phases import (
    Block,
    Memory,
    Phase,
    Steps,
    index,
    loop,
    ravelled,
    sequence,
    unravelled,
    when,
)
from dsascape.tuner.codegen.gpu.regions import Box, Range, box_of, divided_box
from dsascape.tuner.codegen.gpu.values import Place, Reduced, Values, elements, variables
from dsascape.tuner.codegen.spacing import iteration_of
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access
from dsascape.workloads.spaced import Spaced

_NOT_PLAIN = "its operand {!r} is read at places that are no sums of loops: it cannot be staged"


@dataclass(frozen=True)
class Operand:
    """One operand of a product."""

    read: Access
    order: tuple[int, ...]
    """Its dimensions as they lie in memory."""
    shape: tuple[int, ...]
    """In memory order."""
    box: Box
    """What one step takes of it, in memory order; its first element depends on the step."""
    begins: int
    """Where it lies in the memory of a step."""
    taps: tuple["Taps | None", ...]
    """By dimension: where not a box but what the tile meets of a spaced loop is taken."""


@dataclass(frozen=True)
class Taps:
    """What a tile meets of a dimension that a spaced loop goes through: for each place in the tile its iterations."""

    spaced: Spaced
    start: Any
    """Where in the tile's first phase iterations begin (`Spaced.rest`)."""
    phases: int
    """Number of phases that the tile spans: fewer than all of them."""

    def dim_of(self, number: Any) -> Any:
        """Return the element that lies at ``number``; one behind the dimension where a phase has fewer."""
        count = self.spaced.count
        return iteration_of(self.spaced, self.start + tirx.floordiv(number, count), tirx.floormod(number, count))

    def number(self, loops: Mapping[int, Any], turn: Any) -> Any:
        """Return where the ``turn``-th iteration of what is at ``loops`` lies."""
        return (affine(self.spaced.rest, loops) - self.start) * self.spaced.count + turn


@dataclass(frozen=True)
class Staging:
    """How a product's operands are staged, step by step of its depth."""

    values: Values
    own: Reduced
    operands: tuple[Operand | None, ...]
    """In the order of the terms; None for what lies in shared memory already."""
    depth: int
    """Which of the reduction loops is cut into steps."""
    step: Any
    """Stands for the step in boxes."""
    size: int
    """Iterations of a step."""
    tiles: GpuTiles

    @property
    def each(self) -> int:
        """Return the elements of one step."""
        return sum(elements(operand.box.extents) for operand in self.operands if operand is not None)

    @property
    def elements(self) -> int:
        """Return the elements of all steps that are in shared memory or on their way."""
        return self.tiles.stages * self.each

    @property
    def count(self) -> int:
        """Return the steps."""
        return -(-self.own.iterations[self.depth] // self.size)

    def begun(self, block: Block, arena: Memory) -> list[Phase]:
        """Return the phases before the first step: all but one of the stages are filled."""

        def phase(number: int) -> Phase:
            return lambda thread: self._copies(block, arena, thread, tirx.const(number))

        return [phase(number) for number in range(min(self.tiles.stages - 1, self.count))]

    def steps(self, block: Block, arena: Memory, use: Callable[[Any, Any], Any]) -> Steps:
        """Return the loop over steps: what is staged last is for a step to come, unless there is one stage only."""
        step, ahead = index("step"), self.tiles.stages - 1

        def copied(thread: Any) -> Any:
            return when([step + ahead < self.count] if ahead else [], self._copies(block, arena, thread, step + ahead))

        if not ahead:
            return Steps(step, self.count, [copied, lambda thread: use(thread, step)])
        return Steps(step, self.count, [lambda thread: sequence([copied(thread), use(thread, step)])])

    def _copies(self, block: Block, arena: Memory, thread: Any, step: Any) -> Any:
        """Return the copies of a step's operands, neighbours by neighbouring threads."""
        return sequence([self._copy(block, arena, thread, step, each) for each in self.operands if each is not None])

    def _copy(self, block: Block, arena: Memory, thread: Any, step: Any, operand: Operand) -> Any:
        box = operand.box.at(self.step, step)
        wanted, turn = elements(box.extents), index("turn")
        number = turn * block.threads + thread
        inside = unravelled(number, box.extents)
        place = tuple(
            start + each if taps is None else taps.dim_of(each)
            for start, each, taps in zip(box.starts, inside, operand.taps, strict=True)
        )
        logical = _logical(place, operand.order)
        source = self.values.tensor(operand.read.tensor)
        value = self._guarded(place, operand.shape, lambda: source.at(logical))
        stored = arena.store(thread, self._slot(step) + operand.begins + number, value)
        conditions = [number < wanted] if wanted % block.threads else []
        return loop(turn, -(-wanted // block.threads), when(conditions, stored))

    def _slot(self, step: Any) -> Any:
        return tirx.floormod(step, self.tiles.stages) * self.each if self.tiles.stages > 1 else tirx.const(0)

    def iterations(self, thread: Any, step: Any) -> tuple[Place, list[int], Place, list[Any]]:
        """Return a thread's loops in one step, how long they are, all reduction loops' values, and their conditions."""
        own, split = self.own, self.tiles.split
        steps = variables(own.loops, "k")
        counts = list(own.iterations)
        counts[self.depth] = -(-self.size // split)
        inside = steps[self.depth] * split + tirx.floormod(thread, split) if split > 1 else steps[self.depth]
        conditions = [inside < self.size] if self.size % split else []
        depth = step * self.size + inside
        conditions += [depth < own.iterations[self.depth]] if own.iterations[self.depth] % self.size else []
        values = tuple(depth if number == self.depth else each for number, each in enumerate(steps))
        return steps, counts, values, conditions

    def term(self, arena: Memory, place: Place, iteration: Place, step: Any) -> Any:
        """Return what one iteration adds, from staged operands."""
        loops, certain = self.own.loop_values(place, iteration)
        turns = dict(zip(self.own.loops, iteration, strict=True))
        dividing = self.own.spacing.dividing
        found = []
        for read, operand in zip(self.own.terms, self.operands, strict=True):
            if operand is None:
                found.append(self.values.read(self.own.nest, read, loops, dividing=dividing))
                continue
            box = operand.box.at(self.step, step)
            sums = _place(read, operand.order, loops)
            indices = [read.indices[dim] for dim in operand.order]
            unsure = [(v, each.divisor) for v, each in zip(sums, indices, strict=True) if each not in dividing]
            exact = [tirx.EQ(tirx.floormod(v, divisor), 0) for v, divisor in unsure if divisor > 1]
            element = tuple(
                tirx.floordiv(v, each.divisor) if each.divisor > 1 else v
                for v, each in zip(sums, indices, strict=True)
            )
            element = tuple(
                each if taps is None else taps.number(loops, turns[taps.spaced.loop])
                for each, taps in zip(element, operand.taps, strict=True)
            )
            offset = ravelled(box.relative(element), box.extents)
            load = partial(arena.load, None, self._slot(step) + operand.begins + offset)
            whole = [dim for dim, size in enumerate(operand.shape) if box.extents[dim] == size]
            places, sizes = [element[dim] for dim in whole], [operand.shape[dim] for dim in whole]
            found.append(self._guarded(places, sizes, load, exact))
        return self.values.sharing.within(lambda: self.values.where(certain, lambda: self.own.rule.term(found)))

    def _guarded(
        self, place: Sequence[Any], shape: Sequence[int], compute: Callable[[], Any], conditions: Sequence[Any] = ()
    ) -> Any:
        """Return a value, or what padding reads as where ``place`` is not in the tensor or a condition fails."""
        inside = [condition for each, size in zip(place, shape, strict=True) for condition in (each >= 0, each < size)]
        fills = tirx.const(self.own.rule.fill, self.own.dtype)
        return self.values.sharing.within(lambda: self.values.where([*conditions, *inside], compute, fills))


def staging_of(values: Values, own: Reduced, place: Place, ranges: Sequence[Range], tiles: GpuTiles) -> Staging:
    """Return how the operands of ``own`` are staged.

    ``place`` is where an accumulation lies, for all values of ``ranges``. Raises ``UnsupportedKernelError`` for an
    operand that is not read at sums of loops.
    """
    assert tiles.depth_step is not None
    spaced = own.spacing.spaced
    depth = max(range(len(own.loops)), key=lambda number: (own.loops[number] not in spaced, own.iterations[number]))
    size = min(tiles.depth_step, own.iterations[depth])
    step, steps = index("step"), variables(own.loops, "k")
    inside = []
    for number, (v, loop_) in enumerate(zip(steps, own.loops, strict=True)):
        cut = number == depth and loop_ not in spaced
        inside.append(Range(v, step * size if cut else tirx.const(0), size if cut else own.nest.loops[loop_].extent))
    loops = own.every_iteration(place, steps)
    met = {loop_: _taps(each, loops, ranges) for loop_, each in spaced.items()}
    operands = tuple(_operands(values, own, loops, [*ranges, *inside], met))
    return Staging(values, own, operands, depth, step, size, tiles)


def _taps(spaced: Spaced, loops: Mapping[int, Any], ranges: Sequence[Range]) -> Taps | None:
    """Return what a tile meets of a spaced loop; None if it has all phases."""
    box = box_of([(affine(spaced.rest, loops),)], ranges, [spaced.period])
    phases = box.extents[0]
    return Taps(spaced, box.starts[0], phases) if phases * spaced.count < spaced.extent else None


def _operands(
    values: Values, own: Reduced, loops: Any, ranges: Sequence[Range], met: Mapping[int, Taps | None]
) -> Iterator[Operand | None]:
    begins = 0
    for read in own.terms:
        if not all(_is_sum(each) for each in read.indices):
            raise UnsupportedKernelError(_NOT_PLAIN.format(read.tensor))
        source = values.tensor(read.tensor)
        zeros = [tirx.const(0)] * len(read.indices)
        if values.places_read(partial(source.at, zeros)):
            yield None
            continue
        shape = tuple(read.shape[dim] for dim in source.order)
        divisors = [read.indices[dim].divisor for dim in source.order]
        wide = [size * divisor for size, divisor in zip(shape, divisors, strict=True)]
        box = divided_box(box_of([_place(read, source.order, loops)], ranges, wide), divisors, shape)
        taps = tuple(_of_loop(read.indices[dim], met) for dim in source.order)
        box = Box(
            tuple(s if t is None else tirx.const(0) for s, t in zip(box.starts, taps, strict=True)),
            tuple(e if t is None else t.phases * t.spaced.count for e, t in zip(box.extents, taps, strict=True)),
        )
        yield Operand(read, source.order, shape, box, begins, taps)
        begins += elements(box.extents)


def _of_loop(index_: Index, met: Mapping[int, Taps | None]) -> Taps | None:
    """Return what the tile meets of a dimension whose place is that of a spaced loop."""
    plain = index_.divisor == 1 and not index_.offset and [stride for _, stride in index_.terms] == [1]
    return met.get(index_.terms[0][0]) if plain else None


def _place(read: Access, order: Sequence[int], loops: Any) -> Place:
    return tuple(affine(read.indices[dim], loops) for dim in order)


def _logical(place: Place, order: Sequence[int]) -> list[Any]:
    found: list[Any] = [None] * len(order)
    for value, dim in zip(place, order, strict=True):
        found[dim] = value
    return found


def _is_sum(index: Index) -> bool:
    """Whether an index is a sum of loops, perhaps divided where that leaves no rest (transposed convolutions)."""
    return not (index.opaque or index.table or index.clamp) and index.window == 1 and (
        index.divisor == 1 or index.rounding == "exact"
    )
