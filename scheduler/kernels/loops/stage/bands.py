"""Bounds of a stage's loops: iterations of masked attention that are not executed, and a last step that is shorter.

Loops over rows and columns of a band (`dsascape.workloads.bounds`) run as far as any of their elements belongs to it.
What is computed beside the band there is not used: sums over columns take exactly those of each row. Likewise where
steps of a softmax with running statistics do not divide its columns.
"""

from dataclasses import dataclass
from typing import NamedTuple

from dsascape.scheduler.kernels.loops.affine import Affine, Range
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.columns import alike
from dsascape.scheduler.kernels.loops.nodes import Condition, Guard, Node, Reach, Role, Stage
from dsascape.scheduler.kernels.loops.plans import StagePlan
from dsascape.scheduler.kernels.loops.stage.base import Slot, StageBase, State, within
from dsascape.workloads.loopnest import Band, Index


@dataclass(frozen=True, slots=True)
class Banded:
    """A stage of which a band is computed."""

    band: Band
    rows: int
    """Dimension of its tensor that numbers the band's rows."""
    columns: int
    """Dimension of its tensor that numbers the band's columns, or the reduction loop that does."""
    is_summed: bool
    """Whether the columns are a reduction loop."""


class Limits(NamedTuple):
    """First element of a band and the one behind its last; None where there is no such limit."""

    first: Affine | None
    end: Affine | None
    stop: Affine | None = None
    """Another one that all elements lie before: the end of columns whose last step is shorter."""

    def beyond(self, first: Affine) -> "Limits":
        """Return them counted from ``first`` on."""
        return Limits(*[None if each is None else each + first * -1 for each in self])

    def before(self, stop: Affine | None) -> "Limits":
        """Return them with no element from ``stop`` on."""
        return self if stop is None else self._replace(end=stop) if self.end is None else self._replace(stop=stop)


def banded(stage: Stage) -> Banded | None:
    """Return the band of a stage that accumulates or computes elements; None where all of it is computed."""
    bound = stage.nests[0].bound if len(stage.nests) == 1 else None
    if bound is None:
        return None
    nest, is_summed = stage.nests[0], stage.nests[0].loops[bound.inner].reduction
    dims = {index: dim for dim, index in enumerate(nest.write.indices)}
    rows, columns = dims.get(Index(((bound.outer, 1),)), -1), dims.get(Index(((bound.inner, 1),)), -1)
    if rows < 0 or (columns < 0 and not is_summed) or (is_summed and stage.kind != "sum"):
        return None
    return Banded(bound.band, rows, bound.inner if is_summed else columns, is_summed)


def seen_by(band: Band, rows: Range) -> Limits:
    """Return the columns that any of ``rows`` has."""
    first = rows.first.shifted(band.offset - band.window + 1) if band.window else None
    return Limits(first, rows.first.shifted(rows.extent + band.offset))


def seen_by_all(band: Band, rows: Range) -> Limits:
    """Return the columns that all of ``rows`` have; empty where a window has fewer columns than there are rows."""
    first = rows.first.shifted(rows.extent + band.offset - band.window) if band.window else None
    return Limits(first, rows.first.shifted(band.offset + 1))


def seeing(band: Band, columns: Range) -> Limits:
    """Return the rows that have any of ``columns``."""
    end = columns.first.shifted(columns.extent - 1 - band.offset + band.window) if band.window else None
    return Limits(columns.first.shifted(-band.offset), end)


class InBands(StageBase):
    """Loops of a stage that a band bounds."""

    def banded_of(self, plan: StagePlan) -> Banded | None:
        """Return the band of a stage of a CPU's kernel; on grids all is computed."""
        return None if self.is_on_grid else banded(plan.stage)

    def rows(self, state: State) -> Range:
        """Return the rows that one iteration of the loops so far covers."""
        assert self.band is not None
        dim = self.band.rows
        return Range(self.box[dim].first + state.local[dim], state.covered[dim])

    def columns(self, state: State) -> Range:
        """Return the columns that one iteration of the loops so far covers."""
        assert self.band is not None
        number = self.band.columns
        if self.band.is_summed:
            whole = self.stage.nests[0].loops[number].extent
            return Range(state.reduced.get(number, Affine()), state.left.get(number, whole))
        return Range(self.box[number].first + state.local[number], state.covered[number])

    def reach_of(self, slot: Slot, state: State) -> Reach | None:
        """Return which iterations of a loop have elements of the band, and of columns; None where all of them do."""
        if slot.is_unrolled:
            return None
        whole, limits = self._along(slot, state), Limits(None, None)
        if self.band is not None and slot.is_space and slot.axis == self.band.rows:
            if any(each.exponentials == self.stage.name for each in self.tree.plans.running.values()):
                return None  # sums of all rows are corrected by a factor of this part, which may be 1
            limits = seeing(self.band.band, self.columns(state))
        elif self.band is not None and slot.is_space is not self.band.is_summed and slot.axis == self.band.columns:
            limits = seen_by(self.band.band, self.rows(state))
        return self._reach(limits.before(self._end_of_columns(slot.is_space, slot.axis, whole)), whole, slot.size)

    def _along(self, slot: Slot, state: State) -> Range:
        """Return the elements or iterations that one iteration of the loops so far covers of what a loop goes along."""
        if slot.is_space:
            return Range(self.box[slot.axis].first + state.local[slot.axis], state.covered[slot.axis])
        return Range(state.reduced.get(slot.axis, Affine()), state.left[slot.axis])

    def _end_of_columns(self, is_space: bool, axis: int, whole: Range) -> Affine | None:
        """Return where a softmax's columns end, if ``whole`` may go beyond: their last step is shorter than others."""
        plans, stage, at = self.tree.plans, self.stage, self.plan.at
        found: tuple[bool, int, int] | None = None
        if stage.name in plans.running:
            softmax, nest = plans.running[stage.name], stage.nests[0]
            read = next(each for each in nest.reads if each.tensor == softmax.rows)
            ((loop, _),) = read.indices[softmax.columns].terms
            found = False, loop, nest.loops[loop].extent
        elif stage.kind == "sum":
            statistic = plans.statistic(stage.tensor)
            found = None if statistic is None else (False, statistic.loop, stage.nests[0].loops[statistic.loop].extent)
        elif at is not None and at.consumer in plans.running and plans.statistic(stage.name) is None:
            softmax = plans.running[at.consumer]
            if stage.shape == plans.naive.stages[softmax.exponentials].shape:
                found = True, softmax.columns, stage.shape[softmax.columns]
        if found is None or found[:2] != (is_space, axis):
            return None
        left = whole.first * -1 + Affine(found[2])
        return Affine(found[2]) if alike(left.span(self.tree.extents)[0] < whole.extent) else None

    def _reach(self, limits: Limits, whole: Range, step: int) -> Reach | None:
        """Return the part of the iterations over ``whole`` inside of limits; None where that is all of them."""
        first, end, stop = limits.beyond(whole.first)
        first = None if first is None or alike(first.span(self.tree.extents)[1] <= 1) else first
        end = None if end is None or alike(end.span(self.tree.extents)[0] >= whole.extent) else end
        end, stop = (stop, None) if end is None else (end, stop)
        return None if first is end is None else Reach(first, end, step, stop=stop)

    def beside_the_band(self, state: State) -> tuple[Condition, ...]:
        """Return the conditions under which a tile has elements of the band, behind loops that were fused."""
        if self.band is None or self.band.is_summed:
            return ()
        band, rows, columns = self.band.band, self.rows(state), self.columns(state)
        ahead = columns.first + rows.first * -1
        found = [Condition(ahead, rows.extent + band.offset)]
        if band.window:
            found.append(Condition(ahead * -1, columns.extent - 1 - band.offset + band.window))
        return tuple([each for each in found if alike(each.value.span(self.tree.extents)[1] > each.limit)])

    def takes_columns(self, slot: Slot) -> bool:
        """Whether a loop is the innermost one over the columns that a sum takes, and not written out."""
        is_own = self.band is not None and self.band.is_summed and not slot.is_space and slot.axis == self.band.columns
        return is_own and alike(slot.size == 1) and not slot.is_unrolled

    def sums_in_band(self, depth: int, slot: Slot, state: State) -> list[Node]:
        """Return the innermost loop over the columns that a sum takes.

        Columns that all rows of a tile have come first, then those that only some of them have, with a condition.
        """
        assert self.band is not None
        band, rows = self.band.band, self.rows(state)
        is_narrow = (rows.extent > 1) & (band.window > 0) & (band.window < rows.extent)
        if alike(state.left[slot.axis] == 1) or alike(is_narrow):
            return self._part(depth, slot, state, seen_by(band, rows))
        every, any_of = seen_by_all(band, rows), seen_by(band, rows)
        nodes = self._part(depth, slot, state._replace(is_in_band=True), every)
        if alike(rows.extent > 1):
            nodes += self._part(depth, slot, state, Limits(every.end, any_of.end))
            nodes += self._part(depth, slot, state, Limits(any_of.first, every.first)) if band.window else []
        return nodes

    def _part(self, depth: int, slot: Slot, state: State, limits: Limits) -> list[Node]:
        base = self.columns(state)
        named, inside = self.step_of(slot, state)
        first, end, stop = limits.before(self._end_of_columns(False, slot.axis, base)).beyond(base.first)
        name, count = named[0] if named else ("", 1)
        return within(Reach(first, end, stop=stop), self.looped(name, count, "serial", depth + 1, inside, "update"))

    def of_row(self, state: State, role: Role, nodes: list[Node]) -> list[Node]:
        """Return statements of a sum under the condition that the column belongs to the row."""
        if self.band is None or not self.band.is_summed or role != "update":
            return nodes
        if state.is_in_band or self.sums is not None:
            return nodes
        band, ahead = self.band.band, self.columns(state).first + self.rows(state).first * -1
        found = [Condition(ahead, band.offset + 1)]
        found += [Condition(ahead * -1, band.window - band.offset)] if band.window else []
        return [Guard(tuple(found), tuple(nodes))]

    def run_limits(self, state: State) -> Limits:
        """Return the columns of the row that partial sums are of; no limits where they are of all of their loops."""
        assert self.sums is not None
        end = self._end_of_columns(False, self.sums.loops[-1], Range(self.run_first, self.run))
        if self.band is None or not self.band.is_summed:
            return Limits(None, end)
        long = [loop for loop in self.sums.loops if self.stage.nests[0].loops[loop].extent > 1]
        if long != [self.band.columns]:
            raise StepError(f"PartialSums: {self.stage.name}: a band bounds one of the loops that they go along")
        return seen_by(self.band.band, self.rows(state)).before(end)
