"""Free space of the on-chip memories from layer run to layer run, beside the runs that may still be at work.

A layer begins while earlier ones run only if nothing that it puts anywhere lies on what those still use: their inputs,
their tiles. So no instruction ever waits for space that a later one gives back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dsascape.scheduler.dsa.placing.allocation import Block, Gap, gaps, put
from dsascape.scheduler.dsa.schedule.schedule import LayerRun, Layout
from dsascape.scheduler.dsa.view import DDR
from dsascape.scheduler.errors import ScheduleError

Blocks = Mapping[str, Sequence[Block]]
"""By memory."""


class RunAtWork(NamedTuple):
    """A layer run that may not have ended when the next ones begin."""

    number: int
    writes: tuple[int, ...]
    """The slices that it writes."""
    blocks: Blocks
    """Its tiles, and slices that nobody needs once it has ended."""


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """What the slices that are kept in each on-chip memory leave of it."""

    capacities: Mapping[str, int]
    """What prefetch buffers leave of the memories."""
    most_gaps: int
    held: Blocks
    """Where the slices lie."""

    def free_gaps(self, memory: str, beside_bytes: int, step_bytes: int) -> tuple[int, ...]:
        """Return the bytes of the largest gaps when ``beside_bytes`` have taken the smallest that holds them.

        Where none holds them they take as many as they need, the largest first: what they take is not for others. Gaps
        are rounded down to multiples of ``step_bytes`` if they are more than two of them.
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

    def beside(self, at_work: Sequence[RunAtWork], own: Blocks, sizes: Mapping[str, Sequence[int]]) -> Blocks | None:
        """Return where buffers of ``sizes`` lie if all ``at_work`` may still run; None if there is no room for them.

        ``own``: the slices that the new run writes, which are held already. The blocks are in the order of ``sizes``.
        """
        found: dict[str, Sequence[Block]] = {}
        for memory in self.capacities:
            others = [block for one in at_work for block in one.blocks[memory]]
            if any(overlap(mine, other) for mine in own[memory] for other in others):
                return None
            blocks = put([size for size in sizes[memory] if size], self._gaps(memory, others))
            if blocks is None:
                return None
            placed = iter(blocks)
            found[memory] = [next(placed) if size else Block(0, 0) for size in sizes[memory]]
        return found

    def everything(self) -> Blocks:
        """Return blocks that leave no room for anybody."""
        return {memory: [Block(0, capacity)] for memory, capacity in self.capacities.items()}


def overlap(one: Block, other: Block) -> bool:
    """Return whether two blocks have a byte in common."""
    return one.address < other.address + other.size_bytes and other.address < one.address + one.size_bytes


class KeptSlices:
    """What a layout keeps on the chip from layer run to layer run, in memories of these ``capacities``."""

    def __init__(self, layout: Layout, capacities: Mapping[str, int], most_gaps: int) -> None:
        self._name = layout.graph.name
        self._slices = layout.slices
        self._last_use = {number: live.stop - 1 for number, live in layout.live_ranges.items()}
        self._capacities = capacities
        self._most_gaps = most_gaps
        self._held: dict[str, dict[int, Block]] = {memory: {} for memory in capacities}

    def begin(self, run: LayerRun) -> Blocks:
        """Let what ``run`` writes have its place from now on, and return that.

        Raises ``ScheduleError`` where the layout gives it none.
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
        """Return what is free now."""
        held = {memory: tuple(blocks.values()) for memory, blocks in self._held.items()}
        return FreeSpace(self._capacities, self._most_gaps, held)

    def end(self, run: LayerRun, step: int) -> Blocks:
        """Take back the places of the slices that no run behind ``run``, the one at ``step``, reads; return them."""
        freed: dict[str, list[Block]] = {}
        for number in dict.fromkeys([number for held in run.reads.values() for number in held]):
            memory = self._slices[number].memory
            if self._last_use.get(number) == step and memory != DDR:
                freed.setdefault(memory, []).append(self._held[memory].pop(number))
        return freed
