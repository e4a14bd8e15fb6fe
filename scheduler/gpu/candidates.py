"""The tiles that are tried for a layer: for products blocks of rows and columns, for all else runs of elements.

Products run on tensor units where these compute the dtype and the product is no smaller than one of their instructions,
or padded to one no slower than on lanes; else on lanes. Grids are numbered along memory; `grid_orders` has the other
ways.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from dsascape.scheduler.gpu.fronts import depth_step, filled, fronts_of, room_of, unit_of
from dsascape.scheduler.gpu.nests import Product, nests_of
from dsascape.scheduler.gpu.staging import operands_bytes, slots
from dsascape.scheduler.gpu.streams import softmax_in_front
from dsascape.scheduler.gpu.tiles import ComputeUnit, GpuTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.recurrences import step_dims
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized

Side = Literal["rows", "columns", "count"]
_SIDES = (16, 32, 64, 128, 256)
"""Rows and columns of a block."""
_FEW_ROWS = 8
"""Rows of a block that are tried besides where other contractions are in front."""
_LARGEST_TILE = 256 * 128
_LARGEST_PART = 64
"""Sums that a thread keeps."""
_WARP_TILE = 64 * 64
"""Sums that a warp keeps, on tensor units."""
_THREADS = (64, 128, 256)
_MANY_THREADS = 512
"""Threads of a block that computes several contractions."""
_LEAST_STAGES = 2
"""Steps in shared memory at a time: one is used while the next arrives."""
_RUNS = (64, 256, 1024, 4096)
"""Elements of a block without products."""
_VECTORS = (1, 2, 4, 8)
"""Neighbours that a thread computes, without products."""
_ACROSS = (1, 4)
"""Times as many of them, beside each other."""
_SPLITS = (1, 32, 256)
"""Threads that share a reduction, without products."""
_SHARES = (4, 16, 64, 256, 1024, 4096)
"""Blocks that share one, where it is long."""
_LEAST_TURNS = 4
"""Iterations of a shared reduction that are left for each thread."""
_MOST_SHARING = 16_384
"""Blocks of a grid in which some share a reduction."""
_STREAMS = (64, 128, 256)
"""Keys of an attention, for example, for which a block computes scores at a time."""
_SHARED_BY = (4, 16)
"""Threads or warps that share a reduction of products."""
_FEW_THREADS = (16, 32)
"""Parts of a tile with larger parts, of which each takes several threads that share its reduction."""
_LEAST_SHARE = 64
"""Iterations of it that are left for each of them."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """Dimensions of the sink that are rows and columns of a contraction's product."""

    rows: tuple[int, ...]
    """Dimensions, the one innermost in memory first."""
    columns: tuple[int, ...]
    most_columns: int
    """Elements along the first of the columns' dimensions that belong to one product."""
    depth: int

    @property
    def are_both(self) -> bool:
        """Whether a tile has both."""
        return bool(self.rows) and bool(self.columns)


def candidates(layer: Layer, view: GpuView) -> Iterator[GpuTiles]:
    """Yield the tiles that are tried, in a fixed order."""
    sides = _known_sides(layer)
    if sides is not None:
        yield from [_with_own_stages(layer, tiles) for tiles in _of_products(layer, sides, view)]
    if sides is None or _is_thin(layer, sides):
        yield from runs(layer, view)


def _with_own_stages(layer: Layer, tiles: GpuTiles) -> GpuTiles:
    """Return ``tiles`` with no more stages than any of its products has steps."""
    nests = nests_of(layer)
    staged = [(nests.nests[nests.anchor], tiles.depth_step)]
    staged += [(nests.nests[place], front.depth_step) for place, front in zip(nests.fronts, tiles.fronts, strict=True)]
    most = max([slots(nest, step, tiles.stages) for nest, step in staged if step is not None], default=1)
    return tiles if most == tiles.stages else replace(tiles, stages=most)


def grid_orders(layer: Layer) -> tuple[tuple[int, ...], ...]:
    """Return the orders of a grid's dimensions that are tried: columns of a product innermost, and rows innermost."""
    memory, sides = tuple(layer.sink.order), _known_sides(layer)
    if sides is None:
        return (memory,)
    steps = step_dims(layer)
    outer = tuple(dim for dim in memory if dim not in sides.columns and dim not in steps)
    inner = tuple(dim for dim in memory if dim in sides.columns)
    return tuple(dict.fromkeys([(*steps, *outer, *inner), (*steps, *inner, *outer)]))


def _known_sides(layer: Layer) -> _Sides | None:
    """Return the sides of the tiles: those of the last contraction that has both, or else of the last."""
    nests = nests_of(layer)
    every = (_sides(layer, number) for number in (nests.anchor, *reversed(nests.fronts)))
    return next((sides for sides in every if sides is not None and sides.are_both), _sides(layer, nests.anchor))


def _is_thin(layer: Layer, sides: _Sides) -> bool:
    """Whether a product has so few rows or columns that there is next to no reuse."""
    shape = layer.sink.shape
    return min(math.prod([shape[dim] for dim in dims]) for dims in (sides.rows, sides.columns)) <= _SIDES[0]


@memoized
def _sides(layer: Layer, number: int) -> _Sides | None:
    """Return the sides of a contraction's product; None if there is no reuse of both operands."""
    nests, shape = nests_of(layer), layer.sink.shape
    one = nests.product(layer, (1,) * len(shape), number)
    if one is None:
        return None
    found: dict[Side, list[int]] = {"rows": [], "columns": [], "count": []}
    most, steps = 1, step_dims(layer)
    for dim in reversed(layer.sink.order):
        if shape[dim] > 1 and dim not in steps:
            along = nests.product(layer, tuple([size if d == dim else 1 for d, size in enumerate(shape)]), number)
            assert along is not None
            side = _side(one, along)
            if side == "columns" and not found["columns"]:
                most = along.columns // one.columns
            found[side].append(dim)
    if not found["rows"] and not found["columns"]:
        return None
    return _Sides(tuple(found["rows"] + found["count"]), tuple(found["columns"]), most, one.depth)


def _side(one: Product, along: Product) -> Side:
    if along.rows > one.rows and along.columns == one.columns:
        return "rows"
    return "columns" if along.columns > one.columns and along.rows == one.rows else "count"


def _of_products(layer: Layer, sides: _Sides, view: GpuView) -> Iterator[GpuTiles]:
    shape, nests = layer.sink.shape, nests_of(layer)
    in_rows = math.prod([shape[dim] for dim in sides.rows])
    in_columns = min(math.prod([shape[dim] for dim in sides.columns]), max(sides.most_columns, 1))
    order = tuple(layer.sink.order)
    last = _sides(layer, nests.anchor) or sides
    is_last = last == sides
    unit = unit_of(in_rows, in_columns, sides.depth, view) if is_last else "lanes"
    can_stage = unit == "tensor" or (nests.anchor_ends_last and is_last)
    streams = _streams(layer, view)
    for tile, stream in itertools.product(_tiles(layer, sides, in_rows, in_columns), streams):
        if not _has_room(layer, tile, view, stream):
            continue
        tried = (*_FEW_THREADS, *_THREADS) if not nests.fronts else (*_THREADS, _MANY_THREADS)
        parts = [part for each in dict.fromkeys([last, sides]) for part in _parts(tile, each, unit, view, tried)]
        for part in dict.fromkeys(parts):
            for split in _splits(last, tile, part, unit, view, is_last_of_several=bool(nests.fronts)):
                if can_stage:
                    step = depth_step(nests.nests[nests.anchor], view, split)
                    staged = GpuTiles(tile, order, part, split, step, view.tuning.stages, unit, stream=stream)
                    yield _with_fronts(layer, staged, view, staged=True)
                if unit == "lanes":
                    straight = GpuTiles(tile, order, part, split, None, 1, unit, stream=stream)
                    yield _with_fronts(layer, straight, view, staged=False)
                    if nests.fronts:
                        yield _with_fronts(layer, straight, view, staged=True)


def _streams(layer: Layer, view: GpuView) -> tuple[int | None, ...]:
    """Return for how many iterations of the anchor's depth fronts are computed at a time: None for all of them."""
    if not view.tuning.streams or softmax_in_front(layer) is None:
        return (None,)
    depth = max(layer.depth_extents, default=1)
    return (None, *[each for each in _STREAMS if each < depth])


def _has_room(layer: Layer, tile: Extents, view: GpuView, stream: int | None = None) -> bool:
    """Whether shared memory holds what contractions in front of the last make for a tile; else no block of it fits."""
    return not nests_of(layer).fronts or room_of(layer, tile, view, stream) > 0


def _with_fronts(layer: Layer, tiles: GpuTiles, view: GpuView, *, staged: bool) -> GpuTiles:
    """Return the tiles of a kernel with those of its fronts, whose operands are ``staged`` where that can be."""
    sums, threads = math.prod(tiles.part), tiles.threads(view.spec.sms.warp)
    fronts = fronts_of(layer, tiles.tile, sums, threads, view, staged=staged, stream=tiles.stream)
    if not fronts:
        return tiles
    is_any_staged = any(step is not None for step in (tiles.depth_step, *[front.depth_step for front in fronts]))
    stages = view.tuning.stages if is_any_staged else 1
    if stages > _LEAST_STAGES and tiles.depth_step is not None:  # what lies there besides may leave no room for all
        nests, room = nests_of(layer), room_of(layer, tiles.tile, view, tiles.stream)
        extents = nests.works(layer, tiles.tile, tiles.stream)[nests.anchor].extents
        step_bytes = sum(operands_bytes(nests.nests[nests.anchor], extents, tiles.depth_step))
        stages = min(stages, max(room // max(step_bytes, 1), _LEAST_STAGES))
    return replace(tiles, stages=stages, fronts=fronts)


def _tiles(layer: Layer, sides: _Sides, in_rows: int, in_columns: int) -> Iterator[Extents]:
    """Yield tiles of so many rows and columns.

    In front of other contractions: also few rows, all columns, for each part of which fronts would be computed again,
    and patches of rows if those share less of what fronts make with their neighbours than runs do.
    """
    shape, has_fronts = layer.sink.shape, bool(nests_of(layer).fronts)
    single = [1] * len(shape)
    seen = set()
    for rows in (_FEW_ROWS, *_up_to(in_rows)) if has_fronts and in_rows > _FEW_ROWS else _up_to(in_rows):
        along = filled(shape, sides.rows, rows, single, even=True)
        if has_fronts and not layer.is_bounded:  # where fewer rows have fewer columns too
            along = min(along, _patch(shape, sides.rows, rows), key=partial(_macs, layer))
        for columns in dict.fromkeys([*_up_to(in_columns), *([in_columns] if has_fronts else [])]):
            if rows * columns <= _LARGEST_TILE:
                tile = tuple(filled(shape, sides.columns, min(columns, in_columns), along, even=False))
                if tile not in seen:
                    seen.add(tile)
                    yield tile


def _patch(shape: Extents, dims: Sequence[int], wanted: int) -> list[int]:
    """Return up to ``wanted`` elements, as many along the first as along the second of ``dims``."""
    tile = [1] * len(shape)
    for number, dim in enumerate(dims[:2]):
        tile = filled(shape, [dim], math.isqrt(wanted) if not number else wanted // tile[dims[0]], tile, even=True)
    return filled(shape, dims[2:], wanted // math.prod(tile), tile, even=True)


def _macs(layer: Layer, tile: Sequence[int]) -> float:
    """Return the multiply-accumulates for one element of a tile."""
    works = nests_of(layer).works(layer, tuple(tile))
    return sum([work.operations.macs for work in works]) / math.prod(tile)


def _up_to(size: int) -> list[int]:
    """Return the sides that are tried for so many rows or columns: those below, and the first that holds all."""
    below = [side for side in _SIDES if side < size]
    return [*below, *[side for side in _SIDES if side >= size][:1]]


def _parts(
    tile: Sequence[int], sides: _Sides, unit: ComputeUnit, view: GpuView, tried: Sequence[int]
) -> Iterator[Extents]:
    """Yield parts of a tile, as square as can be, for several numbers of threads."""
    rows = math.prod([tile[dim] for dim in sides.rows])
    columns = math.prod([tile[dim] for dim in sides.columns])
    warp = view.spec.sms.warp
    seen = set()
    for threads in tried:
        number = threads // warp if unit == "tensor" else threads
        wanted = max(1, rows * columns // max(number, 1))
        if wanted > (_WARP_TILE if unit == "tensor" else _LARGEST_PART):
            continue
        across = min(columns, 2 ** round(math.log2(max(math.sqrt(wanted), 1))))
        down = min(rows, max(1, wanted // across))
        across = min(columns, max(across, wanted // down))
        part = filled(tile, sides.rows, down, [1] * len(tile), even=True)
        part = filled(tile, sides.columns, across, part, even=True)
        if tuple(part) not in seen:
            seen.add(tuple(part))
            yield tuple(part)


def _splits(
    sides: _Sides, tile: Sequence[int], part: Extents, unit: ComputeUnit, view: GpuView, *, is_last_of_several: bool
) -> Iterator[int]:
    """Yield how many share a reduction: one, or a few where there is enough of it and a block is small.

    With other contractions in front, which gain by more threads too, little of it is enough for a very small block.
    """
    sms = view.spec.sms
    parts = math.prod([-(-size // each) for size, each in zip(tile, part, strict=True)])
    threads = parts * (sms.warp if unit == "tensor" else 1)
    least = _THREADS[0] // 2 if unit == "lanes" else 1
    if threads >= least:
        yield 1
    least_share = _LEAST_TURNS if is_last_of_several and threads < _THREADS[1] else _LEAST_SHARE
    for split in _SHARED_BY if unit == "lanes" else _SHARED_BY[:1]:
        if least <= threads * split <= sms.threads_per_block // 2 and sides.depth >= split * least_share:
            yield split


def runs(layer: Layer, view: GpuView) -> Iterator[GpuTiles]:
    """Yield tiles of neighbouring elements, also with one dimension whole, which reductions may need."""
    shape, sms = layer.sink.shape, view.spec.sms
    order = tuple(layer.sink.order)
    steps = step_dims(layer)
    dims = tuple(dim for dim in reversed(order) if shape[dim] > 1 and dim not in steps)
    tiles: dict[Extents, None] = {}
    for run in _RUNS:
        tiles[tuple(filled(shape, dims, run, [1] * len(shape), even=True))] = None
        for dim in dims:
            whole = [size if d == dim else 1 for d, size in enumerate(shape)]
            others = tuple(d for d in dims if d != dim)
            tiles[tuple(filled(shape, others, max(run // shape[dim], 1), whole, even=True))] = None
    most = min(sms.threads_per_block, max(_THREADS) * 2)
    splits = _SPLITS if any(nest.compiled.nest.has_reduction for nest in nests_of(layer).nests) else (1,)
    iterations = nests_of(layer).shared_iterations
    may_share = view.tuning.shared_reductions and not steps and _ends_in_registers(layer)
    for tile in tiles:
        if not _has_room(layer, tile, view):
            continue
        blocks = math.prod([-(-size // each) for size, each in zip(shape, tile, strict=True)])
        for part in _run_parts(tile, dims):
            parts = math.prod([-(-size // each) for size, each in zip(tile, part, strict=True)])
            for split in splits:
                if parts * split > most:
                    continue
                yield _with_fronts(layer, GpuTiles(tile, order, part, split, None, 1, "lanes"), view, staged=True)
                for shares in _SHARES if may_share else ():
                    if blocks * shares <= _MOST_SHARING and shares * split * _LEAST_TURNS <= iterations:
                        yield GpuTiles(tile, order, part, split, None, 1, "lanes", shares)


def _ends_in_registers(layer: Layer) -> bool:
    """Whether threads keep the sums of the reduction that blocks may share, which no other thread reads."""
    nests = nests_of(layer)
    return nests.reduction >= 0 and not nests.nests[nests.reduction].is_shared


def _run_parts(tile: Extents, dims: Sequence[int]) -> Iterator[Extents]:
    """Yield parts: neighbours that are loaded together, and neighbours across these, whose windows overlap."""
    found: dict[Extents, None] = {}
    for vector in _VECTORS:
        for across in _ACROSS:
            part = [1] * len(tile)
            for dim, wanted in zip(dims, (vector, across), strict=False):
                part[dim] = min(wanted, tile[dim])
            found[tuple(part)] = None
    yield from found
