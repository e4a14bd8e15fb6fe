"""Pipelined servers: start-ups pass while the payloads of earlier instructions are served.

A DMA engine with several descriptors outstanding does so: the latency of a transfer overlaps with the data of those
before it.
"""

from collections import deque
from dataclasses import dataclass
from functools import partial

from hw_models.demands import Bound, Demand
from hw_models.instructions import base_name
from hw_models.running import Running
from hw_models.trace import STARTED_BY_NOBODY
from hw_models.units import Worker


@dataclass(slots=True)
class _Issued:
    """An instruction that has its inputs and its buffers and whose start-up is passing or over."""

    position: int
    cause: int
    asked: Bound
    ready_ps: int
    """When its start-up is over."""
    at_work: int = 0
    """Kinds of members that have not ended."""


class PipelinedServer(Worker):
    """Serves a unit's bound work on ``servers`` channels, with ``in_flight`` instructions issued for each of them.

    Instructions are issued in the order of the queue and get the channels in that order: an instruction has a channel
    from the moment that one is free for it, even while the rest of its start-up passes, to its end.
    """

    def __init__(self, running: Running, name: str, queue: deque[int]) -> None:
        super().__init__(running, name, queue)
        unit = running.machine.units[base_name(name)]
        self._most_issued = unit.servers * unit.in_flight
        self._issued = 0
        self._is_full = False
        self._backlog: deque[_Issued] = deque()
        """Issued instructions for which no channel has been free yet."""
        self._free_since_ps = [0] * unit.servers
        """Of every free channel: since when."""
        self._taken_by = STARTED_BY_NOBODY
        """Whose end let the next instruction be taken from the queue."""
        self._asked: Bound

    def previous(self) -> int:
        return self._taken_by

    def look_up(self) -> None:
        self._asked = self.running.asked(self.position)

    def waited_ps(self) -> int:
        now_ps = self.running.clock.now_ps
        idle_ps = sum([now_ps - max(self.asked_ps, since_ps) for since_ps in self._free_since_ps])
        return idle_ps * self._asked.members

    def begin(self) -> bool:
        ready_ps = self.running.clock.now_ps + self._asked.startup_ps
        issued = _Issued(self.position, self.cause, self._asked, ready_ps)
        self.running.issue(self.position)
        self._issued += 1
        self._taken_by = self.cause
        if self._free_since_ps:
            self._free_since_ps.pop(0)
            self._serve(issued, issued.cause)
        else:
            self._backlog.append(issued)
        self._is_full = self._issued == self._most_issued
        return not self._is_full

    def _serve(self, issued: _Issued, cause: int) -> None:
        """Give an instruction a channel: it goes on when its start-up is over."""
        running = self.running
        left_ps = max(issued.ready_ps - running.clock.now_ps, 0)
        running.start(issued.position, cause, left_ps)
        issued.at_work = len(issued.asked.parts)
        running.clock.after(left_ps, partial(self._flow, issued))

    def _flow(self, issued: _Issued) -> None:
        for demand in issued.asked.parts:
            if demand.moves:
                self.running.flow(demand, partial(self._done, issued, demand))
            else:
                self._done(issued, demand, demand.limit)

    def _done(self, issued: _Issued, demand: Demand, limit: str) -> None:
        """Note that alike members have done their part; with the last of them the channel is free for the next."""
        running = self.running
        running.busy_ps[self.kind] += running.since_start_ps(issued.position) * demand.members
        issued.at_work -= 1
        if issued.at_work:
            return
        self._issued -= 1
        running.finish(issued.position, limit)
        if self._backlog:
            self._serve(self._backlog.popleft(), issued.position)
        else:
            self._free_since_ps.append(running.clock.now_ps)
        if self._is_full:
            self._is_full = False
            self._taken_by = issued.position
            self.take()
