"""Encoding of tile requests as numbers for the compiled tile search (``scheduler/in_c/tiles.c``).

The compiled search handles loop nests, index reach, lanes and arrays, operands and gaps: no operators and no kinds of
machine. Unsupported cases are left to Python: tensors that are read at several places, scalars, numbers beyond 64 bits,
units that share a nest, sequential and bounded loops, reductions other than products that are accumulated piece by
piece.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from dsascape.hw_models import MatrixUnit
from dsascape.hw_models.common.product_types import BITS
from dsascape.hw_models.dsa.arrays import fill_and_drain_cycles
from dsascape.hw_models.in_c import is_built, may_use
from dsascape.scheduler.dsa.deciding.unit_choice import can_do
from dsascape.scheduler.dsa.shared_work import computed_in, rate_of, units_together
from dsascape.scheduler.dsa.tiling.cuts import Cuts
from dsascape.scheduler.dsa.tiling.tiling import TileRequest
from dsascape.scheduler.dsa.view import DDR, GLOBAL, LOCAL, DsaView
from dsascape.scheduler.kernels.compiled import CompiledNest, LoopRole
from dsascape.scheduler.kernels.layer import DEPTH
from dsascape.workloads.graph import BYTE_BITS
from dsascape.workloads.index import Index, by_stride
from dsascape.workloads.loopnest import Extents, Operations

if is_built("dsascape.scheduler.in_c.tiles"):
    from dsascape.scheduler.in_c.tiles import Tiles

Numbers = tuple[float, ...]

_MODULE = "dsascape.scheduler.in_c.tiles"
_DEPTH_BIT = 16
"""Bit for the depth in the mask of loops an operand depends on; lower bits are the sink's dimensions."""
_MOST_ELEMENT_BYTES = 64
_ROLES: tuple[LoopRole, ...] = ("rows", "columns", "depth", "count")
_MEMORIES = (LOCAL, GLOBAL, DDR)
_MOST = 2**53
"""Bound of integers that floating point represents exactly."""
_MOST_BYTES_LOADED = 2**62


def may_compile() -> bool:
    """Return whether the compiled tile search may be used."""
    return may_use(_MODULE)


def compiled_tiles(request: TileRequest, cuts: Cuts, view: DsaView) -> "Tiles | None":
    """Return a compiled searcher for this class of requests; None if it is not supported."""
    if not _can_compute(request, view) or not _is_known(request):
        return None
    try:
        return Tiles(tuple(_LayerNumbers(request, cuts, view).all()))
    except (ValueError, OverflowError):  # more dimensions, operands or units than the compiled search supports
        return None


def _can_compute(request: TileRequest, view: DsaView) -> bool:
    """Return whether all units can do their nests, each alone; otherwise Python reports the reason."""
    works, units = request.layer.tile_work(request.part).nests, view.spec.units
    dtypes = _dtypes(request, view)
    return bool(request.units) and all(
        can_do(work, name, view, request.dtype) and rate_of(units[name], dtype)
        and len(units_together(name, view, dtype, is_product=bool(work.operations.macs))) == 1
        and dtypes[name] == dtype and BITS.get(dtype, 1) % BYTE_BITS == 0
        for work, name in zip(works, request.units, strict=True)
        for dtype in [computed_in(work, units[name], request.dtype)]
    )  # fmt: skip


def _dtypes(request: TileRequest, view: DsaView) -> Mapping[str, str]:
    """Return the dtype that each unit computes the last of its nests in; the compiled search needs one for all."""
    works = request.layer.tile_work(request.part).nests
    return {
        name: computed_in(work, view.spec.units[name], request.dtype)
        for work, name in zip(works, request.units, strict=True)
    }


def _is_known(request: TileRequest) -> bool:
    """Return whether the compiled search supports the layer, and no number can overflow."""
    layer = request.layer
    if layer.reads_apart or layer.is_ordered or request.in_pieces or layer.is_bounded or layer.streamed:
        return False
    if any(layer.described(access.tensor).element_bits % BYTE_BITS for one in layer.nests for access in one.nest.reads):
        return False
    sizes = [size for name in (*layer.outputs, *layer.inputs) for size in layer.graph.tensors[name].shape]
    if 0 in (*sizes, *request.part, *(extent for one in layer.nests for extent in one.nest.extents)):
        return False
    for one in layer.nests:
        per_iteration, per_output = (max(_classes(each)) for each in (one.nest.per_iteration, one.nest.per_output))
        operations = math.prod(one.nest.extents) * (per_iteration * one.share.numerator + per_output + 1)
        if operations * _MOST_ELEMENT_BYTES >= _MOST:
            return False
    tensors = layer.graph.tensors
    operand_bytes = sum(tensors[name].size_bytes for name in (*layer.inputs, *layer.outputs))
    passes = math.prod(request.part) * request.searched_depth
    return operand_bytes * max(request.cores, passes) < _MOST_BYTES_LOADED


def request_numbers(request: TileRequest, store_burst_bytes: int, view: DsaView) -> Numbers:
    """Return the numbers of one search in the order in which C reads them: free space, DDR timing, tuning."""
    tuning = view.tuning
    return (
        len(request.local_gaps), *request.local_gaps, len(request.global_gaps), *request.global_gaps,
        *(request.prefetch or (0, 0)), view.global_buffer_bytes, store_burst_bytes, *view.dma_timing, request.overlaps,
        tuning.hidden_cost, tuning.worthwhile, tuning.overlapped, tuning.most_tiles, tuning.most_passes,
        tuning.most_climbs, tuning.plateau_steps, tuning.depth_halvings,
    )  # fmt: skip


class _LayerNumbers:
    """Numbers of a layer with its part and routes, in the order in which C reads them (``in_c/tile_reading.h``)."""

    def __init__(self, request: TileRequest, cuts: Cuts, view: DsaView) -> None:
        self._request = request
        self._cuts = cuts
        self._view = view
        layer = self._layer = request.layer
        self._nests = layer.nests
        accesses = [access for one in self._nests for access in (one.nest.write, *one.nest.reads)]
        self._ranks = {access.tensor: len(access.indices) for access in accesses}
        self._number = {name: number for number, name in enumerate(self._ranks)}
        whole = layer.tile_work(request.part)
        self._operands = [name for name in request.routes if name in whole.operand_bytes]
        self._rank_of_name = {name: place for place, name in enumerate(sorted(self._operands))}
        self._units = list(dict.fromkeys(request.units))
        self._dtypes = _dtypes(request, view)
        self._unit_of = {work.nest: unit for work, unit in zip(whole.nests, request.units, strict=True)}

    def all(self) -> Iterator[float]:
        """Yield all numbers in order."""
        request, layer, view = self._request, self._layer, self._view
        spec = view.spec
        yield from (len(request.part), *request.part, request.searched_depth, *layer.sink.shape, *layer.sink.order)
        yield from (request.cores, _MEMORIES.index(request.output_memory), request.prefetch is not None)
        yield sum(one.contraction for one in self._nests) > 1
        yield from (view.path_startup_ps, view.path_bytes_per_ps, view.broadcast_bytes_per_ps)
        yield from (spec.local_buffer.bandwidth_bytes_per_s, spec.cycle_ps, len(self._ranks))
        for name, rank in self._ranks.items():
            yield from (rank, self._element_bytes(name))
        yield len(self._units)
        for name in self._units:
            yield from self._unit(name)
        reads = [read for one in self._nests for read in one.nest.reads]
        indices = [index for one in self._nests for index in one.nest.write.indices]
        indices += [index for read in reads for index in read.indices]
        yield from (sum(len(one.nest.loops) for one in self._nests), len(reads), len(indices))
        yield from (sum(len(index.terms) for index in indices), len(self._nests))
        for one in self._nests:
            yield from self._nest(one)
        yield from self._outputs()
        yield len(self._operands)
        for name in self._operands:
            yield from self._operand(name)
        yield len(self._cuts.orders) * len(request.part)
        for order in self._cuts.orders:
            yield from order

    def _element_bytes(self, name: str) -> int:
        return self._layer.described(name).element_bits // BYTE_BITS

    def _unit(self, name: str) -> Numbers:
        unit, dtype = self._view.spec.units[name], self._dtypes[name]
        rate = rate_of(unit, dtype)
        if isinstance(unit, MatrixUnit):
            array = (*unit.native_tile, *fill_and_drain_cycles(unit), unit.accumulator_sets, unit.count, *unit.reuse)
            return (True, rate // unit.count, unit.efficiency, 0.0, *array, BITS[dtype] // BYTE_BITS)
        return (False, rate, unit.efficiency, unit.special_cycles, *(1, 1, 1), *(0, 0, 0), 1, 1, *(1, 1), 0)

    def _nest(self, one: CompiledNest) -> Iterator[float]:
        nest, layer = one.nest, self._layer
        bytes_each = self._element_bytes(one.target)
        is_handed = not one.internal and one.target in layer.handed
        unit = self._unit_of.get(nest, self._units[0])  # any unit for nests that are not needed or only rename elements
        yield from (self._number[one.target], one.is_view, self._units.index(unit))
        yield from (bytes_each * one.internal, bytes_each * is_handed)
        yield from (bool(nest.per_iteration), one.share.numerator, one.share.denominator)
        yield from (*_classes(nest.per_iteration), *_classes(nest.per_output))
        yield len(nest.loops)
        roles = one.roles or ("count",) * len(nest.loops)
        for number, (loop, role) in enumerate(zip(nest.loops, roles, strict=True)):
            yield from (loop.extent, number in one.counted, _ROLES.index(role))
        depth_loop = layer.depth_loop if nest is layer.contraction else None
        yield -1 if depth_loop is None else depth_loop
        written = [(index, sorted(index.terms, key=by_stride)) for index in nest.write.indices]
        yield from _dimensions(written, nest.write.shape)
        yield len(nest.reads)
        for read in nest.reads:
            yield self._number[read.tensor]
            yield from _dimensions([(index, index.terms) for index in read.indices], read.shape)

    def _outputs(self) -> Iterator[float]:
        layer = self._layer
        shapes = [layer.graph.tensors[name].shape for name in layer.outputs]
        yield from (sum(map(len, shapes)), len(shapes))
        for name, shape in zip(layer.outputs, shapes, strict=True):
            yield from (self._number[name], len(shape) == len(layer.sink.shape), len(shape), *shape)

    def _operand(self, name: str) -> Numbers:
        layer, cuts, route = self._layer, self._cuts, self._request.routes[name]
        depends = sum(1 << (_DEPTH_BIT if dim == DEPTH else dim) for dim in layer.dependencies.get(name, ()))
        return (
            self._number[name], layer.graph.tensors[name].role == "weight", route.broadcast, self._rank_of_name[name],
            depends, route.from_outside, route.streamed, cuts.filled[name], route.cores_sharing,
            route.cores_sharing if self._view.has_global_buffer else 1, cuts.distinct[name],
        )  # fmt: skip


def _dimensions(dims: Sequence[tuple[Index, Sequence[tuple[int, int]]]], shape: Extents) -> Iterator[float]:
    yield len(dims)
    for (index, terms), size in zip(dims, shape, strict=True):
        yield from (size, index.divisor, index.window, index.rounding == "exact", index.opaque, len(terms))
        for term in terms:
            yield from term


def _classes(operations: Operations) -> tuple[int, int, int]:
    return operations.macs, operations.simple, operations.special
