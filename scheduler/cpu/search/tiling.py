"""Tiles of a layer's loops: a few that promise most are costed as loop programs, and the best of these is taken.

The search is small and always finds the same. First the register tile (`scheduler.cpu.search.register_tiles`). Then the
loops over tiles: a few sizes along each dimension (the register tile, up to four of them, all), the vector dimension
outermost or innermost, the depth loop whole or in steps. A rough time (`scheduler.cpu.search.rough`) puts these in
order; the first are made programs, and what these issue and move decides. The sum of the times of instructions and of
each level counts, not the longest of them: what hides behind what depends on what the kernels before have left in the
caches. Then the least traffic, then what is tried first. Last, the number of threads, by the sum of two estimates of
the slowest core's time: with empty caches, and with what the kernels before have left in them. Which of them holds is
known only when the network runs; a rule that needed both to improve would change with either. Where
threads are asked for on cores of several kinds, the whole search is made for the faster kinds alone too: slower cores
hold up kernels that are split evenly. Layers without an anchor are computed row by row.

Where there are several anchors, these are the loops of the last one, in a few more sizes; each anchor in front gets the
register tile that needs the fewest cycles for what one tile needs of it.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from dsascape.scheduler.cpu.cost.estimate import Estimate, among_others_ps, estimate
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, Spans, UpstreamTiles
from dsascape.scheduler.cpu.search.fixed import FixedTiles, with_fixed
from dsascape.scheduler.cpu.search.in_steps import in_steps
from dsascape.scheduler.cpu.search.loop_sizes import parallel_loops, row_tiles, sizes_along
from dsascape.scheduler.cpu.search.register_tiles import dims_apart, register_tile_of, registers_tried, vector_dim_of
from dsascape.scheduler.cpu.search.rough import rough_ps
from dsascape.scheduler.cpu.search.tiles_in_order import tiles_in_order
from dsascape.scheduler.cpu.structure.chains import (
    box_in_front,
    loops_apart,
    read_spans,
    sink_spans,
    streamed_softmax,
    tile_grains,
)
from dsascape.scheduler.cpu.structure.nests import anchor_work, sums_one_by_one
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
_SPLIT_AGAIN = 2
"""Number of best tiles that are tried on other numbers of threads."""


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
        self.algorithms: Table[tuple[int, int]] = Table()
        """By a convolution's signature: its algorithm as one kernel, and the size in which its phases are faster.

        0: directly, and in none.
        """


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
    only = None if fixed is None else fixed.threads
    if ordered_dims(layer):
        tilings = list(_in_order(layer, dtype, view))
        return min(tilings if fixed is None else _among_fixed(layer, tilings, fixed), key=_taken)
    tried = candidates(layer, dtype, view) if fixed is None else _candidates_with(layer, dtype, view, fixed)
    found = best_of(layer, tried, dtype, view)
    best = found[0] if only in (None, most) else None
    if only is not None:
        fewer = [only] if only != most else []

    def both_ps(tiling: Tiling) -> float:
        return tiling.time_ps + among_others_ps(kernel_of(layer, tiling.tiles, tiling.threads, dtype, view))

    best_ps = math.inf if best is None or not fewer else both_ps(best)

    for cut, threads in _on_fewer(layer, [each.tiles for each in found[:_SPLIT_AGAIN]], fewer, dtype, view, fixed):
        again = Tiling(cut, threads, estimate(kernel_of(layer, cut, threads, dtype, view)))
        if (taken_ps := both_ps(again)) < best_ps:
            best, best_ps = again, taken_ps
    assert best is not None
    if only is None and view.without_slowest is not None:
        other = _search(layer, dtype, view.without_slowest, fixed)
        if both_ps(other) < both_ps(best):
            best = other
    return best


def _on_fewer(
    layer: Layer, tried: Sequence[LoopTiles], fewer: Sequence[int], dtype: str, view: CpuView, fixed: FixedTiles | None
) -> list[tuple[LoopTiles, int]]:
    """Return tiles on other numbers of threads that have shorter rough times: half as many as are costed else."""
    parallel = None if fixed is None else fixed.parallel
    split = [
        (replace(each, parallel=_parallel(each, layer, threads, view) if parallel is None else parallel), threads)
        for threads in fewer for each in tried
    ]  # fmt: skip
    if not split:
        return []
    whole_ps = math.inf  # a number that is fixed has to be taken
    if fixed is None or fixed.threads is None:
        whole_ps = min([rough_ps(layer, each, view.thread_counts[0], dtype, view) for each in tried])
    times_ps = [(rough_ps(layer, *each, dtype, view), number) for number, each in enumerate(split)]
    return [split[number] for time_ps, number in sorted(times_ps)[: -(-view.tuning.costed // 2)] if time_ps < whole_ps]


def _parallel(tiles: LoopTiles, layer: Layer, threads: int, view: CpuView) -> int:
    return parallel_loops(tiles.tile, tiles.order, layer.sink.shape, threads, view)


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
            yield Tiling(tiles, threads, estimate(kernel_of(layer, tiles, threads, dtype, view)))


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


def best_of(layer: Layer, tried: Sequence[LoopTiles], dtype: str, view: CpuView) -> list[Tiling]:
    """Return tilings on as many threads as do most arithmetic, the best first: of those whose rough times are least.

    As many are costed as `CpuTuning.costed` says, and as many with running statistics.
    """
    most = view.thread_counts[0]
    kinds = [[cut for cut in tried if cut.streamed is streamed] for streamed in (False, True)]
    found = [cut for own in kinds for cut in least_rough(own, layer, dtype, view)]
    return sorted([
        Tiling(cut, most, estimate(kernel_of(layer, cut, most, dtype, view))) for cut in found
    ], key=attrgetter("rank"))  # fmt: skip


def least_rough(tried: Sequence[LoopTiles], layer: Layer, dtype: str, view: CpuView) -> list[LoopTiles]:
    """Return the tiles whose rough times are least, as many as are costed; of those alike, the first one."""
    alike: dict[object, LoopTiles] = {}
    for cut in tried:
        alike.setdefault(_loops_of(cut, layer.sink.shape), cut)
    if len(alike) <= view.tuning.costed:
        return list(alike.values())
    by_time: dict[float, LoopTiles] = {}
    for cut in alike.values():
        by_time.setdefault(rough_ps(layer, cut, view.thread_counts[0], dtype, view), cut)
    return [by_time[time_ps] for time_ps in sorted(by_time)[: view.tuning.costed]]


def _loops_of(tiles: LoopTiles, shape: Extents) -> object:
    """Return what tiles differ by: loops over one tile make no difference."""
    several = tuple([dim for dim in tiles.order if tiles.tile[dim] < shape[dim]])
    split = tuple([dim for dim in tiles.order[: tiles.parallel] if dim in several])
    inside = tuple([dim for dim in tiles.order if tiles.register[dim] < shape[dim]])
    return several, split, inside, tiles.tile, tiles.register, tiles.vector_dim, tiles.depth_step, tiles.upstream


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
    inner = max(anchor_work(layer).iterations // depth, 1)
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
