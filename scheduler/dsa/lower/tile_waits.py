"""Computing across layers: which tiles of earlier layers a tile has to wait for.

GraphTurbo (section 4.4) lets compute units of different kinds work on different tiles, beyond the end of a layer. A
layer that reads what lies in its own core's local buffer need not wait until all of that is written: its first tile
waits for the tiles that hold what it reads, and the next ones likewise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.dsa.schedule import LayerRun, TensorSlice
from scheduler.dsa.tiling.tiling import Tiling
from workloads.loopnest import Box, intersect
from workloads.regions import placed_regions


@dataclass(slots=True)
class WrittenRun:
    """A layer run whose instructions stand in the program and that may still be at work."""

    number: int
    run: LayerRun
    tiling: Tiling
    entry: tuple[int, ...] = ()
    """Instructions that had ended when it began."""
    exits: tuple[int, ...] = ()
    """Its last instructions."""
    done: list[int] = field(default_factory=list)
    """By tile, in the order in which they are computed: the instruction that completes it."""


class TileWaits:
    """What each tile of one run waits for: tiles of the runs in ``writers``, by the slice that they write."""

    def __init__(
        self, run: LayerRun, tiling: Tiling, writers: Mapping[int, WrittenRun], slices: Sequence[TensorSlice]
    ) -> None:
        self._run = run
        self._tile = tiling.tile
        self._slices = slices
        self._writers = writers
        self._read = [(name, p) for name, held in run.reads.items() for p in held if p in writers]
        self._cores: Sequence[int] = range(run.binding.cores)
        alike = run.binding.divides(run.extents) and all(slices[p].is_even for _, p in self._read)
        if alike and all(len(held) == 1 for held in run.reads.values()):  # needs move evenly from core to core
            self._cores = tuple(dict.fromkeys((0, run.binding.cores - 1)))
        self._latest: dict[int, int] = {}

    def of(self, position: Sequence[int], extents: Sequence[int]) -> list[int]:
        """Return the instructions after which all is there that the tile at ``position`` reads."""
        if not self._read:
            return []
        found: dict[int, None] = {}
        if not self._latest:  # nothing of a slice is read before it has its space
            self._latest = {number: 0 for _, number in self._read}
            found = {self._writers[number].done[0]: None for number in self._latest}
        for core in self._cores:
            needs = self._needs(core, position, extents)
            for name, number in self._read:
                need = intersect(needs[name], self._slices[number].box) if name in needs else None
                if need is None:
                    continue
                writer = self._writers[number]
                last = _last_tile(writer, core, need) if self._follows(number) else len(writer.done) - 1
                if last > self._latest.get(number, -1):
                    self._latest[number] = last
                    found[writer.done[last]] = None
        return list(found)

    def _follows(self, number: int) -> bool:
        """Whether tiles here follow from tiles of a slice: both are those of the one output of their layers."""
        writer = self._writers[number].run.layer
        return self._slices[number].tensor == writer.sink.name and len(self._run.layer.outputs) == 1

    def _needs(self, core: int, position: Sequence[int], extents: Sequence[int]) -> Mapping[str, Box]:
        run = self._run
        box = []
        for (lo, hi), size, where, extent in zip(
            run.binding.part(run.box, core), self._tile, position, extents, strict=True
        ):
            begin = min(lo + where * size, hi)
            box.append((begin, min(begin + extent, hi)))
        if any(lo == hi for lo, hi in box):
            return {}
        return placed_regions(run.layer.analysis, run.layer.ops, {run.layer.sink.name: tuple(box)}, once=True)


def _last_tile(writer: WrittenRun, core: int, need: Box) -> int:
    """Return the number of the last tile on ``core`` that writes some of ``need``."""
    tiling = writer.tiling
    part = writer.run.binding.part(writer.run.box, core)
    number = 0
    for dim in tiling.order:
        count = tiling.counts[dim]
        number = number * count + min((need[dim][1] - 1 - part[dim][0]) // tiling.tile[dim], count - 1)
    return number
