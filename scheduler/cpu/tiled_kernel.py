"""One kernel in tiles, split over threads: its instructions, its chunks, and what each cache passes on for them."""

from collections.abc import Iterator
from functools import cached_property, partial

from hw_models.caches.lines import CacheShape
from hw_models.caches.nests import Nest
from hw_models.caches.passing import Passed, passed_on, share_of_iterations
from hw_models.cpu.cores import issue_cycles
from hw_models.cpu.machine import CorePace
from scheduler.cpu.chains import made_in_front
from scheduler.cpu.chunk_nests import nest_in_front, nest_of_chunk, nest_of_cores
from scheduler.cpu.chunks import chunks_of, split_operands
from scheduler.cpu.code import known_code
from scheduler.cpu.footprints import footprints_of
from scheduler.cpu.operands import Footprints
from scheduler.cpu.tiles import LoopTiles
from scheduler.cpu.view import CpuView
from scheduler.kernels.layer import Layer


class TiledKernel:
    """A kernel whose tiles and threads are given; nothing is worked out before it is asked for."""

    def __init__(self, layer: Layer, tiles: LoopTiles, threads: int, dtype: str, view: CpuView) -> None:
        self.layer, self.tiles, self.view = layer, tiles, view
        self.chunks = chunks_of(layer.sink.shape, tiles, threads)
        self.code = known_code(layer, tiles, dtype, view.spec.simd, view.tuning, view.code_key)
        self._footprints = footprints_of(layer)
        self._known: dict[tuple[CacheShape, int], Passed] = {}

    def chunk_cycles(self, pace: CorePace) -> float:
        """Return the cycles in which a core issues the instructions of a full chunk."""
        return issue_cycles(pace.core, self.code.issued) / self.chunks.in_all

    @property
    def chunk_register_bytes(self) -> float:
        """What a full chunk moves between registers and the first cache."""
        return self.code.register_bytes / self.chunks.in_all

    def levels(self, pace: CorePace, used: int) -> Iterator[Passed]:
        """Yield what each cache passes on for a full chunk, where ``used`` such cores work; innermost first."""
        for shape, shared_by in pace.caches:
            passed = self._passed(shape, min(shared_by, used))
            yield passed
        shared = self.view.shared_shape
        if shared is not None:
            yield _at_most(self._passed(shared, self.chunks.count), passed)

    def sharing(self, pace: CorePace, used: int) -> list[int]:
        """Return how many cores share each cache, of ``used`` ones of a kind."""
        private = [min(shared_by, used) for _, shared_by in pace.caches]
        return private if self.view.shared_shape is None else [*private, self.chunks.count]

    @cached_property
    def meanwhile(self) -> tuple[tuple[str, float], ...]:
        """The share of instructions during which each memory behind a cache moves its bytes."""
        shared = self.view.shared_shape
        shapes = [shape for shape, _ in self.view.paces[0].caches] + ([] if shared is None else [shared])
        shares = [share_of_iterations(self.nest_of(1), shape) for shape in shapes]
        return tuple(zip(self.view.caches, shares, strict=True))

    @cached_property
    def last_shares(self) -> tuple[float, ...]:
        """What the last chunk moves by what a full one does, per operand: less only of what is split over chunks."""
        share, found = self.chunks.last_share, self._footprints
        split = split_operands(found, self.tiles)
        return (*[share if is_split else 1.0 for is_split in split], *[share] * len(found.copied))

    def nest_of(self, cores: int) -> Nest:
        """Return the loops of a full chunk, or of those that so many cores run at the same time."""
        layer, chunks, line_bytes = self.layer, self.chunks, self.view.spec.line_bytes
        if cores == 1:
            key = layer.signature, self.tiles, chunks.per_dim, line_bytes
            made = partial(nest_of_chunk, layer, self.tiles, chunks, line_bytes)
            return layer.analysis.table(nest_of_chunk).get(key, made)
        of_cores = layer.signature, self.tiles, chunks, line_bytes, cores
        joined = partial(nest_of_cores, layer, self.tiles, chunks, self.nest_of(1), cores, line_bytes)
        return layer.analysis.table(nest_of_cores).get(of_cores, joined)

    def _passed(self, cache: CacheShape, cores: int) -> Passed:
        """Return what passes a cache that ``cores`` share, for one full chunk."""
        known = self._known.get((cache, cores))
        if known is not None:
            return known
        nest = self.nest_of(cores)
        passed = passed_on(nest, cache, write_allocate=self.view.spec.write_allocate)
        passed = _without_scratch(passed, nest, cache, self._footprints)
        if self.tiles.upstream:
            passed = self._with_parts_in_front(passed, cache, cores)
        if cores > 1:
            fetched, written = (tuple([lines / cores for lines in each]) for each in (passed.fetched, passed.written))
            passed = Passed(fetched, written)
        self._known[cache, cores] = passed
        return passed

    def _with_parts_in_front(self, passed: Passed, cache: CacheShape, cores: int) -> Passed:
        """Return ``passed`` with what parts in front fetch again while they work on one tile.

        What they fetch once for each tile is among the kernel's operands. Cores that share a cache have a part each.
        """
        fetched = list(passed.fetched)
        own = CacheShape(cache.lines // cores, cache.sets)
        for made in made_in_front(self.layer, self.tiles):
            nest, found = nest_in_front(made, self.view.spec.line_bytes), footprints_of(made.layer)
            each = passed_on(nest, own, write_allocate=self.view.spec.write_allocate)
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
    if nest.body_lines[of_tile] > cache.lines:
        return passed
    kept = len(found.operands)
    nothing = (0.0,) * len(found.copied)
    return Passed((*passed.fetched[:kept], *nothing), (*passed.written[:kept], *nothing))


def _at_most(passed: Passed, inner: Passed) -> Passed:
    """Return what passes a cache to which ``inner`` comes: no more than that, per array."""
    return Passed(tuple(map(min, passed.fetched, inner.fetched)), tuple(map(min, passed.written, inner.written)))
