"""What each cache passes on while the cores of a machine work on the chunks of a kernel."""

from functools import cached_property, partial

from hw_models.caches.lines import CacheShape, found_again
from hw_models.caches.nests import Nest
from hw_models.caches.passing import Passed, passed_on, share_of_iterations
from scheduler.cpu.chains import made_in_front
from scheduler.cpu.chunk_nests import nest_in_front, nest_of_chunk, nest_of_cores
from scheduler.cpu.chunks import chunks_of, split_operands
from scheduler.cpu.footprints import footprints_of
from scheduler.cpu.operands import Footprints
from scheduler.cpu.tiles import LoopTiles
from scheduler.kernels.layer import Layer


def traffic_of(
    layer: Layer, tiles: LoopTiles, threads: int, line_bytes: int, *, write_allocate: bool
) -> "ChunkTraffic":
    """Return the traffic of a kernel's chunks; machines share what is known of it where their caches are alike."""
    key = layer.signature, tiles, threads, line_bytes, write_allocate
    made = partial(ChunkTraffic, layer, tiles, threads, line_bytes, write_allocate=write_allocate)
    return layer.analysis.table(ChunkTraffic).get(key, made)


class ChunkTraffic:
    """Lines that caches pass on for a kernel's chunks; nothing is worked out before it is asked for."""

    def __init__(
        self, layer: Layer, tiles: LoopTiles, threads: int, line_bytes: int, *, write_allocate: bool
    ) -> None:
        self._layer, self._tiles, self._line_bytes, self._write_allocate = layer, tiles, line_bytes, write_allocate
        self._footprints = footprints_of(layer)
        self._nests: dict[int, Nest] = {}
        self._passed: dict[tuple[CacheShape, int], Passed] = {}
        self._shares: dict[CacheShape, float] = {}
        self.chunks = chunks_of(layer.sink.shape, tiles, threads)

    @cached_property
    def last_shares(self) -> tuple[float, ...]:
        """What the last chunk moves by what a full one does, per operand: less only of what is split over chunks."""
        share, found = self.chunks.last_share, self._footprints
        split = split_operands(found, self._tiles)
        return (*[share if is_split else 1.0 for is_split in split], *[share] * len(found.copied))

    @cached_property
    def is_result(self) -> tuple[bool, ...]:
        """Whether each array is a result of the kernel; copies, which are behind the operands, are none."""
        found = self._footprints
        return (*[operand.is_written for operand in found.operands], *[False] * len(found.copied))

    def nest_of(self, cores: int) -> Nest:
        """Return the loops of a full chunk, or of those that so many cores run at the same time."""
        nest = self._nests.get(cores)
        if nest is None:
            layer, tiles, chunks, line_bytes = self._layer, self._tiles, self.chunks, self._line_bytes
            if cores == 1:
                nest = nest_of_chunk(layer, tiles, chunks, line_bytes)
            else:
                nest = nest_of_cores(layer, tiles, chunks, self.nest_of(1), cores, line_bytes)
            self._nests[cores] = nest
        return nest

    def share_of_iterations(self, cache: CacheShape) -> float:
        """Return the share of a full chunk's iterations in which a cache of one core fetches."""
        share = self._shares.get(cache)
        if share is None:
            share = self._shares[cache] = share_of_iterations(self.nest_of(1), cache)
        return share

    def passed(self, cache: CacheShape, cores: int) -> Passed:
        """Return what passes a cache that ``cores`` share, for one full chunk."""
        passed = self._passed.get((cache, cores))
        if passed is None:
            passed = self._passed[cache, cores] = self._passing(cache, cores)
        return passed

    def _passing(self, cache: CacheShape, cores: int) -> Passed:
        nest = self.nest_of(cores)
        passed = passed_on(nest, cache, write_allocate=self._write_allocate)
        passed = _without_scratch(passed, nest, cache, self._footprints)
        if self._tiles.upstream:
            passed = self._with_parts_in_front(passed, cache, cores)
        if cores == 1:
            return passed
        fetched, written = (tuple([lines / cores for lines in each]) for each in (passed.fetched, passed.written))
        return Passed(fetched, written)

    def _with_parts_in_front(self, passed: Passed, cache: CacheShape, cores: int) -> Passed:
        """Return ``passed`` with what parts in front fetch again while they work on one tile.

        What they fetch once for each tile is among the kernel's operands. Cores that share a cache have a part each.
        """
        fetched = list(passed.fetched)
        own = CacheShape(cache.lines // cores, cache.sets)
        for made in made_in_front(self._layer, self._tiles):
            nest, found = nest_in_front(made, self._line_bytes), footprints_of(made.layer)
            each = passed_on(nest, own, write_allocate=self._write_allocate)
            each = _without_scratch(each, nest, own, found)
            count = len(found.operands)
            again = sum([
                max(lines - once.count, 0)
                for lines, once, operand in zip(each.fetched, nest.touched[0], found.operands, strict=False)
                if not operand.is_written
            ])  # fmt: skip
            copies = sum(each.fetched[count:]) + sum(each.written[count:])
            fetched[-1] += cores * made.times / self.chunks.in_all * (again + copies)
        return Passed(tuple(fetched), passed.written)


def _without_scratch(passed: Passed, nest: Nest, cache: CacheShape, found: Footprints) -> Passed:
    """Return what a cache passes on where tiles' copies stay in it if a tile does: they are overwritten, not needed."""
    if not found.copied:
        return passed
    of_tile = min([
        depth
        for depth, each in zip(nest.innermost, found.operands, strict=False)
        if each.is_copied or each.is_in_front
    ])  # fmt: skip
    times = nest.body_lines[of_tile] / cache.lines
    lost = 1 - found_again(times) if cache.by_chance else float(times > 1)
    kept = len(found.operands)
    fetched, written = (
        (*each[:kept], *[lost * lines for lines in each[kept:]]) for each in (passed.fetched, passed.written)
    )
    return Passed(fetched, written)
