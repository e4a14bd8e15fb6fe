"""Pipelined servers: the start-up of an instruction overlaps with the payloads of earlier ones.

A DMA engine with several outstanding descriptors works so: the latency of a transfer is hidden behind the data of
earlier transfers.
"""

from collections import deque

from dsascape.hw_models.simulation.bandwidth import Flow
from dsascape.hw_models.simulation.instructions import base_name
from dsascape.hw_models.simulation.running import Running
from dsascape.hw_models.simulation.units import Worker


class PipelinedServer(Worker):
    """Executes a unit's bound work on ``servers`` channels, with up to ``in_flight`` instructions issued per channel.

    Instructions are issued, and get channels, in the order of the queue; where channels want more bandwidth than there
    is, the older instruction goes first. An instruction holds its channel from the
    moment that one is free for it (even during the rest of its start-up) to its end.
    """

    def __init__(self, running: Running, name: str, queue: deque[int], line: int) -> None:
        super().__init__(running, name, queue, line)
        unit = running.machine.units[base_name(name)]
        self._most_issued = unit.servers * unit.in_flight
        self._issued = 0
        self._is_full = False
        self._backlog: deque[int] = deque()
        """Issued instructions that wait for a channel."""
        self._free_since_ps = [0] * unit.servers
        """Per free channel, the time since which it has been free."""
        self._at_work: dict[int, int] = {}
        """Groups of members that have not finished, by instruction that holds a channel."""

    def waited_ps(self) -> int:
        now_ps = self.clock.now_ps
        idle_ps = sum([now_ps - max(self.waiting_since_ps, since_ps) for since_ps in self._free_since_ps])
        return idle_ps * self.running.bound_demands[self.position].members

    def begin(self) -> bool:
        self.running.issue(self.position)
        self._issued += 1
        self.freed_by = self.cause
        if self._free_since_ps:
            self._free_since_ps.pop(0)
            self._serve(self.position, self.cause)
        else:
            self._backlog.append(self.position)
        self._is_full = self._issued == self._most_issued
        return not self._is_full

    def _serve(self, position: int, cause: int) -> None:
        """Give an instruction a channel; its payload runs when the start-up is over."""
        running = self.running
        bound = running.bound_demands[position]
        left_ps = bound.startup_ps - running.since_issue_ps(position)
        left_ps = left_ps if left_ps > 0 else 0
        running.start(position, cause, left_ps)
        self._at_work[position] = len(bound.parts)
        for demand in bound.parts:
            self.clock.after(left_ps, Flow(running.bandwidth, demand, self, position), 0)

    def moved(self, flow: Flow, limit: str) -> None:
        """Note that a group of equivalent members is done; the last group frees the channel for the next one."""
        running, position = self.running, flow.position
        self.busy_ps += (self.clock.now_ps - running.start_ps[position]) * flow.demand.members
        left = self._at_work[position] = self._at_work[position] - 1
        if left:
            return
        del self._at_work[position]
        self._issued -= 1
        running.finish(position, limit)
        if self._backlog:
            self._serve(self._backlog.popleft(), position)
        else:
            self._free_since_ps.append(self.clock.now_ps)
        if self._is_full:
            self._is_full = False
            self.freed_by = position
            self.take()
