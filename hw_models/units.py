"""Servers and block schedulers: the first do a unit's bound work, the others hand out its dispatched work.

Both are driven by callbacks: they go on until they have to wait, and are called when that has come.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from functools import partial

from hw_models.clock import Action
from hw_models.demands import Cohort, Demand
from hw_models.program import Instruction, ProgramError, base_name
from hw_models.running import SPACE, Running
from hw_models.trace import STARTED_BY_NOBODY


def start_units(running: Running) -> None:
    """Let every unit of the program take the first instruction of its queue."""
    queues: dict[str, deque[int]] = {}
    dispatched: dict[str, bool] = {}
    for position, instruction in enumerate(running.program.instructions):
        queues.setdefault(instruction.unit, deque()).append(position)
        if dispatched.setdefault(instruction.unit, instruction.blocks > 0) != (instruction.blocks > 0):
            raise ProgramError(f"{instruction.label}: the queue of {instruction.unit} mixes bound and dispatched work")
    for name, queue in queues.items():
        running.busy_ps.setdefault(base_name(name), 0)
        running.waited_ps.setdefault(base_name(name), {})
        if dispatched[name]:
            BlockScheduler(running, name, queue).take()
        else:
            for _ in range(running.machine.units[base_name(name)].servers):
                Server(running, name, queue).take()


class _Worker(ABC):
    """What servers and block schedulers share: taking instructions in order, waiting for inputs and for space."""

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        self._running = running
        self._queue = queue
        self._kind = base_name(name)
        self._position = STARTED_BY_NOBODY
        self._instruction: Instruction
        self._cause = STARTED_BY_NOBODY
        self._asked_ps = 0

    def take(self) -> None:
        """Take instructions from the queue until one has to wait or runs."""
        running = self._running
        while self._queue:
            self._position = self._queue.popleft()
            self._instruction = running.program.instructions[self._position]
            self._asked_ps = running.clock.now_ps
            self._cause = self._previous()
            self._look_up()
            if not running.ready(self._position, self._inputs_there) or not self._with_inputs():
                return

    @abstractmethod
    def _look_up(self) -> None:
        """Find out what the instruction just taken needs."""

    @abstractmethod
    def _previous(self) -> int:
        """Return the instruction whose end lets the worker take another one."""

    @abstractmethod
    def _waited_ps(self) -> int:
        """Return how long members had nothing to do since the worker asked for something, all of them together."""

    @abstractmethod
    def _begin(self) -> bool:
        """Begin the instruction, which has all that it needs; return whether the next one may be taken at once."""

    def _inputs_there(self) -> None:
        running = self._running
        self._cause = running.released_by(self._position)
        cause = base_name(running.program.instructions[self._cause].unit)
        running.note_wait(self._kind, cause, self._waited_ps())
        if self._with_inputs():
            self.take()

    def _with_inputs(self) -> bool:
        if not self._instruction.allocates:
            return self._begin()
        self._asked_ps = self._running.clock.now_ps
        self._running.ask_space(self._position, self._space_there)
        return False

    def _space_there(self, freed_by: int) -> None:
        running = self._running
        if running.clock.now_ps > self._asked_ps:
            self._cause = freed_by
            running.note_wait(self._kind, SPACE, self._waited_ps())
        if self._begin():
            self.take()


class Server(_Worker):
    """Serves one instruction of a unit's queue at a time, on all members that take part."""

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        super().__init__(running, name, queue)
        self._demands: Sequence[Demand] = ()
        self._last = STARTED_BY_NOBODY
        self._at_work = 0

    def _previous(self) -> int:
        return self._last

    def _waited_ps(self) -> int:
        members = sum([demand.members for demand in self._demands])
        return (self._running.clock.now_ps - self._asked_ps) * members

    def _look_up(self) -> None:
        self._demands = self._running.demands.of(self._instruction)

    def _begin(self) -> bool:
        running, demands = self._running, self._demands
        running.start(self._position, self._cause, max([demand.startup_ps for demand in demands]))
        self._at_work = len(demands)
        for demand in demands:
            if demand.startup_ps:
                running.clock.after(demand.startup_ps, partial(self._started, demand))
            elif demand.moves:
                self._flow(demand)
            else:
                self._done(demand, demand.limit)
        return not self._at_work

    def _started(self, demand: Demand) -> None:
        if demand.moves:
            self._flow(demand)
        else:
            self._go_on(demand, demand.limit)

    def _flow(self, demand: Demand) -> None:
        self._running.flow(demand, partial(self._go_on, demand))

    def _go_on(self, demand: Demand, limit: str) -> None:
        self._done(demand, limit)
        if not self._at_work:
            self.take()

    def _done(self, demand: Demand, limit: str) -> None:
        """Note that alike members have done their part; the instruction ends with the last of them."""
        running = self._running
        running.busy_ps[self._kind] += running.since_start_ps(self._position) * demand.members
        self._at_work -= 1
        if not self._at_work:
            self._last = self._position
            running.finish(self._position, limit)


class BlockScheduler(_Worker):
    """Hands the blocks of a unit's instructions to whichever members are free, instruction after instruction.

    A free member is given as many blocks as every other free one, up to what it holds of the instruction (the
    occupancy); of members that differ, the faster ones come first. It is free again when all of them have ended. The
    next instruction's blocks follow when the last block of the one before has been handed out.
    """

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        super().__init__(running, name, queue)
        unit = running.machine.units[self._kind]
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
        self._freed_by = STARTED_BY_NOBODY
        """The instruction whose blocks a member finished last."""
        self._handed_out_by = STARTED_BY_NOBODY
        """What let blocks be handed out the last time: the end of an instruction, or of some of its blocks."""
        self._is_due = False
        self._at_work: dict[int, int] = {}
        """By instruction: cohorts that have not ended."""
        self._paced_ps: dict[int, dict[str, int]] = {}
        """By instruction: how long what set the pace of its cohorts, summed over these."""

    def _look_up(self) -> None:
        """Nothing: what a cohort needs is found out when it is handed its blocks."""

    def _previous(self) -> int:
        return self._handed_out_by

    def _waited_ps(self) -> int:
        self._note_idle()
        waited_ps, self._idle_ps = self._idle_ps, 0
        return waited_ps

    def _note_idle(self) -> None:
        """Count how long members have held no block; they do only while the next instruction is waited for."""
        now_ps = self._running.clock.now_ps
        self._idle_ps += sum(self._free) * self._parents * (now_ps - self._noted_ps)
        self._noted_ps = now_ps

    def _begin(self) -> bool:
        self._left = self._instruction.blocks
        self._ready_ps = self._running.clock.now_ps
        self._has_started = False
        self._at_work[self._position] = 0
        self._paced_ps[self._position] = {}
        self._hand_out_soon()
        return False

    def _hand_out_soon(self) -> None:
        """Hand out at the end of this instant, when all members that become free in it are free."""
        if not self._is_due:
            self._is_due = True
            self._running.clock.at_end_of_instant(self._hand_out)

    def _hand_out(self) -> None:
        self._is_due = False
        free = sum(self._free)
        if not self._left or not free:
            return
        running, instruction, position = self._running, self._instruction, self._position
        blocks = min(self._left, free * instruction.blocks_per_member)
        cohorts = self._cohorts(blocks, free)
        self._left -= blocks
        self._at_work[position] += len(cohorts)
        demands = [running.demands.of_cohort(instruction, cohort) for cohort in cohorts]
        self._note_idle()
        self._handed_out_by = self._freed_by if running.clock.now_ps > self._ready_ps else self._cause
        if not self._has_started:
            running.start(position, self._handed_out_by, max(demand.startup_ps for demand in demands))
            self._has_started = True
        for cohort, demand in zip(cohorts, demands, strict=True):
            self._free[cohort.alike] -= cohort.members
            running.clock.after(demand.startup_ps, self._starting(position, cohort, demand))
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

    def _starting(self, position: int, cohort: Cohort, demand: Demand) -> Action:
        began_ps = self._running.clock.now_ps

        def ended(limit: str) -> None:
            self._ended(position, cohort, base_name(limit), began_ps)

        return partial(self._running.flow, demand, ended) if demand.moves else partial(ended, demand.limit)

    def _ended(self, position: int, cohort: Cohort, limit: str, began_ps: int) -> None:
        running = self._running
        spent_ps = running.clock.now_ps - began_ps
        running.busy_ps[self._kind] += spent_ps * cohort.members * self._parents
        shares = self._paced_ps[position]
        shares[limit] = shares.get(limit, 0) + spent_ps
        self._note_idle()
        self._free[cohort.alike] += cohort.members
        self._freed_by = position
        self._at_work[position] -= 1
        if not self._at_work[position] and (position != self._position or not self._left):
            running.finish(position, max(shares, key=lambda name: (shares[name], name)))
        self._hand_out_soon()
