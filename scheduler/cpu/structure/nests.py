"""What iterations of a layer's anchor load, and how it lies along vectors; reductions that go along memory."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dsascape.scheduler.cpu.structure.bounded_rows import bounded_work
from dsascape.scheduler.cpu.structure.partial_sums import partial_sums
from dsascape.scheduler.cpu.structure.widened import Widening, widening_instructions, widening_of
from dsascape.scheduler.cpu.structure.windows import has_depth, is_in_window, periods_of, runs_in_parts_of, runs_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.naive import copy_order
from dsascape.scheduler.kernels.structure.anchors import anchored_nest, is_padded
from dsascape.scheduler.kernels.structure.passes import kept_tensors, nests_in_order, passes_of
from dsascape.workloads.loopnest import Access, Extents, LoopNest
from dsascape.workloads.memo import memoized
from dsascape.workloads.spaced import Spaced, spaced_loops

AlongVector = Literal["together", "same", "apart"]
"""How the elements that lanes need lie: next to each other, one for all lanes, or each somewhere else."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one iteration of an anchor loads of one tensor."""

    along_vector: AlongVector
    dims: frozenset[int]
    """Dimensions of what the anchor writes that move it."""
    moves_with_depth: bool
    lies_along_depth: bool
    """Whether the next iteration of the innermost reduction finds the next element."""
    element_bytes: float
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
class AnchorWork:
    """What the anchor of a layer does for each element that it writes."""

    reads: tuple[Read, ...]
    iterations: int
    """Iterations of the reduction for each element, without those of spaced loops that compute nothing."""
    sums_in_depth: bool
    """Whether products that follow each other in depth may share an instruction that adds them up: of an anchor that
    sums over channels, or another dimension that no window moves along. Depthwise convolutions have none."""


@memoized
def anchor_work(layer: Layer) -> AnchorWork:
    """Return what the anchor of ``layer`` does, which has one; once for equal layers."""
    nest = anchored_nest(layer)
    assert nest is not None
    work = next(each for each in layer.tile_work(layer.sink.shape).nests if each.nest is nest)
    extents = (bounded_work(work) if layer.is_bounded else work).extents
    written = nest.write
    shape = tuple([_count(index.terms, extents) for index in written.indices])
    loops_of_dim = [frozenset(loop for loop, _ in index.terms if extents[loop] > 1) for index in written.indices]
    reduction = [loop for loop, each in enumerate(nest.loops) if each.reduction and extents[loop] > 1]
    vector_loop = _vector_loop(nest, extents, _innermost(shape, memory_order(layer, written)), reduction)
    deepest, spaced = max(reduction, default=-1), spaced_loops(nest)
    executed = [min(extents[loop], spaced[loop].count) if loop in spaced else extents[loop] for loop in reduction]
    widening = widening_of(layer, nest)
    reads = []
    for read in nest.reads:
        order = read_order(layer, nest, read)
        own = Read(
            _along(layer, read, vector_loop, order),
            frozenset(dim for dim, loops in enumerate(loops_of_dim) if _is_moved(read, loops, spaced)),
            any(read.uses(loop) for loop in reduction),
            _along(layer, read, deepest, order) == "together",
            layer.described(read.tensor).element_bytes,
            periods=periods_of(read, loops_of_dim, spaced),
            runs=runs_of(read, loops_of_dim, spaced) + runs_in_parts_of(read, written, extents),
        )
        is_widened = widening is not None and read.tensor == widening.write.tensor
        reads.append(own.widened_by(widening_instructions(layer, widening)) if is_widened and widening else own)
    is_deep = bool(work.operations.macs) and has_depth(nest, reduction)
    return AnchorWork(tuple(reads), math.prod(executed), is_deep)


def memory_order(layer: Layer, access: Access) -> Sequence[int]:
    """Return the dimensions of what is accessed as they lie in memory, outermost first."""
    tensor = layer.graph.tensors.get(access.tensor)
    return range(len(access.shape)) if tensor is None else tensor.order


def read_order(layer: Layer, nest: LoopNest, read: Access) -> Sequence[int]:
    """Return the dimensions of what an anchor reads as they lie where it does so: in a copy, where it has padding."""
    own = memory_order(layer, read)
    if layer.stored_name(read.tensor) in layer.computed or not is_padded(nest, read):
        return own
    return copy_order(nest, read, own, memory_order(layer, nest.write))


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
