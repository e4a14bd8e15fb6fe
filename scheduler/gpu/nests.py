"""The loop nests of a layer as a thread block runs them: what stays in registers, what goes through shared memory.

A thread keeps what it computes of one nest in registers for the next one, as long as that asks each thread for its own
elements only, to combine them element by element. What other threads need lies in shared memory: sums that are reduced
further, statistics of rows, windows, and what contractions in front of the last one make. The last contraction is the
anchor: the tiles of the sink are its own, and each front has tiles of its own. What is computed before a contraction
without a reduction (padding, an activation) is computed where the contraction's operand is staged, and takes no room of
its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from dsascape.scheduler.gpu.lines import Line, line_of
from dsascape.scheduler.kernels.compiled import CompiledAccess, CompiledNest, asks_for_its_own, sizes_by_role
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Extents, LoopNest, Operations
from dsascape.workloads.memo import memoized
from dsascape.workloads.spaced import Spaced, spaced_loops

Place = Literal["outside", "shared", "staged", "registers"]
"""Where a tensor is for the block. ``staged``: computed where the operand of a contraction is staged."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read of one tensor by a nest."""

    access: CompiledAccess
    source: Place
    element_bytes: float
    line: Line | None = None
    """Line that it takes at once; None: element by element."""
    order: tuple[int, ...] = ()
    """Dimensions of the tensor as they lie in memory, outermost first."""


@dataclass(frozen=True, slots=True)
class BlockNest:
    """One loop nest that computes or moves something."""

    compiled: CompiledNest
    is_anchor: bool
    reads: tuple[Read, ...]
    writes: Place
    is_of_block: bool
    """Whether all threads of the block do it together, for what is staged or shared; else each does its own part."""
    element_bytes: float
    """Bytes of an element that it writes."""
    depth_loop: int | None
    """Longest reduction loop of which all iterations compute; None without one."""
    spaced: Mapping[int, Spaced]
    """Reduction loops of which not all iterations compute."""
    is_shared: bool
    """Whether what it writes lies in shared memory, be it written outside as well."""
    front: int | None
    """Position among the contractions in front of the anchor, first to last; None if it is none of them."""
    order: tuple[int, ...] = ()
    """Dimensions of what it writes as they lie in memory, outermost first."""

    def is_copied(self, operand: int) -> bool:
        """Whether an operand is copied to shared memory where it is staged: it is not there, and read affinely."""
        indices = self.compiled.nest.reads[operand].indices
        is_plain = all(index.window == 1 and not (index.opaque or index.table or index.clamp) for index in indices)
        return self.reads[operand].source != "shared" and is_plain

    @property
    def is_tiled(self) -> bool:
        """Whether it is multiplied in parts of its own: the anchor, and the contractions in front of it."""
        return self.compiled.roles is not None and (self.is_anchor or self.front is not None)

    def box(self, extents: Sequence[int]) -> Extents:
        """Return the elements per dimension of its result that so many iterations write."""
        return self.compiled.nest.write.extents(extents)

    @property
    def depth(self) -> int:
        """Iterations of that loop; 1 without one."""
        return 1 if self.depth_loop is None else self.compiled.nest.loops[self.depth_loop].extent

    def product(self, extents: Sequence[int], macs: int) -> "Product | None":
        """Return the products that it computes of so many iterations; None if it has no reuse of both operands."""
        if self.compiled.roles is None:
            return None
        rows, columns, _, count, *_ = sizes_by_role(self.compiled.roles, extents)
        each = rows * columns * count * self.compiled.nest.per_iteration.macs
        return Product(rows, columns, max(1, -(-macs // each)), count)

    def product_of(self, box: Extents) -> "Product | None":
        """Return the products that it computes for so many elements per dimension of its result."""
        extents = self.compiled.loop_extents(box)
        return self.product(extents, self.compiled.operations(extents).macs)


class Product(NamedTuple):
    """``number`` products of (rows x depth) by (depth x columns)."""

    rows: int
    columns: int
    depth: int
    """Iterations that compute."""
    number: int


class NestWork(NamedTuple):
    """Work of one nest for a box of the sink."""

    extents: Sequence[int]
    """Iterations per loop."""
    operations: Operations
    outputs: int
    """Elements written."""
    read: Sequence[int]
    """Elements of each tensor that it reads."""
    share: float = 1.0
    """Mean fraction of such boxes for which it has this work; how often, where it is done piece by piece."""
    most_outputs: int = 0
    """Elements written for the box that has most of them: a mask leaves other ones fewer."""


@dataclass(frozen=True)
class BlockNests:
    """All nests of a layer that compute or move something, first to last."""

    nests: tuple[BlockNest, ...]
    anchor: int
    """Position of the anchor, the last contraction; -1: none."""
    fronts: tuple[int, ...]
    """Positions of the contractions in front of the anchor, first to last."""
    largest: int
    """Position of the contraction with the most iterations, to whose depth footprints refer; -1: none."""
    anchor_ends_last: bool
    """Whether the anchor is the last reduction, and each of its sums goes into one element of the result: then they
    stay in a thread's registers, and lanes can have its operands brought to shared memory step by step."""

    reduction: int
    """Position of the nest whose reduction several blocks may share: the only one, if it has far more iterations than
    there are results to write behind it; -1: none."""

    runs: tuple[tuple[int, int], ...]
    """Nests, by their number, that each stand for so many that follow each other and are alike: the parts of a
    concatenation."""

    @property
    def shared(self) -> int:
        """Tensors that lie in shared memory, statistics and the like included."""
        return sum([nest.is_shared for nest in self.nests])

    @cached_property
    def statistics(self) -> tuple[int, ...]:
        """Positions of reductions that are no contractions, with results in shared memory, first to last."""
        return tuple([
            number for number, nest in enumerate(self.nests)
            if nest.is_of_block and nest.compiled.nest.has_reduction and not nest.is_tiled
        ])  # fmt: skip

    @property
    def shared_iterations(self) -> int:
        """Iterations of the reduction that blocks may share, for one of its results; 1 without one."""
        if self.reduction < 0:
            return 1
        return math.prod([loop.extent for loop in self.nests[self.reduction].compiled.nest.loops if loop.reduction])

    @property
    def depth(self) -> int:
        """Iterations of the anchor's longest reduction loop; 1 without one."""
        return 1 if self.anchor < 0 else self.nests[self.anchor].depth

    def works(self, layer: Layer, box: Extents, stream: int | None = None) -> list[NestWork]:
        """Return what each nest does for ``box`` elements per dimension of the sink of ``layer``.

        ``stream``: iterations of the anchor's depth at a time (`GpuTiles.stream`); the work is that of one such piece.
        """
        return _works(layer, box, stream)

    def product(
        self, layer: Layer, box: Extents, number: int | None = None, stream: int | None = None
    ) -> Product | None:
        """Return the products of a nest, the anchor if none is named, for ``box`` elements per dimension of the sink.

        ``stream``: as for `works`. None if it is no product of two operands.
        """
        chosen = self.anchor if number is None else number
        if chosen < 0:
            return None
        work = self.works(layer, box, stream)[chosen]
        return self.nests[chosen].product(work.extents, work.operations.macs)


def _written(nest: LoopNest, extents: Sequence[int]) -> int:
    return math.prod([extents[loop] for index in nest.write.indices for loop, _ in index.terms])


def _most_written(nest: LoopNest, extents: Sequence[int], outputs: int) -> int:
    """Return the most elements that any box like this writes, of so many ``outputs`` in the mean."""
    bound, whole = nest.bound, nest.extents
    if bound is None or not extents[bound.outer]:
        return outputs
    cut = extents[bound.outer], whole[bound.outer], whole[bound.inner]
    is_written = any(loop == bound.inner for index in nest.write.indices for loop, _ in index.terms)
    if not is_written or extents[bound.inner] != bound.band.mean_columns(*cut):
        return outputs
    return outputs // extents[bound.inner] * bound.band.most_columns(*cut)


def _read(nest: BlockNest, extents: Sequence[int]) -> list[int]:
    return [math.prod(read.access.extents(extents)) for read in nest.reads]


@memoized
def _works(layer: Layer, box: Extents, stream: int | None) -> list[NestWork]:
    nests = nests_of(layer)
    works: list[NestWork] = []
    of_tile = layer.tile_work(box, stream).nests
    pieces = 1.0 if stream is None else max(layer.depth_extent_of(box) / stream, 1.0)
    for number, alike in nests.runs:
        each, own = nests.nests[number], of_tile[number]
        share = own.share * (pieces if number <= nests.anchor else 1.0)
        outputs = _written(each.compiled.nest, own.extents)
        most = _most_written(each.compiled.nest, own.extents, outputs)
        works += [NestWork(own.extents, own.operations, outputs, _read(each, own.extents), share, most)] * alike
    return works


@memoized
def nests_of(layer: Layer) -> BlockNests:
    """Return the nests of ``layer``, worked out once for equal layers."""
    compiled = [each for each in reversed(layer.nests) if not each.is_view]
    contractions = [number for number, each in enumerate(compiled) if each.contraction]
    *fronts, anchor = contractions or [-1]
    places = _places(layer, [each.nest for each in compiled], contractions)
    of_block = _of_block(layer, [each.nest for each in compiled], places)
    found = []
    for number, each in enumerate(compiled):
        nest, written = each.nest, each.nest.write
        reads = [
            Read(
                access, places.get(layer.stored_name(read.tensor), "outside"),
                layer.described(read.tensor).element_bytes, line_of(nest, read), layer.described(read.tensor).order,
            )
            for access, read in zip(each.reads, nest.reads, strict=True)
        ]
        name = layer.stored_name(written.tensor)
        writes: Place = "outside" if written.tensor in layer.outputs else places[name]
        found.append(
            BlockNest(
                each, number == anchor, tuple(reads), writes, name in of_block,
                layer.described(written.tensor).element_bytes,
                _depth_loop(nest), spaced_loops(nest), places[name] == "shared",
                fronts.index(number) if number in fronts else None, layer.described(written.tensor).order,
            )
        )  # fmt: skip
    ends_last = anchor >= 0 and _ends_last(layer, *found[anchor:])
    shared = _shared_reduction(layer, [each.nest for each in compiled])
    largest = next((number for number, each in enumerate(compiled) if each.nest is layer.contraction), -1)
    return BlockNests(tuple(found), anchor, tuple(fronts), largest, ends_last, shared, _runs(found))


_WORTH_SHARING = 64
"""Iterations of a reduction for each element of the sink that are worth the putting together of partial results."""


def _shared_reduction(layer: Layer, nests: Sequence[LoopNest]) -> int:
    reducing = [number for number, nest in enumerate(nests) if nest.has_reduction]
    if len(reducing) != 1:
        return -1
    iterations = math.prod(nests[reducing[0]].extents)
    return reducing[0] if iterations >= _WORTH_SHARING * math.prod(layer.sink.shape) else -1


def _runs(nests: Sequence[BlockNest]) -> tuple[tuple[int, int], ...]:
    """Return where in ``nests`` such begin that are alike, and how many follow each other there."""
    found: list[tuple[int, int]] = []
    for number, nest in enumerate(nests):
        first, alike = found[-1] if found else (0, 0)
        if alike and _in_block(nests[first]) == _in_block(nest) and nest.compiled.alike[0] >= 0:
            found[-1] = first, alike + 1
        else:
            found.append((number, 1))
    return tuple(found)


def _in_block(nest: BlockNest) -> tuple[object, ...]:
    """Return all that what a block does of a nest depends on, the tensors that it reads left out."""
    reads = tuple([(read.source, read.element_bytes, read.line) for read in nest.reads])
    return nest.compiled.alike, reads, nest.writes, nest.is_shared, nest.is_of_block, nest.element_bytes


def _ends_last(layer: Layer, anchor: BlockNest, *others: BlockNest) -> bool:
    """Whether no nest behind the anchor reduces, and each sum of the anchor goes into one element of the sink."""
    return (
        not anchor.is_of_block
        and not any(each.compiled.nest.has_reduction for each in others)
        and math.prod(anchor.compiled.nest.write.shape) == math.prod(layer.sink.shape)
    )


def _depth_loop(nest: LoopNest) -> int | None:
    spaced = spaced_loops(nest)
    loops = [number for number, loop in enumerate(nest.loops) if loop.reduction and loop.extent > 1]
    return max([n for n in loops if n not in spaced], key=lambda number: nest.loops[number].extent, default=None)


def _places(layer: Layer, nests: Sequence[LoopNest], contractions: Sequence[int]) -> dict[str, Place]:
    """Return where each tensor is that the layer computes for itself; the last of the contractions is the anchor."""
    found: dict[str, Place] = {layer.stored_name(nest.write.tensor): "registers" for nest in nests}
    reduced: set[str] = set()
    sums: dict[str, set[str]] = {}
    """For each tensor, the reductions in registers that it is made of."""
    for number, nest in enumerate(nests):
        names = [layer.stored_name(read.tensor) for read in nest.reads]
        for name, read in zip(names, nest.reads, strict=True):
            if name in found and found[name] != "shared" and not asks_for_its_own(nest, read):
                found[name] = "staged" if number in contractions and name not in reduced else "shared"
        written = layer.stored_name(nest.write.tensor)
        if nest.has_reduction or not reduced.isdisjoint(names):
            reduced.add(written)
        made_of = {each for name in names if found.get(name) == "registers" for each in sums.get(name, ())}
        sums[written] = {written} if nest.has_reduction else made_of
        if nest.has_reduction:  # its threads have other elements than those that have added these up
            found |= dict.fromkeys(made_of, "shared")
    of_block = _of_block(layer, nests, found)
    for number in contractions[:-1]:
        name = layer.stored_name(nests[number].write.tensor)
        if name not in of_block:  # nobody asks for more than its own elements, but its threads have others
            found[name] = "shared"
    return found


def _of_block(layer: Layer, nests: Sequence[LoopNest], places: Mapping[str, Place]) -> set[str]:
    """Return the tensors that are shared or staged, and those that are computed for these alone."""
    found = {name for name, place in places.items() if place in ("shared", "staged")}
    for nest in reversed(nests):
        if layer.stored_name(nest.write.tensor) in found:
            found |= {name for read in nest.reads if (name := layer.stored_name(read.tensor)) in places}
    return found
