"""Register tiles: the elements of an anchor's output that registers hold while its reduction runs.

Of all that the registers hold it is the one for which the fastest cores need the fewest cycles, if all data were at
hand; of equal ones that with the fewest instructions.
"""

import itertools
import math
from collections.abc import Sequence

from dsascape.scheduler.cpu.search.register_cycles import register_cost
from dsascape.scheduler.cpu.structure.anchors import is_aligned, lanes_along
from dsascape.scheduler.cpu.structure.chains import depth_of
from dsascape.scheduler.cpu.structure.nests import anchor_work
from dsascape.scheduler.cpu.view import CpuView, IssueView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.parts import divisors
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized

_MOST_COLUMNS = 8
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28)


def vector_dim_of(layer: Layer) -> int:
    """Return the dimension of the sink that vectors lie along, the innermost in memory; -1 if it has one element."""
    sink = layer.sink
    return next((dim for dim in reversed(sink.order) if sink.shape[dim] > 1), -1)


def register_tile_of(layer: Layer, extents: Extents, dtype: str, view: CpuView, begins: int = 0) -> Extents:
    """Return the register tile of a layer with one anchor, of ``extents`` of its output at a time.

    Vectors do not reach over multiples of ``begins``, where what is computed at a time may begin.
    """
    return _register_tile(layer, extents, dtype, view.issue, begins)


def registers_tried(layer: Layer, dtype: str, view: CpuView) -> list[Extents]:
    """Return the register tiles that are tried: the one that is fastest, and one that leaves each thread its part.

    The latter where there are fewer of the former than threads.
    """
    shape, threads, along = layer.sink.shape, view.thread_counts[0], vector_dim_of(layer)
    if depth_of(layer) == 1:
        return [_of_single_row(layer, dtype, view)]
    fastest = register_tile_of(layer, shape, dtype, view)
    number = math.prod([-(-size // part) for size, part in zip(shape, fastest, strict=True)])
    if number >= threads or shape[along] <= view.lanes(dtype):
        return [fastest]
    width = -(-fastest[along] * number // (threads * view.lanes(dtype))) * view.lanes(dtype)
    narrow = tuple([min(width, size) if dim == along else size for dim, size in enumerate(fastest)])
    return list(dict.fromkeys([fastest, register_tile_of(layer, narrow, dtype, view)]))


def _of_single_row(layer: Layer, dtype: str, view: CpuView) -> Extents:
    """Return the register tile of a layer whose rows share nothing, as it sums up nothing: as wide as divides a row."""
    nest, along = anchored_nest(layer), vector_dim_of(layer)
    assert nest is not None
    lanes = lanes_along(nest, along, view.lanes(dtype))
    vectors = max([each for each in divisors(-(-layer.sink.shape[along] // lanes)) if each <= _MOST_COLUMNS])
    return tuple([vectors * lanes if dim == along else 1 for dim in range(len(layer.sink.shape))])


@memoized
def _register_tile(layer: Layer, extents: Extents, dtype: str, view: IssueView, begins: int) -> Extents:
    simd, tuning = view.code.simd, view.code.tuning
    nest, vector_dim = anchored_nest(layer), vector_dim_of(layer)
    assert nest is not None
    lanes = math.gcd(lanes_along(nest, vector_dim, simd.vector(dtype).lanes), begins)
    limit = min(simd.registers, tuning.most_accumulators)
    best: tuple[float, float, Extents] | None = None
    for register in _register_tiles(layer, vector_dim, lanes, limit, extents):
        accumulators = math.prod(register) // lanes
        own = tuning.kept_operands if _has_own_operands(layer, register, vector_dim) else 0
        if begins % register[vector_dim] or (accumulators > 1 and accumulators * (1 + own) >= limit):
            continue
        if not all(is_aligned(nest, dim, size) for dim, size in enumerate(register)):
            continue
        number = math.prod([-(-size // part) for size, part in zip(extents, register, strict=True)])
        cost = register_cost(layer, register, vector_dim, dtype, view)
        ranked = cost.cycles * number, cost.instructions * float(number), register
        best = ranked if best is None else min(best, ranked)
    assert best is not None
    return best[2]


def _has_own_operands(layer: Layer, register: Extents, vector_dim: int) -> bool:
    """Whether every accumulator has a vector of an operand to itself: none is the same for a row, or for a column."""
    rows = {dim for dim, size in enumerate(layer.sink.shape) if size > 1} - {vector_dim}
    return any(
        read.along_vector != "same" and rows <= set(read.dims)
        and all(read.loads_along(dim, register[dim]) == register[dim] for dim in rows)
        for read in anchor_work(layer).reads
    )  # fmt: skip


@memoized
def dims_apart(layer: Layer) -> frozenset[int]:
    """Return the dimensions along which no operand of the anchor's products is shared, beside one that has others.

    None where rows of the sink have no dimension along which an operand is shared.
    """
    nest, vector_dim = anchored_nest(layer), vector_dim_of(layer)
    if nest is None:
        return frozenset()
    reduced = [number for number, loop in enumerate(nest.loops) if loop.reduction]
    operands = [read for read in nest.reads if any(map(read.uses, reduced))]
    rows = [dim for dim, size in enumerate(layer.sink.shape) if size > 1 and dim != vector_dim]
    apart = frozenset([
        dim for dim in rows
        if operands and all(
            any(map(read.uses, [loop for loop, _ in nest.write.indices[dim].terms])) for read in operands
        )
    ])  # fmt: skip
    return frozenset() if apart.issuperset(rows) else apart


def _register_tiles(layer: Layer, vector_dim: int, lanes: int, limit: int, extents: Extents) -> list[Extents]:
    """Return the register tiles that ``limit`` registers hold, with operands beside the accumulators."""
    most = min(-(-extents[vector_dim] // lanes), _MOST_COLUMNS)
    sizes = [(1, 1), *itertools.product(range(1, most + 1), _ROWS)]
    fitting = [(columns, rows) for columns, rows in sizes if columns == rows == 1 or (rows + 1) * columns < limit]
    found = [_of_rows(layer, vector_dim, columns * lanes, rows, extents) for columns, rows in fitting]
    return list(dict.fromkeys([register for register in found if register is not None]))


def _rows_dims(layer: Layer, vector_dim: int, shape: Extents) -> list[int]:
    """Return the dimensions that rows may lie along, the innermost first."""
    apart = dims_apart(layer)
    return [dim for dim in reversed(layer.sink.order) if dim != vector_dim and shape[dim] > 1 and dim not in apart]


def _of_rows(layer: Layer, vector_dim: int, width: int, rows: int, shape: Extents) -> Extents | None:
    """Return a register tile of ``rows`` vectors, along the dimensions further out; None if there are not so many.

    Dimensions along which every operand has data of its own, as heads of an attention, are passed over: rows along them
    share nothing. So are inner dimensions that the rows do not fill.
    """
    dims = _rows_dims(layer, vector_dim, shape)
    tiles = (_filled(dims[first:], vector_dim, width, rows, shape) for first in range(max(len(dims), 1)))
    return next((register for register in tiles if register is not None), None)


def _filled(dims: Sequence[int], vector_dim: int, width: int, rows: int, shape: Extents) -> Extents | None:
    """Return the register tile that fills ``dims`` one after the other with ``rows``; None if they do not divide."""
    register = [1] * len(shape)
    register[vector_dim] = width
    for dim in dims:
        if rows <= shape[dim]:
            register[dim], rows = rows, 1
        elif rows % shape[dim] == 0:
            register[dim], rows = shape[dim], rows // shape[dim]
        else:
            return None
    return tuple(register) if rows == 1 else None
