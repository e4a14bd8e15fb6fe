"""Weights on their way ahead of the computation: through prefetch buffers in the global and the local buffers.

GraphTurbo (section 4.4) fetches the weights of later layers while earlier ones compute, through "a small, fixed size of
buffers". Such a buffer is used in turn: what comes in next waits for as much of the oldest as it needs room.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.dsa.lower.emit import room_for
from scheduler.errors import ScheduleError
from scheduler.fragments import FragmentWriter


@dataclass(slots=True)
class Entry:
    """Bytes in a prefetch buffer; ``user`` is the last instruction that needs them, -1 while that is not known yet."""

    size_bytes: int
    user: int = -1


class PrefetchBuffer:
    """A fixed number of bytes that versions of weights pass through, in order.

    ``in_flight`` transfers may be under way at once: what waits for room for one of them has to hold back those behind
    it as well, since they believe that the room has been made.
    """

    def __init__(self, name: str, capacity_bytes: int, in_flight: int = 1) -> None:
        self.capacity_bytes = capacity_bytes
        self._name = name
        self._entries: deque[Entry] = deque()
        self._used_bytes = 0
        self._filled: deque[tuple[tuple[int, ...], tuple[int, ...]]] = deque(maxlen=in_flight)
        """Transfers that filled the buffer last, once it has been full, and the users of what made room for them."""
        self._evicted: list[int] = []
        """Users of what made room since then."""
        self._was_full = False

    def filled_by(self, transfers: Iterable[int]) -> None:
        """Note the transfers that bring what was let in last."""
        self._filled.append((tuple(transfers) if self._was_full else (), tuple(self._evicted)))
        self._evicted = []

    def admit(self, size_bytes: int) -> tuple[Entry, list[int]]:
        """Return the entry of ``size_bytes`` that come in now, and the instructions that have to end before.

        Raises ``ScheduleError`` if what is in use leaves no room: the tiles were chosen too large.
        """
        entry = Entry(size_bytes)
        total = self._used_bytes + size_bytes
        waits: list[int] = []
        in_use: list[Entry] = []
        while total > self.capacity_bytes and self._entries:
            old = self._entries.popleft()
            if old.user < 0:
                in_use.append(old)
            else:
                total -= old.size_bytes
                waits.append(old.user)
                self._was_full = True
        if in_use:
            self._entries.extendleft(reversed(in_use))
        if total > self.capacity_bytes:
            raise ScheduleError(f"{self._name} holds {self.capacity_bytes} bytes; {total} are needed at once")
        self._entries.append(entry)
        self._used_bytes = total
        self._evicted.extend(waits)
        is_oldest = len(self._filled) == self._filled.maxlen
        for transfers, evicted in self._filled:
            waits.extend(transfers if is_oldest else evicted)
            is_oldest = False
        return entry, waits


LOCAL, FURTHER = True, False
"""Which of the prefetch buffers."""


class PrefetchStep(NamedTuple):
    """What a layer run does with a prefetch buffer: it lets something in, states who uses that, or who brings it."""

    is_local: bool
    entry: int = -1
    """Whose user is stated."""
    size_bytes: int = -1
    """Of what is let in."""
    positions: tuple[int, ...] = ()
    """The user, or the transfers that bring what was let in last."""


class PrefetchUse:
    """Notes what one layer run does with the prefetch buffers; what is in them then, is known where it is placed."""

    def __init__(self, writer: FragmentWriter, global_bytes: int) -> None:
        self.global_bytes = global_bytes
        """Of the global prefetch buffer."""
        self.steps: list[PrefetchStep] = []
        self._writer = writer
        self._admitted: list[bool] = []

    def admit(self, is_local: bool, size_bytes: int) -> tuple[int, int]:
        """Return the number of what comes in now, and what stands for the instructions that have to end before."""
        entry = len(self._admitted)
        self._admitted.append(is_local)
        self.steps.append(PrefetchStep(is_local, size_bytes=size_bytes))
        return entry, self._writer.outside(room_for(entry))

    def used_by(self, entry: int, position: int) -> None:
        """Note the last instruction that needs what came in."""
        self.steps.append(PrefetchStep(self._admitted[entry], entry, positions=(position,)))

    def filled_by(self, is_local: bool, transfers: Iterable[int]) -> None:
        """Note the transfers that bring what was let in last."""
        self.steps.append(PrefetchStep(is_local, positions=tuple(transfers)))


@dataclass(slots=True)
class Prefetch:
    """The prefetch buffers of one program, and the launch of the kernel that is being written."""

    local: PrefetchBuffer
    further: PrefetchBuffer
    """In the global buffer."""
    launch: int = -1

    def go_through(self, steps: Sequence[PrefetchStep], first: int) -> list[list[int]]:
        """Do what a run does with the buffers, whose first instruction is at ``first``.

        Return for each of its admissions what has to end before. Raises what `PrefetchBuffer.admit` does.
        """
        entries: list[Entry] = []
        rooms: list[list[int]] = []
        for is_local, entry, size_bytes, positions in steps:
            buffer = self.local if is_local else self.further
            if size_bytes >= 0:
                admitted, room = buffer.admit(size_bytes)
                entries.append(admitted)
                rooms.append(room)
            elif entry >= 0:
                entries[entry].user = first + positions[0]
            else:
                buffer.filled_by([first + position for position in positions])
        return rooms


@dataclass(slots=True)
class Burst:
    """What one DMA transfer brings of one operand: some versions in a row."""

    load: int
    buffer: int
    entry: int
    left: int
    """Versions of it that have not been passed on yet."""


@dataclass(slots=True)
class PrefetchedOperand:
    """One operand that is fetched ahead: its current version in the local buffers, its current burst."""

    versions_left: int
    bytes_left: int
    """For all cores together, in DDR."""
    entry: int = -1
    burst: Burst | None = None

    def take(self, size_bytes: int, versions: int) -> int:
        """Return the bytes of DDR for ``versions`` of ``size_bytes`` together; the last ones get what is left."""
        size_bytes = self.bytes_left if versions == self.versions_left else min(size_bytes, self.bytes_left)
        self.versions_left -= versions
        self.bytes_left -= size_bytes
        return max(size_bytes, 1)
