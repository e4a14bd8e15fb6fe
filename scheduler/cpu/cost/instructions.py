"""The instructions of a layer's tiled loops: what generated code issues, class by class.

A register tile of the anchor keeps its results in registers while the depth loop runs: each iteration loads what the
multiply-accumulates need of both operands, once per register tile, and updates every accumulator. Register tiles are
computed as a whole where they stick out of the sink, and what lies inside is copied; padding is multiplied like
everything else: what is read with padding is copied once for each tile. What follows the anchor element by element
finds its operand in registers; what comes before it, or needs a whole row first (softmax), goes through memory.
Constants are taken to be stored in the order in which they are read, as they can be put there before the program runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models.cpu.core_kinds import VectorShape
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.scheduler.cpu.cost.instruction_counts import Counts, counts_by_nest, least_counts
from dsascape.scheduler.cpu.cost.streamed import add_corrections
from dsascape.scheduler.cpu.schedule.tiles import RegisterTiles, TiledLoops
from dsascape.scheduler.cpu.structure.chains import Made, fronts_of
from dsascape.scheduler.cpu.structure.nests import NestCode, memory_order, nests_of, read_order
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CodeView
from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.scheduler.kernels.tile_work import NestWork
from dsascape.workloads.loopnest import Extents, Operations
from dsascape.workloads.memo import memoized


@dataclass(frozen=True, slots=True)
class Code:
    """The instructions of a kernel, or of a part of it, and what they work on."""

    issued: Issued
    register_bytes: int
    """Moved between registers and the first cache."""
    operations: Operations


def codes_of(layer: Layer, tiles: TiledLoops, dtype: str, view: CodeView) -> tuple[Code, ...]:
    """Return the instructions of the whole kernel in ``tiles``: of each of its parts, first to last."""
    if tiles.has_fronts:
        return _codes_in_parts(layer, tiles, dtype, view)
    shape = layer.sink.shape
    tile = tiles.tile(shape) if _depends_on_tile(layer) else shape
    return _codes_of_one(layer, tile, tiles.registers(footprints_of(layer).depth), dtype, view)


@memoized
def _depends_on_tile(layer: Layer) -> bool:
    """Whether the instructions depend on cache tiles: something is copied, or computed beforehand, for each of them."""
    return footprints_of(layer).has_buffers or any(nest.padded for nest in nests_of(layer))


@memoized
def _codes_in_parts(layer: Layer, tiles: TiledLoops, dtype: str, view: CodeView) -> tuple[Code, ...]:
    """Return the instructions of each part of a kernel with anchors in front of the last."""
    in_front, found = fronts_of(layer, tiles), []
    for made in in_front:
        share = made.times * made.filled * math.prod(made.extents) / math.prod(made.tiled.padded(made.layer.sink.shape))
        own = code_of(made.layer, made.tiled, dtype, view, share, is_in_front=True)
        found.append(_in_parts(own, made, layer, dtype, view) if made.is_of_rows_in_parts else own)
    return (*found, code_of(parts_of(layer)[-1] if in_front else layer, tiles, dtype, view))


@memoized
def _codes_of_one(
    layer: Layer, tile: Extents, registers: RegisterTiles, dtype: str, view: CodeView
) -> tuple[Code, ...]:
    """Return the instructions of a kernel that is one part."""
    return (_code_in(layer, tile, registers, dtype, view),)


def _in_parts(code: Code, made: Made, layer: Layer, dtype: str, view: CodeView) -> Code:
    """Return the instructions of a softmax's whole rows as those of rows in parts, with running statistics."""
    further, vector = Counts(), view.simd.vector(dtype)
    registers = made.tiled.registers(footprints_of(made.layer).depth)
    add_corrections(further, made, layer, vector.lanes, counts_by_nest(made.layer, registers, vector, view))
    return Code(
        further.added_to(code.issued), code.register_bytes + round(further.register_bytes), code.operations
    )


def code_of(
    layer: Layer, tiles: TiledLoops, dtype: str, view: CodeView, share: float = 1.0, *, is_in_front: bool = False
) -> Code:
    """Return ``share`` of the instructions of a layer with one anchor at most.

    ``is_in_front``: what it makes stays in a buffer of the kernel, of whole register tiles.
    """
    registers = tiles.registers(footprints_of(layer).depth)
    return _code_in(layer, tiles.tile(layer.sink.shape), registers, dtype, view, share, is_in_front=is_in_front)


def _code_in(
    layer: Layer, tile: Extents, registers: RegisterTiles, dtype: str, view: CodeView, share: float = 1.0, *,
    is_in_front: bool = False,
) -> Code:  # fmt: skip
    """Return `code_of` in cache tiles of ``tile`` elements of each dimension."""
    vector = view.simd.vector(dtype)
    counts, operations = _counted(layer, tile, registers, vector, view)
    if not is_in_front:
        _add_rows(counts, layer, registers, vector.lanes)
    if share != 1:
        counts = counts.scaled(share)
        operations = _scaled(operations, share)
    return Code(counts.issued(), round(counts.register_bytes), operations)


def least_issued(layer: Layer, tiles: TiledLoops, dtype: str, view: CodeView) -> Issued:
    """Return instructions of a layer with one anchor that `code_of` has no fewer of in any class.

    Left out is what depends on how tiles overlap: copies with padding, and what is computed once more for a neighbour.
    """
    registers = tiles.registers(footprints_of(layer).depth)
    return least_counts(layer, registers, view.simd.vector(dtype), view).issued()


def _counted(
    layer: Layer, tile: Extents, registers: RegisterTiles, vector: VectorShape, view: CodeView
) -> tuple[Counts, Operations]:
    """Return the instructions and operations of a layer with one anchor at most."""
    total, operations = Counts(), Operations()
    by_nest = counts_by_nest(layer, registers, vector, view)
    for nest, counts, overlap in zip(nests_of(layer), by_nest, _times(layer, tile), strict=True):
        times = overlap * nest.passes
        own = counts if times == 1 else counts.scaled(times)
        if nest.padded:
            own = own.scaled(1)
            _add_copies(own, nest, layer, tile, vector.lanes, view.tuning)
        total.add(own)
        made = nest.operations * nest.count
        operations += made if times == 1 else _scaled(made, times)
    return total, operations


def _scaled(operations: Operations, share: float) -> Operations:
    return Operations(
        round(operations.macs * share), round(operations.simple * share), round(operations.special * share)
    )


@memoized
def _times(layer: Layer, tile: Extents) -> Sequence[float]:
    """Return for each nest by how much the iterations of all tiles are more than those of the whole.

    Every tile computes for itself what its anchor needs: halos, and operands that do not change with it.
    """
    shape, nests = layer.sink.shape, nests_of(layer)
    if not any(nest.is_anchor for nest in nests):
        return [1.0] * len(nests)
    number = math.prod([size / part for size, part in zip(shape, tile, strict=True)])
    of_tile = _iterations(layer, layer.tile_work(tile).nests)
    of_all = _of_all(layer)
    alike = [[sum([times[place] for place in each.places]) for times in (of_tile, of_all)] for each in nests]
    return [max(own * number / all_, 1.0) for own, all_ in alike]


@memoized
def _of_all(layer: Layer) -> list[int]:
    """Return how often each nest runs if all of the sink is one tile."""
    return _iterations(layer, layer.tile_work(layer.sink.shape).nests)


def _iterations(layer: Layer, nests: Sequence[NestWork]) -> list[int]:
    """Return how often each nest runs: what is computed element by element, as often as somebody reads an element.

    Views may make of a few elements a large box.
    """
    storage, needed, found = layer.graph.storage, dict[str, int](), []
    for work in reversed(nests):
        nest, own = work.nest, math.prod(work.extents)
        if not nest.has_reduction:
            own = min(own, needed.get(nest.write.tensor, own))
        found.append(own)
        ranges = [(0, extent) for extent in work.extents]
        for read in nest.reads:
            box = math.prod([high - low for low, high in [index.span(ranges) for index in read.indices]])
            name = storage.get(read.tensor, read.tensor)
            needed[name] = max(needed.get(name, 0), box if nest.has_reduction else min(box, own))
    return found[::-1]


def _add_rows(total: Counts, layer: Layer, tiles: RegisterTiles, lanes: int) -> None:
    """Add the copies of what lies inside a result that vectors stick out of, which are made whole."""
    shape, dim = layer.sink.shape, tiles.vector_dim
    if anchored_nest(layer) is None or dim < 0 or tiles.passes > 1 or not shape[dim] % tiles.sizes[dim]:
        return
    used = tiles.lanes(lanes)
    vectors = math.prod(shape) / used
    total.load += vectors
    total.store += vectors
    total.register_bytes += 2 * vectors * used * layer.sink.element_bytes


def _add_copies(
    total: Counts, nest: NestCode, layer: Layer, tile: Extents, lanes: int, tuning: CpuTuning
) -> None:
    """Add the copies with padding of what the anchor reads, one for each tile."""
    number = math.prod([-(-size // part) for size, part in zip(layer.sink.shape, tile, strict=True)])
    anchor = anchored_nest(layer)
    assert anchor is not None
    work = next(work for work in layer.tile_work(tile).nests if work.nest is anchor)
    ranges = [(0, extent) for extent in work.extents]
    for read in nest.padded:
        spans = [index.span(ranges) for index in read.indices]
        extents = [high - low for low, high in spans]
        order = read_order(layer, anchor, read, is_anchor=True)
        used = dividing(extents[order[-1]], lanes)
        vectors = math.prod(extents) / used * number
        total.load += vectors if order[-1] == memory_order(layer, read)[-1] else vectors * used
        total.store += vectors
        total.scalar += vectors * tuning.loop_instructions
        total.register_bytes += 2 * vectors * used * layer.described(read.tensor).element_bytes
