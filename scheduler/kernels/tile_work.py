"""Work of one tile of a layer: bytes of every operand, iterations and operations of every loop nest."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dsascape.scheduler.kernels.compiled import CompiledNest, LoopRole, sizes_by_role
from dsascape.scheduler.kernels.parts_met import Shares
from dsascape.scheduler.kernels.pieces_read import Piece, elements_of, first_iterations, first_read, joined, stacked
from dsascape.scheduler.kernels.streaming import Corrected, reduction_loops_of
from dsascape.workloads.loopnest import Extents, LoopNest, Operations, widest
from dsascape.workloads.operand_dtypes import Pair
from dsascape.workloads.subgraph import follow_back

if TYPE_CHECKING:
    from dsascape.scheduler.kernels.layer import Layer


@dataclass(frozen=True, slots=True)
class NestWork:
    """Work of one loop nest for one tile: iterations per loop and operations."""

    nest: LoopNest
    extents: Extents
    roles: tuple[LoopRole, ...] | None
    """Role of each loop for a matrix engine (rows, columns, depth, count, taps, run); None if the nest is no product of
    two operands."""
    operations: Operations
    share: float = 1.0
    """Mean fraction of tiles of this size for which the nest has any work: below 1 where several nests each write a
    part of one tensor, such as a concatenation."""
    dtypes: Pair | None = None
    """Dtypes of a product's operands (`workloads.operand_dtypes`); None if the file quantises neither."""

    @property
    def rounds(self) -> int:
        """Number of sequential iterations, each of which needs the result of the one before."""
        if self.nest.carried is None:
            return 1
        return math.prod([self.extents[loop] for loop, _ in self.nest.ordered])

    @property
    def is_product(self) -> bool:
        """Whether a matrix engine can compute the nest."""
        return self.roles is not None and bool(self.operations.macs)

    @property
    def matrix_shape(self) -> tuple[int, int, int, int, int, int] | None:
        """Rows, columns, depth and count of the tile's products, the depth at one tap of a window, rows of a run.

        None if the nest is no product of two operands.
        """
        if self.roles is None:
            return None
        rows, columns, depth, count, channels, run = sizes_by_role(self.roles, self.extents)
        products = rows * columns * count
        if products * depth > self.operations.macs > 0:  # taps between strides are left out
            depth = -(-self.operations.macs // products)
        return rows, columns, depth, count, channels, run


@dataclass(frozen=True, slots=True)
class TileWork:
    """Work of one tile: bytes read per operand, bytes written, bytes held between nests, and the nests."""

    operand_bytes: Mapping[str, int]
    operand_extents: Mapping[str, Extents]
    """Elements per dimension of the box that is read of each operand."""
    output_bytes: int
    internal_bytes: int
    """Bytes of tensors internal to single operators, such as row statistics, and of recomputed halos."""
    handed_bytes: int
    """Bytes of intermediates that their consumer reads otherwise than element by element, such as in windows."""
    nests: tuple[NestWork, ...]
    shares: Mapping[str, float] = field(default_factory=dict)
    """Mean fraction of tiles that read an operand, for operands that not every tile reads."""
    usual_extents: Mapping[str, Extents] = field(default_factory=dict)
    """Elements per dimension of the part that most tiles need, for operands of which tiles need different parts."""

    @property
    def between_bytes(self) -> int:
        """Return the bytes of intermediates between nests that need a buffer."""
        return self.internal_bytes + self.handed_bytes

    @property
    def flops(self) -> int:
        """Operations of all nests."""
        return sum([each.operations.flops for each in self.nests])

    @property
    def rounds(self) -> int:
        """Largest number of sequential iterations of any nest."""
        return max([nest.rounds for nest in self.nests], default=1)


def work_of_tile(
    layer: "Layer", wanted: Mapping[str, Extents], depth: int | None, from_the_start: frozenset[LoopNest]
) -> TileWork:
    """Return the work of a tile that is ``wanted`` of tensors that the layer writes, elements per dimension of each.

    ``depth``: iterations of the depth loops; None: all. Of nests ``from_the_start`` all iterations up to the tile's are
    computed. See `Layer.tile_work`.
    """
    if not layer.is_bounded:
        return _work_of_tile(layer, wanted, depth, from_the_start)
    most = _work_of_tile(layer, wanted, depth, from_the_start, most=True)
    mean = _work_of_tile(layer, wanted, depth, from_the_start)
    usual = {name: box for name, box in mean.operand_extents.items() if box != most.operand_extents[name]}
    return replace(most, nests=mean.nests, usual_extents={**most.usual_extents, **usual})


def _work_of_tile(
    layer: "Layer", wanted: Mapping[str, Extents], depth: int | None, from_the_start: frozenset[LoopNest], *,
    most: bool = False,
) -> TileWork:  # fmt: skip
    """Return `work_of_tile`; ``most``: of the tile that has most iterations of bounded loops, else in the mean."""
    summed = layer.summed if depth is not None else None
    work_of_nest: dict[tuple[int, int], tuple[Extents, tuple[int, ...], Operations, list[Extents]]] = {}
    works: list[NestWork] = []
    held_bytes: list[int] = []
    handed_bytes: list[int] = []
    shares = Shares(layer.put_together)
    corrected = Corrected(summed, frozenset() if summed is None else layer.streamed)

    def iterations(compiled: CompiledNest, written: Extents) -> list[int]:
        return _iterations(layer, compiled, written, depth, from_the_start, most=most)

    def note_work(
        compiled: CompiledNest, written: Extents, extents: tuple[int, ...], made: Operations, read: Sequence[Extents]
    ) -> None:
        share = shares.of(compiled.nest, written, read)
        if compiled.internal:
            held_bytes.append(layer.internals[compiled.target].bytes_of(math.prod(written)))
        elif compiled.target in layer.handed:
            handed_bytes.append(layer.graph.tensors[compiled.target].bytes_of(math.prod(written)))
        if not compiled.is_view:  # which only renames elements
            works.append(NestWork(compiled.nest, extents, compiled.roles, made, share, compiled.dtypes))

    def operands(compiled: CompiledNest, written: Extents) -> list[tuple[str, Extents]]:
        found = work_of_nest.get(compiled.alike)
        if found is None or found[0] != written:
            extents = iterations(compiled, written)
            read_extents = [read.extents(extents) for read in compiled.reads]
            made = corrected.operations(compiled, extents)
            found = work_of_nest[compiled.alike] = written, tuple(extents), made, read_extents
        note_work(compiled, *found)
        return [(read.tensor, each) for read, each in zip(compiled.reads, found[3], strict=True)]

    def operands_apart(compiled: CompiledNest, written: tuple[Piece, ...]) -> Iterator[tuple[str, tuple[Piece, ...]]]:
        all_of_them = stacked(written)
        of_all = iterations(compiled, all_of_them)
        found = [each.extents(of_all) for each in compiled.reads]
        note_work(compiled, all_of_them, tuple(of_all), corrected.operations(compiled, of_all), found)
        for piece in written:
            extents = iterations(compiled, piece.extents)
            first = first_iterations(compiled.nest, piece.first, extents)
            for read, access in zip(compiled.reads, compiled.nest.reads, strict=True):
                yield read.tensor, (Piece(first_read(access, first, extents), read.extents(extents)),)

    tensors = layer.graph.tensors
    if layer.reads_apart:
        pieces: dict[str, tuple[Piece, ...]] = {
            name: (Piece((0,) * len(extents), extents),) for name, extents in wanted.items()
        }
        lying = follow_back(layer.nests, pieces, operands_apart, joined)
        elements = {name: elements_of(lying[name], tensors[name].shape) for name in layer.inputs if name in lying}
        operand_extents = {name: _extents(lying[name], tensors[name].shape, count) for name, count in elements.items()}
        computed = {name: elements_of(lying[name], tensors[name].shape) for name in wanted}
    else:
        need = follow_back(layer.nests, wanted, operands, widest)
        operand_extents = {name: need[name] for name in layer.inputs if name in need}
        elements = {name: math.prod(box) for name, box in operand_extents.items()}
        computed = {name: math.prod(need[name]) for name in wanted}
    held_bytes += [  # elements that neighbours need too are computed by each tile and stored by one
        tensors[name].bytes_of(count - math.prod(wanted[name])) for name, count in computed.items()
    ]
    return TileWork(
        {name: tensors[name].bytes_of(count) for name, count in elements.items()}, operand_extents,
        sum([tensors[name].bytes_of(math.prod(own)) for name, own in wanted.items()]),
        sum(held_bytes), sum(handed_bytes), tuple(reversed(works)),
        shares.below_one(elements), {name: box for name, box in shares.usual.items() if name in elements},
    )  # fmt: skip


def _iterations(
    layer: "Layer", compiled: CompiledNest, written: Extents, depth: int | None, from_the_start: frozenset[LoopNest], *,
    most: bool,
) -> list[int]:  # fmt: skip
    """Return the iterations of each loop of a nest that write ``written`` elements per dimension."""
    extents = compiled.loop_extents(written, most=most)
    if from_the_start and compiled.nest in from_the_start:
        for loop, _ in compiled.nest.ordered:
            extents[loop] = compiled.nest.loops[loop].extent
    if depth is not None and compiled.nest is layer.summed:
        for loop, count in zip(layer.depth_loops, piece_extents(layer.depth_extents, depth), strict=True):
            extents[loop] = min(extents[loop], count)
    if depth is not None and compiled.nest in layer.streamed:
        for loop in reduction_loops_of(compiled.nest):
            extents[loop] = min(extents[loop], depth)
    return extents


def _extents(pieces: Sequence[Piece], shape: Extents, elements: int) -> Extents:
    """Return the extents of a box shaped like the hull of ``pieces`` but shrunk to about ``elements`` elements."""
    extents = []
    for dim, size in enumerate(shape):
        begin = min([piece.first[dim] for piece in pieces])
        extents.append(min(max([piece.first[dim] + piece.extents[dim] for piece in pieces]) - begin, size))
    longest = max(range(len(extents)), key=extents.__getitem__, default=-1)
    around = math.prod(extents)
    if longest >= 0 and around > elements:
        extents[longest] = -(-extents[longest] * elements // around)
    return tuple(extents)


def piece_extents(extents: Extents, depth: int) -> Extents:
    """Return the iterations per loop that ``depth`` consecutive iterations of a loop nest of ``extents`` cover."""
    counts = []
    for extent in reversed(extents):
        counts.append(min(extent, depth))
        depth = -(-depth // extent)
    return tuple(reversed(counts))


def whole_pieces(extents: Extents, depth: int) -> int:
    """Return ``depth`` rounded up to a whole number of runs of the inner loops of ``extents``.

    Only inner loops that ``depth`` iterations run through completely count: a piece of one loop may end anywhere.
    """
    unit = 1
    for extent in reversed(extents):
        if depth < unit * extent:
            break
        unit *= extent
    return -(-depth // unit) * unit
