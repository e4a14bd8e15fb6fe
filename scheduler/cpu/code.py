"""The instructions of a layer's tiled loops: what generated code issues, class by class.

A register tile of the anchor keeps its results in registers while the depth loop runs: each iteration loads what the
multiply-accumulates need of both operands, once per register tile, and updates every accumulator. Register tiles are
computed as a whole where they stick out of the sink, and padding is multiplied like everything else: what is read with
padding is copied once for each tile. What follows the anchor element by element finds its operand in registers; what
comes before it, or needs a whole row first (softmax), goes through memory. Constants are taken to be stored in the
order in which they are read, as they can be put there before the program runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from hw_models.cpu.spec import Simd
from hw_models.instructions import Issued
from scheduler.cpu.anchors import anchored_nest, is_padded
from scheduler.cpu.chains import made_in_front, parts_of
from scheduler.cpu.footprints import footprints_of
from scheduler.cpu.tiles import LoopTiles, halvings
from scheduler.cpu.tuning import CpuTuning
from scheduler.kernels.layer import Layer
from workloads.loopnest import Access, Extents, LoopNest, Operations

AlongVector = Literal["together", "same", "apart"]
"""How the elements that lanes need lie: next to each other, one for all lanes, or each somewhere else."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one iteration of a nest loads of one tensor."""

    along_vector: AlongVector
    dims: frozenset[int]
    """Dimensions of the sink (of the nest's own output, where it has another rank) that move it."""
    moves_with_depth: bool
    lies_along_depth: bool
    """Whether the next iteration of the innermost reduction finds the next element."""
    element_bytes: int


@dataclass(frozen=True, slots=True)
class NestCode:
    """One loop nest over the whole of the sink."""

    is_anchor: bool
    outputs: tuple[int, ...]
    """Elements written, per dimension."""
    iterations: int
    """Of the reduction, for each element written; those that compute."""
    vector_extent: int
    """Iterations of the loop that is vectorised, where the nest does not follow the sink's vectors; 0: it does."""
    reads: tuple[Read, ...]
    """Those that come from memory."""
    stores: bool
    """Whether what it writes goes to memory."""
    operations: Operations
    padded: tuple[Access, ...] = ()
    """Of the anchor: what it reads with padding."""


@dataclass(frozen=True, slots=True)
class Code:
    """The instructions of a whole kernel, and what they work on."""

    issued: Issued
    register_bytes: int
    """Moved between registers and the first cache."""
    operations: Operations


def nests_of(layer: Layer) -> tuple[NestCode, ...]:
    """Return the nests of ``layer`` that compute or move something, first to last; once for equal layers."""
    return layer.analysis.table(_nests).get(layer.signature, partial(_nests, layer))


def _nests(layer: Layer) -> tuple[NestCode, ...]:
    works = layer.tile_work(layer.sink.shape).nests
    anchor = anchored_nest(layer)
    targets = {compiled.target for compiled in layer.nests if not compiled.is_view}
    has_rows = any(work.nest.has_reduction for work in works)
    if anchor is None and not has_rows and works:
        return (_inlined(layer, sum([work.operations for work in works], Operations())),)
    is_after = False
    found = []
    for work in works:
        nest = work.nest
        is_anchor = nest is anchor
        follows = is_after or (anchor is None and not has_rows)
        reads = [read for read in nest.reads if not (follows and _behind_views(layer, read.tensor) in targets)]
        stores = nest.write.tensor in layer.outputs or not (follows or is_anchor)
        found.append(_nest(layer, nest, work.extents, reads, stores=stores, is_anchor=is_anchor, made=work.operations))
        is_after = is_after or is_anchor
    return tuple(found)


def _inlined(layer: Layer, made: Operations) -> NestCode:
    """Return a layer without reductions as one nest: each element of the sink from those of the operands.

    How an operand's elements lie for the lanes of a vector is read off what two neighbours in the sink need of it.
    """
    shape = layer.sink.shape
    single = (1,) * len(shape)
    dim = _innermost(shape, layer.sink.order)
    pair = tuple([2 if place == dim else 1 for place in range(len(shape))])
    one, two = layer.tile_work(single).operand_extents, layer.tile_work(pair).operand_extents
    reads = []
    for name in layer.inputs:
        if name not in one:
            continue
        tensor = layer.graph.tensors[name]
        grown = [place for place in range(len(tensor.shape)) if two[name][place] > one[name][place]]
        along: AlongVector = "same" if not grown else "apart"
        if grown == [_innermost(tensor.shape, tensor.order)]:
            along = "together"
        depends = frozenset(place for place in layer.dependencies.get(name, frozenset()) if place >= 0)
        reads.append(Read(along, depends, False, False, tensor.element_bytes))
    return NestCode(False, tuple(shape), 1, 0, tuple(reads), True, made)


def _behind_views(layer: Layer, name: str) -> str:
    return layer.graph.storage.get(name, name)


def _memory_order(layer: Layer, access: Access) -> Sequence[int]:
    tensor = layer.graph.tensors.get(access.tensor)
    return range(len(access.shape)) if tensor is None else tensor.order


def _element_bytes(layer: Layer, name: str) -> int:
    tensor = layer.graph.tensors.get(name)
    return layer.internal_bytes[name] if tensor is None else tensor.element_bytes


def _nest(
    layer: Layer, nest: LoopNest, extents: Extents, reads: Sequence[Access], *, stores: bool, is_anchor: bool,
    made: Operations,
) -> NestCode:  # fmt: skip
    written = nest.write
    shape = tuple([_count(index.terms, extents) for index in written.indices])
    order = _memory_order(layer, written)
    loops_of_dim = [frozenset(loop for loop, _ in index.terms if extents[loop] > 1) for index in written.indices]
    reduction = [loop for loop, each in enumerate(nest.loops) if each.reduction and extents[loop] > 1]
    follows_sink = written.shape == layer.sink.shape
    vector_dim = _innermost(shape, order)
    vector_loop = _vector_loop(nest, extents, vector_dim, reduction)
    if not is_anchor and reduction and _along(layer, nest.reads[0], reduction[-1]) == "together":
        vector_loop = reduction[-1]  # partial sums in the lanes of a vector
    deepest = max(reduction, default=-1)
    depth = math.prod([extents[loop] for loop in reduction])
    if made.macs and not is_anchor:
        depth = max(1, round(made.macs / max(math.prod(shape) * nest.per_iteration.macs, 1)))
    described = tuple([
        Read(
            _along(layer, read, vector_loop),
            frozenset(dim for dim, loops in enumerate(loops_of_dim) if any(read.uses(loop) for loop in loops)),
            any(read.uses(loop) for loop in reduction),
            _along(layer, read, deepest) == "together",
            _element_bytes(layer, read.tensor),
        )
        for read in reads
    ])  # fmt: skip
    own = extents[vector_loop] if vector_loop >= 0 else 1
    vectorised = 0 if follows_sink and vector_loop not in reduction else own
    padded = tuple([read for read in nest.reads if is_anchor and is_padded(nest, read)])
    return NestCode(is_anchor, shape, depth, vectorised, described, stores, made, padded)


def _count(terms: Sequence[tuple[int, int]], extents: Extents) -> int:
    return math.prod([extents[loop] for loop, _ in terms])


def _innermost(shape: Sequence[int], order: Sequence[int]) -> int:
    """Return the innermost dimension in memory that has more than one element; -1 if none has."""
    return next((dim for dim in reversed(order) if shape[dim] > 1), -1)


def _vector_loop(nest: LoopNest, extents: Extents, dim: int, reduction: Sequence[int]) -> int:
    """Return the loop that vectors lie along: the innermost one of what is written, else the longest reduction."""
    if dim >= 0:
        moving = [(stride, loop) for loop, stride in nest.write.indices[dim].terms if extents[loop] > 1]
        return min(moving)[1]
    return max(reduction, key=lambda loop: extents[loop], default=-1)


def _along(layer: Layer, read: Access, loop: int) -> AlongVector:
    """Return how what ``read`` finds lies when ``loop`` moves."""
    if loop < 0 or not read.uses(loop):
        return "same"
    tensor = layer.graph.tensors.get(read.tensor)
    if tensor is not None and tensor.role == "weight":
        return "together"
    inner = _innermost(read.shape, _memory_order(layer, read))
    index = read.indices[inner] if inner >= 0 else None
    if index is None or index.opaque or index.divisor != 1:
        return "apart"
    return "together" if (loop, 1) in index.terms else "apart"


def code_of(layer: Layer, tiles: LoopTiles, dtype: str, simd: Simd, tuning: CpuTuning) -> Code:
    """Return the instructions of the whole kernel in ``tiles``."""
    lanes = {str(name): count for name, count in simd.lanes.items()}[dtype]
    in_front = made_in_front(layer, tiles)
    last = parts_of(layer)[-1] if in_front else layer
    total, operations = _counted(last, tiles, lanes, simd, tuning)
    for made in in_front:
        whole = math.prod(made.tiles.padded(made.layer.sink.shape))
        share = made.times * math.prod(made.extents) / whole
        counts, of_part = _counted(made.layer, made.tiles, lanes, simd, tuning)
        counts.scale(share)
        total.add(counts)
        operations += _scaled(of_part, share)
    return Code(total.issued(), round(total.register_bytes), operations)


def _counted(
    layer: Layer, tiles: LoopTiles, lanes: int, simd: Simd, tuning: CpuTuning
) -> tuple["_Counts", Operations]:
    """Return the instructions and operations of a layer with one anchor at most."""
    total, operations = _Counts(), Operations()
    for nest in nests_of(layer):
        _add(total, nest, layer, tiles, lanes, simd, tuning)
        _add_copies(total, nest, layer, tiles, lanes, tuning)
        operations += nest.operations
    share = _recomputed(layer, tiles)
    total.scale(share)
    return total, _scaled(operations, share)


def _scaled(operations: Operations, share: float) -> Operations:
    return Operations(
        round(operations.macs * share), round(operations.simple * share), round(operations.special * share)
    )


def _recomputed(layer: Layer, tiles: LoopTiles) -> float:
    """Return by how much the work of all tiles is more than that of the whole: halos that are computed twice."""
    if not footprints_of(layer).has_buffers:
        return 1.0
    shape = layer.sink.shape
    tile = tiles.within(shape)
    number = math.prod([size / part for size, part in zip(shape, tile, strict=True)])

    def work(tile: Extents) -> float:
        return sum([nest.operations.flops for nest in layer.tile_work(tile).nests])

    whole = work(shape)
    return max(work(tile) * number / whole, 1.0) if whole else 1.0


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


@dataclass(frozen=True, slots=True)
class _Vectors:
    """How the iterations of a nest are cut into vector instructions."""

    follows_sink: bool
    """Whether its register tile is the sink's."""
    vector_dim: int
    lanes: int
    """That are used; 1 where nothing is vectorised."""
    outputs: float
    """Vectors that are written."""
    steps: float
    """Vector iterations, those of reductions included."""
    rows: int
    """Of a register tile."""
    columns: int
    """Vectors of one row of a register tile."""
    in_row: float
    """Vectors one after the other along the vectorised loop."""


def _vectors(nest: NestCode, tiles: LoopTiles, lanes: int) -> _Vectors:
    follows_sink = not nest.vector_extent and len(nest.outputs) == len(tiles.tile)
    dim = tiles.vector_dim
    if follows_sink and dim >= 0:
        lanes = tiles.lanes(lanes)
        outputs = math.prod(tiles.padded(nest.outputs)) / lanes
        rows, columns = math.prod(tiles.register) // tiles.register[dim], tiles.register[dim] // lanes
        in_row = nest.outputs[dim] / lanes
        return _Vectors(True, dim, lanes, outputs, outputs * nest.iterations, rows, columns, in_row)
    extent = max(nest.vector_extent, 1)
    used = lanes if dim >= 0 or nest.vector_extent else 1
    outputs = math.prod(nest.outputs) / extent * -(-extent // used)
    return _Vectors(follows_sink, -1, used, outputs, outputs * nest.iterations, 1, 1, extent / used)


def _add(
    total: _Counts, nest: NestCode, layer: Layer, tiles: LoopTiles, lanes: int, simd: Simd, tuning: CpuTuning
) -> None:
    vectors = _vectors(nest, tiles, lanes)
    in_tile = vectors.rows * vectors.columns
    for read in nest.reads:
        _add_read(total, nest, read, vectors, tiles, simd)
    made = nest.operations
    iterations = max(math.prod(nest.outputs) * nest.iterations, 1)
    if nest.is_anchor and made.macs:
        iterations = min(iterations, made.macs)  # taps in the padding are computed too
    total.fma += made.macs / iterations * vectors.steps
    total.arithmetic += made.simple / iterations * vectors.steps
    total.special += made.special / iterations * vectors.steps
    element = layer.sink.element_bytes
    if nest.stores:
        is_vector = vectors.follows_sink or not nest.vector_extent
        stored = vectors.outputs if is_vector else math.prod(nest.outputs) / vectors.lanes
        total.store += stored
        total.register_bytes += stored * vectors.lanes * element
    if nest.is_anchor:
        total.accumulators = max(total.accumulators, in_tile)
        depth = footprints_of(layer).depth
        passes = 1 if tiles.depth_step is None else -(-depth // tiles.depth_step)
        total.load += (passes - 1) * vectors.outputs
        total.store += (passes - 1) * vectors.outputs
        total.register_bytes += 2 * (passes - 1) * vectors.outputs * vectors.lanes * element
        total.scalar += vectors.steps / in_tile * tuning.loop_instructions / tuning.unrolled
        total.scalar += vectors.outputs / in_tile * passes * tuning.tile_instructions
        total.loops += vectors.outputs / in_tile * passes
    elif nest.reads:
        total.scalar += vectors.steps * tuning.loop_instructions / tuning.unrolled


def _add_copies(
    total: _Counts, nest: NestCode, layer: Layer, tiles: LoopTiles, lanes: int, tuning: CpuTuning
) -> None:
    """Add the copies with padding of what the anchor reads, one for each tile."""
    if not nest.padded:
        return
    shape = layer.sink.shape
    number = math.prod([-(-size // part) for size, part in zip(shape, tiles.tile, strict=True)])
    anchor = anchored_nest(layer)
    work = next(work for work in layer.tile_work(tiles.within(shape)).nests if work.nest is anchor)
    ranges = [(0, extent) for extent in work.extents]
    for read in nest.padded:
        spans = [index.span(ranges) for index in read.indices]
        extents = [high - low for low, high in spans]
        inner = extents[_memory_order(layer, read)[-1]]
        used = next(each for each in halvings(lanes) if inner % each == 0)
        vectors = math.prod(extents) / used * number
        total.load += vectors
        total.store += vectors
        total.scalar += vectors * tuning.loop_instructions
        total.register_bytes += 2 * vectors * used * _element_bytes(layer, read.tensor)


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
    elif simd.multiplies_by_lane and read.lies_along_depth and nest.iterations > 1:
        loads, each_bytes = times / vectors.columns / vectors.lanes, simd.register_bytes
    else:
        loads, each_bytes = times / vectors.columns, read.element_bytes
    total.load += loads
    total.register_bytes += loads * each_bytes
