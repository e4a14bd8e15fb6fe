"""Workers take the instructions of a unit's queue; servers do its bound work one at a time.

Workers are driven by callbacks: they go on until they have to wait, and are called when that has come.
"""

from abc import ABC, abstractmethod
from collections import deque
from functools import partial

from hw_models.demands import Bound, Demand
from hw_models.instructions import base_name
from hw_models.running import SPACE, Running
from hw_models.trace import STARTED_BY_NOBODY


class Worker(ABC):
    """What all workers share: taking instructions in order, waiting for inputs and for space."""

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        self.running = running
        self._queue = queue
        self.kind = base_name(name)
        self.position = STARTED_BY_NOBODY
        self.cause = STARTED_BY_NOBODY
        self.asked_ps = 0

    def take(self) -> None:
        """Take instructions from the queue until one has to wait or runs."""
        running = self.running
        while self._queue:
            self.position = self._queue.popleft()
            self.asked_ps = running.clock.now_ps
            self.cause = self.previous()
            self.look_up()
            if not running.ready(self.position, self._inputs_there) or not self._with_inputs():
                return

    @abstractmethod
    def look_up(self) -> None:
        """Find out what the instruction just taken needs."""

    @abstractmethod
    def previous(self) -> int:
        """Return the instruction whose end lets the worker take another one."""

    @abstractmethod
    def waited_ps(self) -> int:
        """Return how long members had nothing to do since the worker asked for something, all of them together."""

    @abstractmethod
    def begin(self) -> bool:
        """Begin the instruction, which has all that it needs; return whether the next one may be taken at once."""

    def _inputs_there(self) -> None:
        running = self.running
        cause = self.cause = running.released_by(self.position)
        running.note_wait(self.kind, running.unit(cause), self.waited_ps())
        if self._with_inputs():
            self.take()

    def _with_inputs(self) -> bool:
        if not self.running.table.allocates[self.position]:
            return self.begin()
        self.asked_ps = self.running.clock.now_ps
        self.running.ask_space(self.position, self._space_there)
        return False

    def _space_there(self, freed_by: int) -> None:
        running = self.running
        if running.clock.now_ps > self.asked_ps:
            self.cause = freed_by
            running.note_wait(self.kind, SPACE, self.waited_ps())
        if self.begin():
            self.take()


class Server(Worker):
    """Serves one instruction of a unit's queue at a time, on all members that take part."""

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        super().__init__(running, name, queue)
        self._asked: Bound
        self._last = STARTED_BY_NOBODY
        self._at_work = 0

    def previous(self) -> int:
        return self._last

    def waited_ps(self) -> int:
        return (self.running.clock.now_ps - self.asked_ps) * self._asked.members

    def look_up(self) -> None:
        self._asked = self.running.asked(self.position)

    def begin(self) -> bool:
        running, asked = self.running, self._asked
        running.start(self.position, self.cause, asked.startup_ps)
        self._at_work = len(asked.parts)
        for demand in asked.parts:
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
        self.running.flow(demand, partial(self._go_on, demand))

    def _go_on(self, demand: Demand, limit: str) -> None:
        self._done(demand, limit)
        if not self._at_work:
            self.take()

    def _done(self, demand: Demand, limit: str) -> None:
        """Note that alike members have done their part; the instruction ends with the last of them."""
        running = self.running
        running.busy_ps[self.kind] += running.since_start_ps(self.position) * demand.members
        self._at_work -= 1
        if not self._at_work:
            self._last = self.position
            running.finish(self.position, limit)
