"""Workers take instructions from a unit's queue; servers execute bound work, one instruction at a time.

Workers are driven by callbacks: they run until they have to wait, and are called when the wait is over.
"""

from abc import abstractmethod
from collections import deque

from dsascape.hw_models.simulation.bandwidth import Flow, Mover
from dsascape.hw_models.simulation.demands import Demand
from dsascape.hw_models.simulation.instructions import base_name
from dsascape.hw_models.simulation.running import SPACE, Running
from dsascape.hw_models.simulation.space import Requester
from dsascape.hw_models.simulation.trace import NO_CAUSE


class Worker(Mover):
    """Base of all workers: takes instructions in order, waits for their inputs and for buffer space."""

    def __init__(self, running: Running, name: str, queue: deque[int], line: int = -1) -> None:
        self.running = running
        self.clock = running.clock
        self.line = line
        self._queue = queue
        self.kind = base_name(name)
        self.position = NO_CAUSE
        self.cause = NO_CAUSE
        self.freed_by = NO_CAUSE
        """Instruction whose end lets the worker take another one."""
        self.waiting_since_ps = 0
        """Time since which the worker has waited for inputs or space."""
        self._requester = _ForWorker(self)
        self.busy_ps = 0
        """Busy time, summed over members."""
        self._waited_ps = running.waited_ps.setdefault(self.kind, {})

    def take(self) -> None:
        """Take instructions from the queue until one has to wait or runs."""
        running, queue = self.running, self._queue
        while queue:
            position = self.position = queue.popleft()
            self.waiting_since_ps = self.clock.now_ps
            self.cause = self.freed_by
            if not running.ready(position, self) or not self._with_inputs():
                return

    @abstractmethod
    def waited_ps(self) -> int:
        """Return the idle time since the current wait began, in picoseconds, summed over members."""

    @abstractmethod
    def begin(self) -> bool:
        """Begin the instruction, whose inputs and buffers are there; return whether the next may be taken at once."""

    def handle(self, number: int) -> None:
        """Continue: all inputs are there; the instruction at ``number`` was the last to end."""
        self.cause = number
        self._note_wait(self.running.unit(number))
        if self._with_inputs():
            self.take()

    def _note_wait(self, what: str) -> None:
        self._waited_ps[what] = self._waited_ps.get(what, 0) + self.waited_ps()

    def _with_inputs(self) -> bool:
        running = self.running
        if not running.allocates[self.position]:
            return self.begin()
        self.waiting_since_ps = self.clock.now_ps
        running.request_space(self.position, self._requester)
        return False

    def space_granted(self, freed_by: int) -> None:
        """Continue: all buffers are allocated; if they had to wait, ``freed_by`` freed the last space."""
        if self.clock.now_ps > self.waiting_since_ps:
            self.cause = freed_by
            self._note_wait(SPACE)
        if self.begin():
            self.take()


class _ForWorker(Requester):
    """Allocation requests of a worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def granted(self, freed_by: int) -> None:
        self._worker.space_granted(freed_by)


class Server(Worker):
    """Executes one instruction of a unit's queue at a time, on all members that take part."""

    def __init__(self, running: Running, name: str, queue: deque[int], line: int) -> None:
        super().__init__(running, name, queue, line)
        self._at_work = 0

    def waited_ps(self) -> int:
        return (self.clock.now_ps - self.waiting_since_ps) * self.running.bound_demands[self.position].members

    def begin(self) -> bool:
        running, position = self.running, self.position
        bound, bandwidth = running.bound_demands[position], running.bandwidth
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
