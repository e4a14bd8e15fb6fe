"""Block schedulers: they hand a unit's dispatched work out to whichever of its members are free."""

from collections import deque
from typing import NamedTuple

from dsascape.hw_models.simulation.bandwidth import Flow
from dsascape.hw_models.simulation.clock import Actor
from dsascape.hw_models.simulation.demands import Cohort
from dsascape.hw_models.simulation.instructions import base_name
from dsascape.hw_models.simulation.running import Running
from dsascape.hw_models.simulation.trace import STARTED_BY_NOBODY
from dsascape.hw_models.simulation.units import Worker


class _Handed(NamedTuple):
    """Blocks that were handed out, when, and to whom."""

    cohort: Cohort
    began_ps: int


class BlockScheduler(Worker):
    """Hands the blocks of a unit's instructions to whichever members are free, instruction after instruction.

    A free member is given as many blocks as every other free one, up to what it holds of the instruction (the
    occupancy); of members that differ, the faster ones come first. It is free again when all of them have ended. The
    next instruction's blocks follow when the last block of the one before has been handed out.
    """

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        super().__init__(running, name, queue)
        unit = running.machine.units[self.kind]
        left = running.program.width(unit.level)
        self._free: list[int] = []
        """Members by kind that hold no block."""
        for alike in unit.members:
            self._free.append(min(alike.count, left))
            left -= self._free[-1]
        self._parents = running.program.parents(name)
        self._idle_ps = 0
        self._noted_ps = 0
        self._left = 0
        self._ready_ps = 0
        self._has_started = False
        self._finished_by = STARTED_BY_NOBODY
        """The instruction whose blocks a member finished last."""
        self._end_of_instant = _EndOfInstant(self)
        self._is_due = False
        self._under_way: dict[Flow, _Handed] = {}
        self._at_work: dict[int, int] = {}
        """By instruction: cohorts that have not ended."""
        self._paced_ps: dict[int, dict[str, int]] = {}
        """By instruction: how long what set the pace of its cohorts, summed over these."""

    def waited_ps(self) -> int:
        self._note_idle()
        waited_ps, self._idle_ps = self._idle_ps, 0
        return waited_ps

    def _note_idle(self) -> None:
        """Count how long members have held no block; they do only while the next instruction is waited for."""
        now_ps = self.clock.now_ps
        self._idle_ps += sum(self._free) * self._parents * (now_ps - self._noted_ps)
        self._noted_ps = now_ps

    def begin(self) -> bool:
        self._left = self.running.table.work(self.position).blocks
        self._ready_ps = self.clock.now_ps
        self._has_started = False
        self._at_work[self.position] = 0
        self._paced_ps[self.position] = {}
        self._hand_out_soon()
        return False

    def _hand_out_soon(self) -> None:
        """Hand out at the end of this instant, when all members that become free in it are free."""
        if not self._is_due:
            self._is_due = True
            self.clock.at_end_of_instant(self._end_of_instant)

    def hand_out(self) -> None:
        """Hand blocks to all members that are free."""
        self._is_due = False
        free = sum(self._free)
        if not self._left or not free:
            return
        running, position = self.running, self.position
        work = running.table.work(position)
        blocks = min(self._left, free * work.blocks_per_member)
        cohorts = self._cohorts(blocks, free)
        self._left -= blocks
        self._at_work[position] += len(cohorts)
        demands = [running.handed(position, cohort) for cohort in cohorts]
        self._note_idle()
        self.freed_by = self._finished_by if self.clock.now_ps > self._ready_ps else self.cause
        if not self._has_started:
            running.start(position, self.freed_by, max(demand.startup_ps for demand in demands))
            self._has_started = True
        for cohort, demand in zip(cohorts, demands, strict=True):
            self._free[cohort.alike] -= cohort.members
            flow = Flow(running.bandwidth, demand, self, position)
            self._under_way[flow] = _Handed(cohort, self.clock.now_ps)
            self.clock.after(demand.startup_ps, flow, 0)
        if not self._left:
            self.take()

    def _cohorts(self, blocks: int, free: int) -> list[Cohort]:
        """Return who gets how many of ``blocks``: as many each as can be, one more for the first ones."""
        each, more = divmod(blocks, free)
        found = []
        for alike, members in enumerate(self._free):
            fuller = min(members, more)
            more -= fuller
            found += [Cohort(alike, fuller, each + 1)] if fuller else []
            found += [Cohort(alike, members - fuller, each)] if members > fuller and each else []
        return found

    def moved(self, flow: Flow, limit: str) -> None:
        cohort, began_ps = self._under_way.pop(flow)
        running, position, paced_by = self.running, flow.position, base_name(limit)
        spent_ps = self.clock.now_ps - began_ps
        self.busy_ps += spent_ps * cohort.members * self._parents
        shares = self._paced_ps[position]
        shares[paced_by] = shares.get(paced_by, 0) + spent_ps
        self._note_idle()
        self._free[cohort.alike] += cohort.members
        self._finished_by = position
        self._at_work[position] -= 1
        if not self._at_work[position] and (position != self.position or not self._left):
            running.finish(position, max(shares, key=lambda name: (shares[name], name)))
        self._hand_out_soon()


class _EndOfInstant(Actor):
    """Lets a scheduler hand out blocks."""

    def __init__(self, scheduler: BlockScheduler) -> None:
        self._scheduler = scheduler

    def happen(self, turn: int) -> None:
        self._scheduler.hand_out()
