"""Sums of a stage in several parts: partial sums of one thread, and reductions that threads or blocks share."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.columns import alike, anywhere, ceil_div, chosen
from dsascape.scheduler.kernels.loops.nodes import BLOCKS, SHARES, Condition, Loop, Node, Reach, Role
from dsascape.scheduler.kernels.loops.stage.base import StageBase, State, around
from dsascape.scheduler.kernels.loops.stage.vectors import pieces

if TYPE_CHECKING:
    from dsascape.scheduler.kernels.loops.stage.bands import Limits


class Sums(StageBase):
    """Loops of a stage of sums."""

    @abstractmethod
    def run_limits(self, state: State) -> "Limits":
        """Return the elements of a reduction that partial sums are of; no limits for all."""

    def along_run(self, state: State, role: Role) -> list[Node]:
        """Return the loops along the elements that partial sums are of: whole turns, or what these leave over."""
        assert self.sums is not None
        limits = self.run_limits(state)
        if any(limits):
            return self._along_part(state, role, limits)
        turns, rest = self.run // self.sums.count, self.run % self.sums.count
        whole = turns * self.sums.count
        if role == "rest":
            name = self.tree.loop_name("run") if alike(rest > 1) else ""
            run = self.run_first + Affine(whole, ((name, 1),) if name else ())
            return around(name, rest, "serial", [self.statement(state, role, run=run, place=Affine())])
        name = self.tree.loop_name("run") if alike(turns > 1) else ""
        run = self.run_first + Affine(0, ((name, self.sums.count),) if name else ())
        return around(name, turns, "serial", self.over_places(self.sums.count, state, role, run))

    def _along_part(self, state: State, role: Role, limits: "Limits") -> list[Node]:
        """Return the loops along those elements between ``limits`` alone: whole turns, or single ones around them."""
        assert self.sums is not None
        count = self.sums.count
        first, end, stop = limits.beyond(self.run_first)
        if role == "rest":
            beside: tuple[Literal["before", "behind"], ...] = ("before", "behind")
            parts = beside if limits.first is not None else beside[1:]
            nodes: list[Node] = []
            for part in parts:
                name = self.tree.loop_name("run")
                self.tree.extents[name] = self.run
                statement = self.statement(state, role, run=self.run_first + Affine(0, ((name, 1),)), place=Affine())
                nodes.append(Loop(name, self.run, "serial", (statement,), reach=Reach(first, end, count, part, stop)))
            return nodes
        name, turns = self.tree.loop_name("run"), self.run // count
        self.tree.extents[name] = turns
        body = self.over_places(count, state, role, self.run_first + Affine(0, ((name, count),)))
        return [Loop(name, turns, "serial", tuple(body), reach=Reach(first, end, count, "whole", stop))]

    def over_places(self, count: int, state: State, role: Role, run: Affine | None = None) -> list[Node]:
        """Return one part of the stage for each of ``count`` partial sums, in vectors."""
        lanes = 1 if self.vector is None else self.vector.lanes
        ((vectors, width),) = pieces(count, lanes, "whole")
        outer = self.tree.loop_name("s") if vectors > 1 else ""
        inner = self.tree.loop_name("s") if width > 1 else ""
        place = Affine(0, tuple([(name, step) for name, step in ((outer, width), (inner, 1)) if name]))
        statement = self.statement(
            state, role, place=place, run=None if run is None else run + place, distance=count if role == "fold" else 0
        )  # fmt: skip
        return around(outer, vectors, "unrolled", around(inner, width, "vector", [statement]))

    def shared_turns(self, depth: int, state: State, role: Role) -> list[Node]:
        """Return the turns in which threads go through what is left of a reduction that they share."""
        assert self.share is not None
        axis, by = self.share.loops[0], self.share.count * self.share.threads
        total = self.run or state.left[axis]
        turns = -(-total // by)
        name = self.tree.loop_name("turn") if alike(turns > 1) else ""
        value = Affine(0, ((name, by),) if name else ()) + self._who()
        conditions = (*state.conditions, *([Condition(value, total)] if alike(total % by != 0) else []))
        if self.run:
            inside = state._replace(run=value, conditions=conditions)
        else:
            reduced = {**state.reduced, axis: state.reduced.get(axis, Affine()) + value}
            inside = state._replace(reduced=reduced, left={**state.left, axis: 1}, conditions=conditions)
        return self.looped(name, turns, "serial", depth + 1, inside, role)

    def _who(self) -> Affine:
        """Return which of those who share a reduction runs, of all threads of all blocks."""
        assert self.share is not None
        own, blocks = self.tree.shares[self.stage.name], self.tree.blocks.get(self.stage.name)
        return own if blocks is None else blocks * self.share.threads + own

    def put_together(self, depth: int, state: State) -> list[Node]:
        """Return how those who share a reduction put their sums together: half of them add what the others have.

        Where threads share the parts of blocks, these come first, and the first thread goes on for its block.
        """
        if self.share is None:
            return []
        who = self.tree.shares[self.stage.name]
        if self.share.by == "thread":
            return self._halved(depth, state, who, self.share.count)
        if alike(self.share.threads == 1):
            return self._by_the_last(depth, state, who)
        nodes = self._halved(depth, state, who, self.share.threads)
        self.is_of_blocks = True
        first = state._replace(conditions=(Condition(who, 1),))
        nodes += self._by_the_last(depth, first, self.tree.blocks[self.stage.name])
        self.is_of_blocks = False
        return nodes

    def _by_the_last(self, depth: int, state: State, who: Affine) -> list[Node]:
        """Return how blocks hand their sums over, and the last of them adds all of them up."""
        assert self.share is not None
        width, handed = self.share.count, self.stage.name + (BLOCKS if self.is_of_blocks else "") + SHARES
        self.tree.add_buffer(self.tree.plans.by_stage[handed], self.of_block, "global", width)
        others = width - 1  # the last has its own sum
        name = self.tree.loop_name("share") if alike(others > 1) else ""
        if name:
            self.tree.extents[name] = others
        conditions, place = (*state.conditions, *last_of(who, width)), Affine(0, ((name, 1),) if name else ())
        folds = self.inner(depth, state._replace(conditions=conditions, place=place), "fold")
        return [*self.inner(depth, state, "give"), *around(name, others, "serial", folds)]

    def _halved(self, depth: int, state: State, who: Affine, count: int) -> list[Node]:
        """Return how threads add up their sums in halves, in shared memory.

        Of several candidates those with fewer threads have done after fewer halves: nobody takes part in the others.
        """
        self.tree.add_buffer(self.tree.plans.by_stage[self.stage.name + SHARES], self.of_block, "shared", count)
        nodes: list[Node] = []
        width, is_first = count, True
        while anywhere(width > 1):
            half = ceil_div(width, 2)
            given = () if is_first else (Condition(who, chosen(width > 1, width, 0)),)
            nodes += self.inner(depth, state._replace(conditions=given), "give")
            taken = state._replace(conditions=(Condition(who, width - half),), distance=half)
            nodes += self.inner(depth, taken, "fold")
            width, is_first = half, False
        return nodes


def last_of(who: Affine, count: int) -> tuple[Condition, ...]:
    """Return the condition that ``who`` is the last of ``count``."""
    return (Condition(who * -1, 2 - count),)


