"""Computing across layers: which tiles of earlier layers a tile has to wait for.

GraphTurbo (section 4.4) lets compute units of different kinds work on different tiles, beyond the end of a layer. A
layer that reads what lies in its own core's local buffer need not wait until all of that is written: its first tile
waits for the tiles that hold what it reads, and the next ones likewise.
"""

from collections.abc import Mapping, Sequence

from fusion.translation import placed_regions
from scheduler.occupancy import OpenRun
from scheduler.schedule import LayerRun, Piece
from scheduler.tiling import Tiling
from workloads.loopnest import Box, intersect


class TileWaits:
    """What each tile of one run waits for: tiles of the runs in ``writers``, by the piece that they write."""

    def __init__(self, run: LayerRun, tiling: Tiling, writers: Mapping[int, OpenRun], pieces: Sequence[Piece]) -> None:
        self._run = run
        self._tile = tiling.tile
        self._pieces = pieces
        self._writers = writers
        self._read = [(name, p) for name, held in run.reads.items() for p in held if p in writers]
        self._cores: Sequence[int] = range(run.binding.cores)
        if all(len(held) == 1 for held in run.reads.values()):  # what a tile needs moves evenly from core to core
            self._cores = tuple(dict.fromkeys((0, run.binding.cores - 1)))
        self._latest: dict[int, int] = {}

    def of(self, position: Sequence[int], extents: Sequence[int]) -> list[int]:
        """Return the instructions after which all is there that the tile at ``position`` reads."""
        if not self._read:
            return []
        found: dict[int, None] = {}
        if not self._latest:  # nothing of a piece is read before it has its space
            self._latest = {piece: 0 for _, piece in self._read}
            found = {self._writers[piece].done[0]: None for piece in self._latest}
        for core in self._cores:
            needs = self._needs(core, position, extents)
            for name, piece in self._read:
                need = intersect(needs[name], self._pieces[piece].box) if name in needs else None
                if need is None:
                    continue
                writer = self._writers[piece]
                last = _last_tile(writer, core, need) if self._follows(piece) else len(writer.done) - 1
                if last > self._latest.get(piece, -1):
                    self._latest[piece] = last
                    found[writer.done[last]] = None
        return list(found)

    def _follows(self, piece: int) -> bool:
        """Whether tiles here follow from tiles of ``piece``: both are those of the one output of their layers."""
        writer = self._writers[piece].run.layer
        return self._pieces[piece].tensor == writer.sink.name and len(self._run.layer.outputs) == 1

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
        return placed_regions(run.layer.graph, run.layer.ops, {run.layer.sink.name: tuple(box)}, once=True)


def _last_tile(writer: OpenRun, core: int, need: Box) -> int:
    """Return the number of the last tile on ``core`` that writes some of ``need``."""
    tiling = writer.tiling
    part = writer.run.binding.part(writer.run.box, core)
    number = 0
    for dim in tiling.order:
        count = tiling.counts[dim]
        number = number * count + min((need[dim][1] - 1 - part[dim][0]) // tiling.tile[dim], count - 1)
    return number
