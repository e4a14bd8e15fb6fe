"""What each cache passes on while the cores of a machine work on the chunks of a kernel."""

import math
from dataclasses import replace
from functools import cached_property

from dsascape.hw_models.caches.lines import CacheShape
from dsascape.hw_models.caches.nests import Nest
from dsascape.hw_models.caches.passing import Passed, passed_on, share_of_iterations
from dsascape.scheduler.cpu.cost.chunk_nests import lines_together, nest_in_front, nest_of_chunk, nest_of_cores
from dsascape.scheduler.cpu.cost.part_traffic import (
    FURTHER_ARRAYS,
    PartInFront,
    in_parts,
    lines_of_tile,
    lost_of_scratch,
    with_first_use,
)
from dsascape.scheduler.cpu.cost.streamed import footprints_in
from dsascape.scheduler.cpu.schedule.chunks import Chunks, chunks_of, split_operands
from dsascape.scheduler.cpu.schedule.tiles import TiledLoops
from dsascape.scheduler.cpu.structure.chains import Made, fronts_of, scratch_bytes
from dsascape.scheduler.cpu.structure.masked_rows import densities
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.operands import Footprints
from dsascape.scheduler.kernels.recurrences import waiting_steps
from dsascape.workloads.memo import memoized


@memoized
def traffic_of(
    layer: Layer, tiled: TiledLoops, threads: int, line_bytes: int, write_allocate: bool
) -> "ChunkTraffic":
    """Return the traffic of a kernel's chunks; machines share it where lines and stores of their caches are alike."""
    return ChunkTraffic(layer, tiled, threads, line_bytes, write_allocate=write_allocate)


class ChunkTraffic:
    """Lines that caches pass on for a kernel's chunks; nothing is worked out before it is asked for."""

    def __init__(
        self, layer: Layer, tiled: TiledLoops, threads: int, line_bytes: int, *, write_allocate: bool
    ) -> None:
        self._layer, self._tiled, self._line_bytes, self._write_allocate = layer, tiled, line_bytes, write_allocate
        self._footprints = footprints_in(layer, tiled)
        self._nests: dict[int, Nest] = {}
        self._passed: dict[tuple[CacheShape, int], tuple[Passed, ...]] = {}
        self._shares: dict[CacheShape, tuple[float, ...]] = {}
        self._most_threads = threads
        chunks = chunks_of(layer.sink.shape, tiled, threads)
        self.chunks = replace(chunks, densities=densities(layer, tiled, chunks))

    @cached_property
    def _in_front(self) -> tuple[Made, ...]:
        return fronts_of(self._layer, self._tiled)

    @cached_property
    def of_parts(self) -> tuple[Chunks, ...]:
        """The chunks of each part: the kernel's, but for what all threads make together before the first tile."""
        in_front = [
            chunks_of(made.extents, made.tiled, self._most_threads) if made.is_shared else self.chunks
            for made in self._in_front
        ]
        return (*in_front, self.chunks)

    @cached_property
    def regions(self) -> int:
        """Parallel loops, one after the other, each with threads that wait for each other at its end."""
        shared = [each for made, each in zip(self._in_front, self.of_parts, strict=False) if made.is_shared]
        return waiting_steps(self._layer) + sum([each.count > 1 for each in shared])

    @property
    def scratch_bytes(self) -> int:
        """What all threads need for what anchors in front of the last make for a tile."""
        return scratch_bytes(self._layer, self._tiled, max([each.count for each in self.of_parts]))

    @cached_property
    def _scratch_lines(self) -> tuple[float, ...]:
        """Per part what a chunk of it writes for one tile that only the kernel itself reads."""
        in_front = [
            PartInFront(made, 1, self._line_bytes).scratch_lines_of(each.in_all if made.is_shared else 1.0)
            for made, each in zip(self._in_front, self.of_parts, strict=False)
        ]
        return (*in_front, 0.0)

    @cached_property
    def last_shares(self) -> tuple[float, ...]:
        """What the last chunk moves by what a full one does, per array: less only of what is split over chunks."""
        share, found = self.chunks.last_share, self._footprints
        split = split_operands(found, self.chunks)
        further = found.own_arrays + (FURTHER_ARRAYS if self._in_front else 0)
        return (*[share if is_split else 1.0 for is_split in split], *[share] * further)

    @cached_property
    def is_result(self) -> tuple[bool, ...]:
        """Whether each array is written for others; what tiles have of their own, behind the operands, is not."""
        found = self._footprints
        handed = (True, False) if self._in_front else ()
        return (*[operand.is_written for operand in found.operands], *[False] * found.own_arrays, *handed)

    @cached_property
    def scattered(self) -> tuple[float, ...]:
        """Per array the share of its lines that do not follow another one."""
        return (*self.nest_of(1).scattered, *[0.0] * (FURTHER_ARRAYS if self._in_front else 0))

    def nest_of(self, cores: int) -> Nest:
        """Return the loops of a full chunk, or of those that so many cores run at the same time."""
        nest = self._nests.get(cores)
        if nest is None:
            layer, tiled, chunks, line_bytes = self._layer, self._tiled, self.chunks, self._line_bytes
            if cores == 1:
                nest = nest_of_chunk(layer, tiled, chunks, line_bytes)
            else:
                nest = nest_of_cores(layer, tiled, chunks, self.nest_of(1), cores, line_bytes)
            self._nests[cores] = nest
        return nest

    @cached_property
    def holders(self) -> tuple[float, ...]:
        """Per operand, the number of cores that use each line of it, in the mean."""
        cores = self.chunks.count
        operands = range(len(self._footprints.operands))
        if cores == 1:
            return (1.0,) * len(operands)
        one, all_cores = (self.nest_of(number).touched[0] for number in (1, cores))
        return tuple([cores * one[place].count / max(all_cores[place].count, 1.0) for place in operands])

    def shares_of_iterations(self, cache: CacheShape) -> tuple[float, ...]:
        """Return for each part the share of a full chunk's iterations in which a cache of one core fetches."""
        shares = self._shares.get(cache)
        if shares is None:
            last = len(self._in_front)
            others = frozenset(
                place for place, operand in enumerate(self._footprints.operands) if operand.part != last
            )
            nests = [nest_in_front(made, self._line_bytes) for made in self._in_front]
            shares = self._shares[cache] = (
                *[share_of_iterations(nest, cache) for nest in nests],
                share_of_iterations(self.nest_of(1), cache, left_out=others),
            )
        return shares

    def passed(self, cache: CacheShape, cores: int) -> tuple[Passed, ...]:
        """Return what passes a cache that ``cores`` share, for one full chunk: for each part of the kernel."""
        passed = self._passed.get((cache, cores))
        if passed is None:
            passed = self._passed[cache, cores] = self._passing(cache, cores)
        return passed

    def passed_first(self, cache: CacheShape, cores: int) -> tuple[Passed, ...]:
        """Return the same for a kernel whose buffers are not in the cache when it begins."""
        return tuple([
            with_first_use(each, scratch, write_allocate=self._write_allocate)
            for each, scratch in zip(self.passed(cache, cores), self._scratch_lines, strict=True)
        ])  # fmt: skip

    def first_lines(self, passed: Passed, cores: int) -> tuple[float, ...]:
        """Return by array what a part fetches of it because nobody has used it before, for one full chunk."""
        once = [lines.count / cores for lines in self.nest_of(cores).touched[0]]
        return tuple([min(*each) for each in zip(once, passed.fetched, strict=False)])

    def scratch_lines(self, part: int, passed: Passed, cores: int) -> tuple[float, float]:
        """Return what a part fetches of buffers to write them first, and writes back of them last, in a full chunk."""
        scratch = self._scratch_lines[part]
        if not scratch:
            return 0.0, 0.0
        return min(scratch, passed.fetched[-FURTHER_ARRAYS]), min(scratch, passed.written[-FURTHER_ARRAYS])

    def least_lines(self, cores: int) -> tuple[float, float]:
        """Return what no cache that ``cores`` share passes less of for a full chunk: lines fetched, and written back.

        Every line of an operand is fetched once, if not to be written, and written back once, for all that share it.
        """
        if self._in_front:
            return 0.0, 0.0
        once, operands = self.nest_of(1).fetched_once, self._footprints.operands
        bounds = [(1.0, math.inf)] * len(operands)
        if cores > 1:
            bounds = lines_together(self._layer, self._tiled, self.chunks, cores, self._line_bytes)
        fetched = written = 0.0
        for operand, own, (factor, most) in zip(operands, once, bounds, strict=False):
            lines = min(own[0] * factor, most) / cores
            if operand.is_written:
                written += lines
            if self._write_allocate or not operand.is_written:
                fetched += lines
        return fetched, written

    def _passing(self, cache: CacheShape, cores: int) -> tuple[Passed, ...]:
        nest, found = self.nest_of(cores), self._footprints
        whole = passed_on(nest, cache, write_allocate=self._write_allocate)
        whole = _with_scratch_lost(whole, lost_of_scratch(nest, cache, found), found)
        parts: tuple[Passed, ...] = (whole,)
        if self._in_front:
            times = [
                cores * made.times * made.run * made.filled / each.in_all
                for made, each in zip(self._in_front, self.of_parts, strict=False)
            ]
            in_front = [
                PartInFront(made, each, self._line_bytes) for made, each in zip(self._in_front, times, strict=True)
            ]
            parts = in_parts(
                whole, self._layer, in_front, cache.of_cores(cores), lines_of_tile(nest, found) / cores,
                nest.body_lines[0] / cores, write_allocate=self._write_allocate,
            )
        if cores == 1:
            return parts
        return tuple([each.shared_by(cores) for each in parts])


def _with_scratch_lost(passed: Passed, lost: float, found: Footprints) -> Passed:
    """Return what a cache passes on where it loses that share of what tiles keep: the rest is overwritten."""
    if not found.own_arrays:
        return passed
    kept = len(found.operands)
    fetched, written = (
        (*each[:kept], *[lost * lines for lines in each[kept:]]) for each in (passed.fetched, passed.written)
    )
    return Passed(fetched, written)
