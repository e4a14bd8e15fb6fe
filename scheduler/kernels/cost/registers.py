"""Executions, and registers that are loaded and stored: what a compiler makes of the loops of a program.

The rules are those of `scheduler.kernels.loops.counting`, in closed form: in a band each register is loaded once; in
the next one again, unless none of the loops in between moves it: then it is hoisted out of them.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from dsascape.scheduler.kernels.cost.band import gathers, registers_alive, registers_of
from dsascape.scheduler.kernels.cost.counted import BandCost, Executed, Move, Moved, Part, PartCost, threads_of
from dsascape.scheduler.kernels.cost.placed import LANES, Around, Placed, placed_in
from dsascape.scheduler.kernels.cost.places import Run, Use
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.cost.trips import Limit, Within, iterations
from dsascape.scheduler.kernels.loops.columns import (
    Size,
    anywhere,
    chosen,
    distinct,
    everywhere,
    most,
    same,
)
from dsascape.scheduler.kernels.loops.nodes import Condition, Stage
from dsascape.workloads.loopnest import Operations


@dataclass(frozen=True)
class _Statement:
    """A statement in its place, with what it loads and stores."""

    placed: Placed
    loads: tuple[Use, ...]
    stored: Use
    operations: Operations
    limits: tuple[Limit, ...]
    """Conditions around it, as threads meet them that run in lockstep."""

    @cached_property
    def loaded(self) -> frozenset[str]:
        """Arrays that it loads from."""
        return frozenset([use.array for use in self.loads])

    @cached_property
    def loops(self) -> frozenset[str]:
        """Names of the loops around it."""
        return frozenset([loop.name for loop in self.placed.around])


def part_costs(
    reads: Reads, registers: int, in_lockstep: frozenset[str] = frozenset()
) -> dict[Part, PartCost]:  # fmt: skip
    """Return the counts of each part of a program; ``registers``: vector registers of one thread.

    ``in_lockstep``: loops of threads whose conditions leave nobody out, as warps issue instructions all the same; where
    there are any, lanes with results that are dropped are not told from others, nor is what each of them moves counted.
    """
    program = reads.program
    by_part: dict[Part, list[_Statement]] = {}
    every_placed = placed_in(program.body)
    lockstep = _Lockstep(in_lockstep, every_placed, program.extents)
    for each in every_placed:
        by_part.setdefault((each.statement.stage, each.statement.role), []).append(
            _Statement(each, *reads.of(each.statement), lockstep.met(each.conditions))
        )
    every = [each for own in by_part.values() for each in own]
    stages = {stage.name: stage for stage in program.stages}
    return {
        part: _PartCounts(program.extents, own, every, registers, lockstep).counted(stages[part[0]])
        for part, own in by_part.items()
    }


class _Lockstep:
    """Threads of warps, which issue instructions together: conditions leave out whole warps alone."""

    def __init__(self, loops: frozenset[str], every: Sequence[Placed], extents: Mapping[str, Size]) -> None:
        self.loops, self._extents = loops, extents
        self._bounds = distinct([limit for each in every for limit in each.bounds]) if loops else ()

    def met(self, limits: Sequence[Limit], run: Run | None = None) -> tuple[Limit, ...]:
        """Return conditions as warps meet them: without those on threads, as some of a warp always run.

        Those that bound loops stay. ``run``: reduction loops that conditions may depend on besides.
        """
        if not self.loops or not limits:
            return tuple(limits)
        extents = self._extents if run is None else {**self._extents, **dict(run.loops)}
        found = [self._met(each, extents) for each in limits]
        return tuple([each for each in found if each is not None])

    def _met(self, limit: Limit, extents: Mapping[str, Size]) -> Limit | None:
        if isinstance(limit, Within):
            return limit
        is_met: Any = False
        for name, _ in limit.value.terms:
            if name in self.loops:
                is_met = is_met | (extents[name] > 1)
        if not anywhere(is_met) or any(same(limit, other) for other in self._bounds):
            return limit
        low, end = limit.value.span(cast(Mapping[str, int], extents))  # or columns
        is_met = is_met & (limit.limit > low)  # what no thread does, no warp does
        if everywhere(is_met):
            return None
        return replace(limit, limit=chosen(is_met, most(limit.limit, end), limit.limit))


class _PartCounts:
    """The statements of one part, being counted."""

    def __init__(
        self, extents: Mapping[str, Size], statements: Sequence[_Statement], every: Sequence[_Statement],
        registers: int, lockstep: _Lockstep,
    ) -> None:  # fmt: skip
        self._extents, self._statements, self._registers = extents, statements, registers
        self._lockstep = lockstep
        self._has_alternatives = False
        """Whether one of several nests writes an element: warps seldom have elements of more than one."""
        self._others = [each for each in every if each.placed.part != statements[0].placed.part]
        by_band = itertools.groupby(statements, key=lambda each: each.placed.band)
        self._bands = [list(each) for _, each in by_band]
        self._cost = PartCost()

    def counted(self, stage: Stage) -> PartCost:
        """Return the counts of the part of a stage."""
        cost, shape = self._cost, stage.shape
        self._has_alternatives = len(stage.nests) > 1
        for each in self._statements:
            around, conditions = each.placed.around, each.limits
            own = _not_vector(around)
            executions = self._iterations(own, conditions)
            elements = executions if len(own) == len(around) else self._iterations(around, conditions)
            cost.executions = cost.executions + executions
            cost.statements.append(Executed(_lanes(each.placed), threads_of(around), executions))
            cost.elements = cost.elements + elements
            inside = [] if self._lockstep.loops else self._inside(each, shape)
            needed = self._iterations(around, [*conditions, *inside]) if inside else elements
            cost.needed = cost.needed + needed
            cost.operations = each.operations
        for band in self._bands:
            self._count_band(band)
        return cost

    def _iterations(
        self, around: Iterable[Around], conditions: Sequence[Limit], use: Use | None = None
    ) -> Size:
        """Return how many iterations of loops meet conditions, and those under which ``use`` needs a register."""
        counted = {each.name: each.extent for each in around}
        run = None if use is None else use.run
        own = () if use is None else (*use.conditions, *use.clamped)
        conditions = [*conditions, *(own if self._has_alternatives else self._lockstep.met(own, run))]
        extents = self._extents
        if run is not None and any(name in dict(run.loops) for each in own for name, _ in each.value.terms):
            extents = {**extents, **dict(run.loops)}
            own_loops = {name: counted.get(name, 0) for name, _ in run.value.terms}
            total = math.prod([extent for _, extent in run.loops])
            is_whole = [same(each.value, run.value) for each in conditions]
            if any(is_whole) or everywhere(math.prod(own_loops.values(), start=1) == total):
                counted = {name: extent for name, extent in counted.items() if name not in dict(run.value.terms)}
                counted |= dict(run.loops)
                conditions = [each for each, whole in zip(conditions, is_whole, strict=True) if not whole]
        found = iterations(counted, conditions, extents)
        return found if use is None or use.share == 1 else _whole(found * use.share)

    def _inside(self, each: _Statement, shape: Sequence[int]) -> list[Limit]:
        """Return the conditions under which the element of a statement lies in its tensor."""
        found: list[Limit] = []
        extents = cast(Mapping[str, int], self._extents)  # or columns
        for element, size in zip(each.placed.statement.element, shape, strict=True):
            low, end = element.span(extents)
            found += [Condition(element, size)] if anywhere(end > size) else []
            found += [Condition(element * -1, 1)] if anywhere(low < 0) else []
        return found

    def _count_band(self, band: Sequence[_Statement]) -> None:
        first = band[0].placed
        outside, alone = [each for each in first.around if not each.is_in_band], self._alone(band)
        bands = self._iterations(outside, band[0].limits)
        self._cost.bands = self._cost.bands + bands
        loads = [(each, use) for each in band for use in each.loads]
        stores = [(each, each.stored) for each in band]
        needed: Any = 0
        for uses, moved in ((loads, self._cost.loads), (stores, self._cost.stores)):
            counted: list[tuple[_Statement, Use]] = []
            for each, use in uses:
                total = moved.setdefault(use.array, Moved())
                if not self._lockstep.loops:
                    executed = replace(use, clamped=())
                    total.elements = total.elements + self._iterations(each.placed.around, each.limits, executed)
                if not any(_is_same(each, use, *other) for other in counted):
                    counted.append((each, use))
            for array in dict.fromkeys([use.array for _, use in counted]):
                own = [pair for pair in counted if pair[1].array == array]
                registers = self._move(moved[array], own, outside, alone)
                needed = needed + (registers if uses is loads else 0)
        held = [
            (each, use) for each, use in stores
            if use.scope == "register" and not any(_is_same(each, use, *other) for other in loads)
        ]  # fmt: skip
        needed = needed + sum([registers_of(use, each.placed) for each, use in held], 0)
        self._cost.spills = self._cost.spills + bands * most(_whole(needed) - self._registers, 0)
        accumulators = sum([registers_of(use, each.placed) for each, use in _apart(stores)], 0)
        self._cost.in_bands.append(
            BandCost(threads_of(first.around), bands, accumulators, tuple([each.extent for each in alone]))
        )

    def _alone(self, band: Sequence[_Statement]) -> list[Around]:
        """Return the serial loops around a band, innermost first, in which nothing else is computed."""
        found: list[Around] = []
        own = {each.placed.band for each in band}
        for loop in reversed([each for each in band[0].placed.around if not each.is_in_band]):
            inside = {
                each.placed.band for each in (*self._others, *self._statements)
                if loop.name in each.loops
            }  # fmt: skip
            if loop.kind != "serial" or inside != own:
                break
            found.append(loop)
        return found

    def _move(
        self, moved: Moved, own: Sequence[tuple[_Statement, Use]], outside: Sequence[Around],
        alone: Sequence[Around],
    ) -> Any:  # fmt: skip
        """Count the loads of an array in a band, or the stores; return the registers that it needs there."""
        around_anyhow = self._kept_inside(own, outside)
        moving = {name for _, use in own for name in use.place.moving}
        moving |= {name for each, use in own for name in _choosing(each, use, moving)}
        lasts: list[tuple[int, Any]] = [(around_anyhow, True)]
        lasts += [
            (place, each.extent > 1) for place, each in enumerate(outside, 1)
            if place > around_anyhow and each.name in moving and anywhere(each.extent > 1)
        ]  # fmt: skip
        first = max([number for number, (_, is_last) in enumerate(lasts) if everywhere(is_last)])
        lasts = lasts[first:]
        needed: Any = 0
        for each, use in own:
            distinct = registers_of(use, each.placed)
            live = distinct if use.scope == "register" else registers_alive(distinct, use, each.placed)
            needed = needed + self._needed(live, each, use)
            if use.scope == "register":
                continue
            is_gathered = gathers(use, each.placed.around)
            in_band = [
                loop for loop in each.placed.around
                if loop.is_in_band and (loop.kind == "thread" or loop.name in moving)
                and (is_gathered or loop.kind != "vector")
            ]  # fmt: skip
            found: Size = 0
            for last, is_last in lasts:
                reloaded = self._iterations([*outside[:last], *in_band], each.limits, use)
                found = chosen(is_last, reloaded, found)
            plain = math.prod([loop.extent for loop in in_band if loop.kind not in LANES], start=1)
            if not everywhere(plain == distinct):
                found = found * distinct // plain
            moved.registers = moved.registers + found
            last = max([place for place, is_last in lasts if everywhere(is_last)])
            moved.gathered = moved.gathered + (found if is_gathered else 0)
            loops = [*outside[:last], *in_band]
            moved.moves.append(_described(found, each, use, loops, alone, is_gathered=is_gathered))
        return needed

    def _needed(self, distinct: Size, each: _Statement, use: Use) -> Any:
        """Return the registers that a load needs in a band, in the mean: of alternatives, one happens at a time."""
        if not use.conditions:
            return distinct
        every = most(self._iterations(each.placed.around, each.limits), 1)
        return distinct * (self._iterations(each.placed.around, each.limits, replace(use, clamped=())) / every)

    def _kept_inside(self, own: Sequence[tuple[_Statement, Use]], outside: Sequence[Around]) -> int:
        """Return how many of the loops outside of a band nothing is hoisted out of: others use the array in them.

        Loads are not hoisted out of loops in which somebody stores to the array, nor stores out of those in which
        somebody loads it; neither is out of blocks, nor where another band of the part moves other registers.
        """
        statement, use = own[0]
        is_store = use is statement.stored
        found = max([place for place, each in enumerate(outside, 1) if each.kind == "block"], default=0)
        for other in self._others:
            if use.array in other.loaded if is_store else use.array == other.stored.array:
                found = max(found, _shared(other, outside))
        for band in self._bands:
            if all(each is not statement for each in band) and self._differs(band, own):
                found = max(found, _shared(band[0], outside))
        return found

    def _differs(self, band: Sequence[_Statement], own: Sequence[tuple[_Statement, Use]]) -> bool:
        """Whether another band of the part moves other registers of the same array."""
        is_store = own[0][1] is own[0][0].stored
        others = [
            (each, use) for each in band for use in ((each.stored,) if is_store else each.loads)
            if use.array == own[0][1].array
        ]  # fmt: skip
        return any(not any(_is_same(*one, *other) for one in own) for other in others)


def _shared(other: _Statement, outside: Sequence[Around]) -> int:
    """Return how many loops outside of a band are around another statement, too."""
    names = [each.name for each in other.placed.around if each.kind not in LANES]
    same = itertools.takewhile(lambda pair: pair[0].name == pair[1], zip(outside, names, strict=False))
    return len(list(same))


def _described(
    registers: Size, each: _Statement, use: Use, loops: Sequence[Around], alone: Sequence[Around], *, is_gathered: bool
) -> Move:  # fmt: skip
    """Return a load or store with what follows each other in memory: of the same for all lanes, along reductions."""
    strides = {name: stride for name, stride in use.place.value.terms if name not in use.place.unknown}
    depth = {name for _, value in each.placed.statement.reduced for name, _ in value.terms}
    around = [loop for loop in each.placed.around if loop.name in strides]
    lanes = 1 if is_gathered else math.prod([loop.extent for loop in around if loop.kind == "vector"], start=1)
    run: Size = lanes
    is_single = everywhere(lanes == 1)
    written_out = [
        loop for loop in around
        if loop.is_in_band and loop.kind not in LANES and (not is_single or loop.name in depth)
    ]  # fmt: skip
    if all(isinstance(strides[loop.name], int) for loop in written_out):
        written_out.sort(key=lambda own: abs(strides[own.name]))
    else:  # each row has an order of its own
        written_out *= len(written_out)
    for loop in written_out:
        run = chosen(strides[loop.name] == run, run * loop.extent, run)
    goes_on: list[Size] = []
    whole: Size = run
    for loop in alone:
        goes = strides.get(loop.name, 0) == whole if not is_single or loop.name in depth else False
        goes_on.append(chosen(goes, loop.extent, 1))
        whole = chosen(goes, whole * loop.extent, chosen(loop.extent == 1, whole, 0))
    moves_with_depth = bool(depth & use.place.moving)
    kept = registers_of(use, each.placed)
    if any(loop.is_in_band and loop.name in depth for loop in around):
        kept = registers_of(use, replace(
            each.placed, around=tuple([loop for loop in each.placed.around if loop.name not in depth])
        ))  # fmt: skip
    return Move(
        registers, lanes, is_gathered, run, tuple([loop.extent for loop in alone]), tuple(goes_on), use.element_bytes,
        moves_with_depth, use, tuple(loops), each.placed.conditions, kept,
    )  # fmt: skip


def _whole(registers: Any) -> Size:
    """Return a number of registers rounded up."""
    if isinstance(registers, int):
        return registers
    found = np.ceil(registers - _ROUNDING)
    return int(found) if np.ndim(found) == 0 else found.astype(np.int64)


_ROUNDING = 1e-6
"""Share of a register that sums of shares may be off by."""


def _not_vector(around: Iterable[Around]) -> list[Around]:
    return [each for each in around if each.kind != "vector"]


def _choosing(each: _Statement, use: Use, moving: Collection[str]) -> set[str]:
    """Return the loops by which conditions choose among the registers of a band."""
    written_out = {
        loop.name for loop in each.placed.around
        if loop.is_in_band and loop.kind not in LANES and loop.name in moving
    }  # fmt: skip
    conditions = [*each.placed.conditions, *use.conditions, *use.clamped]
    tied = [{name for name, _ in condition.value.terms} for condition in conditions]
    return {name for names in tied if names & written_out for name in names}


def _is_same(one: _Statement, use: Use, other: _Statement, other_use: Use) -> bool:
    """Whether two uses of a part are of the same registers in each band."""
    if use.array != other_use.array or not same(use.place, other_use.place):
        return False
    if not same(use.conditions, other_use.conditions) or not same(one.placed.conditions, other.placed.conditions):
        return False
    return one is other or same(_lanes(one.placed), _lanes(other.placed))


def _apart(stores: Sequence[tuple[_Statement, Use]]) -> list[tuple[_Statement, Use]]:
    """Return stores to registers of their own: those that loops of other names go through again wait for the first."""
    found: list[tuple[_Statement, Use]] = []
    reached: list[tuple[object, ...]] = []
    for each, use in stores:
        inside = {loop.name: loop.extent for loop in each.placed.around if loop.is_in_band}
        terms = use.place.value.terms
        own = (
            use.array, use.place.unknown, use.place.derived, use.place.value.offset,
            tuple([term for term in terms if term[0] not in inside]),
            tuple([(inside[name], stride) for name, stride in terms if name in inside]),
        )  # fmt: skip
        if not any(same(own, other) for other in reached):
            found.append((each, use))
            reached.append(own)
    return found


def _lanes(placed: Placed) -> Size:
    return math.prod([each.extent for each in placed.around if each.kind == "vector"], start=1)
