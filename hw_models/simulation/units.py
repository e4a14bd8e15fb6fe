"""Workers take instructions from a unit's queue; servers execute bound work, one instruction at a time.

Workers are driven by callbacks: they run until they have to wait, and are called when the wait is over.
"""

from abc import abstractmethod
from collections import deque

from dsascape.hw_models.simulation.bandwidth import Flow, Mover
from dsascape.hw_models.simulation.demands import Demand
from dsascape.hw_models.simulation.instructions import base_name
from dsascape.hw_models.simulation.running import SPACE, Running
from dsascape.hw_models.simulation.space import Asker
from dsascape.hw_models.simulation.trace import STARTED_BY_NOBODY


class Worker(Mover):
    """Base of all workers: takes instructions in order, waits for their inputs and for buffer space."""

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        self.running = running
        self.clock = running.clock
        self._queue = queue
        self.kind = base_name(name)
        self.position = STARTED_BY_NOBODY
        self.cause = STARTED_BY_NOBODY
        self.freed_by = STARTED_BY_NOBODY
        """Instruction whose end lets the worker take another one."""
        self.asked_ps = 0
        """Time since which the worker has waited for inputs or space."""
        self._asker = _ForWorker(self)
        self.busy_ps = 0
        """Busy time, summed over members."""
        self._waited_ps = running.waited_ps.setdefault(self.kind, {})

    def take(self) -> None:
        """Take instructions from the queue until one has to wait or runs."""
        running, queue = self.running, self._queue
        while queue:
            position = self.position = queue.popleft()
            self.asked_ps = self.clock.now_ps
            self.cause = self.freed_by
            if not running.ready(position, self) or not self._with_inputs():
                return

    @abstractmethod
    def waited_ps(self) -> int:
        """Return the idle time since the current wait began, in picoseconds, summed over members."""

    @abstractmethod
    def begin(self) -> bool:
        """Begin the instruction, whose inputs and buffers are there; return whether the next may be taken at once."""

    def happen(self, turn: int) -> None:
        """Continue: all inputs are there; the instruction at ``turn`` was the last to end."""
        self.cause = turn
        self._note_wait(self.running.unit(turn))
        if self._with_inputs():
            self.take()

    def _note_wait(self, what: str) -> None:
        self._waited_ps[what] = self._waited_ps.get(what, 0) + self.waited_ps()

    def _with_inputs(self) -> bool:
        running = self.running
        if not running.allocates[self.position]:
            return self.begin()
        self.asked_ps = self.clock.now_ps
        running.ask_space(self.position, self._asker)
        return False

    def space_there(self, freed_by: int) -> None:
        """Continue: all buffers are allocated; if they had to wait, ``freed_by`` freed the last space."""
        if self.clock.now_ps > self.asked_ps:
            self.cause = freed_by
            self._note_wait(SPACE)
        if self.begin():
            self.take()


class _ForWorker(Asker):
    """Allocation requests of a worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def granted(self, freed_by: int) -> None:
        self._worker.space_there(freed_by)


class Server(Worker):
    """Executes one instruction of a unit's queue at a time, on all members that take part."""

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        super().__init__(running, name, queue)
        self._at_work = 0

    def waited_ps(self) -> int:
        return (self.clock.now_ps - self.asked_ps) * self.running.asked[self.position].members

    def begin(self) -> bool:
        running, position = self.running, self.position
        bound, bandwidth = running.asked[position], running.bandwidth
        running.start(position, self.cause, bound.startup_ps)
        self._at_work = len(bound.parts)
        for demand in bound.parts:
            if demand.startup_ps:
                self.clock.after(demand.startup_ps, Flow(bandwidth, demand, self, position), 0)
            elif demand.moves:
                bandwidth.start(Flow(bandwidth, demand, self, position))
            else:
                self._done(demand, demand.limit)
        return not self._at_work

    def moved(self, flow: Flow, limit: str) -> None:
        self._done(flow.demand, limit)
        if not self._at_work:
            self.take()

    def _done(self, demand: Demand, limit: str) -> None:
        """Note that a group of equivalent members is done; the instruction ends with the last group."""
        running, position = self.running, self.position
        self.busy_ps += (self.clock.now_ps - running.start_ps[position]) * demand.members
        self._at_work -= 1
        if not self._at_work:
            self.freed_by = position
            running.finish(position, limit)
