"""Dependencies of tiles on producer tiles of earlier layers, for computing across layers.

GraphTurbo (section 4.4) lets compute units of different kinds work on different tiles, beyond the end of a layer. A
layer that reads from its own core's local buffer need not wait for the whole tensor: each tile waits for the producer
tiles that it reads. Runs of equal layers with equal slices up to translation share the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.schedule.schedule import LayerRun, TensorSlice
from dsascape.scheduler.dsa.tiling.tiling import TileGrid, Tiling
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Box, intersect
from dsascape.workloads.memo import memoized
from dsascape.workloads.regions import placed_regions


@dataclass(slots=True)
class WrittenRun:
    """Layer run that is in the program and may still be executing."""

    number: int
    run: LayerRun
    tiling: Tiling
    entry: tuple[int, ...] = ()
    """Instructions that have ended when it begins."""
    exits: tuple[int, ...] = ()
    """Its last instructions."""
    done: list[int] = field(default_factory=list)
    """Instruction that completes each tile, in execution order."""


class _Tiles(NamedTuple):
    """Division of a layer's output: ``box`` among cores, each core's part into tiles."""

    box: Box
    binding: Binding
    grid: TileGrid

    @classmethod
    def of(cls, run: LayerRun, tiling: Tiling) -> "_Tiles":
        return cls(run.box, run.binding, tiling.grid)

    def last_with(self, core: int, need: Box) -> int:
        """Return the number of the last tile on ``core`` that writes any of ``need``."""
        part, (_, tile, order), counts = self.binding.part(self.box, core), self.grid, self.grid.counts
        number = 0
        for dim in order:
            number = number * counts[dim] + min((need[dim][1] - 1 - part[dim][0]) // tile[dim], counts[dim] - 1)
        return number


class _Read(NamedTuple):
    """Slice that a run reads while its producer may still be executing."""

    operand: int
    """Index of its tensor among the inputs of the reading layer."""
    slice: int
    """Index among the slices read."""
    box: Box
    writer: _Tiles | None
    """Tiles of the producer; None if the slice is not its sink, or the reading layer has several outputs: then all
    producer tiles are waited for."""
    writer_tiles: int


Waits = tuple[tuple[tuple[int, int], ...], ...]
"""(Index of the slice read, number of its producer's tile) pairs that each tile waits for."""


class TileWaits:
    """Dependencies of one run's tiles on tiles of ``writers``, the producer runs by slice."""

    def __init__(
        self, run: LayerRun, tiling: Tiling, writers: Mapping[int, WrittenRun], slices: Sequence[TensorSlice]
    ) -> None:
        layer = run.layer
        pairs = [(name, number) for name, held in run.reads.items() for number in held if number in writers]
        numbers = list(dict.fromkeys(number for _, number in pairs))
        self._writers = [writers[number] for number in numbers]
        reads = []
        for name, number in pairs:
            one, held = writers[number], slices[number]
            follows = held.tensor == one.run.layer.sink.name and len(layer.outputs) == 1
            writer = _Tiles.of(one.run, one.tiling) if follows else None
            reads.append(_Read(layer.inputs.index(name), numbers.index(number), held.box, writer, len(one.done)))
        cores: Sequence[int] = range(run.binding.cores)
        is_even = run.binding.divides(run.extents) and all(slices[number].is_even for number in numbers)
        is_even = is_even and not layer.puts_together
        if is_even and all(len(held) == 1 for held in run.reads.values()):  # needs shift evenly from core to core
            cores = tuple(dict.fromkeys((0, run.binding.cores - 1)))
        own, wanted = _Tiles.of(run, tiling), tuple(reads)
        self.by_tile: Waits = ()
        """Dependencies of each tile, in execution order; empty if no tile has any."""
        if reads:
            self.by_tile = _waits(layer, own, tuple(cores), wanted)

    def position(self, writer: int, tile: int) -> int:
        """Return the position of the instruction that completes a tile of a producer."""
        return self._writers[writer].done[tile]


@memoized
def _waits(layer: Layer, own: _Tiles, cores: tuple[int, ...], reads: tuple[_Read, ...]) -> Waits:
    """Return the dependencies of the tiles of ``layer``, without those implied by earlier tiles' dependencies."""
    latest = {read.slice: 0 for read in reads}
    by_tile: list[tuple[tuple[int, int], ...]] = []
    for position, extents in own.grid.positions():
        # nothing of a slice is read before it has its space, with the first tile
        waits: list[tuple[int, int]] = [] if by_tile else [(number, 0) for number in latest]
        for core in cores:
            needs = _needs(layer, own, core, position, extents)
            for read in reads:
                name = layer.inputs[read.operand]
                need = intersect(needs[name], read.box) if name in needs else None
                if need is None:
                    continue
                last = read.writer_tiles - 1 if read.writer is None else read.writer.last_with(core, need)
                if last > latest[read.slice]:
                    latest[read.slice] = last
                    waits.append((read.slice, last))
        by_tile.append(tuple(waits))
    return tuple(by_tile)


def _needs(
    layer: Layer, own: _Tiles, core: int, position: Sequence[int], extents: Sequence[int]
) -> Mapping[str, Box]:
    box = []
    for (lo, hi), size, where, extent in zip(
        own.binding.part(own.box, core), own.grid.tile, position, extents, strict=True
    ):
        begin = min(lo + where * size, hi)
        box.append((begin, min(begin + extent, hi)))
    if any(lo == hi for lo, hi in box):
        return {}
    return placed_regions(layer.analysis, layer.ops, {layer.sink.name: tuple(box)}, of=layer.inputs, once=True)
