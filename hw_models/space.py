"""Space in memories, taken by the buffers of instructions and given back.

Whatever ends in an instant first gives its space back; then wishes are granted in the order in which they
came, those of the same instant in the program's order. A wish that does not fit lets nobody pass.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hw_models.clock import Clock

Granted = Callable[[int], object]
"""Called with the position of the instruction that gave back what was missing, as far as anything was."""


@dataclass(slots=True)
class _Request:
    """What one instruction waits for: as many wishes as are missing."""

    granted: Granted
    missing: int = 0


class Wish(NamedTuple):
    """Bytes that the instruction at ``position`` needs for ``buffer``."""

    position: int
    buffer: int
    size_bytes: int
    request: _Request


@dataclass(slots=True)
class Space:
    """The space of one memory."""

    name: str
    capacity_bytes: int
    used_bytes: int = 0
    freed_by: int = -1
    """The instruction that gave back space last."""
    held_bytes: dict[int, int] = field(default_factory=dict)
    """By buffer."""
    history: list[tuple[int, int]] = field(default_factory=list)
    """Times at which ``used_bytes`` changed, and to what."""
    was_short: bool = False
    """Whether any wish has not been fulfilled at once."""
    new: list[Wish] = field(default_factory=list)
    waiting: deque[Wish] = field(default_factory=deque)

    def grant(self) -> list[Wish]:
        """Take the space of every wish whose turn it is and that fits; return these."""
        waiting, granted = self.waiting, []
        if self.new:
            self.new.sort()
            waiting.extend(self.new)
            self.new.clear()
        while waiting and self.used_bytes + waiting[0].size_bytes <= self.capacity_bytes:
            wish = waiting.popleft()
            self.used_bytes += wish.size_bytes
            self.held_bytes[wish.buffer] = wish.size_bytes
            granted.append(wish)
        if waiting:
            self.was_short = True
        return granted

    def note(self, now_ps: int) -> None:
        """Record what is used at the end of an instant, if it changed."""
        history = self.history
        if history and history[-1][0] == now_ps:
            history.pop()
        if self.used_bytes != (history[-1][1] if history else 0):
            history.append((now_ps, self.used_bytes))

    @property
    def peak_bytes(self) -> int:
        return max((used for _, used in self.history), default=0)


class SharedSpace:
    """The space of all memories of a machine; ``ports`` are their positions in ``spaces``."""

    def __init__(self, clock: Clock, spaces: list[Space]) -> None:
        self._clock = clock
        self.spaces = spaces
        self._changed: dict[int, None] = {}
        self._ports: dict[int, list[int]] = {}

    def ask(self, position: int, wishes: Iterable[tuple[int, int, int]], granted: Granted) -> None:
        """Call ``granted`` when all ``wishes`` of an instruction, (buffer, port, bytes), are fulfilled."""
        request, changed = _Request(granted), self._changed
        if not changed:
            self._clock.at_end_of_instant(self._settle)
        for buffer, port, size_bytes in wishes:
            request.missing += 1
            self._ports.setdefault(buffer, []).append(port)
            self.spaces[port].new.append(Wish(position, buffer, size_bytes, request))
            changed[port] = None

    def give_back(self, buffer: int, position: int) -> None:
        """Free what ``buffer`` holds; the instruction at ``position`` ended its use."""
        for port in self._ports.pop(buffer):
            space = self.spaces[port]
            space.used_bytes -= space.held_bytes.pop(buffer)
            space.freed_by = position
            if space.waiting or space.new:
                self._settle_later(port)
            else:
                space.note(self._clock.now_ps)

    def _settle_later(self, port: int) -> None:
        if not self._changed:
            self._clock.at_end_of_instant(self._settle)
        self._changed[port] = None

    def _settle(self) -> None:
        """Grant what the changes of this instant allow."""
        changed, self._changed = self._changed, {}
        granted: list[tuple[Granted, int]] = []
        for port in changed:
            space = self.spaces[port]
            for wish in space.grant():
                wish.request.missing -= 1
                if not wish.request.missing:
                    granted.append((wish.request.granted, space.freed_by))
            space.note(self._clock.now_ps)
        for go_on, freed_by in granted:  # only now: whoever goes on may give back and ask again
            go_on(freed_by)
