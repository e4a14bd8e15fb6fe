"""Buffers of a fixed size that weights on their way pass through in turn: what has to end before each of them comes in.

What one layer run lets in is noted where its instructions are written. What is in a buffer then, and has to leave it,
is known where they are placed.
"""

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from dsascape.hw_models.in_c import is_built, may_use
from dsascape.hw_models.simulation.columns import Column, Rows, column
from dsascape.scheduler.errors import ScheduleError

if is_built("dsascape.scheduler.in_c.columns"):
    from dsascape.scheduler.in_c import columns

IN_USE = 1 << 30
"""Stated where nobody has said yet who needs it last: more admissions than any program has."""


@dataclass(frozen=True, slots=True, eq=False)
class Passing:
    """What one layer run lets into a buffer, in turn; instructions are numbered within the run."""

    sizes_bytes: Column = field(default_factory=lambda: array("q"))
    """By admission, as the next two. 64 bits."""
    users: Column = field(default_factory=column)
    """The last instruction that needs it."""
    stated_before: Column = field(default_factory=column)
    """Which admission of the run is the first that may take its place, once it has been used."""
    filled: Column = field(default_factory=column)
    """By filling, which is what comes in together: how many admissions there are until then."""
    transfers: Rows = field(default_factory=Rows)
    """By filling: what brings it."""

    def admit(self, size_bytes: int) -> int:
        """Note that so much comes in now; return its number."""
        self.sizes_bytes.append(size_bytes)
        self.users.append(-1)
        self.stated_before.append(IN_USE)
        return len(self.users) - 1

    def used_by(self, entry: int, position: int) -> None:
        """Note the last instruction that needs what came in as number ``entry``: it may leave from now on."""
        self.users[entry] = position
        self.stated_before[entry] = len(self.users)

    def filled_by(self, transfers: Sequence[int]) -> None:
        """Note the transfers that bring what was let in last."""
        self.filled.append(len(self.users))
        self.transfers.append(transfers)

    def moved(self, moved: Callable[[Column], Column]) -> "Passing":
        """Return the same where instructions have ``moved``."""
        transfers = Rows(self.transfers.first, moved(self.transfers.items))
        return Passing(self.sizes_bytes, moved(self.users), self.stated_before, self.filled, transfers)


class _Entry(NamedTuple):
    """What is in a buffer: see `Passing`, but for the numbers, which are the program's."""

    size_bytes: int
    user: int
    stated_before: int


class _Filling(NamedTuple):
    """What came in together."""

    transfers: list[int]
    """That brought it; none where the buffer had not been full until then."""
    evicted: list[int]
    """The users of what made room for it."""


class PrefetchBuffer:
    """A fixed number of bytes that versions of weights pass through, in order.

    ``in_flight`` transfers may be under way at once: what waits for room for one of them has to hold back those behind
    it as well, since they believe that the room has been made.
    """

    def __init__(self, name: str, capacity_bytes: int, in_flight: int = 1) -> None:
        self._capacity_bytes = capacity_bytes
        self._name = name
        self._entries: deque[_Entry] = deque()
        """The oldest first."""
        self._used_bytes = 0
        self._admitted = 0
        self._filled: deque[_Filling] = deque(maxlen=in_flight)
        """The last ones."""
        self._was_full = False

    def pass_through(self, passing: Passing, first: int) -> Rows:
        """Let in what a run does, whose first instruction is at ``first``.

        Return for each of its admissions the instructions that have to end before. Raises ``ScheduleError`` if what is
        in use leaves no room: the tiles were chosen too large.
        """
        found, begun, begin = Rows(), self._admitted, 0
        for end, transfers in zip(passing.filled, passing.transfers, strict=True):
            behind = self._behind()
            evicted: list[int] = []
            for number in range(begin, end):
                self._used_bytes += passing.sizes_bytes[number]
                made_room = self._make_room()
                evicted += made_room
                found.append(made_room + behind)
                self._admitted += 1
                user, stated_before = first + passing.users[number], begun + passing.stated_before[number]
                self._entries.append(_Entry(passing.sizes_bytes[number], user, stated_before))
            self._was_full = self._was_full or bool(evicted)
            brought_by = [first + transfer for transfer in transfers] if self._was_full else []
            self._filled.append(_Filling(brought_by, evicted))
            begin = end
        return found

    def _behind(self) -> list[int]:
        """Return what waits for room already, or what has to: nothing passes that."""
        if not self._was_full:
            return []
        found: list[int] = []
        is_oldest = len(self._filled) == self._filled.maxlen
        for filling in self._filled:
            found += filling.transfers if is_oldest else filling.evicted
            is_oldest = False
        return found

    def _make_room(self) -> list[int]:
        """Take away the oldest that nobody needs any more until all has room; return who needed that last."""
        found: list[int] = []
        in_use: list[_Entry] = []
        while self._used_bytes > self._capacity_bytes and self._entries:
            old = self._entries.popleft()
            if old.stated_before > self._admitted:
                in_use.append(old)
            else:
                self._used_bytes -= old.size_bytes
                found.append(old.user)
        self._entries.extendleft(reversed(in_use))
        if self._used_bytes > self._capacity_bytes:
            raise _shortage(self._name, self._capacity_bytes, str(self._used_bytes))
        return found


class _InC(PrefetchBuffer):
    """Does the same by compiled code."""

    def __init__(self, name: str, capacity_bytes: int, in_flight: int) -> None:
        super().__init__(name, capacity_bytes, in_flight)
        self._compiled = columns.PrefetchBuffer(capacity_bytes, in_flight)

    def pass_through(self, passing: Passing, first: int) -> Rows:
        if not passing.filled:
            return Rows()
        admissions = passing.sizes_bytes, passing.users, passing.stated_before
        try:
            return Rows(*self._compiled.pass_through(*admissions, passing.filled, *passing.transfers.pair, first))
        except BufferError as error:
            raise _shortage(self._name, self._capacity_bytes, str(error)) from None


def prefetch_buffer(name: str, capacity_bytes: int, in_flight: int = 1) -> PrefetchBuffer:
    """Return an empty buffer: one of compiled code, where that may be used."""
    if may_use("dsascape.scheduler.in_c.columns"):
        with suppress(OverflowError):  # more in flight than compiled code has room for
            return _InC(name, capacity_bytes, in_flight)
    return PrefetchBuffer(name, capacity_bytes, in_flight)


def _shortage(name: str, capacity_bytes: int, needed_bytes: str) -> ScheduleError:
    return ScheduleError(f"{name} holds {capacity_bytes} bytes; {needed_bytes} are needed at once")
