"""The instructions of one loop nest, class by class, in register tiles; what cache tiles repeat of it comes on top."""

import math
from dataclasses import replace
from typing import NamedTuple

from dsascape.hw_models.cpu.core_kinds import VectorShape
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.scheduler.cpu.schedule.tiles import RegisterTiles
from dsascape.scheduler.cpu.structure.anchors import most_lanes
from dsascape.scheduler.cpu.structure.nests import NestCode, Read, nests_of
from dsascape.scheduler.cpu.structure.partial_sums import folding_instructions, partial_sums, pieces_of_row
from dsascape.scheduler.cpu.view import CodeView
from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.memo import memoized

_REQUANTISATION = 3
"""Instructions that make narrow results of a vector of sums: a multiplication, a shift that rounds, a narrowing."""


class Counts:
    """Instructions being added up."""

    __slots__ = (
        "accumulators", "arithmetic", "fma", "load", "loops", "register_bytes", "scalar", "special", "store",
    )  # fmt: skip

    def __init__(self) -> None:
        self.fma = self.arithmetic = self.special = self.load = self.store = self.scalar = self.loops = 0.0
        self.register_bytes = 0.0
        self.accumulators = 1

    def scaled(self, share: float) -> "Counts":
        """Return ``share`` times as many."""
        found = Counts()
        found.fma = self.fma * share
        found.arithmetic = self.arithmetic * share
        found.special = self.special * share
        found.load = self.load * share
        found.store = self.store * share
        found.scalar = self.scalar * share
        found.loops = self.loops * share
        found.register_bytes = self.register_bytes * share
        found.accumulators = self.accumulators
        return found

    def add(self, other: "Counts") -> None:
        """Let there be those of ``other``, too."""
        self.fma += other.fma
        self.arithmetic += other.arithmetic
        self.special += other.special
        self.load += other.load
        self.store += other.store
        self.scalar += other.scalar
        self.loops += other.loops
        self.register_bytes += other.register_bytes
        self.accumulators = max(self.accumulators, other.accumulators)

    def added_to(self, other: Issued) -> Issued:
        """Return ``other`` with these as well; there may be negative numbers of them, where some are left out."""
        return replace(
            other, fma=other.fma + round(self.fma), arithmetic=other.arithmetic + round(self.arithmetic),
            special=other.special + round(self.special), load=other.load + round(self.load),
            store=other.store + round(self.store), scalar=other.scalar + round(self.scalar),
            loops=other.loops + round(self.loops),
        )  # fmt: skip

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
    depth: int = 1
    """Products that an instruction adds up in each lane."""
    deep: float = 1.0
    """Steps in depth, by iterations of the reduction: the last of so many products may be fewer."""

    def together(self, element_bytes: float, register_bytes: int) -> float:
        """Return the loads, or stores, of one vector of narrow numbers that lie next to each other: a part of one.

        Neighbouring vectors share it: those of a register tile, else those of a row.
        """
        neighbours = self.columns if self.follows_sink else max(self.in_row, 1)
        return max(min(self.lanes * element_bytes / register_bytes, 1.0), 1 / neighbours)


class _Registers:
    """What the nests of a layer have in common: how its sink is cut into register tiles, and these into vectors."""

    __slots__ = ("columns", "element_bytes", "lanes", "rows", "tiles", "used", "vector", "view")

    def __init__(self, layer: Layer, tiles: RegisterTiles, vector: VectorShape, view: CodeView) -> None:
        self.tiles, self.vector, self.view = tiles, vector, view
        self.lanes = lanes = vector.lanes
        self.element_bytes = layer.sink.element_bytes
        self.used = self.rows = self.columns = 1
        if tiles.vector_dim >= 0:
            along = tiles.sizes[tiles.vector_dim]
            self.used = math.gcd(tiles.lanes(lanes), most_lanes(layer, tiles.vector_dim, lanes))
            self.rows, self.columns = math.prod(tiles.sizes) // along, along // self.used


def _vectors(nest: NestCode, of: _Registers) -> _Vectors:
    tiles, lanes = of.tiles, of.lanes
    follows_sink = not nest.vector_extent and len(nest.outputs) == len(tiles.sizes)
    dim = tiles.vector_dim
    if follows_sink and dim >= 0:
        outputs = math.prod(tiles.padded(nest.outputs)) / of.used
        in_row = nest.outputs[dim] / of.used
        depth, deep = of.vector.depth if nest.sums_in_depth else 1, 1.0
        if depth > 1:
            deep = -(-nest.iterations // depth) / nest.iterations
        steps = outputs * nest.iterations
        return _Vectors(True, dim, of.used, outputs, steps, of.rows, of.columns, in_row, depth, deep)
    elements = math.prod(nest.outputs)
    extent = max(nest.vector_extent, 1)
    if nest.sums_along:
        count = partial_sums(extent, lanes)
        used = min(count, lanes)
        whole, rest = divmod(extent, count)
        in_row = nest.iterations / extent * (whole * count / used + rest)
        return _Vectors(False, -1, used, elements, elements * in_row, 1, 1, in_row)
    pieces = [piece for part in nest.row_parts or (extent,) for piece in pieces_of_row(part, lanes)]
    in_row = sum([count for count, _ in pieces]) if nest.iterations == 1 else extent / dividing(extent, lanes)
    outputs = elements / extent * in_row
    return _Vectors(follows_sink, -1, extent / in_row, outputs, outputs * nest.iterations, 1, 1, in_row)


def _add_nest(total: Counts, nest: NestCode, of: _Registers) -> None:
    """Add the instructions of ``nest`` and of all that are like it; none of one that is computed where it is read."""
    if nest.is_widening:
        return
    vectors, tiles, tuning = _vectors(nest, of), of.tiles, of.view.tuning
    in_tile = vectors.rows * vectors.columns
    count, every = nest.count, math.prod(nest.outputs)
    for read in nest.reads:
        _add_read(total, nest, read, vectors, of)
    made, of_results = nest.operations, nest.of_results
    iterations = max(every * nest.iterations, 1)
    if nest.is_anchor and made.macs:
        iterations = min(iterations, made.macs)  # taps in the padding are computed too
    steps = count * vectors.steps
    each_result = count * vectors.outputs / every
    instructions = of.vector.instructions if nest.sums_in_depth else 1.0
    total.fma += made.macs / iterations * steps * vectors.deep * instructions
    if nest.chained:
        _add_chain(total, nest, vectors, element_bytes=of.element_bytes)
    total.arithmetic += (made.simple - of_results.simple) / iterations * steps + of_results.simple * each_result
    total.special += (made.special - of_results.special) / iterations * steps + of_results.special * each_result
    element = of.element_bytes
    if nest.sums_along:
        total.arithmetic += count * vectors.outputs * folding_instructions(nest.vector_extent, of.lanes)
    if nest.stores:
        stored = count * vectors.outputs
        is_narrow = of.vector.depth > 1 and not nest.sums_along
        total.store += stored * (vectors.together(element, of.view.simd.register_bytes) if is_narrow else 1)
        total.arithmetic += stored if of.vector.converts else 0
        total.register_bytes += stored * (1 if nest.sums_along else vectors.lanes) * element
    if nest.is_requantised:
        total.arithmetic += count * vectors.outputs * _REQUANTISATION
    if nest.is_anchor:
        total.accumulators = max(total.accumulators, in_tile)
        passes = tiles.passes
        total.load += (passes - 1) * vectors.outputs
        total.store += (passes - 1) * vectors.outputs
        total.register_bytes += 2 * (passes - 1) * vectors.outputs * vectors.lanes * element
        rounds = vectors.steps * vectors.deep / in_tile / tuning.unrolled
        total.scalar += rounds * tuning.loop_instructions
        total.scalar += vectors.outputs / in_tile * passes * tuning.tile_instructions
        if nest.iterations * vectors.deep > passes * tuning.unrolled_whole:
            total.loops += vectors.outputs / in_tile * passes
    elif nest.reads:
        total.scalar += steps * tuning.loop_instructions / tuning.unrolled


def _add_chain(total: Counts, nest: NestCode, vectors: _Vectors, element_bytes: float) -> None:
    """Add the additions to earlier results, each of which waits for one of them.

    What lies between two that wait for each other is read again from where it was written.
    """
    total.fma += vectors.steps
    total.arithmetic -= vectors.steps
    total.accumulators = max(1, int(nest.chained / vectors.lanes))
    if nest.chained > 1:
        total.load += vectors.steps
        total.register_bytes += vectors.steps * vectors.lanes * element_bytes


def _add_read(total: Counts, nest: NestCode, read: Read, vectors: _Vectors, of: _Registers) -> None:
    """Add the loads of one operand: of the anchor's, one for all accumulators that use the same element.

    What is the same for all vectors of a row is loaded once for the row.
    """
    count, tiles, simd = nest.count, of.tiles, of.view.simd
    times = read.share * (vectors.steps if read.moves_with_depth or not nest.is_anchor else vectors.outputs)
    if not nest.is_anchor and read.along_vector == "same":
        times = 0 if not read.dims else times / max(vectors.in_row, 1)
    if nest.is_anchor and vectors.follows_sink:
        for dim, extent in enumerate(tiles.sizes):
            if dim != vectors.vector_dim:
                times /= extent / read.loads_along(dim, extent)
    along = read.along_vector
    deep = vectors.deep if read.moves_with_depth else 1.0  # what an instruction adds up lies together
    if along == "together":
        loads, each_bytes = times * deep, min(simd.register_bytes, vectors.lanes * vectors.depth * read.element_bytes)
        if of.vector.depth > vectors.depth:
            share = vectors.together(read.element_bytes, simd.register_bytes)
            loads, each_bytes = loads * share, each_bytes / share
        total.arithmetic += count * loads if of.vector.converts else 0
    elif along == "apart":
        loads, each_bytes = times * deep * vectors.lanes, read.element_bytes * vectors.depth
        total.arithmetic += count * loads if vectors.lanes > 1 else 0  # each is put into its lane
    elif simd.multiplies_by_lane and read.lies_along_depth and nest.iterations > 1:
        loads, each_bytes = times / vectors.columns / (vectors.lanes * vectors.depth), simd.register_bytes
        total.arithmetic += count * loads if of.vector.converts else 0
    else:
        loads, each_bytes = times * deep / vectors.columns, read.element_bytes * vectors.depth
    if read.widening is not None:
        total.arithmetic += count * loads * read.widening.arithmetic
        for size, share in read.widening.loads:
            total.load += count * loads * share
            total.register_bytes += count * loads * share * min(each_bytes, size * each_bytes / read.element_bytes)
        return
    total.load += count * loads
    total.register_bytes += count * loads * each_bytes


def counts_by_nest(layer: Layer, tiles: RegisterTiles, vector: VectorShape, view: CodeView) -> tuple[Counts, ...]:
    """Return the instructions of each nest in register tiles, in such vectors."""
    return _counts_by_nest(layer, tiles, vector, view.at_any_length)


@memoized
def _counts_by_nest(layer: Layer, tiles: RegisterTiles, vector: VectorShape, view: CodeView) -> tuple[Counts, ...]:
    of = _Registers(layer, tiles, vector, view)
    return tuple([_counts(nest, of) for nest in nests_of(layer)])


def least_counts(layer: Layer, tiles: RegisterTiles, vector: VectorShape, view: CodeView) -> Counts:
    """Return the instructions of all nests in register tiles, each element computed once."""
    total, of = Counts(), _Registers(layer, tiles, vector, view)
    apart = _whatever_registers(layer, tiles.vector_dim >= 0, vector, view.at_any_length)
    for nest, counts in zip(nests_of(layer), apart, strict=True):
        total.add(_counts(nest, of) if counts is None else counts)
    return total


@memoized
def _whatever_registers(
    layer: Layer, has_vectors: bool, vector: VectorShape, view: CodeView
) -> tuple[Counts | None, ...]:
    """Return the instructions of each nest that does not follow register tiles; None for the others."""
    single = RegisterTiles((1,) * len(layer.sink.shape), 0 if has_vectors else -1, 1)
    of = _Registers(layer, single, vector, view)
    return tuple([
        None if nest.is_anchor or _vectors(nest, of).follows_sink else _counts(nest, of) for nest in nests_of(layer)
    ])


def _counts(nest: NestCode, of: _Registers) -> Counts:
    counts = Counts()
    _add_nest(counts, nest, of)
    return counts
