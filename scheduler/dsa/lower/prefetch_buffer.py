"""Prefetch buffers: rings of a fixed size for weights, with the dependencies of each admission.

Admissions of a layer run are recorded when its instructions are written. The buffer's contents at that point, and the
evictions needed, are resolved when the fragment is placed.
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
"""Value of `Passing.stated_before` for an entry whose last user is not known yet: more than any admission number."""


@dataclass(frozen=True, slots=True, eq=False)
class Passing:
    """Admissions of one layer run to a prefetch buffer, in order; instructions are numbered within the run."""

    sizes_bytes: Column = field(default_factory=lambda: array("q"))
    """Bytes of each admission (64-bit)."""
    users: Column = field(default_factory=column)
    """Last user of each admission (instruction position)."""
    stated_before: Column = field(default_factory=column)
    """First later admission of the run that may overwrite each one: after its last use."""
    filled: Column = field(default_factory=column)
    """Total number of admissions up to each filling; a filling is the admissions loaded together."""
    transfers: Rows = field(default_factory=Rows)
    """Transfers that load each filling."""

    def admit(self, size_bytes: int) -> int:
        """Record an admission of ``size_bytes``; return its number."""
        self.sizes_bytes.append(size_bytes)
        self.users.append(-1)
        self.stated_before.append(IN_USE)
        return len(self.users) - 1

    def used_by(self, entry: int, position: int) -> None:
        """Record the last user of admission ``entry``: it may be overwritten from now on."""
        self.users[entry] = position
        self.stated_before[entry] = len(self.users)

    def filled_by(self, transfers: Sequence[int]) -> None:
        """Record the transfers that load the latest admissions."""
        self.filled.append(len(self.users))
        self.transfers.append(transfers)

    def moved(self, moved: Callable[[Column], Column]) -> "Passing":
        """Return the admissions with instruction positions mapped by ``moved``."""
        transfers = Rows(self.transfers.first, moved(self.transfers.items))
        return Passing(self.sizes_bytes, moved(self.users), self.stated_before, self.filled, transfers)


class _Entry(NamedTuple):
    """Entry in a buffer: fields as in `Passing`, but numbered within the program."""

    size_bytes: int
    user: int
    stated_before: int


class _Filling(NamedTuple):
    """Entries loaded together."""

    transfers: list[int]
    """Transfers that loaded it; empty if the buffer had not been full until then."""
    evicted: list[int]
    """Last users of the entries evicted for it."""


class PrefetchBuffer:
    """Ring of a fixed number of bytes for versions of weights.

    Up to ``in_flight`` transfers may run at once: a transfer that waits for space must hold back the later ones as
    well, as they assume that this space has been freed.
    """

    def __init__(self, name: str, capacity_bytes: int, in_flight: int = 1) -> None:
        self._capacity_bytes = capacity_bytes
        self._name = name
        self._entries: deque[_Entry] = deque()
        """Entries in the buffer, the oldest first."""
        self._used_bytes = 0
        self._admitted = 0
        self._filled: deque[_Filling] = deque(maxlen=in_flight)
        """Latest fillings, up to ``in_flight`` of them."""
        self._was_full = False

    def pass_through(self, passing: Passing, first: int) -> Rows:
        """Admit the entries of a run whose first instruction is at ``first``.

        Return for each admission the instructions that have to end before. Raises ``ScheduleError`` if entries in use
        leave too little space, as the tiles are too large.
        """
        dependencies, begun, begin = Rows(), self._admitted, 0
        for end, transfers in zip(passing.filled, passing.transfers, strict=True):
            behind = self._behind()
            evicted: list[int] = []
            for number in range(begin, end):
                self._used_bytes += passing.sizes_bytes[number]
                made_room = self._make_room()
                evicted += made_room
                dependencies.append(made_room + behind)
                self._admitted += 1
                user, stated_before = first + passing.users[number], begun + passing.stated_before[number]
                self._entries.append(_Entry(passing.sizes_bytes[number], user, stated_before))
            self._was_full = self._was_full or bool(evicted)
            brought_by = [first + transfer for transfer in transfers] if self._was_full else []
            self._filled.append(_Filling(brought_by, evicted))
            begin = end
        return dependencies

    def _behind(self) -> list[int]:
        """Return the instructions that the next filling must not overtake: earlier fillings that wait for space."""
        if not self._was_full:
            return []
        instructions: list[int] = []
        is_oldest = len(self._filled) == self._filled.maxlen
        for filling in self._filled:
            instructions += filling.transfers if is_oldest else filling.evicted
            is_oldest = False
        return instructions

    def _make_room(self) -> list[int]:
        """Evict the oldest unused entries until the contents fit; return the last users of those evicted."""
        last_users: list[int] = []
        in_use: list[_Entry] = []
        while self._used_bytes > self._capacity_bytes and self._entries:
            old = self._entries.popleft()
            if old.stated_before > self._admitted:
                in_use.append(old)
            else:
                self._used_bytes -= old.size_bytes
                last_users.append(old.user)
        self._entries.extendleft(reversed(in_use))
        if self._used_bytes > self._capacity_bytes:
            raise _shortage(self._name, self._capacity_bytes, str(self._used_bytes))
        return last_users


class _InC(PrefetchBuffer):
    """Prefetch buffer implemented in C."""

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
    """Return an empty prefetch buffer, implemented in C where that may be used."""
    if may_use("dsascape.scheduler.in_c.columns"):
        with suppress(OverflowError):  # more transfers in flight than the C version supports
            return _InC(name, capacity_bytes, in_flight)
    return PrefetchBuffer(name, capacity_bytes, in_flight)


def _shortage(name: str, capacity_bytes: int, needed_bytes: str) -> ScheduleError:
    return ScheduleError(f"{name} holds {capacity_bytes} B; {needed_bytes} are needed at once")
