"""Prefetching of weights through prefetch buffers in the global and the local buffers.

GraphTurbo (section 4.4) fetches the weights of later layers while earlier ones compute, through "a small, fixed size of
buffers". Such a buffer is a ring: an admission waits until enough of the oldest entries have been used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models.simulation.columns import Rows
from dsascape.scheduler.dsa.lower.emit import room_for
from dsascape.scheduler.dsa.lower.prefetch_buffer import Passing, PrefetchBuffer
from dsascape.scheduler.programs.fragments import FragmentWriter

NEAR, FURTHER = 1, 0
"""Indices of the prefetch buffers: in the local buffers, in the global buffer."""


class PrefetchUse:
    """Records one layer run's use of the prefetch buffers; their contents are resolved when its fragment is placed."""

    def __init__(self, writer: FragmentWriter) -> None:
        self._writer = writer
        self._passing = Passing(), Passing()
        """Admissions by prefetch buffer."""

    def admit(self, buffer: int, size_bytes: int) -> tuple[int, int]:
        """Record an admission; return its number, and the external dependency that it waits for."""
        entry = self._passing[buffer].admit(size_bytes)
        return entry, self._writer.outside(room_for(buffer, entry))

    def used_by(self, buffer: int, entry: int, position: int) -> None:
        """Record the last user of an admission."""
        self._passing[buffer].used_by(entry, position)

    def filled_by(self, buffer: int, transfers: Sequence[int]) -> None:
        """Record the transfers that load the latest admissions."""
        self._passing[buffer].filled_by(transfers)

    def noted(self) -> tuple[Passing, ...]:
        """Return the recorded admissions by prefetch buffer."""
        brought = [one.filled[-1] if one.filled else 0 for one in self._passing]
        assert brought == [len(one.users) for one in self._passing], "an admission has no transfer"
        return self._passing


@dataclass(slots=True)
class Prefetch:
    """Prefetch buffers of one program, and the launch of the kernel being lowered."""

    further: PrefetchBuffer
    """Prefetch buffer in the global buffer."""
    local: PrefetchBuffer
    launch: int = -1

    def pass_through(self, passing: Sequence[Passing], first: int) -> Sequence[Rows]:
        """Return the dependencies of a run's admissions by buffer: see `PrefetchBuffer.pass_through`."""
        local = self.local.pass_through(passing[NEAR], first)
        return self.further.pass_through(passing[FURTHER], first), local


@dataclass(slots=True)
class Burst:
    """One operand's part of a DMA transfer: consecutive versions."""

    load: int
    buffer: int
    entry: int
    left: int
    """Number of its versions that have not been moved to the cores yet."""


@dataclass(slots=True)
class PrefetchedOperand:
    """State of a prefetched operand: its current version in the local buffers, its current burst."""

    versions_left: int
    bytes_left: int
    """Bytes not loaded from DDR yet, for all cores together."""
    entry: int = -1
    burst: Burst | None = None

    def take(self, size_bytes: int, versions: int) -> int:
        """Return the bytes to load for ``versions`` versions of ``size_bytes`` in total; the last ones get the rest."""
        size_bytes = self.bytes_left if versions == self.versions_left else min(size_bytes, self.bytes_left)
        self.versions_left -= versions
        self.bytes_left -= size_bytes
        return max(size_bytes, 1)
