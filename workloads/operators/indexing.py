"""Operators that take or put elements where other data says: gathers, scatters, one-hot, selections."""

import math
from collections.abc import Sequence

import numpy as np

from workloads.graph import Tensor
from workloads.loopnest import Access, Index, LoopNest, Operations
from workloads.operators.access import all_of, anything, at, everything, space_loops, whole
from workloads.operators.registry import Array, Lowered, NodeContext, UnsupportedOperatorError, operator

_SIMPLE = Operations(simple=1)
_LONGEST_TABLE = 4096
"""Known choices of more elements count as any element."""


@operator("Gather", layout="row_major", partial=True)
def _gather(context: NodeContext) -> Lowered:
    """Take rows by index: known and evenly spaced indices are a slice, others choose at run time."""
    data, chosen, output = context.input(0), context.input(1), context.output
    axis = context.axis(0)
    loops, positions = space_loops(output)
    inner = len(chosen.shape)
    picking = positions[axis : axis + inner]
    known = context.constant(1)
    picked = anything(picking) if known is None else _known_choice(known, data.shape[axis], picking)
    outer = [at(positions[dim]) for dim in range(axis)]
    rest = [at(positions[dim - 1 + inner]) for dim in range(axis + 1, len(data.shape))]
    reads = [Access(data.name, data.shape, (*outer, picked, *rest))]
    if known is None:
        reads.append(whole(chosen, picking))
    return Lowered((LoopNest("Gather", loops, tuple(reads), whole(output, positions)),))


def _known_choice(values: Array, size: int, loops: Sequence[int]) -> Index:
    """Return the index of elements ``values``, as a stride where they are evenly spaced in one loop."""
    flat = np.where(values < 0, values + size, values).reshape(-1)
    if flat.size and (flat.min() < 0 or flat.max() >= size):
        raise UnsupportedOperatorError(
            f"index {int(values.min())} or {int(values.max())} is outside of {size} elements"
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
    """Return the access that goes along with ``positions`` except in ``axes``, where data chooses."""
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


@operator("ScatterElements", "Scatter", layout="row_major", partial=True)
def _scatter_elements(context: NodeContext) -> Lowered:
    """Every output may come from any update with its coordinates, those along the axis aside."""
    axis = context.axis(0)
    output = context.output
    loops, positions = space_loops(output)
    updates = (_free_along(context.input(place), positions, axis) for place in (1, 2))
    reads = (whole(context.input(0), positions), *updates)
    work = Operations(simple=int(context.text("reduction", "none") != "none"))
    return Lowered((LoopNest(context.kind, loops, reads, whole(output, positions), per_output=work),))


@operator("ScatterND", layout="row_major")
def _scatter_nd(context: NodeContext) -> Lowered:
    """Every output may come from any slice of the updates; inside the slices the dimensions go along."""
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


@operator("TensorScatter", layout="row_major")
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
    """Along time any element of the same batch; the lengths say which."""
    data, lengths = context.input(0), context.input(1)
    time = int(context.attributes.get("time_axis", 0))
    batch = int(context.attributes.get("batch_axis", 1))
    loops, positions = space_loops(context.output)
    reads = (_free_along(data, positions, time), Access(lengths.name, lengths.shape, (at(positions[batch]),)))
    return Lowered((LoopNest("ReverseSequence", loops, reads, whole(context.output, positions)),))


@operator("TopK", layout="row_major")
def _top_k(context: NodeContext) -> Lowered:
    axis = context.axis(-1)
    depth = max(math.ceil(math.log2(max(context.input(0).shape[axis], 2))), 1)
    return Lowered(tuple(_line(context, output, (axis,), depth) for output in context.results))


@operator("Hardmax")
def _hardmax(context: NodeContext) -> Lowered:
    """Before opset 13 everything from the axis on is one line."""
    rank = len(context.input(0).shape)
    legacy = context.opset < 13  # noqa: PLR2004 - the ONNX opset that changed it
    axis = context.axis(1 if legacy else -1)
    return Lowered((_line(context, context.output, range(axis, rank) if legacy else (axis,), 1),))


@operator("Multinomial", layout="row_major")
def _multinomial(context: NodeContext) -> Lowered:
    return Lowered((_line(context, context.output, (1,), 2),))


def _line(context: NodeContext, output: Tensor, axes: Sequence[int], work: int) -> LoopNest:
    """Return the nest whose outputs depend on the whole line of inputs along ``axes``."""
    loops, positions = space_loops(output)
    reads = (_free_along(context.input(0), positions, *axes), *(all_of(t) for t in context.unknown(1)))
    return LoopNest(context.kind, loops, reads, whole(output, positions), per_output=Operations(simple=work))


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
@operator("NonMaxSuppression", "NonZero", "Compress", "Unique", layout="row_major")
def _selected(context: NodeContext) -> Lowered:
    """Any output may depend on any input. How many there are must stand in the file."""
    nests = []
    for output in context.results:
        loops, positions = space_loops(output)
        reads = tuple(all_of(tensor) for tensor in context.inputs if tensor is not None)
        nests.append(LoopNest(context.kind, loops, reads, whole(output, positions), per_output=_SIMPLE))
    return Lowered(tuple(nests))
