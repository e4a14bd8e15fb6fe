"""Free space of the on-chip memories at each layer run, given the runs that may still be executing.

A layer begins while earlier ones execute only if none of its buffers overlaps with theirs (inputs, tiles). So no
instruction ever waits for space that a later one frees.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dsascape.scheduler.dsa.placing.allocation import Block, Gap, gaps, put
from dsascape.scheduler.dsa.schedule.schedule import LayerRun, Layout
from dsascape.scheduler.dsa.view import DDR
from dsascape.scheduler.errors import ScheduleError

Blocks = Mapping[str, Sequence[Block]]
"""Occupied address blocks by memory."""


class RunAtWork(NamedTuple):
    """Layer run that may still be executing when the next ones begin."""

    number: int
    writes: tuple[int, ...]
    """Numbers of the slices that it writes."""
    blocks: Blocks
    """Blocks of its tiles, and of slices that are dead once it has ended."""

    def __hash__(self) -> int:
        return hash((self.number, self.writes))


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Free space of each on-chip memory, given the slices kept there."""

    capacities: Mapping[str, int]
    """Bytes of each memory less its prefetch buffer."""
    most_gaps: int
    held: Blocks
    """Blocks of slices that are still live, by memory."""

    def free_gaps(self, memory: str, beside_bytes: int, step_bytes: int) -> tuple[int, ...]:
        """Return the bytes of the largest gaps after reserving ``beside_bytes`` in the smallest gap that holds them.

        If none holds them, they are reserved in several gaps, the largest first. Gaps of more than two ``step_bytes``
        are rounded down to multiples of these.
        """
        free = sorted([size_bytes for _, size_bytes in self._gaps(memory, ())]) or [0]
        if beside_bytes:
            held_by = [n for n, size in enumerate(free) if size >= beside_bytes][:1]
            left = beside_bytes
            for n in held_by or reversed(range(len(free))):
                taken = min(free[n], left)
                free[n] -= taken
                left -= taken
            free[-1] -= left
        free = [size // step_bytes * step_bytes if size > 2 * step_bytes else size for size in free]
        return tuple(sorted(free, reverse=True)[: self.most_gaps])

    def _gaps(self, memory: str, others: Iterable[Block]) -> Iterable[Gap]:
        return gaps((*self.held[memory], *others), self.capacities[memory])

    def allocate(self, at_work: Sequence[RunAtWork], own: Blocks, sizes: Mapping[str, Sequence[int]]) -> Blocks | None:
        """Return blocks for buffers of ``sizes`` while all ``at_work`` may still execute; None if they do not fit.

        ``own``: blocks of the slices that the new run writes, allocated already. Blocks are in the order of ``sizes``.
        """
        placed_blocks: dict[str, Sequence[Block]] = {}
        for memory in self.capacities:
            others = [block for one in at_work for block in one.blocks[memory]]
            if any(overlap(mine, other) for mine in own[memory] for other in others):
                return None
            wanted = sizes.get(memory, ())
            blocks = put([size for size in wanted if size], self._gaps(memory, others))
            if blocks is None:
                return None
            placed = iter(blocks)
            placed_blocks[memory] = [next(placed) if size else Block(0, 0) for size in wanted]
        return placed_blocks

    def everything(self) -> Blocks:
        """Return blocks that cover all memories."""
        return {memory: [Block(0, capacity)] for memory, capacity in self.capacities.items()}


def overlap(one: Block, other: Block) -> bool:
    """Return whether two blocks have a byte in common."""
    return one.address < other.address + other.size_bytes and other.address < one.address + one.size_bytes


class KeptSlices:
    """Slices that a layout keeps on chip, tracked from layer run to layer run, in memories of ``capacities``."""

    def __init__(self, layout: Layout, capacities: Mapping[str, int], most_gaps: int) -> None:
        self._name = layout.graph.name
        self._slices = layout.slices
        self._last_use = {number: live.stop - 1 for number, live in layout.live_ranges.items()}
        self._capacities = capacities
        self._most_gaps = most_gaps
        self._held: dict[str, dict[int, Block]] = {memory: {} for memory in capacities}

    def begin(self, run: LayerRun) -> Blocks:
        """Allocate the slices that ``run`` writes; return their blocks.

        Raises ``ScheduleError`` if an on-chip slice has no address.
        """
        own: dict[str, list[Block]] = {memory: [] for memory in self._capacities}
        for number in run.writes:
            held = self._slices[number]
            if held.memory == DDR:
                continue
            if held.address is None:
                raise ScheduleError(f"{self._name}: {held.tensor!r} has no address in the {held.memory}")
            block = self._held[held.memory][number] = Block(held.address, held.held_bytes)
            own[held.memory].append(block)
        return own

    def space(self) -> FreeSpace:
        """Return the current free space."""
        held = {memory: tuple(blocks.values()) for memory, blocks in self._held.items()}
        return FreeSpace(self._capacities, self._most_gaps, held)

    def end(self, run: LayerRun, step: int) -> Blocks:
        """Free the slices whose last reader is ``run``, the run at ``step``; return their blocks."""
        freed: dict[str, list[Block]] = {}
        for number in dict.fromkeys([number for held in run.reads.values() for number in held]):
            memory = self._slices[number].memory
            if self._last_use.get(number) == step and memory != DDR:
                freed.setdefault(memory, []).append(self._held[memory].pop(number))
        return freed
