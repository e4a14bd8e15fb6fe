"""Operators with data-dependent element positions: gathers, scatters, one-hot, selections."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dsascape.wording import count
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import all_of, anything, at, everything, space_loops, whole
from dsascape.workloads.operators.reduction import statistic
from dsascape.workloads.operators.registry import Array, Lowered, NodeContext, UnsupportedOperatorError, operator

_SIMPLE = Operations(simple=1)
_LONGEST_TABLE = 4096
"""Elements of a known index tensor at most that is kept as a table; a longer one counts as data-dependent."""


@operator("Gather", layout="row_major", partial=True)
def _gather(context: NodeContext) -> Lowered:
    """Take rows by index: a slice if the indices are known and evenly spaced, otherwise a data-dependent access."""
    data, chosen, output = context.input(0), context.input(1), context.output
    axis = context.axis(0)
    loops, positions = space_loops(output)
    inner = len(chosen.shape)
    picking = positions[axis : axis + inner]
    values = context.constant(1)
    picked = anything(picking) if values is None else _known_choice(values, data.shape[axis], picking)
    outer = [at(positions[dim]) for dim in range(axis)]
    rest = [at(positions[dim - 1 + inner]) for dim in range(axis + 1, len(data.shape))]
    reads = [Access(data.name, data.shape, (*outer, picked, *rest))]
    if values is None:
        reads.append(whole(chosen, picking))
    return Lowered((LoopNest("Gather", loops, tuple(reads), whole(output, positions)),))


def _known_choice(values: Array, size: int, loops: Sequence[int]) -> Index:
    """Return the index of elements ``values``: a stride where they are evenly spaced in one loop, else a table."""
    flat = np.where(values < 0, values + size, values).reshape(-1)
    if flat.size and (flat.min() < 0 or flat.max() >= size):
        raise UnsupportedOperatorError(
            f"index {int(values.min())} or {int(values.max())} is outside of {count(size, 'element')}"
        )
    steps = np.diff(flat)
    if math.prod(values.shape[:-1]) == 1 and (steps.size == 0 or np.all(steps == steps[0])):
        step = int(steps[0]) if steps.size else 1
        return Index(tuple((loop, step) for loop in loops[-1:]), offset=int(flat[0]))
    if flat.size > _LONGEST_TABLE:
        return anything(loops)
    strides = (math.prod(values.shape[dim + 1 :]) for dim in range(values.ndim))
    terms = tuple(zip(loops, strides, strict=True))
    return Index(terms, opaque=True, table=tuple(int(v) for v in flat))


@operator("GatherElements", layout="row_major", partial=True)
def _gather_elements(context: NodeContext) -> Lowered:
    data, chosen, output = context.input(0), context.input(1), context.output
    loops, positions = space_loops(output)
    read = _free_along(data, positions, context.axis(0))
    nest = LoopNest("GatherElements", loops, (read, whole(chosen, positions)), whole(output, positions))
    return Lowered((nest,))


def _free_along(tensor: Tensor, positions: Sequence[int], *axes: int) -> Access:
    """Return the access by loops ``positions``, data-dependent along ``axes``."""
    indices = (anything((loop,)) if dim in axes else at(loop) for dim, loop in enumerate(positions))
    return Access(tensor.name, tensor.shape, tuple(indices))


@operator("GatherND", layout="row_major")
def _gather_nd(context: NodeContext) -> Lowered:
    """Take an element or slice of the data for every last dimension of the indices."""
    data, chosen, output = context.input(0), context.input(1), context.output
    batches = int(context.attributes.get("batch_dims", 0))
    loops, positions = space_loops(output)
    lead, depth = len(chosen.shape) - 1, chosen.shape[-1]
    picked = anything(positions[:lead])
    rest = (at(loop) for loop in positions[lead:])
    indices = (*(at(loop) for loop in positions[:batches]), *(picked,) * depth, *rest)
    names = (*(at(loop) for loop in positions[:lead]), everything(depth))
    reads = (Access(data.name, data.shape, indices), Access(chosen.name, chosen.shape, names))
    return Lowered((LoopNest("GatherND", loops, reads, whole(output, positions)),))


@operator("ScatterElements", "Scatter", layout="row_major", partial=True, updates=2)
def _scatter_elements(context: NodeContext) -> Lowered:
    """Read, per output, the data and any update with the same coordinates except along the axis."""
    axis = context.axis(0)
    output = context.output
    loops, positions = space_loops(output)
    updates = (_free_along(context.input(place), positions, axis) for place in (1, 2))
    reads = (whole(context.input(0), positions), *updates)
    work = Operations(simple=int(context.text("reduction", "none") != "none"))
    return Lowered((LoopNest(context.kind, loops, reads, whole(output, positions), per_output=work),))


@operator("ScatterND", layout="row_major", updates=2)
def _scatter_nd(context: NodeContext) -> Lowered:
    """Read, per output, the data and any slice of the updates; coordinates inside a slice are the output's."""
    data, chosen, updates = (context.input(place) for place in range(3))
    loops, positions = space_loops(context.output)
    lead, depth = len(chosen.shape) - 1, chosen.shape[-1]
    picked = anything(positions[:depth])
    moved = (*(picked,) * lead, *(at(loop) for loop in positions[depth:]))
    reads = (
        whole(data, positions),
        Access(chosen.name, chosen.shape, (*(picked,) * lead, everything(depth))),
        Access(updates.name, updates.shape, moved),
    )
    work = Operations(simple=int(context.text("reduction", "none") != "none"))
    write = whole(context.output, positions)
    return Lowered((LoopNest("ScatterND", loops, reads, write, per_output=work),))


@operator("TensorScatter", layout="row_major", updates=1)
def _tensor_scatter(context: NodeContext) -> Lowered:
    """Put a new piece into a cache along one axis, at a place per batch."""
    cache, update = context.input(0), context.input(1)
    axis = context.axis(-2)
    loops, positions = space_loops(context.output)
    reads = [whole(cache, positions), _free_along(update, positions, axis)]
    places = context.optional_input(2)
    if places is not None:
        reads.append(Access(places.name, places.shape, (at(positions[0]),)))
    return Lowered((LoopNest("TensorScatter", loops, tuple(reads), whole(context.output, positions)),))


@operator("OneHot", layout="row_major")
def _one_hot(context: NodeContext) -> Lowered:
    chosen, output = context.input(0), context.output
    axis = context.axis(-1, len(output.shape))
    loops, positions = space_loops(output)
    read = whole(chosen, [position for dim, position in enumerate(positions) if dim != axis])
    values = (all_of(tensor) for tensor in context.unknown(1, 2))
    return Lowered(
        (LoopNest("OneHot", loops, (read, *values), whole(output, positions), per_output=_SIMPLE),)
    )


@operator("ReverseSequence", layout="row_major")
def _reverse_sequence(context: NodeContext) -> Lowered:
    """Read any time step of the same batch element; the lengths decide which."""
    data, lengths = context.input(0), context.input(1)
    time = int(context.attributes.get("time_axis", 0))
    batch = int(context.attributes.get("batch_axis", 1))
    loops, positions = space_loops(context.output)
    reads = (_free_along(data, positions, time), Access(lengths.name, lengths.shape, (at(positions[batch]),)))
    return Lowered((LoopNest("ReverseSequence", loops, reads, whole(context.output, positions)),))


@operator("TopK", layout="row_major")
def _top_k(context: NodeContext) -> Lowered:
    """Keep the k best elements of each line in a heap during one pass over the line, then sort them.

    Each element is compared with the worst of the heap and, at most, sinks through its log2(k) levels; each result is
    sorted with log2(k) comparisons.
    """
    axis = context.axis(-1)
    levels = _levels(context.output.shape[axis])
    data = context.input(0)
    scan, best = statistic(
        f"{context.output.name}:best", data, (axis,), (), Operations(simple=1 + levels), Operations()
    )
    return _after(context, scan, best, Operations(simple=max(levels, 1)))


@operator("Hardmax")
def _hardmax(context: NodeContext) -> Lowered:
    """Find the position of each line's largest element, then compare positions.

    Before opset 13 all dimensions from the axis on form one line.
    """
    rank = len(context.input(0).shape)
    legacy = context.opset < 13  # noqa: PLR2004 - the ONNX opset that changed it
    axis = context.axis(1 if legacy else -1)
    axes = range(axis, rank) if legacy else (axis,)
    place = statistic(f"{context.output.name}:largest", context.input(0), axes, (), Operations(simple=2), Operations())
    return _after(context, *place, _SIMPLE)


@operator("Multinomial", layout="row_major")
def _multinomial(context: NodeContext) -> Lowered:
    """Turn each row of log-probabilities into a running sum, then look up each sample in it.

    An exponential and an addition for each element; a sample takes a random number and log2(classes) comparisons. The
    row of sums that it is looked up in has to be complete.
    """
    data, output = context.input(0), context.output
    sums = Tensor(f"{output.name}:sums", data.shape, data.dtype, "activation", data.order)
    loops, positions = space_loops(sums)
    added = LoopNest(
        "sums", loops, (whole(data, positions),), whole(sums, positions), per_output=Operations(simple=1, special=1)
    )
    samples, places = space_loops(output)
    looked_up = Access(sums.name, sums.shape, (at(places[0]), everything(data.shape[1])))
    work = Operations(simple=2 + _levels(data.shape[1]))
    lookups = LoopNest("Multinomial", samples, (looked_up,), whole(output, places), per_output=work)
    return Lowered((added, lookups), (sums,))


def _levels(number: int) -> int:
    """Return the comparisons that find a place among ``number`` sorted values."""
    return math.ceil(math.log2(max(number, 1)))


def _after(context: NodeContext, scan: LoopNest, summary: Tensor, last: Operations) -> Lowered:
    """Return ``scan``, the nest that reads the whole input, and the nests that write results from its ``summary``.

    ``summary`` has the input's rank, and size one in the dimensions that were reduced.
    """
    nests = [scan]
    for output in context.results:
        loops, positions = space_loops(output)
        dims = enumerate(summary.shape)
        if len(output.shape) == len(summary.shape):
            read = tuple(Index() if size == 1 else at(positions[dim]) for dim, size in dims)
        else:
            read = tuple(Index() for _ in dims)
        reads = (Access(summary.name, summary.shape, read),)
        nests.append(LoopNest(context.kind, loops, reads, whole(output, positions), per_output=last))
    return Lowered(tuple(nests), (summary,))


def _unpooled(context: NodeContext) -> list[tuple[Sequence[int], str]]:
    data, rank = context.input(0), len(context.input(0).shape) - 2
    wanted = context.known_ints(2, "output_shape", ())
    if wanted is None:
        raise UnsupportedOperatorError("the output shape is not known before the network runs")
    kernel = context.ints("kernel_shape", ())
    strides, pads = context.ints("strides", (1,) * rank), context.ints("pads", (0,) * 2 * rank)
    sizes = tuple(
        (data.shape[2 + d] - 1) * strides[d] + kernel[d] - pads[d] - pads[rank + d] for d in range(rank)
    )
    return [(wanted or (*data.shape[:2], *sizes), data.dtype)]


@operator("MaxUnpool", layout="row_major", shapes=_unpooled)
def _max_unpool(context: NodeContext) -> Lowered:
    """Put each element at the position that its index states, in the same image and channel."""
    scan, summary = _scan_of(context, _SIMPLE)
    chosen = context.input(1)
    together = Access(chosen.name, chosen.shape, scan.reads[0].indices)
    return _after(context, replace(scan, reads=(*scan.reads, together)), summary, Operations())


@operator("NonZero", layout="row_major")
def _non_zero(context: NodeContext) -> Lowered:
    """Compare each element with zero and count those before it."""
    return _after(context, *_scan_of(context, Operations(simple=2)), _SIMPLE)


@operator("Compress", layout="row_major")
def _compress(context: NodeContext) -> Lowered:
    """Pass over data and condition together, counting the elements kept so far."""
    data, condition = context.input(0), context.input(1)
    scan, summary = _scan_of(context, _SIMPLE)
    places = [index.terms[0][0] for index in scan.reads[0].indices]
    if "axis" in context.attributes:
        along = at(places[context.axis(0)])
    else:
        along = Index(tuple((place, math.prod(data.shape[dim + 1 :])) for dim, place in enumerate(places)))
    condition_read = Access(condition.name, condition.shape, (along,))
    return _after(context, replace(scan, reads=(*scan.reads, condition_read)), summary, Operations())


@operator("Unique", layout="row_major")
def _unique(context: NodeContext) -> Lowered:
    """Sort all elements (slices, along an axis): log2 of their number comparisons each; then compare neighbours."""
    data = context.input(0)
    sorted_by = _levels(data.elements if "axis" not in context.attributes else data.shape[context.axis(0)])
    return _after(context, *_scan_of(context, Operations(simple=sorted_by + 1)), _SIMPLE)


@operator("NonMaxSuppression", layout="row_major")
def _non_max_suppression(context: NodeContext) -> Lowered:
    """Sort the boxes of each class by score, then compare each with the boxes of its class that are kept.

    log2(boxes) comparisons for each score to be sorted, and some 12 operations for each overlap; a class keeps as many
    boxes as the file states, or as the output's shape allows.
    """
    scores, output = context.input(1), context.output
    batch, classes, boxes = scores.shape
    most = context.constant(2)
    kept = -(-output.shape[0] // max(batch * classes, 1)) if most is None else int(most.reshape(-1)[0])
    each = _levels(boxes) + _OVERLAP * max(min(kept, boxes), 1)
    loops = (Loop("n", batch, reduction=True), Loop("c", classes, reduction=True), Loop("b", boxes, reduction=True))
    corners = context.input(0)
    summary = Tensor(f"{output.name}:found", (1, 1, 1), scores.dtype, "activation")
    reads = (
        whole(scores, (0, 1, 2)),
        Access(corners.name, corners.shape, (at(0), at(2), everything(corners.shape[2]))),
        *(all_of(tensor) for tensor in context.unknown(2, 3, 4)),
    )
    write = Access(summary.name, summary.shape, (Index(),) * 3)
    scan = LoopNest("looked", loops, reads, write, Operations(simple=each))
    return _after(context, scan, summary, _SIMPLE)


_OVERLAP = 12
"""Operations to compute how much two boxes overlap: four limits, two lengths, three areas, a sum and a comparison."""


def _scan_of(context: NodeContext, each: Operations) -> tuple[LoopNest, Tensor]:
    """Return the nest that reads the whole first input, and the tensor of one element that it writes."""
    data = context.input(0)
    return statistic(f"{context.output.name}:found", data, range(len(data.shape)), (), each, Operations())
