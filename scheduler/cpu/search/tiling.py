"""Tiles of a layer's loops: register tiles by what a core issues, cache tiles by what passes the caches.

The search is small and always finds the same. First the register tile (`scheduler.cpu.search.register_tiles`). Then the
loops over tiles: a few sizes along each dimension (the register tile, up to four of them, all), the vector dimension
outermost or innermost, the depth loop whole or in steps; the machine model says of each how long instructions take, and
what each level moves. The sum of these times decides, not the longest of them: what hides behind what depends on what
the kernels before have left in the caches. Then the least traffic, then what is tried first; tiles that are sure to
take longer than the best are not looked at to the end. Last, the number of threads, by the sum of two estimates of the
slowest core's time: with empty caches, and with what the kernels before have left in them. Which of them holds is known
only when the network runs; a rule that needed both to improve would change with either. Where
threads are asked for on cores of several kinds, the whole search is made for the faster kinds alone too: slower cores
hold up kernels that are split evenly. Layers without an anchor are computed row by row.

Where there are several anchors, these are the loops of the last one, in a few more sizes; each anchor in front gets the
register tile that needs the fewest cycles for what one tile needs of it.
"""

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter

from dsascape.scheduler.cpu.cost.estimate import Estimate, among_others_ps, bounds_apart_ps, estimate, least_time_ps
from dsascape.scheduler.cpu.cost.tiled_kernel import TiledKernel
from dsascape.scheduler.cpu.cost.tiles_in_order import tiles_in_order
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, Spans, UpstreamTiles
from dsascape.scheduler.cpu.search.fixed import FixedTiles, with_fixed
from dsascape.scheduler.cpu.search.in_steps import in_steps
from dsascape.scheduler.cpu.search.loop_sizes import parallel_loops, row_tiles, sizes_along
from dsascape.scheduler.cpu.search.register_tiles import dims_apart, register_tile_of, registers_tried, vector_dim_of
from dsascape.scheduler.cpu.structure.chains import (
    box_in_front,
    loops_apart,
    read_spans,
    sink_spans,
    streamed_softmax,
    tile_grains,
)
from dsascape.scheduler.cpu.structure.nests import nests_of, sums_one_by_one
from dsascape.scheduler.cpu.structure.shared_operands import shared_dims
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.recurrences import ordered_dims
from dsascape.scheduler.kernels.structure.anchors import anchored_nest, shared_rows
from dsascape.scheduler.kernels.structure.parts import is_computed_before, parts_of
from dsascape.scheduler.parts import divisors
from dsascape.workloads.analysis import Table
from dsascape.workloads.loopnest import Extents

_TILES_OF_REGISTERS = (4,)
_TILES_IN_FRONT = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiles of a layer, the threads that it is split over, and what that is estimated to take."""

    tiles: LoopTiles
    threads: int
    estimate: Estimate

    @property
    def rank(self) -> tuple[float, tuple[float, ...]]:
        """Return what is compared of tiles on as many threads: the time without overlap, then the traffic."""
        return self.estimate.apart_ps, self.estimate.moved_bytes

    @property
    def time_ps(self) -> float:
        return self.estimate.time_ps


class KnownTiles:
    """What is worth keeping between runs on one machine."""

    def __init__(self) -> None:
        self.tilings: Table[Tiling] = Table(function=choose_tiling)
        self.most_ps: Table[float] = Table()
        self.algorithms: Table[int] = Table()
        """Algorithm that a convolution is computed by, 0 for directly, by its signature."""


class Candidate(TiledKernel):
    """A kernel in tiles that are tried."""

    def __init__(self, layer: Layer, tiles: LoopTiles, threads: int, dtype: str, view: CpuView) -> None:
        super().__init__(layer, tiles.tiled, threads, dtype, view)
        self.tiles = tiles


def choose_tiling(
    layer: Layer, dtype: str, view: CpuView, known: KnownTiles, fixed: FixedTiles | None = None
) -> Tiling:
    """Return the tiling of ``layer`` that is estimated to be fastest; equal layers get the same.

    ``fixed``: values that the user fixes. Raises ``PinError`` where no tiles have them.
    """
    part = view.timing
    return known.tilings.get((layer.signature, dtype, part, fixed), partial(_search, layer, dtype, part, fixed))


def _search(layer: Layer, dtype: str, view: CpuView, fixed: FixedTiles | None) -> Tiling:
    most, *fewer = view.thread_counts
    shape = layer.sink.shape
    only = None if fixed is None else fixed.threads
    if ordered_dims(layer):
        tilings = list(_in_order(layer, dtype, view))
        return min(tilings if fixed is None else _among_fixed(layer, tilings, fixed), key=_taken)
    alike: dict[Extents, list[Candidate]] = {}
    for cut in candidates(layer, dtype, view) if fixed is None else _candidates_with(layer, dtype, view, fixed):
        alike.setdefault(cut.register, []).append(Candidate(layer, cut, most, dtype, view))
    found = sorted([each for kernels in alike.values() for each in best_of(kernels, most)], key=attrgetter("rank"))
    best = found[0] if only in (None, most) else None
    if only is not None:
        fewer = [only] if only != most else []

    def both_ps(tiling: Tiling) -> float:
        return tiling.time_ps + among_others_ps(Candidate(layer, tiling.tiles, tiling.threads, dtype, view))

    best_ps = math.inf if best is None or not fewer else both_ps(best)

    for threads in fewer:
        for other in found:
            parallel = parallel_loops(other.tiles.tile, other.tiles.order, shape, threads, view)
            if fixed is not None and fixed.parallel is not None:
                parallel = fixed.parallel
            kernel = Candidate(layer, replace(other.tiles, parallel=parallel), threads, dtype, view)
            if 2 * least_time_ps(kernel) < best_ps:
                tried = Tiling(kernel.tiles, threads, estimate(kernel))
                if (taken_ps := both_ps(tried)) < best_ps:
                    best, best_ps = tried, taken_ps
    assert best is not None
    if only is None and view.without_slowest is not None:
        other = _search(layer, dtype, view.without_slowest, fixed)
        if both_ps(other) < both_ps(best):
            best = other
    return best


def _among_fixed(layer: Layer, tilings: Sequence[Tiling], fixed: FixedTiles) -> list[Tiling]:
    """Return the tilings of a layer in sequence that have the fixed values; raise ``PinError`` if none has."""
    tiles = with_fixed(layer, [each.tiles for each in tilings], fixed._replace(parallel=None))
    found = [
        each for each in tilings
        if each.tiles in tiles and fixed.threads in (None, each.threads)
        and fixed.parallel in (None, each.tiles.parallel)
    ]  # fmt: skip
    if not found:
        counts = ", ".join([f"{each.tiles.parallel} on {each.threads}" for each in tilings])
        raise PinError(
            f"{fixed.where}: layer {layer.sink.name!r} is computed in sequence; its parallel loops on threads are"
            f" {counts}"
        )
    return found


def _candidates_with(layer: Layer, dtype: str, view: CpuView, fixed: FixedTiles) -> list[LoopTiles]:
    """Return the tiles that are tried with the fixed values, those of anchors in front of the last made to fit."""
    shape, parts = layer.sink.shape, parts_of(layer)
    found = []
    for cut in with_fixed(layer, candidates(layer, dtype, view), fixed):
        parallel = parallel_loops(cut.tile, cut.order, shape, view.thread_counts[0], view)
        if fixed.parallel is not None:
            parallel = fixed.parallel
        elif not parts:  # no anchor: as many loops as leave the reductions whole
            parallel = cut.parallel
        own = replace(cut, parallel=parallel)
        found.append(_with_upstream(parts, own, dtype, view) if parts[1:] else own)
    return found


def _in_order(layer: Layer, dtype: str, view: CpuView) -> Iterator[Tiling]:
    """Yield the tilings that are tried for a layer whose results need earlier ones."""
    for threads in view.thread_counts:
        for tiles in tiles_in_order(layer, dtype, view, threads):
            yield Tiling(tiles, threads, estimate(Candidate(layer, tiles, threads, dtype, view)))


def _taken(tiling: Tiling) -> tuple[float, tuple[float, tuple[float, ...]]]:
    return tiling.time_ps, tiling.rank


def candidates(layer: Layer, dtype: str, view: CpuView) -> list[LoopTiles]:
    """Return the tiles that are tried for a layer, on as many threads as do most arithmetic."""
    if ordered_dims(layer):
        return list(tiles_in_order(layer, dtype, view, view.thread_counts[0]))
    parts = parts_of(layer)
    if not parts:
        return list(_without_anchor(layer, dtype, view))
    last, shape = parts[-1], layer.sink.shape
    grains = tile_grains(layer)
    wider = _TILES_OF_REGISTERS if len(parts) == 1 or max(grains) > 1 else _TILES_IN_FRONT
    made = [
        _anchored(last, each, vector_dim_of(layer), view, shape, wider, grains)
        for each in registers_tried(last, dtype, view)
    ]
    found = list(dict.fromkeys(itertools.chain.from_iterable(made)))
    if streamed_softmax(layer) is not None:
        found += in_steps(last, found)
    return [_with_upstream(parts, cut, dtype, view) for cut in found] if parts[1:] else found


def best_of(kernels: Sequence[Candidate], threads: int) -> list[Tiling]:
    """Return the tilings of lowest rank, the first of equal ones, as many as are split again.

    The bound that is lowest is always the one that is worked out further, so that no level of a cache is looked at
    for tiles that are sure to take longer than those returned.
    """
    if len(kernels) <= _SPLIT_AGAIN:
        return sorted([Tiling(kernel.tiles, threads, estimate(kernel)) for kernel in kernels], key=attrgetter("rank"))
    waiting = [(next(bounds), number, bounds) for number, bounds in enumerate(map(bounds_apart_ps, kernels))]
    heapq.heapify(waiting)
    found: list[tuple[tuple[float, tuple[float, ...]], int, Tiling]] = []
    while waiting and (len(found) < _SPLIT_AGAIN or waiting[0][0] <= found[-1][2].estimate.apart_ps):
        _, number, bounds = waiting[0]
        closer = next(bounds, None)
        if closer is not None:
            heapq.heapreplace(waiting, (closer, number, bounds))
            continue
        heapq.heappop(waiting)
        tiling = Tiling(kernels[number].tiles, threads, estimate(kernels[number]))
        found = sorted([*found, (tiling.rank, number, tiling)], key=itemgetter(0, 1))[:_SPLIT_AGAIN]
    return [tiling for _, _, tiling in found]


_SPLIT_AGAIN = 2
"""Number of best tiles of each register tile that are tried on other numbers of threads."""


def _with_upstream(parts: Sequence[Layer], cut: LoopTiles, dtype: str, view: CpuView) -> LoopTiles:
    """Return ``cut`` of the last part with tiles of those in front of it."""
    spans = sink_spans(parts[-1].sink.shape, cut)
    upstream = []
    for behind, part in zip(reversed(parts[1:]), reversed(parts[:-1]), strict=True):
        box = box_in_front(behind, part, spans, cut.depth_step if cut.streamed else None)
        extents, vector_dim = tuple([span.extent for span in box]), vector_dim_of(part)
        if anchored_nest(part) is None:
            spans = box
            upstream.append(_of_rows(part, vector_dim, view.lanes(dtype)))
            continue
        along = box[vector_dim]
        begins = math.gcd(along.first, *[step for _, step in along.steps])
        register = register_tile_of(part, extents, dtype, view, begins)
        spans = tuple([span.rounded(size) for span, size in zip(box, register, strict=True)])
        others = tuple(dim for dim in part.sink.order if dim != vector_dim)
        is_outermost = _has_vectors_outermost(part, vector_dim, spans, view)
        order = (vector_dim, *others) if is_outermost else (*others, vector_dim)
        upstream.append(UpstreamTiles(order, register, vector_dim))
    return replace(cut, upstream=tuple(upstream))


def _of_rows(part: Layer, vector_dim: int, lanes: int) -> UpstreamTiles:
    """Return the tiles of a part without an anchor: single rows, in vectors that divide them."""
    shape, order = part.sink.shape, tuple(part.sink.order)
    register = [dividing(size, lanes) if dim == vector_dim else 1 for dim, size in enumerate(shape)]
    return UpstreamTiles(order, tuple(register), vector_dim)


def _has_vectors_outermost(part: Layer, vector_dim: int, spans: Spans, view: CpuView) -> bool:
    """Whether its loops go along the vectors last: where they use data apart, or where more weights than data.

    Not where it copies for all of ``spans`` more than half of what a core's caches hold: copies are then made, and
    used, for one register tile after the other.
    """
    anchor = anchored_nest(part)
    assert anchor is not None
    tensors = part.graph.tensors
    data = [read for read in anchor.reads if tensors[read.tensor].role != "weight"]
    if all(loops_apart(anchor, read, (vector_dim,)) for read in data):
        return True
    core = view.kinds[0]
    cache = core.l2 or core.l1
    made = [read for read in anchor.reads if is_computed_before(part, anchor, read)]
    boxes = [math.prod([span.extent for span in read_spans(anchor, read, spans)]) for read in made]
    if 2 * part.sink.bytes_of(sum(boxes)) * cache.shared_by > cache.capacity_bytes:
        return False
    extents = [min(span.extent, size) for span, size in zip(spans, part.sink.shape, strict=True)]
    needed = part.tile_work(tuple(extents)).operand_bytes
    weights = sum([size for name, size in needed.items() if tensors[name].role == "weight"])
    return 2 * weights > sum(needed.values())


def _without_anchor(layer: Layer, dtype: str, view: CpuView) -> Iterator[LoopTiles]:
    """Yield the tiles of a layer that nothing is held in registers for: rows of the sink, one after the other.

    Where no reduction is in the way, all rows of a thread are one tile. Outer dimensions are split over threads, as
    many as make enough chunks.
    """
    shape, order, vector_dim = layer.sink.shape, tuple(layer.sink.order), vector_dim_of(layer)
    register = [1] * len(shape)
    is_one_by_one = sums_one_by_one(layer, view.lanes(dtype))
    if is_one_by_one:
        vector_dim = -1
    if vector_dim >= 0:
        register[vector_dim] = dividing(shape[vector_dim], view.lanes(dtype))
    has_rows = any(compiled.nest.has_reduction for compiled in layer.nests)
    before_vectors = order.index(vector_dim) if vector_dim >= 0 else len(order) - (not is_one_by_one)
    most = min(shared_rows(layer), before_vectors) if has_rows and not is_one_by_one else before_vectors
    wanted = view.thread_counts[0] * view.tuning.chunks_per_thread
    parallel, fused = 0, 1
    while parallel < most and fused < wanted and view.thread_counts[0] > 1:
        fused *= shape[order[parallel]]
        parallel += 1
    alone = most if has_rows else parallel
    tile = tuple([1 if dim in order[:alone] else size for dim, size in enumerate(shape)])
    yield LoopTiles(tile, order, parallel if fused > 1 else 0, tuple(register), vector_dim, None)
    if shared := shared_dims(layer):
        most = len(order) - len(shared) if is_one_by_one else order.index(shared[0])
        order = (*[dim for dim in order if dim not in shared], *shared)
        tile = tuple([shape[dim] if dim in shared else size for dim, size in enumerate(tile)])
        parallel = min(parallel_loops(tile, order, shape, view.thread_counts[0], view), most)
        yield LoopTiles(tile, order, parallel, tuple(register), vector_dim, None)


def _anchored(
    layer: Layer, register: Extents, vector_dim: int, view: CpuView, shape: Extents, few: Sequence[int],
    grains: Extents,
) -> Iterator[LoopTiles]:  # fmt: skip
    """Yield the tiles that are tried around a layer's last anchor, in a fixed order."""
    memory = layer.sink.order
    outer = [dim for dim in reversed(memory) if dim != vector_dim and shape[dim] > 1]
    steps = [None, *_depth_steps(layer, view)]
    others = tuple(dim for dim in memory if dim != vector_dim)
    apart = dims_apart(layer)
    outermost = tuple(sorted(others, key=lambda dim: dim not in apart and shape[dim] > 1))
    orders = list(dict.fromkeys([(*others, vector_dim), (vector_dim, *others), (*outermost, vector_dim)]))
    outer = [dim for dim in outer if dim not in apart] + [dim for dim in outer if dim in apart]
    widths = sizes_along(layer, vector_dim, register[vector_dim], few, grains[vector_dim])
    for rows in row_tiles(layer, outer, register, few, grains):
        for width in widths:
            tile = list(rows)
            tile[vector_dim] = width
            for order in orders:
                parallel = parallel_loops(tile, order, shape, view.thread_counts[0], view)
                for each in steps:
                    yield LoopTiles(tuple(tile), order, parallel, register, vector_dim, each)


def _depth_steps(layer: Layer, view: CpuView) -> list[int]:
    """Return the steps of the depth loop that are tried, if the loop is worth cutting.

    Rows of an operand that cannot be stored in panels lie far apart, at distances that often share the same few sets of
    a cache: with such an operand a shorter step is tried, too, so that the rows of a step stay.
    """
    depth = footprints_of(layer).depth
    inner = max([nest.iterations for nest in nests_of(layer) if nest.is_anchor], default=1) // depth
    inner = max(inner, 1)
    most = view.tuning.depth_iterations
    if depth * inner <= most // 2:
        return []
    longest = [most, view.tuning.depth_iterations_apart] if _has_rows_apart(layer) else [most]
    fitting = [[step for step in divisors(depth) if 1 < step <= min(each // inner, depth // 2)] for each in longest]
    return list(dict.fromkeys([max(steps) for steps in fitting if steps]))


def _has_rows_apart(layer: Layer) -> bool:
    """Whether vectors of an operand of the anchor are parts of rows as they were computed: it is no weight."""
    nest, depth, tensors = anchored_nest(layer), layer.depth_loop, layer.graph.tensors
    assert nest is not None
    if depth is None:
        return False
    along = nest.moving(nest.write.indices[vector_dim_of(layer)])
    return any(
        read.uses(depth) and read.uses(along.terms[-1][0])
        and (read.tensor not in tensors or tensors[read.tensor].role != "weight")
        for read in nest.reads
    )  # fmt: skip
