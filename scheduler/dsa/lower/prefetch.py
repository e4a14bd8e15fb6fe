"""Weights on their way ahead of the computation: through prefetch buffers in the global and the local buffers.

GraphTurbo (section 4.4) fetches the weights of later layers while earlier ones compute, through "a small, fixed size of
buffers". Such a buffer is used in turn: what comes in next waits for as much of the oldest as it needs room.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.dsa.lower.emit import room_for
from scheduler.errors import ScheduleError
from scheduler.fragments import FragmentWriter


class Admission(NamedTuple):
    """What a layer run lets into a prefetch buffer."""

    size_bytes: int
    user: int
    """The last instruction that needs it."""
    stated_before: int
    """Which of the run's admissions to this buffer is the first that may take its place, once it has been used."""


class Filling(NamedTuple):
    """What comes in together, and the transfers that bring it."""

    admissions: tuple[Admission, ...]
    transfers: tuple[int, ...]


_NONE: list[int] = []
_NOT_STATED = 1 << 60
"""More admissions than any program has."""


class PrefetchBuffer:
    """A fixed number of bytes that versions of weights pass through, in order.

    ``in_flight`` transfers may be under way at once: what waits for room for one of them has to hold back those behind
    it as well, since they believe that the room has been made.
    """

    def __init__(self, name: str, capacity_bytes: int, in_flight: int = 1) -> None:
        self._capacity_bytes = capacity_bytes
        self._name = name
        self._entries: deque[tuple[int, int, int]] = deque()
        """What is in it, the oldest first: see `Admission`, but for the numbers, which are the program's."""
        self._used_bytes = 0
        self._admitted = 0
        self._filled: deque[tuple[list[int], list[int]]] = deque(maxlen=in_flight)
        """Transfers that filled the buffer last, once it has been full, and the users of what made room for them."""
        self._was_full = False

    def pass_through(self, fillings: Iterable[Filling], first: int) -> list[list[int]]:
        """Let in what a run does, whose first instruction is at ``first``.

        Return for each of its admissions the instructions that have to end before. Raises ``ScheduleError`` if what is
        in use leaves no room: the tiles were chosen too large.
        """
        entries, capacity_bytes, used_bytes = self._entries, self._capacity_bytes, self._used_bytes
        begun = admitted = self._admitted
        found: list[list[int]] = []
        for admissions, transfers in fillings:
            behind = self._behind()
            evicted: list[int] = []
            for size_bytes, user, stated_before in admissions:
                used_bytes += size_bytes
                waits = behind
                if used_bytes > capacity_bytes:
                    made_room, used_bytes = self._make_room(used_bytes, admitted)
                    evicted += made_room
                    waits = made_room + behind
                found.append(waits)
                admitted += 1
                entries.append((size_bytes, first + user, begun + stated_before))
            if evicted:
                self._was_full = True
            brought_by = [first + transfer for transfer in transfers] if self._was_full else _NONE
            self._filled.append((brought_by, evicted))
        self._used_bytes, self._admitted = used_bytes, admitted
        return found

    def _behind(self) -> list[int]:
        """Return what waits for room already, or what has to: nothing passes that."""
        if not self._was_full:
            return _NONE
        if self._filled.maxlen == 1:
            return self._filled[0][0]
        found: list[int] = []
        is_oldest = len(self._filled) == self._filled.maxlen
        for transfers, evicted in self._filled:
            found += transfers if is_oldest else evicted
            is_oldest = False
        return found

    def _make_room(self, used_bytes: int, admitted: int) -> tuple[list[int], int]:
        """Take away the oldest that nobody needs any more until all has room.

        ``used_bytes``: with what is to come in, ``admitted`` others have come in before it. Return who needed what was
        taken away last, and what is used now.
        """
        entries, capacity_bytes = self._entries, self._capacity_bytes
        found: list[int] = []
        in_use: list[tuple[int, int, int]] = []
        while used_bytes > capacity_bytes and entries:
            old = entries.popleft()
            size_bytes, user, stated_before = old
            if stated_before > admitted:
                in_use.append(old)
            else:
                used_bytes -= size_bytes
                found.append(user)
        if in_use:
            entries.extendleft(reversed(in_use))
        if used_bytes > capacity_bytes:
            raise ScheduleError(f"{self._name} holds {capacity_bytes} bytes; {used_bytes} are needed at once")
        return found, used_bytes


LOCAL, FURTHER = 1, 0
"""Which of the prefetch buffers."""


@dataclass(slots=True)
class _Passing:
    """What one layer run lets into one of the buffers."""

    sizes: list[int] = field(default_factory=list)
    """By admission, as the next two."""
    users: list[int] = field(default_factory=list)
    stated_before: list[int] = field(default_factory=list)
    filled: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """By filling: how many admissions there were until then, and the transfers."""

    def fillings(self) -> tuple[Filling, ...]:
        """Return it for whoever knows what is in the buffer when the run begins."""
        assert not self.sizes or self.filled[-1][0] == len(self.sizes), "something comes in that nobody brings"
        admissions = list(map(Admission, self.sizes, self.users, self.stated_before))
        begins = [0, *[end for end, _ in self.filled]]
        each = zip(begins, self.filled, strict=False)
        return tuple([Filling(tuple(admissions[begin:end]), transfers) for begin, (end, transfers) in each])


class PrefetchUse:
    """Notes what one layer run does with the prefetch buffers; what is in them then, is known where it is placed."""

    def __init__(self, writer: FragmentWriter) -> None:
        self._writer = writer
        self._passing = _Passing(), _Passing()
        """By buffer."""

    def admit(self, buffer: int, size_bytes: int) -> tuple[int, int]:
        """Return the number of what comes in now, and what stands for the instructions that have to end before."""
        passing = self._passing[buffer]
        entry = len(passing.sizes)
        passing.sizes.append(size_bytes)
        passing.users.append(-1)
        passing.stated_before.append(_NOT_STATED)
        return entry, self._writer.outside(room_for(buffer, entry))

    def used_by(self, buffer: int, entry: int, position: int) -> None:
        """Note the last instruction that needs what came in."""
        passing = self._passing[buffer]
        passing.users[entry] = position
        passing.stated_before[entry] = len(passing.sizes)

    def filled_by(self, buffer: int, transfers: Iterable[int]) -> None:
        """Note the transfers that bring what was let in last."""
        passing = self._passing[buffer]
        passing.filled.append((len(passing.sizes), tuple(transfers)))

    def fillings(self) -> tuple[tuple[Filling, ...], ...]:
        """Return what has been noted, by buffer."""
        return tuple([passing.fillings() for passing in self._passing])


@dataclass(slots=True)
class Prefetch:
    """The prefetch buffers of one program, and the launch of the kernel that is being written."""

    local: PrefetchBuffer
    further: PrefetchBuffer
    """In the global buffer."""
    launch: int = -1

    def pass_through(self, fillings: Sequence[Sequence[Filling]], first: int) -> Sequence[Sequence[Sequence[int]]]:
        """Let a run pass through the buffers: see `PrefetchBuffer.pass_through`. Return what that does, by buffer."""
        rooms = self.local.pass_through(fillings[LOCAL], first)
        return self.further.pass_through(fillings[FURTHER], first), rooms


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
