"""Block schedulers: hand the blocks of a unit's dispatched work to its free members."""

from collections import deque
from typing import NamedTuple

from dsascape.hw_models.simulation.bandwidth import Flow
from dsascape.hw_models.simulation.clock import EventHandler
from dsascape.hw_models.simulation.demands import MemberGroup
from dsascape.hw_models.simulation.instructions import base_name
from dsascape.hw_models.simulation.running import Running
from dsascape.hw_models.simulation.trace import NO_CAUSE
from dsascape.hw_models.simulation.units import Worker


class _InExecution(NamedTuple):
    """Blocks in execution: the group that holds them, and the time when they were handed out."""

    group: MemberGroup
    began_ps: int


class BlockScheduler(Worker):
    """Hands the blocks of a unit's instructions to whichever members are free, instruction after instruction.

    Blocks are spread evenly over the free members, up to the occupancy of each; faster members come first. A member is
    free again when all its blocks have ended. The next instruction's blocks follow when the last block of the one
    before has been handed out.
    """

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        super().__init__(running, name, queue)
        unit = running.machine.units[self.kind]
        left = running.program.width(unit.level)
        self._free: list[int] = []
        """Number of members without blocks, per group of equivalent members."""
        for group in unit.members:
            self._free.append(min(group.count, left))
            left -= self._free[-1]
        self._parents = running.program.parents(name)
        self._idle_ps = 0
        self._noted_ps = 0
        self._left = 0
        self._ready_ps = 0
        self._has_started = False
        self._finished_by = NO_CAUSE
        """Instruction whose blocks were the last that any member finished."""
        self._end_of_instant = _EndOfInstant(self)
        self._is_due = False
        self._under_way: dict[Flow, _InExecution] = {}
        self._at_work: dict[int, int] = {}
        """Number of groups in execution, by instruction."""
        self._paced_ps: dict[int, dict[str, int]] = {}
        """Time by limiting resource, summed over the groups of each instruction."""

    def waited_ps(self) -> int:
        self._note_idle()
        waited_ps, self._idle_ps = self._idle_ps, 0
        return waited_ps

    def _note_idle(self) -> None:
        """Add up idle time: members hold no block only while the scheduler waits for the next instruction."""
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
        """Hand out blocks at the end of this timestamp, when all members that become free in it are free."""
        if not self._is_due:
            self._is_due = True
            self.clock.at_end_of_instant(self._end_of_instant)

    def hand_out(self) -> None:
        """Hand blocks to all free members."""
        self._is_due = False
        free = sum(self._free)
        if not self._left or not free:
            return
        running, position = self.running, self.position
        work = running.table.work(position)
        blocks = min(self._left, free * work.blocks_per_member)
        groups = self._split(blocks, free)
        self._left -= blocks
        self._at_work[position] += len(groups)
        demands = [running.group_demand(position, group) for group in groups]
        self._note_idle()
        self.freed_by = self._finished_by if self.clock.now_ps > self._ready_ps else self.cause
        if not self._has_started:
            running.start(position, self.freed_by, max(demand.startup_ps for demand in demands))
            self._has_started = True
        for group, demand in zip(groups, demands, strict=True):
            self._free[group.kind] -= group.members
            flow = Flow(running.bandwidth, demand, self, position)
            self._under_way[flow] = _InExecution(group, self.clock.now_ps)
            self.clock.after(demand.startup_ps, flow, 0)
        if not self._left:
            self.take()

    def _split(self, blocks: int, free: int) -> list[MemberGroup]:
        """Return the groups that ``blocks`` are split into: evenly, with one more for the first members."""
        each, more = divmod(blocks, free)
        groups = []
        for kind, members in enumerate(self._free):
            fuller = min(members, more)
            more -= fuller
            groups += [MemberGroup(kind, fuller, each + 1)] if fuller else []
            groups += [MemberGroup(kind, members - fuller, each)] if members > fuller and each else []
        return groups

    def moved(self, flow: Flow, limit: str) -> None:
        group, began_ps = self._under_way.pop(flow)
        running, position, paced_by = self.running, flow.position, base_name(limit)
        spent_ps = self.clock.now_ps - began_ps
        self.busy_ps += spent_ps * group.members * self._parents
        shares = self._paced_ps[position]
        shares[paced_by] = shares.get(paced_by, 0) + spent_ps
        self._note_idle()
        self._free[group.kind] += group.members
        self._finished_by = position
        self._at_work[position] -= 1
        if not self._at_work[position] and (position != self.position or not self._left):
            running.finish(position, max(shares, key=lambda name: (shares[name], name)))
        self._hand_out_soon()


class _EndOfInstant(EventHandler):
    """Event handler that lets a scheduler hand out blocks at the end of a timestamp."""

    def __init__(self, scheduler: BlockScheduler) -> None:
        self._scheduler = scheduler

    def handle(self, number: int) -> None:
        self._scheduler.hand_out()
