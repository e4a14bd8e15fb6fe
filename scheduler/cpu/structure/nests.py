"""The loop nests of a layer as generated code runs them: what iterations load, and which loop vectors lie along."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dsascape.scheduler.cpu.structure.bounded_rows import BOUNDED_ROWS, bounded_work
from dsascape.scheduler.cpu.structure.partial_sums import partial_sums
from dsascape.scheduler.cpu.structure.widened import Widening, widening_instructions, widening_of
from dsascape.scheduler.cpu.structure.windows import has_depth, is_in_window, periods_of, runs_in_parts_of, runs_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.naive import copy_order
from dsascape.scheduler.kernels.recurrences import elements_inside, ordered_dims
from dsascape.scheduler.kernels.structure.anchors import anchored_nest, is_padded
from dsascape.scheduler.kernels.structure.passes import Passes, kept_tensors, nests_in_order, passes_of
from dsascape.scheduler.kernels.structure.row_parts import lengths_of_parts
from dsascape.scheduler.kernels.tile_work import NestWork
from dsascape.workloads.loopnest import Access, Extents, LoopNest, Operations
from dsascape.workloads.memo import memoized
from dsascape.workloads.spaced import Spaced, spaced_loops

AlongVector = Literal["together", "same", "apart"]
"""How the elements that lanes need lie: next to each other, one for all lanes, or each somewhere else."""

_NONE = Operations()


@dataclass(frozen=True, slots=True)
class Read:
    """What one iteration of a nest loads of one tensor."""

    along_vector: AlongVector
    dims: frozenset[int]
    """Dimensions of the sink (of the nest's own output, where it has another rank) that move it."""
    moves_with_depth: bool
    lies_along_depth: bool
    """Whether the next iteration of the innermost reduction finds the next element."""
    element_bytes: float
    share: float = 1.0
    """Of the iterations: those that load it."""
    periods: tuple[tuple[int, int], ...] = ()
    """Dimensions along which every so-many-th element finds the same (`workloads.spaced`)."""
    runs: tuple[tuple[int, int], ...] = ()
    """Dimensions along which so many neighbours find the same."""
    widening: Widening | None = None
    """Instructions that make it where it is loaded; None where it lies in memory."""

    def widened_by(self, made: Widening) -> "Read":
        """Return it as made by ``made`` of weights, which lie in panels along the vectors."""
        return replace(self, widening=made, along_vector="same" if self.along_vector == "same" else "together")

    def loads_along(self, dim: int, extent: int) -> int:
        """Return how many elements ``extent`` neighbours along a dimension find.

        Code knows which of them find the same if there are whole periods, or runs, of them.
        """
        if dim not in self.dims:
            return 1
        period, run = dict(self.periods).get(dim, extent), dict(self.runs).get(dim, 1)
        return extent if extent % period or extent % run else min(period, extent // run)


@dataclass(frozen=True, slots=True)
class NestCode:
    """One loop nest over the whole of the sink."""

    is_anchor: bool
    outputs: tuple[int, ...]
    """Elements written, per dimension."""
    iterations: int
    """Of the reduction, for each element written; those that compute."""
    vector_extent: int
    """Iterations of the loop that is vectorised, where the nest does not follow the vectors of register tiles; 0: it
    does."""
    reads: tuple[Read, ...]
    """Those that come from memory."""
    stores: bool
    """Whether what it writes goes to memory."""
    operations: Operations
    of_results: Operations = _NONE
    """Those among them that are done once for each element written, behind a reduction."""
    sums_along: bool = False
    """Whether the vectorised loop is one of the reduction, or several: it is added up in partial sums
    (`scheduler.cpu.structure.passes`)."""
    padded: tuple[Access, ...] = ()
    """Of the anchor: what it reads with padding and from outside; what the layer computes for it is as it needs it."""
    passes: int = 1
    """Passes that compute it, each for itself (`scheduler.cpu.structure.passes`)."""
    is_widening: bool = False
    """Whether all that it computes is computed where the anchor loads it (`Read.widening`)."""
    row_parts: Extents = ()
    """Elements of the parts that a row is cut into before it is cut into vectors; empty where it is not."""
    chained: int = 0
    """Elements written between two of which the later needs the earlier; 0 where none needs another."""
    sums_in_depth: bool = False
    """Whether products that follow each other in depth may share an instruction that adds them up: of an anchor that
    sums over channels, or another dimension that no window moves along. Depthwise convolutions have none."""
    is_requantised: bool = False
    """Whether the anchor writes numbers of fewer bits than its sums of integers have."""
    places: tuple[int, ...] = (0,)
    """Among the nests of the layer, of all that are just like it."""

    @property
    def count(self) -> int:
        """Nests that are just like it."""
        return len(self.places)


@memoized
def nests_of(layer: Layer) -> tuple[NestCode, ...]:
    """Return the nests of ``layer`` that compute or move something, first to last; once for equal layers.

    Of those that are alike, as the parts of a concatenation are, there is one that counts for all.
    """
    works = layer.tile_work(layer.sink.shape).nests
    if layer.is_bounded:
        works = tuple([bounded_work(work) for work in works])
    anchor = anchored_nest(layer)
    targets = {compiled.target for compiled in layer.nests if not compiled.is_view}
    has_rows = any(work.nest.has_reduction for work in works)
    if anchor is None and not has_rows and works:
        return (_inlined(layer, sum([work.operations for work in works], Operations())),)
    passes = passes_of(layer)
    if passes is not None:
        found = _in_passes(layer, works, passes, targets)
    else:
        found = _around_anchor(layer, works, anchor, targets)
    places: dict[NestCode, list[int]] = {}
    for place, each in enumerate(found):
        places.setdefault(each, []).append(place)
    return tuple([replace(each, places=tuple(alike)) for each, alike in places.items()])


def _around_anchor(
    layer: Layer, works: Sequence[NestWork], anchor: LoopNest | None, targets: Collection[str]
) -> list[NestCode]:
    """Return the nests of a layer with an anchor, or with several that have no anchor to themselves.

    What is computed in front of an anchor is stored once, for each tile, as that reads it; what follows it never is.
    """
    of_anchor = {layer.stored_name(read.tensor) for read in anchor.reads} if anchor is not None else set()
    widening = None if anchor is None else widening_of(layer, anchor)
    is_before, found = anchor is not None, []
    for work in works:
        nest = work.nest
        is_anchor = nest is anchor
        is_after = anchor is not None and not (is_before or is_anchor)
        is_before = is_before and not is_anchor
        in_registers = targets if is_before or is_after else ()
        reads = [read for read in nest.reads if layer.stored_name(read.tensor) not in in_registers]
        own = nest.write.tensor
        stores = own in of_anchor if is_before else own in layer.outputs or not (is_after or is_anchor)
        described = _nest(layer, work, reads, stores=stores, is_anchor=is_anchor, in_registers=not is_before)
        if widening is not None and is_anchor:
            made, every = widening_instructions(layer, widening), zip(described.reads, reads, strict=True)
            described = replace(described, reads=tuple([
                each.widened_by(made) if access.tensor == widening.write.tensor else each for each, access in every
            ]))  # fmt: skip
        found.append(replace(described, is_widening=nest is widening))
    return found


def _in_passes(
    layer: Layer, works: Sequence[NestWork], passes: Passes, targets: Collection[str]
) -> list[NestCode]:
    """Return the nests of a layer that is gone over in passes: what none of them keeps stays in registers."""
    in_order, kept = nests_in_order(layer), kept_tensors(layer)
    found = []
    for work in works:
        nest = work.nest
        sources = [(read, layer.stored_name(read.tensor)) for read in nest.reads]
        reads = [read for read, source in sources if source in kept or source not in targets]
        stores = nest.write.tensor in kept
        own = _nest(layer, work, reads, stores=stores, is_anchor=False, in_registers=False)
        found.append(replace(own, passes=len(passes.of_nest[in_order.index(nest)])))
    return found


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
        share = layer.tile_work(single).shares.get(name, 1.0)
        reads.append(Read(along, depends, False, False, tensor.element_bytes, share))
    chained, ordered = elements_inside(layer), ordered_dims(layer)
    own = shape[dim] if dim >= 0 and dim not in ordered else 1
    shape = layer.computed_part(shape, (BOUNDED_ROWS,) * len(shape))
    parts = lengths_of_parts(layer, layer.sink.shape, dim) if own > 1 else ()
    return NestCode(False, tuple(shape), 1, own, tuple(reads), True, made, row_parts=parts, chained=chained)


def memory_order(layer: Layer, access: Access) -> Sequence[int]:
    """Return the dimensions of what is accessed as they lie in memory, outermost first."""
    tensor = layer.graph.tensors.get(access.tensor)
    return range(len(access.shape)) if tensor is None else tensor.order


def read_order(layer: Layer, nest: LoopNest, read: Access, *, is_anchor: bool) -> Sequence[int]:
    """Return the dimensions of what ``nest`` reads as they lie where it does so: in a copy, where it has padding."""
    own = memory_order(layer, read)
    if not is_anchor or layer.stored_name(read.tensor) in layer.computed or not is_padded(nest, read):
        return own
    return copy_order(nest, read, own, memory_order(layer, nest.write))


def _nest(
    layer: Layer, work: NestWork, reads: Sequence[Access], *, stores: bool, is_anchor: bool, in_registers: bool
) -> NestCode:
    """Return a nest as its kernel runs it; ``in_registers``: what is written goes through register tiles."""
    nest, extents, made = work.nest, work.extents, work.operations
    written = nest.write
    shape = tuple([_count(index.terms, extents) for index in written.indices])
    order = memory_order(layer, written)
    loops_of_dim = [frozenset(loop for loop, _ in index.terms if extents[loop] > 1) for index in written.indices]
    reduction = [loop for loop, each in enumerate(nest.loops) if each.reduction and extents[loop] > 1]
    follows_sink = written.shape == layer.sink.shape
    vector_loop = _vector_loop(nest, extents, _innermost(shape, order), reduction)
    run = summed_run(layer, nest) if reduction and not is_anchor else ()
    vector_loop = run[-1] if run else vector_loop
    deepest = max(reduction, default=-1)
    spaced = spaced_loops(nest)
    executed = [min(extents[loop], spaced[loop].count) if loop in spaced else extents[loop] for loop in reduction]
    depth = math.prod(executed)
    if made.macs and not is_anchor:
        depth = max(1, round(made.macs / max(math.prod(shape) * nest.per_iteration.macs, 1)))
    described = tuple([
        Read(
            _along(layer, read, vector_loop, order),
            frozenset(dim for dim, loops in enumerate(loops_of_dim) if _is_moved(read, loops, spaced)),
            any(read.uses(loop) for loop in reduction),
            _along(layer, read, deepest, order) == "together",
            layer.described(read.tensor).element_bytes,
            periods=periods_of(read, loops_of_dim, spaced),
            runs=runs_of(read, loops_of_dim, spaced) + runs_in_parts_of(read, written, extents),
        )
        for read in reads
        for order in (read_order(layer, nest, read, is_anchor=is_anchor),)
    ])  # fmt: skip
    own = math.prod([extents[loop] for loop in run or (vector_loop,) if loop >= 0])
    source = memory_order(layer, nest.reads[0]) if nest.reads else ()
    if reduction and not is_anchor and not run and _along(layer, nest.reads[0], vector_loop, source) == "apart":
        own = 1
    vectorised = 0 if follows_sink and in_registers else own
    outside = [read for read in nest.reads if is_anchor and layer.stored_name(read.tensor) not in layer.computed]
    padded = tuple([read for read in outside if is_padded(nest, read)])
    outputs = math.prod(shape)
    of_results = nest.per_output * outputs if reduction and not is_anchor else _NONE
    is_deep = is_anchor and bool(made.macs) and has_depth(nest, reduction)
    is_requantised = is_anchor and bool(made.macs) and layer.described(written.tensor).element_bytes < _HALF_BYTES
    return NestCode(
        is_anchor, shape, depth, vectorised, described, stores, made, of_results, bool(run), padded,
        sums_in_depth=is_deep, is_requantised=is_requantised,
    )  # fmt: skip


_HALF_BYTES = 2
"""Bytes of the narrowest numbers that sums are rounded to without a scale."""


def _is_moved(read: Access, loops: Collection[int], spaced: Mapping[int, Spaced]) -> bool:
    """Whether any of ``loops`` chooses what is read, be it by choosing iterations of spaced loops."""
    chosen = [each.loop for each in spaced.values() if not dict(each.rest.terms).keys().isdisjoint(loops)]
    return any(map(read.uses, (*loops, *chosen)))


def summed_run(layer: Layer, nest: LoopNest) -> tuple[int, ...]:
    """Return the reduction loops, outermost first, that together go along elements which follow each other in memory.

    They are the innermost ones; none, where even the last of them goes through elements that lie apart.
    """
    read = nest.reads[0]
    pitches, pitch = {}, 1
    for dim in reversed(memory_order(layer, read)):
        pitches[dim] = pitch
        pitch *= read.shape[dim]
    if any(index.opaque or index.clamp or index.divisor != 1 or index.window != 1 for index in read.indices):
        return ()
    moves: dict[int, list[int]] = {}
    for dim, index in enumerate(read.indices):
        for loop, stride in index.terms:
            moves.setdefault(loop, []).append(stride * pitches[dim])
    found: list[int] = []
    following = 1
    for loop in reversed([place for place, each in enumerate(nest.loops) if each.reduction]):
        if moves.get(loop) != [following] or is_in_window(nest, read, loop):
            break
        found.append(loop)
        following *= nest.loops[loop].extent
    return tuple(reversed(found))


def sums_one_by_one(layer: Layer, lanes: int) -> bool:
    """Whether each result of ``layer`` is a reduction of its own in vectors of partial sums, and nothing else is kept.

    No vectors lie along its results then, so that threads can share them along every dimension.
    """
    passes = passes_of(layer)
    if passes is None or kept_tensors(layer) != (layer.sink.name,):
        return False
    nest = nests_in_order(layer)[passes.results[0]]
    run = summed_run(layer, nest) if nest.has_reduction else ()
    return bool(run) and partial_sums(math.prod([nest.loops[loop].extent for loop in run]), lanes) > 1


def lies_apart(layer: Layer, nest: LoopNest) -> bool:
    """Whether a reduction finds what neighbouring results are made of in places that are not next to each other."""
    written = nest.write
    loop = _vector_loop(nest, nest.extents, _innermost(written.shape, memory_order(layer, written)), [])
    return _along(layer, nest.reads[0], loop, memory_order(layer, nest.reads[0])) == "apart"


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


def _along(layer: Layer, read: Access, loop: int, order: Sequence[int]) -> AlongVector:
    """Return how what ``read`` finds lies when ``loop`` moves: weights in panels, other memory in that ``order``."""
    return "together" if read.uses(loop) and loop >= 0 and _is_weight(layer, read) else _lies_along(read, loop, order)


def _is_weight(layer: Layer, read: Access) -> bool:
    tensor = layer.graph.tensors.get(read.tensor)
    return tensor is not None and tensor.role == "weight"


def _lies_along(read: Access, loop: int, order: Sequence[int]) -> AlongVector:
    """Return how what ``read`` finds lies when ``loop`` moves, in memory of that ``order``, whatever the tensor is."""
    if loop < 0 or not read.uses(loop):
        return "same"
    inner = _innermost(read.shape, order)
    index = read.indices[inner] if inner >= 0 else None
    if index is None or index.opaque or index.divisor != 1:
        return "apart"
    return "together" if (loop, 1) in index.terms else "apart"
