"""The tiles that are tried for a layer: for products blocks of rows and columns, for all else runs of elements.

Products run on tensor units where these compute the dtype and the product is no smaller than one of their instructions;
else on lanes. Grids are numbered along memory; `grid_orders` has the other ways.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from dsascape.scheduler.gpu.nests import Product, nests_of
from dsascape.scheduler.gpu.tiles import ComputeUnit, GpuTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.recurrences import step_dims
from dsascape.workloads.loopnest import Extents

Side = Literal["rows", "columns", "count"]
_SIDES = (16, 32, 64, 128, 256)
"""Rows and columns of a block."""
_LARGEST_TILE = 256 * 128
_LARGEST_PART = 64
"""Sums that a thread keeps."""
_WARP_TILE = 64 * 64
"""Sums that a warp keeps, on tensor units."""
_THREADS = (64, 128, 256)
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
_SHARED_BY = 4
"""Threads or warps that share a reduction of products."""
_LEAST_SHARE = 64
"""Iterations of it that are left for each of them."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """What each dimension of the sink is to the anchor's product."""

    rows: tuple[int, ...]
    """Dimensions, the one innermost in memory first."""
    columns: tuple[int, ...]
    most_columns: int
    """Elements along the first of the columns' dimensions that belong to one product."""
    depth: int
    inner: int
    """Iterations of the reduction for one of its longest loop."""


def candidates(layer: Layer, view: GpuView) -> Iterator[GpuTiles]:
    """Yield the tiles that are tried, in a fixed order."""
    sides = _known_sides(layer)
    if sides is not None:
        yield from _of_products(layer, sides, view)
    if sides is None or _is_thin(layer, sides):
        yield from runs(layer, view)


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
    return layer.analysis.table(_sides_of).get(layer.signature, partial(_sides_of, layer))


def _is_thin(layer: Layer, sides: _Sides) -> bool:
    """Whether a product has so few rows or columns that there is next to no reuse."""
    shape = layer.sink.shape
    return min(math.prod([shape[dim] for dim in dims]) for dims in (sides.rows, sides.columns)) < _SIDES[0]


def _sides_of(layer: Layer) -> _Sides | None:
    """Return the sides of the anchor's product; None if there is no reuse of both operands."""
    nests, shape = nests_of(layer), layer.sink.shape
    one = nests.product(layer, (1,) * len(shape))
    if one is None:
        return None
    found: dict[Side, list[int]] = {"rows": [], "columns": [], "count": []}
    most, steps = 1, step_dims(layer)
    for dim in reversed(layer.sink.order):
        if shape[dim] > 1 and dim not in steps:
            along = nests.product(layer, tuple([size if d == dim else 1 for d, size in enumerate(shape)]))
            assert along is not None
            side = _side(one, along)
            if side == "columns" and not found["columns"]:
                most = along.columns // one.columns
            found[side].append(dim)
    if not found["rows"] and not found["columns"]:
        return None
    return _Sides(
        tuple(found["rows"] + found["count"]), tuple(found["columns"]), most, one.depth,
        max(1, one.depth // nests.depth),
    )  # fmt: skip


def _side(one: Product, along: Product) -> Side:
    if along.rows > one.rows and along.columns == one.columns:
        return "rows"
    return "columns" if along.columns > one.columns and along.rows == one.rows else "count"


def _filled(shape: Sequence[int], dims: Sequence[int], wanted: int, start: Sequence[int], *, even: bool) -> list[int]:
    """Return ``start`` with up to ``wanted`` elements along ``dims``, the first of them first.

    ``even``: a dimension that has to be cut is cut into parts of equal size, as far as that goes.
    """
    tile = list(start)
    for dim in dims:
        size = shape[dim]
        if wanted >= size:
            tile[dim] = size
            wanted //= size
            continue
        if wanted > 1:
            tile[dim] = -(-size // -(-size // wanted)) if even else wanted
        break
    return tile


def _of_products(layer: Layer, sides: _Sides, view: GpuView) -> Iterator[GpuTiles]:
    shape = layer.sink.shape
    single = [1] * len(shape)
    in_rows = math.prod([shape[dim] for dim in sides.rows])
    in_columns = min(math.prod([shape[dim] for dim in sides.columns]), max(sides.most_columns, 1))
    order = tuple(layer.sink.order)
    unit = _unit(in_rows, in_columns, sides.depth, view)
    can_stage = unit == "tensor" or nests_of(layer).anchor_ends_last
    for rows in _up_to(in_rows):
        for columns in _up_to(in_columns):
            if rows * columns > _LARGEST_TILE:
                continue
            tile = _filled(shape, sides.rows, rows, single, even=True)
            tile = _filled(shape, sides.columns, min(columns, in_columns), tile, even=False)
            for part in _parts(tile, sides, unit, view):
                for split in _splits(sides, tile, part, unit, view):
                    if can_stage:
                        step = _step(sides, view, split)
                        yield GpuTiles(tuple(tile), order, part, split, step, view.tuning.stages, unit)
                    if unit == "lanes":
                        yield GpuTiles(tuple(tile), order, part, split, None, 1, unit)


def _up_to(size: int) -> list[int]:
    """Return the sides that are tried for so many rows or columns: those below, and the first that holds all."""
    below = [side for side in _SIDES if side < size]
    return [*below, *[side for side in _SIDES if side >= size][:1]]


def _unit(rows: int, columns: int, depth: int, view: GpuView) -> ComputeUnit:
    tensor = view.tensor
    if tensor is None:
        return "lanes"
    least, most = sorted((tensor.rows, tensor.columns))
    fits = min(rows, columns) >= least and max(rows, columns) >= most and depth >= tensor.depth
    return "tensor" if fits else "lanes"


def _parts(tile: Sequence[int], sides: _Sides, unit: ComputeUnit, view: GpuView) -> Iterator[Extents]:
    """Yield parts of a tile, as square as can be, for several numbers of threads or warps."""
    rows = math.prod([tile[dim] for dim in sides.rows])
    columns = math.prod([tile[dim] for dim in sides.columns])
    warp = view.spec.sms.warp
    seen = set()
    for threads in _THREADS:
        number = threads // warp if unit == "tensor" else threads
        wanted = max(1, rows * columns // max(number, 1))
        if wanted > (_WARP_TILE if unit == "tensor" else _LARGEST_PART):
            continue
        across = min(columns, 2 ** round(math.log2(max(math.sqrt(wanted), 1))))
        down = min(rows, max(1, wanted // across))
        across = min(columns, max(across, wanted // down))
        part = _filled(tile, sides.rows, down, [1] * len(tile), even=True)
        part = _filled(tile, sides.columns, across, part, even=True)
        if tuple(part) not in seen:
            seen.add(tuple(part))
            yield tuple(part)


def _splits(sides: _Sides, tile: Sequence[int], part: Extents, unit: ComputeUnit, view: GpuView) -> Iterator[int]:
    """Yield how many share a reduction: one, or a few where there is enough of it and a block is small."""
    sms = view.spec.sms
    parts = math.prod([-(-size // each) for size, each in zip(tile, part, strict=True)])
    threads = parts * (sms.warp if unit == "tensor" else 1)
    yield 1
    if threads * _SHARED_BY <= sms.threads_per_block // 2 and sides.depth >= _SHARED_BY * _LEAST_SHARE:
        yield _SHARED_BY


def _step(sides: _Sides, view: GpuView, split: int) -> int:
    """Return the iterations of the depth loop that make a step: so many bytes of a row of an operand for each share."""
    element_bytes = {"fp32": 4, "int8": 1}.get(view.dtype, 2)
    return max(1, split * view.tuning.step_bytes // element_bytes // sides.inner)


def runs(layer: Layer, view: GpuView) -> Iterator[GpuTiles]:
    """Yield tiles of neighbouring elements, also with one dimension whole, which reductions may need."""
    shape, sms = layer.sink.shape, view.spec.sms
    order = tuple(layer.sink.order)
    steps = step_dims(layer)
    dims = tuple(dim for dim in reversed(order) if shape[dim] > 1 and dim not in steps)
    tiles: dict[Extents, None] = {}
    for run in _RUNS:
        tiles[tuple(_filled(shape, dims, run, [1] * len(shape), even=True))] = None
        for dim in dims:
            whole = [size if d == dim else 1 for d, size in enumerate(shape)]
            others = tuple(d for d in dims if d != dim)
            tiles[tuple(_filled(shape, others, max(run // shape[dim], 1), whole, even=True))] = None
    most = min(sms.threads_per_block, max(_THREADS) * 2)
    splits = _SPLITS if any(nest.compiled.nest.has_reduction for nest in nests_of(layer).nests) else (1,)
    iterations = nests_of(layer).shared_iterations
    for tile in tiles:
        blocks = math.prod([-(-size // each) for size, each in zip(shape, tile, strict=True)])
        for part in _run_parts(tile, dims):
            parts = math.prod([-(-size // each) for size, each in zip(tile, part, strict=True)])
            for split in splits:
                if parts * split > most:
                    continue
                yield GpuTiles(tile, order, part, split, None, 1, "lanes")
                for shares in _SHARES if view.tuning.shared_reductions and not steps else ():
                    if blocks * shares <= _MOST_SHARING and shares * split * _LEAST_TURNS <= iterations:
                        yield GpuTiles(tile, order, part, split, None, 1, "lanes", shares)


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
