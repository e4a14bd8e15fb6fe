"""Weights on their way ahead of the computation: through prefetch buffers in the global and the local buffers.

GraphTurbo (section 4.4) fetches the weights of later layers while earlier ones compute, through "a small, fixed size of
buffers". Such a buffer is used in turn: what comes in next waits for as much of the oldest as it needs room.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models.simulation.columns import Rows
from dsascape.scheduler.dsa.lower.emit import room_for
from dsascape.scheduler.dsa.lower.prefetch_buffer import Passing, PrefetchBuffer
from dsascape.scheduler.programs.fragments import FragmentWriter

LOCAL, FURTHER = 1, 0
"""Which of the prefetch buffers."""


class PrefetchUse:
    """Notes what one layer run does with the prefetch buffers; what is in them then, is known where it is placed."""

    def __init__(self, writer: FragmentWriter) -> None:
        self._writer = writer
        self._passing = Passing(), Passing()
        """By buffer."""

    def admit(self, buffer: int, size_bytes: int) -> tuple[int, int]:
        """Return the number of what comes in now, and what stands for the instructions that have to end before."""
        entry = self._passing[buffer].admit(size_bytes)
        return entry, self._writer.outside(room_for(buffer, entry))

    def used_by(self, buffer: int, entry: int, position: int) -> None:
        """Note the last instruction that needs what came in."""
        self._passing[buffer].used_by(entry, position)

    def filled_by(self, buffer: int, transfers: Sequence[int]) -> None:
        """Note the transfers that bring what was let in last."""
        self._passing[buffer].filled_by(transfers)

    def noted(self) -> tuple[Passing, ...]:
        """Return what has been noted, by buffer."""
        brought = [one.filled[-1] if one.filled else 0 for one in self._passing]
        assert brought == [len(one.users) for one in self._passing], "something comes in that nobody brings"
        return self._passing


@dataclass(slots=True)
class Prefetch:
    """The prefetch buffers of one program, and the launch of the kernel that is being written."""

    further: PrefetchBuffer
    """In the global buffer."""
    local: PrefetchBuffer
    launch: int = -1

    def pass_through(self, passing: Sequence[Passing], first: int) -> Sequence[Rows]:
        """Let a run pass through the buffers: see `PrefetchBuffer.pass_through`. Return what that does, by buffer."""
        local = self.local.pass_through(passing[LOCAL], first)
        return self.further.pass_through(passing[FURTHER], first), local


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
