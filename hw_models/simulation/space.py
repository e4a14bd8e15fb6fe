"""Space in memories, taken by the buffers of instructions and given back.

Whatever ends in an instant first gives its space back; then wishes are granted in the order in which they
came, those of the same instant in the program's order. A wish that does not fit lets nobody pass.
"""

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from itertools import chain

from dsascape.hw_models.simulation.clock import Actor, Clock
from dsascape.hw_models.simulation.demands import PortBuffer


class Asker(ABC):
    """Who asks for the space of an instruction's buffers, one instruction at a time."""

    missing: int = 0
    """Wishes that have not been granted."""

    @abstractmethod
    def granted(self, freed_by: int) -> None:
        """Go on: all is granted; if anything was short, the instruction at ``freed_by`` has given it back."""


Wish = tuple[int, int, int, Asker]
"""The position of an instruction, one of its buffers, the bytes that this needs, and who asks."""


@dataclass(slots=True)
class Space:
    """The space of one memory."""

    name: str
    capacity_bytes: int
    used_bytes: int = 0
    freed_by: int = -1
    """The instruction that gave back space last."""
    history: dict[int, int] = field(default_factory=dict)
    """By the time at which it may have changed: ``used_bytes`` from then on."""
    was_short: bool = False
    """Whether any wish has not been fulfilled at once."""
    new: list[Wish] = field(default_factory=list)
    waiting: deque[Wish] = field(default_factory=deque)

    def grant(self, granted: list[tuple[Asker, int]]) -> None:
        """Take the space of every wish whose turn it is and that fits; add who has all that it asked for now."""
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
            asker = waiting.popleft()[3]
            asker.missing -= 1
            if not asker.missing:
                granted.append((asker, self.freed_by))
        self.used_bytes = used_bytes

    def changes(self) -> dict[int, int]:
        """Return the times at which ``used_bytes`` changed, and to what."""
        history = self.history
        each = zip(history.items(), chain((0,), history.values()), strict=False)
        return {time_ps: used_bytes for (time_ps, used_bytes), before_bytes in each if used_bytes != before_bytes}

    @property
    def peak_bytes(self) -> int:
        return max(self.history.values(), default=0)


class SharedSpace(Actor):
    """The space of all memories of a machine; ports are their positions in ``spaces``."""

    def __init__(self, clock: Clock, spaces: list[Space]) -> None:
        self._clock = clock
        self.spaces = spaces
        self._changed: dict[int, None] = {}
        """Ports that are settled at the end of this instant."""
        self._asked: dict[int, list[PortBuffer]] = {}
        """By buffer: what has been asked for it, until it is given back."""

    def ask(self, asker: Asker, position: int, buffer: int, parts: list[PortBuffer]) -> None:
        """Ask for the space of a buffer of the instruction at ``position``."""
        self._asked[buffer] = parts
        changed = self._changed
        if not changed:
            self._clock.at_end_of_instant(self)
        for port, size_bytes in parts:
            asker.missing += 1
            self.spaces[port].new.append((position, buffer, size_bytes, asker))
            changed[port] = None

    def give_back(self, buffer: int, position: int) -> None:
        """Free what ``buffer`` holds; the instruction at ``position`` ended its use."""
        for port, size_bytes in self._asked.pop(buffer):
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

    def happen(self, turn: int) -> None:
        """Grant what the changes of this instant allow."""
        changed, self._changed = self._changed, {}
        granted: list[tuple[Asker, int]] = []
        for port in changed:
            space = self.spaces[port]
            space.grant(granted)
            space.history[self._clock.now_ps] = space.used_bytes
        for asker, freed_by in granted:  # only now: whoever goes on may give back and ask again
            asker.granted(freed_by)

    def holders(self, port: int) -> list[int]:
        """Return the buffers that hold space of a memory, in their order."""
        without = {buffer for _, buffer, _, _ in self.spaces[port].waiting}
        asked = [buffer for buffer, parts in self._asked.items() if port in dict(parts)]
        return sorted(buffer for buffer in asked if buffer not in without)
