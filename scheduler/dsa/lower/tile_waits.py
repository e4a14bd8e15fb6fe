"""Computing across layers: which tiles of earlier layers a tile has to wait for.

GraphTurbo (section 4.4) lets compute units of different kinds work on different tiles, beyond the end of a layer. A
layer that reads what lies in its own core's local buffer need not wait until all of that is written: its first tile
waits for the tiles that hold what it reads, and the next ones likewise. Runs of equal layers that lie alike wait for
the same tiles, by number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.schedule.schedule import LayerRun, TensorSlice
from dsascape.scheduler.dsa.tiling.tiling import Tiling
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Box, intersect
from dsascape.workloads.regions import placed_regions


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


class _Tiles(NamedTuple):
    """How a layer's output is cut: ``box`` of it among cores, each core's part into tiles."""

    box: Box
    binding: Binding
    part: tuple[int, ...]
    tile: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, run: LayerRun, tiling: Tiling) -> "_Tiles":
        return cls(run.box, run.binding, tiling.part, tiling.tile, tiling.order)

    def last_with(self, core: int, need: Box) -> int:
        """Return the number of the last tile on ``core`` that writes some of ``need``."""
        part = self.binding.part(self.box, core)
        number = 0
        for dim in self.order:
            count = -(-self.part[dim] // self.tile[dim])
            number = number * count + min((need[dim][1] - 1 - part[dim][0]) // self.tile[dim], count - 1)
        return number


class _Read(NamedTuple):
    """A slice that a run reads while it may still be written."""

    operand: int
    """Place of its tensor among the inputs of the reading layer."""
    slice: int
    """Which of the slices that are read it is."""
    box: Box
    writer: _Tiles | None
    """None where tiles do not follow from those of the writer: then all of these are waited for."""
    writer_tiles: int


Waits = tuple[tuple[tuple[int, int], ...], ...]
"""By tile: the slices that it waits for, each with the number of the tile of its writer."""


class TileWaits:
    """What the tiles of one run wait for: tiles of ``writers``, by the slice that they write."""

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
        alike = run.binding.divides(run.extents) and all(slices[number].is_even for number in numbers)
        alike = alike and not layer.puts_together
        if alike and all(len(held) == 1 for held in run.reads.values()):  # needs move evenly from core to core
            cores = tuple(dict.fromkeys((0, run.binding.cores - 1)))
        own, wanted = _Tiles.of(run, tiling), tuple(reads)
        self.by_tile: Waits = ()
        """In the order in which the tiles are computed; empty if none waits for anything."""
        if reads:
            key = layer.signature, own, tuple(cores), wanted
            work_out = partial(_waits, layer, tiling, own, cores, wanted)
            self.by_tile = layer.analysis.table(_waits).get(key, work_out)

    def position(self, writer: int, tile: int) -> int:
        """Return the instruction that completes a tile of one of the writers."""
        return self._writers[writer].done[tile]


def _waits(layer: Layer, tiling: Tiling, own: _Tiles, cores: Sequence[int], reads: Sequence[_Read]) -> Waits:
    """Return what the tiles of ``layer`` wait for; only what they do not know to have ended."""
    latest = {read.slice: 0 for read in reads}
    found: list[tuple[tuple[int, int], ...]] = []
    for position, extents, depth_step, _ in tiling.steps():
        if depth_step:
            continue
        # nothing of a slice is read before it has its space, with the first tile
        waits: list[tuple[int, int]] = [] if found else [(number, 0) for number in latest]
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
        found.append(tuple(waits))
    return tuple(found)


def _needs(
    layer: Layer, own: _Tiles, core: int, position: Sequence[int], extents: Sequence[int]
) -> Mapping[str, Box]:
    box = []
    for (lo, hi), size, where, extent in zip(
        own.binding.part(own.box, core), own.tile, position, extents, strict=True
    ):
        begin = min(lo + where * size, hi)
        box.append((begin, min(begin + extent, hi)))
    if any(lo == hi for lo, hi in box):
        return {}
    return placed_regions(layer.analysis, layer.ops, {layer.sink.name: tuple(box)}, of=layer.inputs, once=True)
