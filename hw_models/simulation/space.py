"""Space in memories: allocation and release of instructions' buffers.

All releases of a timestamp come before its allocations. Requests are granted first in, first out, those of the same
timestamp in program order; one that does not fit blocks those behind it.
"""

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from itertools import chain

from dsascape.hw_models.simulation.clock import Clock, EventHandler
from dsascape.hw_models.simulation.demands import PortBuffer


class Requester(ABC):
    """Requester of buffer space, for one instruction at a time."""

    missing: int = 0
    """Number of allocation requests that have not been granted."""

    @abstractmethod
    def granted(self, freed_by: int) -> None:
        """Continue: all requests are granted; if one had to wait, the instruction at ``freed_by`` freed the space."""


AllocationRequest = tuple[int, int, int, Requester]
"""Allocation request: position of the instruction, buffer, bytes, requester."""


@dataclass(slots=True)
class Space:
    """Space of one memory: capacity, use, and the queue of allocation requests."""

    name: str
    capacity_bytes: int
    used_bytes: int = 0
    freed_by: int = -1
    """Instruction that freed space last; -1 for none."""
    history: dict[int, int] = field(default_factory=dict)
    """``used_bytes`` from each time on at which it may have changed."""
    was_short: bool = False
    """Whether any request has had to wait."""
    new: list[AllocationRequest] = field(default_factory=list)
    """Requests of the current timestamp."""
    waiting: deque[AllocationRequest] = field(default_factory=deque)
    """Requests that wait, first in, first out."""

    def grant(self, granted: list[tuple[Requester, int]]) -> None:
        """Grant requests in order until one does not fit; add those that now have all their space to ``granted``."""
        waiting, new = self.waiting, self.new
        if new:
            if len(new) > 1:
                new.sort()
            waiting.extend(new)
            new.clear()
        used_bytes, capacity_bytes = self.used_bytes, self.capacity_bytes
        while waiting:
            used_by_all = used_bytes + waiting[0][2]
            if used_by_all > capacity_bytes:
                self.was_short = True
                break
            used_bytes = used_by_all
            requester = waiting.popleft()[3]
            requester.missing -= 1
            if not requester.missing:
                granted.append((requester, self.freed_by))
        self.used_bytes = used_bytes

    def changes(self) -> dict[int, int]:
        """Return the new value of ``used_bytes`` by the time at which it changed."""
        history = self.history
        each = zip(history.items(), chain((0,), history.values()), strict=False)
        return {time_ps: used_bytes for (time_ps, used_bytes), before_bytes in each if used_bytes != before_bytes}

    @property
    def peak_bytes(self) -> int:
        """Peak occupancy."""
        return max(self.history.values(), default=0)


class SharedSpace(EventHandler):
    """Space of all memories of a machine; a port is a memory's index in ``spaces``."""

    def __init__(self, clock: Clock, spaces: list[Space]) -> None:
        self._clock = clock
        self.spaces = spaces
        self._changed: dict[int, None] = {}
        """Ports whose requests are granted at the end of this timestamp."""
        self._requests: dict[int, list[PortBuffer]] = {}
        """Space per port by buffer, from its request until it is freed."""

    def request(self, requester: Requester, position: int, buffer: int, parts: list[PortBuffer]) -> None:
        """Request space for a buffer of the instruction at ``position``; ``parts`` gives the bytes per port."""
        self._requests[buffer] = parts
        changed = self._changed
        if not changed:
            self._clock.at_end_of_instant(self)
        for port, size_bytes in parts:
            requester.missing += 1
            self.spaces[port].new.append((position, buffer, size_bytes, requester))
            changed[port] = None

    def release(self, buffer: int, position: int) -> None:
        """Free the space of ``buffer``, which the instruction at ``position`` was the last to use."""
        for port, size_bytes in self._requests.pop(buffer):
            space = self.spaces[port]
            space.used_bytes -= size_bytes
            space.freed_by = position
            if space.waiting or space.new:
                self._settle_later(port)
            else:
                space.history[self._clock.now_ps] = space.used_bytes

    def _settle_later(self, port: int) -> None:
        changed = self._changed
        if not changed:
            self._clock.at_end_of_instant(self)
        changed[port] = None

    def handle(self, number: int) -> None:
        """Grant the requests that fit after all changes of this timestamp."""
        changed, self._changed = self._changed, {}
        granted: list[tuple[Requester, int]] = []
        for port in changed:
            space = self.spaces[port]
            space.grant(granted)
            space.history[self._clock.now_ps] = space.used_bytes
        for requester, freed_by in granted:  # only now: a requester that continues may free and request space
            requester.granted(freed_by)

    def holders(self, port: int) -> list[int]:
        """Return the buffers that hold space in a memory, sorted."""
        without = {buffer for _, buffer, _, _ in self.spaces[port].waiting}
        requested = [buffer for buffer, parts in self._requests.items() if port in dict(parts)]
        return sorted(buffer for buffer in requested if buffer not in without)
