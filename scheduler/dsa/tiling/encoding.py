"""Encoding of tile requests as labelled records for the compiled tile search (``scheduler/in_c/tiles.c``).

The compiled search handles loop nests, index reach, lanes and arrays, operands and gaps: no operators and no kinds of
machine. Unsupported cases are left to Python: tensors that are read at several places, scalars, numbers beyond 64 bits,
units that share a nest, sequential and bounded loops, reductions other than products that are accumulated piece by
piece.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from dsascape.hw_models import MatrixUnit
from dsascape.hw_models.common.product_types import BITS
from dsascape.hw_models.dsa.arrays import fill_and_drain_cycles
from dsascape.hw_models.in_c import is_built, may_use
from dsascape.scheduler.dsa.deciding.unit_choice import can_do
from dsascape.scheduler.dsa.shared_work import computed_in, rate_of, units_together
from dsascape.scheduler.dsa.tiling.cuts import Cuts
from dsascape.scheduler.dsa.tiling.records import (
    Asked,
    Dim,
    Layer,
    Loop,
    LoopOrder,
    Nest,
    Operand,
    Output,
    Read,
    Source,
    Tensor,
    Term,
    Timing,
    Unit,
)
from dsascape.scheduler.dsa.tiling.tiling import TileRequest
from dsascape.scheduler.dsa.view import DDR, GLOBAL, LOCAL, DsaView
from dsascape.scheduler.kernels.compiled import CompiledNest, LoopRole
from dsascape.scheduler.kernels.layer import DEPTH
from dsascape.workloads.graph import BYTE_BITS
from dsascape.workloads.index import by_stride
from dsascape.workloads.loopnest import Access, Operations

if is_built("dsascape.scheduler.in_c.tiles"):
    from dsascape.scheduler.in_c.tiles import Tiles

_MODULE = "dsascape.scheduler.in_c.tiles"
_DEPTH_BIT = 16
"""Bit for the depth in the mask of loops an operand depends on; lower bits are the sink's dimensions."""
_MOST_ELEMENT_BYTES = 64
_ROLES: tuple[LoopRole, ...] = ("rows", "columns", "depth", "count", "taps", "run")
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
        return Tiles(_Encoding(request, cuts, view).layer())
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


def asked(request: TileRequest, store_burst_bytes: int, view: DsaView) -> Asked:
    """Return one search: free space, timing of outer memories, tuning."""
    tuning = view.tuning
    near_bytes, far_bytes = request.prefetch or (0, 0)
    return Asked(
        local_gaps=request.local_gaps, global_gaps=request.global_gaps, near_bytes=near_bytes, far_bytes=far_bytes,
        global_buffer_bytes=view.global_buffer_bytes, store_burst_bytes=store_burst_bytes,
        timings=tuple([Timing(*timing) for timing in view.outer_timing]),
        overlaps=request.overlaps, hidden_cost=tuning.hidden_cost, worthwhile=tuning.worthwhile,
        overlapped=tuning.overlapped, most_tiles=tuning.most_tiles, most_passes=tuning.most_passes,
        most_climbs=tuning.most_climbs, plateau_steps=tuning.plateau_steps, depth_halvings=tuning.depth_halvings,
        single_buffers=view.single_buffers and not request.doubled,
    )  # fmt: skip


class _Encoding:
    """Records of a layer with its part and routes."""

    def __init__(self, request: TileRequest, cuts: Cuts, view: DsaView) -> None:
        self._request = request
        self._cuts = cuts
        self._view = view
        layer = self._layer = request.layer
        accesses = [access for one in layer.nests for access in (one.nest.write, *one.nest.reads)]
        self._ranks = {access.tensor: len(access.indices) for access in accesses}
        self._number = {name: number for number, name in enumerate(self._ranks)}
        whole = layer.tile_work(request.part)
        self._operands = [name for name in request.routes if name in whole.operand_bytes]
        self._rank_of_name = {name: place for place, name in enumerate(sorted(self._operands))}
        self._units = list(dict.fromkeys(request.units))
        self._dtypes = _dtypes(request, view)
        self._unit_of = {work.nest: unit for work, unit in zip(whole.nests, request.units, strict=True)}

    def layer(self) -> Layer:
        request, layer, view = self._request, self._layer, self._view
        shapes = {name: layer.graph.tensors[name].shape for name in layer.outputs}
        rank = len(layer.sink.shape)
        return Layer(
            extents=(*request.part, request.searched_depth), sink_shape=layer.sink.shape,
            memory_order=layer.sink.order,
            tensors=tuple([Tensor(rank=each, element_bytes=self._bytes(name)) for name, each in self._ranks.items()]),
            units=tuple(map(self._unit, self._units)), nests=tuple(map(self._nest, layer.nests)),
            outputs=tuple([
                Output(tensor=self._number[name], is_share=len(shape) == rank, shape=shape)
                for name, shape in shapes.items()
            ]),
            operands=tuple(map(self._operand, self._operands)), orders=tuple(map(LoopOrder, self._cuts.orders)),
            cores=request.cores, output_memory=_MEMORIES.index(request.output_memory),
            stored_in=self._sources(request.stored_in), levels=len(view.outer_number),
            has_prefetch=request.prefetch is not None,
            has_several_products=sum(one.contraction for one in layer.nests) > 1,
            reloads=request.reloads, path_startup_ps=view.path_startup_ps, path_bytes_per_ps=view.path_bytes_per_ps,
            broadcast_bytes_per_ps=view.broadcast_bytes_per_ps,
            local_bytes_per_s=view.spec.local_buffer.bandwidth_bytes_per_s, cycle_ps=view.spec.cycle_ps,
            exchange_startup_ps=view.exchange_startup_ps,
        )  # fmt: skip

    def _bytes(self, name: str) -> int:
        return self._layer.described(name).element_bits // BYTE_BITS

    def _unit(self, name: str) -> Unit:
        unit, dtype = self._view.spec.units[name], self._dtypes[name]
        rate = rate_of(unit, dtype)
        if not isinstance(unit, MatrixUnit):
            return Unit(is_array=False, rate=rate, efficiency=unit.efficiency, special_cycles=unit.special_cycles)
        rows, columns, depth = unit.native_tile
        fill_cycles, drain_cycles, drain_cycles_per_row = fill_and_drain_cycles(unit)
        reused_rows, reused_columns = unit.reuse
        return Unit(
            is_array=True, rate=rate // unit.count, efficiency=unit.efficiency, rows=rows, columns=columns, depth=depth,
            fill_cycles=fill_cycles, drain_cycles=drain_cycles, drain_cycles_per_row=drain_cycles_per_row,
            accumulator_sets=unit.accumulator_sets, arrays=unit.count, sums_taps=unit.sums_over == "channels_and_taps",
            separate_columns=unit.separate_columns, reused_rows=reused_rows, reused_columns=reused_columns,
            element_bytes=BITS[dtype] // BYTE_BITS, is_stationary=unit.array == "weight_stationary",
            issue_cycles=unit.issue_cycles, taps_together=unit.taps_together,
        )  # fmt: skip

    def _nest(self, one: CompiledNest) -> Nest:
        nest, layer = one.nest, self._layer
        bytes_each = self._bytes(one.target)
        is_handed = not one.internal and one.target in layer.handed
        unit = self._unit_of.get(nest, self._units[0])  # any unit for nests that are not needed or only rename elements
        depth_loop = layer.depth_loop if nest is layer.contraction else None
        each, last = nest.per_iteration, nest.per_output
        roles = one.roles or ("count",) * len(nest.loops)
        return Nest(
            target=self._number[one.target], is_view=one.is_view, unit=self._units.index(unit),
            depth_loop=-1 if depth_loop is None else depth_loop, internal_bytes=bytes_each * one.internal,
            handed_bytes=bytes_each * is_handed, counts_iterations=bool(each), share=one.share.numerator,
            of_share=one.share.denominator, each_macs=each.macs, each_simple=each.simple, each_special=each.special,
            last_macs=last.macs, last_simple=last.simple, last_special=last.special,
            loops=tuple([
                Loop(extent=loop.extent, is_counted=number in one.counted, role=_ROLES.index(role))
                for number, (loop, role) in enumerate(zip(nest.loops, roles, strict=True))
            ]),
            writes=_dims(nest.write, [sorted(index.terms, key=by_stride) for index in nest.write.indices]),
            reads=tuple([
                Read(tensor=self._number[read.tensor], dims=_dims(read, [index.terms for index in read.indices]))
                for read in nest.reads
            ]),
        )  # fmt: skip

    def _sources(self, outside: Iterable[tuple[str, float]]) -> tuple[Source, ...]:
        number = self._view.outer_number
        return tuple([Source(level=number[memory], share=share) for memory, share in outside])

    def _operand(self, name: str) -> Operand:
        layer, cuts, route = self._layer, self._cuts, self._request.routes[name]
        return Operand(
            tensor=self._number[name],
            can_come_ahead=layer.graph.tensors[name].role == "weight" and route.from_ddr == 1.0,
            is_broadcast=route.broadcast, name_rank=self._rank_of_name[name],
            depends=sum(1 << (_DEPTH_BIT if dim == DEPTH else dim) for dim in layer.dependencies.get(name, ())),
            from_outside=route.from_outside, sources=self._sources(route.loaded_from), streamed=route.streamed,
            filled=cuts.filled[name], sharing=route.cores_sharing,
            copies=route.cores_sharing if self._view.has_global_buffer else 1, distinct_bytes=cuts.distinct[name],
            from_clusters=route.from_clusters, exchange_ps_per_byte=self._view.exchange_ps(1.0, route.receivers),
        )  # fmt: skip


def _dims(access: Access, terms: Sequence[Sequence[tuple[int, int]]]) -> tuple[Dim, ...]:
    """Return the dimensions that an access has, with the terms of each in the given order."""
    return tuple([
        Dim(
            size=size, divisor=index.divisor, window=index.window, is_exact=index.rounding == "exact",
            is_opaque=index.opaque, terms=tuple([Term(loop=loop, stride=stride) for loop, stride in own]),
        )
        for index, size, own in zip(access.indices, access.shape, terms, strict=True)
    ])


def _classes(operations: Operations) -> tuple[int, int, int]:
    return operations.macs, operations.simple, operations.special
