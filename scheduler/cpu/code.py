"""The instructions of a layer's tiled loops: what generated code issues, class by class.

A register tile of the anchor keeps its results in registers while the depth loop runs: each iteration loads what the
multiply-accumulates need of both operands, once per register tile, and updates every accumulator. Register tiles are
computed as a whole where they stick out of the sink, and what lies inside is copied; padding is multiplied like
everything else: what is read with padding is copied once for each tile. What follows the anchor element by element
finds its operand in registers; what comes before it, or needs a whole row first (softmax), goes through memory.
Constants are taken to be stored in the order in which they are read, as they can be put there before the program runs.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from hw_models.cpu.spec import Simd
from hw_models.instructions import Issued
from scheduler.cpu.anchors import anchored_nest, vector_lanes
from scheduler.cpu.chains import made_in_front, parts_of
from scheduler.cpu.footprints import footprints_of
from scheduler.cpu.nests import NestCode, Read, element_bytes, memory_order, nests_of
from scheduler.cpu.passes import folding_instructions, partial_sums, pieces_of_row
from scheduler.cpu.tiles import LoopTiles, dividing
from scheduler.cpu.tuning import CpuTuning
from scheduler.kernels.layer import Layer, NestWork
from workloads.loopnest import Operations


@dataclass(frozen=True, slots=True)
class Code:
    """The instructions of a kernel, or of a part of it, and what they work on."""

    issued: Issued
    register_bytes: int
    """Moved between registers and the first cache."""
    operations: Operations


def known_codes(
    layer: Layer, tiles: LoopTiles, dtype: str, simd: Simd, tuning: CpuTuning, machine: Hashable
) -> tuple[Code, ...]:
    """Return `codes_of`, worked out once for tiles that make the same code; ``machine`` says vectors and tuning."""
    key: Hashable = tiles
    if not tiles.upstream:
        depends = layer.analysis.table(_depends_on_tile).get(layer.signature, partial(_depends_on_tile, layer))
        tile = tiles.tile if depends else ()
        key = tile, tiles.register, tiles.vector_dim, tiles.depth_step
    made = partial(codes_of, layer, tiles, dtype, simd, tuning)
    return layer.analysis.table(codes_of).get((layer.signature, key, dtype, machine), made)


def _depends_on_tile(layer: Layer) -> bool:
    """Whether the instructions depend on cache tiles: something is copied, or computed beforehand, for each of them."""
    return footprints_of(layer).has_buffers or any(nest.padded for nest in nests_of(layer))


def codes_of(layer: Layer, tiles: LoopTiles, dtype: str, simd: Simd, tuning: CpuTuning) -> tuple[Code, ...]:
    """Return the instructions of the whole kernel in ``tiles``: of each of its parts, first to last."""
    in_front, found = made_in_front(layer, tiles), []
    for made in in_front:
        share = made.times * math.prod(made.extents) / math.prod(made.tiles.padded(made.layer.sink.shape))
        found.append(code_of(made.layer, made.tiles, dtype, simd, tuning, share, is_in_front=True))
    return (*found, code_of(parts_of(layer)[-1] if in_front else layer, tiles, dtype, simd, tuning))


def code_of(
    layer: Layer, tiles: LoopTiles, dtype: str, simd: Simd, tuning: CpuTuning, share: float = 1.0, *,
    is_in_front: bool = False,
) -> Code:  # fmt: skip
    """Return ``share`` of the instructions of a layer with one anchor at most.

    ``is_in_front``: what it makes stays in a buffer of the kernel, of whole register tiles.
    """
    counts, operations = _counted(layer, tiles, simd.lanes_of(dtype), simd, tuning)
    if not is_in_front:
        _add_rows(counts, layer, tiles, simd.lanes_of(dtype))
    if share != 1:
        counts.scale(share)
        operations = _scaled(operations, share)
    return Code(counts.issued(), round(counts.register_bytes), operations)


def least_issued(layer: Layer, tiles: LoopTiles, dtype: str, simd: Simd, tuning: CpuTuning) -> Issued:
    """Return instructions of a layer with one anchor that `code_of` has no fewer of in any class.

    Left out is what depends on how tiles overlap: copies with padding, and what is computed once more for a neighbour.
    """
    total, lanes = _Counts(), simd.lanes_of(dtype)
    for nest in nests_of(layer):
        _add(total, nest, layer, tiles, lanes, simd, tuning)
    return total.issued()


def _counted(
    layer: Layer, tiles: LoopTiles, lanes: int, simd: Simd, tuning: CpuTuning
) -> tuple["_Counts", Operations]:
    """Return the instructions and operations of a layer with one anchor at most."""
    total, operations = _Counts(), Operations()
    for nest, overlap in zip(nests_of(layer), _times(layer, tiles), strict=True):
        counts, times = _Counts(), overlap * nest.passes
        _add(counts, nest, layer, tiles, lanes, simd, tuning)
        if times != 1:
            counts.scale(times)
        if nest.padded:
            _add_copies(counts, nest, layer, tiles, lanes, tuning)
        total.add(counts)
        made = nest.operations * nest.count
        operations += made if times == 1 else _scaled(made, times)
    return total, operations


def _scaled(operations: Operations, share: float) -> Operations:
    return Operations(
        round(operations.macs * share), round(operations.simple * share), round(operations.special * share)
    )


def _times(layer: Layer, tiles: LoopTiles) -> list[float]:
    """Return for each nest by how much the iterations of all tiles are more than those of the whole.

    Every tile computes for itself what its anchor needs: halos, and operands that do not change with it.
    """
    shape = layer.sink.shape
    whole, nests = layer.tile_work(shape).nests, nests_of(layer)
    if not any(nest.is_anchor for nest in nests):
        return [1.0] * len(nests)
    tile = tiles.within(shape)
    number = math.prod([size / part for size, part in zip(shape, tile, strict=True)])
    of_tile = _iterations(layer, layer.tile_work(tile).nests)
    of_all = _iterations(layer, whole)
    alike = [[sum([times[place] for place in each.places]) for times in (of_tile, of_all)] for each in nests]
    return [max(own * number / all_, 1.0) for own, all_ in alike]


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
            box = math.prod([high - low for low, high in (index.span(ranges) for index in read.indices)])
            name = storage.get(read.tensor, read.tensor)
            needed[name] = max(needed.get(name, 0), box if nest.has_reduction else min(box, own))
    return found[::-1]


_CLASSES = ("fma", "arithmetic", "special", "load", "store", "scalar", "loops", "register_bytes")


class _Counts:
    """Instructions being added up."""

    def __init__(self) -> None:
        self.fma = self.arithmetic = self.special = self.load = self.store = self.scalar = self.loops = 0.0
        self.register_bytes = 0.0
        self.accumulators = 1

    def scale(self, share: float) -> None:
        """Let there be ``share`` times as many."""
        for name in _CLASSES:
            setattr(self, name, getattr(self, name) * share)

    def add(self, other: "_Counts") -> None:
        """Let there be those of ``other``, too."""
        for name in _CLASSES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.accumulators = max(self.accumulators, other.accumulators)

    def issued(self) -> Issued:
        """Return them as whole numbers."""
        return Issued(
            fma=math.ceil(self.fma), arithmetic=math.ceil(self.arithmetic), special=math.ceil(self.special),
            load=math.ceil(self.load), store=math.ceil(self.store), scalar=math.ceil(self.scalar),
            accumulators=self.accumulators, loops=math.ceil(self.loops),
        )  # fmt: skip


class _Vectors(NamedTuple):
    """How the iterations of a nest are cut into vector instructions."""

    follows_sink: bool
    """Whether its register tile is the sink's."""
    vector_dim: int
    lanes: float
    """That are used, in the mean; 1 where nothing is vectorised."""
    outputs: float
    """Vectors that are written; single elements, where these are sums of lanes."""
    steps: float
    """Vector iterations, those of reductions included."""
    rows: int
    """Of a register tile."""
    columns: int
    """Vectors of one row of a register tile."""
    in_row: float
    """Vectors one after the other along the vectorised loop."""


def _vectors(layer: Layer, nest: NestCode, tiles: LoopTiles, lanes: int) -> _Vectors:
    follows_sink = not nest.vector_extent and len(nest.outputs) == len(tiles.tile)
    dim = tiles.vector_dim
    if follows_sink and dim >= 0:
        anchor = anchored_nest(layer)
        lanes = tiles.lanes(lanes) if anchor is None else vector_lanes(anchor, tiles, lanes)
        outputs = math.prod(tiles.padded(nest.outputs)) / lanes
        rows, columns = math.prod(tiles.register) // tiles.register[dim], tiles.register[dim] // lanes
        in_row = nest.outputs[dim] / lanes
        return _Vectors(True, dim, lanes, outputs, outputs * nest.iterations, rows, columns, in_row)
    elements = math.prod(nest.outputs)
    extent = max(nest.vector_extent, 1)
    if nest.sums_along:
        count = partial_sums(extent, lanes)
        used = min(count, lanes)
        whole, rest = divmod(extent, count)
        in_row = nest.iterations / extent * (whole * count / used + rest)
        return _Vectors(False, -1, used, elements, elements * in_row, 1, 1, in_row)
    pieces = pieces_of_row(extent, lanes)
    in_row = sum([count for count, _ in pieces]) if nest.iterations == 1 else extent / dividing(extent, lanes)
    outputs = elements / extent * in_row
    return _Vectors(follows_sink, -1, extent / in_row, outputs, outputs * nest.iterations, 1, 1, in_row)


def _add(
    total: _Counts, nest: NestCode, layer: Layer, tiles: LoopTiles, lanes: int, simd: Simd, tuning: CpuTuning
) -> None:
    """Add the instructions of ``nest`` and of all that are like it."""
    vectors = _vectors(layer, nest, tiles, lanes)
    in_tile = vectors.rows * vectors.columns
    for read in nest.reads:
        _add_read(total, nest, read, vectors, tiles, simd)
    made, of_results = nest.operations, nest.of_results
    iterations = max(math.prod(nest.outputs) * nest.iterations, 1)
    if nest.is_anchor and made.macs:
        iterations = min(iterations, made.macs)  # taps in the padding are computed too
    steps = nest.count * vectors.steps
    each_result = nest.count * vectors.outputs / math.prod(nest.outputs)
    total.fma += made.macs / iterations * steps
    total.arithmetic += (made.simple - of_results.simple) / iterations * steps + of_results.simple * each_result
    total.special += (made.special - of_results.special) / iterations * steps + of_results.special * each_result
    element = layer.sink.element_bytes
    if nest.sums_along:
        total.arithmetic += nest.count * vectors.outputs * folding_instructions(nest.vector_extent, lanes)
    if nest.stores:
        stored = nest.count * vectors.outputs
        total.store += stored
        total.register_bytes += stored * (1 if nest.sums_along else vectors.lanes) * element
    if nest.is_anchor:
        total.accumulators = max(total.accumulators, in_tile)
        passes = 1 if tiles.depth_step is None else -(-footprints_of(layer).depth // tiles.depth_step)
        total.load += (passes - 1) * vectors.outputs
        total.store += (passes - 1) * vectors.outputs
        total.register_bytes += 2 * (passes - 1) * vectors.outputs * vectors.lanes * element
        total.scalar += vectors.steps / in_tile * tuning.loop_instructions / tuning.unrolled
        total.scalar += vectors.outputs / in_tile * passes * tuning.tile_instructions
        if nest.iterations > passes * tuning.unrolled_whole:
            total.loops += vectors.outputs / in_tile * passes
    elif nest.reads:
        total.scalar += steps * tuning.loop_instructions / tuning.unrolled


def _add_rows(total: _Counts, layer: Layer, tiles: LoopTiles, lanes: int) -> None:
    """Add the copies of what lies inside a result that vectors stick out of, which are made whole."""
    shape, dim = layer.sink.shape, tiles.vector_dim
    if anchored_nest(layer) is None or dim < 0 or tiles.depth_step is not None or not shape[dim] % tiles.register[dim]:
        return
    used = tiles.lanes(lanes)
    vectors = math.prod(shape) / used
    total.load += vectors
    total.store += vectors
    total.register_bytes += 2 * vectors * used * layer.sink.element_bytes


def _add_copies(
    total: _Counts, nest: NestCode, layer: Layer, tiles: LoopTiles, lanes: int, tuning: CpuTuning
) -> None:
    """Add the copies with padding of what the anchor reads, one for each tile."""
    shape = layer.sink.shape
    number = math.prod([-(-size // part) for size, part in zip(shape, tiles.tile, strict=True)])
    anchor = anchored_nest(layer)
    work = next(work for work in layer.tile_work(tiles.within(shape)).nests if work.nest is anchor)
    ranges = [(0, extent) for extent in work.extents]
    for read in nest.padded:
        spans = [index.span(ranges) for index in read.indices]
        extents = [high - low for low, high in spans]
        inner = extents[memory_order(layer, read)[-1]]
        used = dividing(inner, lanes)
        vectors = math.prod(extents) / used * number
        total.load += vectors
        total.store += vectors
        total.scalar += vectors * tuning.loop_instructions
        total.register_bytes += 2 * vectors * used * element_bytes(layer, read.tensor)


def _add_read(
    total: _Counts, nest: NestCode, read: Read, vectors: _Vectors, tiles: LoopTiles, simd: Simd
) -> None:
    """Add the loads of one operand: of the anchor's, one for all accumulators that use the same element.

    What is the same for all vectors of a row is loaded once for the row.
    """
    times = vectors.steps if read.moves_with_depth or not nest.is_anchor else vectors.outputs
    if not nest.is_anchor and read.along_vector == "same":
        times = 0 if not read.dims else times / max(vectors.in_row, 1)
    if nest.is_anchor and vectors.follows_sink:
        for dim, extent in enumerate(tiles.register):
            if dim != vectors.vector_dim and dim not in read.dims:
                times /= extent
    if read.along_vector == "together":
        loads, each_bytes = times, min(simd.register_bytes, vectors.lanes * read.element_bytes)
    elif read.along_vector == "apart":
        loads, each_bytes = times * vectors.lanes, read.element_bytes
        total.arithmetic += nest.count * loads if vectors.lanes > 1 else 0  # each is put into its lane
    elif simd.multiplies_by_lane and read.lies_along_depth and nest.iterations > 1:
        loads, each_bytes = times / vectors.columns / vectors.lanes, simd.register_bytes
    else:
        loads, each_bytes = times / vectors.columns, read.element_bytes
    total.load += nest.count * loads
    total.register_bytes += nest.count * loads * each_bytes
