"""What each core is given of a kernel: chunks of its parallel loop, with their instructions and traffic."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from hw_models import Compute, Issued
from hw_models.caches import CacheShape, Nest, Passed, passed_on, share_of_iterations
from hw_models.cpu.cores import issue_cycles
from hw_models.cpu.machine import DRAM, L1, L2, L3, CorePace
from hw_models.quantities import PS_PER_S
from scheduler.cpu.chains import made_in_front
from scheduler.cpu.code import Code, code_of
from scheduler.cpu.footprints import (
    Footprints,
    chunks_of,
    footprints_of,
    nest_in_front,
    nest_of_chunk,
    nest_of_cores,
    split_operands,
)
from scheduler.cpu.tiles import LoopTiles
from scheduler.cpu.view import CpuView
from scheduler.kernels.layer import Layer


@dataclass(frozen=True, slots=True)
class ChunkWork:
    """Chunks that cores of one kind do, all alike."""

    count: int
    payload: Compute


@dataclass(frozen=True, slots=True)
class Found:
    """Of one kernel and cache: operands, by their place in its footprints, and the share of each that is there."""

    used: tuple[tuple[int, float], ...] = ()
    """When the kernel first uses it: reads it, or fetches its lines to write them."""
    kept: tuple[tuple[int, float], ...] = ()
    """Of what the kernel writes, and never leaves the cache."""


@dataclass(frozen=True, slots=True)
class Compulsory:
    """What a kernel moves behind one cache however large that is, per operand of the layer's footprints."""

    first_bytes: tuple[float, ...]
    """Fetched because nothing has used it before."""
    written_bytes: tuple[float, ...]
    """Written back."""

    def spared_bytes(self, found: Found) -> float:
        """Return what is not moved where the cache has, or keeps, so much."""
        spared = [share * self.first_bytes[place] for place, share in found.used]
        spared += [share * self.written_bytes[place] for place, share in found.kept]
        return sum(spared)


@dataclass(frozen=True, slots=True)
class KernelWork:
    """A whole kernel with caches that begin empty."""

    chunks: tuple[ChunkWork, ...]
    """In the order in which they are handed out: those of the fastest cores first."""
    threads: int
    """That have something to do."""
    compulsory: Mapping[str, Compulsory]
    """By the memory behind a cache."""

    def with_found(self, found: Mapping[str, Found]) -> "KernelWork":
        """Return the same where caches have something, by the memory behind each.

        What is found in one cache does not pass those further out.
        """
        left: dict[str, float] = {}
        most = 0.0
        for name, behind in self.compulsory.items():
            moved = sum([each.count * size for each in self.chunks for at, size in each.payload.traffic if at == name])
            most = max(most, behind.spared_bytes(found.get(name, Found())))
            left[name] = max(1 - most / moved, 0.0) if moved else 1.0
        chunks = []
        for each in self.chunks:
            traffic = [(name, math.ceil(size * left.get(name, 1.0))) for name, size in each.payload.traffic]
            chunks.append(replace(each, payload=replace(each.payload, traffic=tuple(traffic))))
        return replace(self, chunks=tuple(chunks))


def kernel_work(layer: Layer, tiles: LoopTiles, threads: int, dtype: str, view: CpuView) -> KernelWork:
    """Return the work of ``layer`` in ``tiles`` on ``threads`` of the machine's cores."""
    return _Kernel(layer, tiles, threads, dtype, view).work()


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a kernel takes on a machine that begins with empty caches."""

    time_ps: float
    """From its call: the slowest core, or what all move at a shared level."""
    apart_ps: float
    """The same if nothing overlapped: instructions, and what each level moves, one after the other."""
    moved_bytes: tuple[float, ...]
    """At each level behind a cache, outermost first."""


def estimate(layer: Layer, tiles: LoopTiles, threads: int, dtype: str, view: CpuView) -> Estimate:
    """Return the estimate of ``layer`` in ``tiles`` on ``threads`` of the machine's cores."""
    return _Kernel(layer, tiles, threads, dtype, view).estimate()


class _Kernel:
    """One kernel in the making."""

    def __init__(self, layer: Layer, tiles: LoopTiles, threads: int, dtype: str, view: CpuView) -> None:
        self._layer, self._tiles, self._dtype, self._view = layer, tiles, dtype, view
        spec = view.spec
        table = layer.analysis.table(code_of)
        key = layer.signature, tiles, dtype, view.code_key
        self._code: Code = table.get(key, partial(code_of, layer, tiles, dtype, spec.simd, view.tuning))
        self._chunks = chunks_of(layer.sink.shape, tiles, threads)
        self._nest = self._nest_of(1)
        self._known: dict[tuple[CacheShape, int], Passed] = {}

    def _nest_of(self, cores: int) -> Nest:
        layer, line = self._layer, self._view.spec.line_bytes
        if cores == 1:
            key = layer.signature, self._tiles, self._chunks.per_dim, line
            made = partial(nest_of_chunk, layer, self._tiles, self._chunks, line)
            return layer.analysis.table(nest_of_chunk).get(key, made)
        of_cores = layer.signature, self._tiles, self._chunks, line, cores
        joined = partial(nest_of_cores, layer, self._tiles, self._chunks, self._nest, cores, line)
        return layer.analysis.table(nest_of_cores).get(of_cores, joined)

    def _levels(self) -> Iterator[tuple[CorePace, int, list[Passed]]]:
        """Yield the kinds of cores that take chunks, how many, and what each cache passes on for one full chunk."""
        view, chunks = self._view, self._chunks
        shared = None
        if view.spec.l3 is not None:
            lines = view.spec.l3.capacity_bytes // view.spec.line_bytes
            shared = self._passed(CacheShape(lines), chunks.count)
        for pace, used in view.on_cores(chunks.count):
            core = pace.core
            cores = self._sharing(pace, used)
            levels = [self._passed(view.shape(core.l1), cores[0])]
            if core.l2 is not None:
                levels.append(self._passed(view.shape(core.l2), cores[1]))
            if shared is not None:
                levels.append(_at_most(shared, levels[-1]))
            yield pace, used, levels

    def _sharing(self, pace: CorePace, used: int) -> list[int]:
        """Return how many cores share each cache, of ``used`` ones of a kind."""
        l2 = pace.core.l2
        second = [] if l2 is None else [min(l2.shared_by, used)]
        return [1, *second, *([] if self._view.spec.l3 is None else [self._chunks.count])]

    def work(self) -> KernelWork:
        """Return it."""
        chunks = self._chunks
        found: list[ChunkWork] = []
        outer: list[Passed] = []
        sharing: list[int] = []
        given = 0
        for pace, used, levels in self._levels():
            outer, sharing = outer or levels, sharing or self._sharing(pace, used)
            given += used
            has_last = given == chunks.count
            if used > has_last:
                found.append(ChunkWork(used - has_last, self._payload(levels, is_last=False)))
            if has_last:
                found.append(ChunkWork(1, self._payload(levels, is_last=True)))
        first = [self._compulsory(*level) for level in zip(outer, sharing, strict=True)]
        return KernelWork(tuple(found), chunks.count, dict(zip(self._names, first, strict=True)))

    def _compulsory(self, passed: Passed, cores: int) -> Compulsory:
        """Return what has to pass a cache that ``cores`` share, for all chunks together."""
        line = self._view.spec.line_bytes
        times = [line * (self._chunks.count - 1 + share) for share in self._last_shares]
        once = [lines.count / cores for lines in self._nest_of(cores).touched[0]]  # copies are behind the operands
        return Compulsory(
            tuple([min(each, most) * of_all for each, most, of_all in zip(once, passed.fetched, times, strict=True)]),
            tuple([lines * of_all for lines, of_all in zip(passed.written, times, strict=True)]),
        )  # fmt: skip

    @cached_property
    def _meanwhile(self) -> tuple[tuple[str, float], ...]:
        """The share of instructions during which each memory behind a cache moves its bytes."""
        spec, core = self._view.spec, self._view.kinds[0]
        shapes = [self._view.shape(core.l1)]
        if core.l2 is not None:
            shapes.append(self._view.shape(core.l2))
        if spec.l3 is not None:
            shapes.append(CacheShape(spec.l3.capacity_bytes // spec.line_bytes))
        return tuple(zip(self._names, [share_of_iterations(self._nest, shape) for shape in shapes], strict=True))

    @cached_property
    def _last_shares(self) -> tuple[float, ...]:
        """What the last chunk moves by what a full one does, per operand: less only of what is split over chunks."""
        share = self._chunks.last_share
        found = footprints_of(self._layer)
        split = split_operands(found, self._tiles)
        return (*[share if is_split else 1.0 for is_split in split], *[share] * len(found.copied))

    def estimate(self) -> Estimate:
        """Return how long it takes, and the bytes moved."""
        view, chunks = self._view, self._chunks
        spec, line = view.spec, view.spec.line_bytes
        in_all = chunks.in_all
        names = self._names
        moved = dict.fromkeys(names, 0.0)
        longest = apart = 0.0
        for pace, used, levels in self._levels():
            traffic = [(name, passed.total * line) for name, passed in zip(names, levels, strict=True)]
            traffic.append((L1, self._code.register_bytes / in_all))
            cycles = issue_cycles(pace.core, self._code.issued) / in_all
            startup_ps, duration_ps, _ = pace.chunk_ps(cycles, traffic, dict(self._meanwhile))
            longest = max(longest, startup_ps + duration_ps)
            apart = max(apart, cycles * pace.cycle_ps + sum([size / pace.bytes_per_ps[name] for name, size in traffic]))
            for name, size in traffic:
                if name != L1:
                    moved[name] += used * size
        longest = max(longest, moved[DRAM] / spec.dram.sustained_bytes_per_s * PS_PER_S)
        if spec.l3 is not None:
            longest = max(longest, moved[L3] / spec.l3.bandwidth_bytes_per_s * PS_PER_S)
        called_ps = spec.kernel_call_ps + (spec.parallel_region_ps if chunks.count > 1 else 0)
        return Estimate(called_ps + longest, called_ps + apart, tuple(reversed(moved.values())))

    @property
    def _names(self) -> list[str]:
        """The memories behind the caches that pass something on, innermost first."""
        has_l2, has_l3 = self._view.kinds[0].l2 is not None, self._view.spec.l3 is not None
        return [*([L2] if has_l2 else []), *([L3] if has_l3 else []), DRAM]

    def _passed(self, cache: CacheShape, cores: int) -> Passed:
        """Return what passes a cache that ``cores`` share, for one full chunk."""
        known = self._known.get((cache, cores))
        if known is not None:
            return known
        nest = self._nest_of(cores)
        passed = passed_on(nest, cache, write_allocate=self._view.spec.write_allocate)
        passed = _without_scratch(passed, nest, cache, footprints_of(self._layer))
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
        for made in made_in_front(self._layer, self._tiles):
            nest, found = nest_in_front(made, self._view.spec.line_bytes), footprints_of(made.layer)
            each = passed_on(nest, own, write_allocate=self._view.spec.write_allocate)
            each = _without_scratch(each, nest, own, found)
            count = len(found.operands)
            again = sum([
                max(lines - once.count, 0)
                for lines, once, operand in zip(each.fetched, nest.touched[0], found.operands, strict=False)
                if not operand.is_written
            ])  # fmt: skip
            copies = sum(each.fetched[count:]) + sum(each.written[count:])
            fetched[-1] += cores * made.times / self._chunks.in_all * (again + copies)
        return Passed(tuple(fetched), passed.written)

    def _payload(self, levels: list[Passed], *, is_last: bool) -> Compute:
        """Return what a chunk does: a full one, or the last one, which does what is left."""
        code, chunks = self._code, self._chunks
        number, share = chunks.count, chunks.last_share if is_last else 1.0
        part = 1 / chunks.in_all
        shares = self._last_shares if is_last else (1.0,) * len(self._last_shares)

        def counted(whole: int) -> int:
            full = int(whole * part)
            return whole - (number - 1) * full if is_last else full

        def issued(whole: int) -> int:
            return math.ceil(whole * part * share - 1e-6)

        line = self._view.spec.line_bytes
        sizes = [math.ceil(passed.total_of(shares) * line) for passed in levels]
        of_code, made = code.issued, code.operations
        return Compute(
            dtype=self._dtype, macs=counted(made.macs), simple=counted(made.simple), special=counted(made.special),
            traffic=((L1, issued(code.register_bytes)), *zip(self._names, sizes, strict=True)),
            issued=Issued(
                fma=issued(of_code.fma), arithmetic=issued(of_code.arithmetic), special=issued(of_code.special),
                load=issued(of_code.load), store=issued(of_code.store), scalar=issued(of_code.scalar),
                accumulators=of_code.accumulators, loops=issued(of_code.loops),
                meanwhile=self._meanwhile,
            ),
        )  # fmt: skip


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
    return Passed(
        tuple(map(min, passed.fetched, inner.fetched)), tuple(map(min, passed.written, inner.written))
    )
