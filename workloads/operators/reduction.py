"""Operators that reduce: pools, reductions, softmax and the normalisations, each as its nests."""

import math
from collections.abc import Collection, Iterable
from dataclasses import replace

from workloads.graph import Tensor
from workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from workloads.operators.registry import (
    Lowered,
    NodeContext,
    UnsupportedOperatorError,
    broadcast,
    operator,
    space_loops,
    whole,
)
from workloads.operators.windows import window_of

_SIMPLE = Operations(simple=1)
_SPECIAL = Operations(special=1)
_PER_ITERATION = {
    "ReduceL2": Operations(simple=2), "ReduceSumSquare": Operations(simple=2),
    "ReduceL1": Operations(simple=2), "ReduceLogSumExp": Operations(simple=1, special=1),
    "ArgMax": Operations(simple=2),
    "ArgMin": Operations(simple=2),
}  # fmt: skip
_PER_OUTPUT = {
    "ReduceMean": _SIMPLE, "ReduceL2": _SPECIAL, "ReduceLogSum": _SPECIAL, "ReduceLogSumExp": _SPECIAL,
    "AveragePool": _SIMPLE, "GlobalAveragePool": _SIMPLE, "LpPool": _SPECIAL, "GlobalLpPool": _SPECIAL,
}  # fmt: skip
_LEGACY_SOFTMAX_OPSET = 13


@operator("MaxPool", "AveragePool", "LpPool", layout="channels_last")
def _pool(context: NodeContext) -> Lowered:
    data = context.input(0)
    kernel = context.ints("kernel_shape", ())
    window = window_of(context, kernel)
    batch, channels, *pixels = context.output.shape
    rank = len(kernel)
    loops = (
        Loop("n", batch),
        *(Loop(f"o{d}", size) for d, size in enumerate(pixels)),
        Loop("c", channels),
        *(Loop(f"k{d}", size, reduction=True) for d, size in enumerate(kernel)),
    )
    channel = Index(((rank + 1, 1),))
    taps = tuple(
        Index(((1 + d, window.strides[d]), (rank + 2 + d, window.dilations[d])), offset=-window.pads[d])
        for d in range(rank)
    )
    read = Access(data.name, data.shape, (Index(((0, 1),)), channel, *taps))
    places = (0, rank + 1, *range(1, rank + 1))
    each = Operations(simple=2) if context.kind == "LpPool" else _SIMPLE
    last = _PER_OUTPUT.get(context.kind, Operations())
    return Lowered(
        tuple(LoopNest(context.kind, loops, (read,), whole(o, places), each, last) for o in context.outputs)
    )


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", layout="channels_last")
def _global_pool(context: NodeContext) -> Lowered:
    return Lowered((_reduce(context, range(2, len(context.input(0).shape)), keepdims=True),))


@operator(
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def _reduction(context: NodeContext) -> Lowered:
    rank = len(context.input(0).shape)
    listed = context.constant(1)
    if listed is None and context.optional_input(1) is not None:
        raise UnsupportedOperatorError("the axes are not known before the network runs")
    axes = context.ints("axes", ()) if listed is None else tuple(int(a) for a in listed.reshape(-1))
    if not axes and not context.attributes.get("noop_with_empty_axes"):
        axes = tuple(range(rank))
    keepdims = bool(context.attributes.get("keepdims", 1))
    return Lowered((_reduce(context, [a % rank for a in axes], keepdims=keepdims),))


@operator("ArgMax", "ArgMin")
def _arg_extreme(context: NodeContext) -> Lowered:
    return Lowered(
        (_reduce(context, [context.axis(0)], keepdims=bool(context.attributes.get("keepdims", 1))),)
    )


@operator("TopK", "Hardmax", "CumSum", layout="row_major")
def _along_axis(context: NodeContext) -> Lowered:
    """Every output depends on the whole line of inputs along the axis, in an order that data decides."""
    data = context.input(0)
    listed = context.constant(1) if context.kind == "CumSum" else None
    axis = context.axis(-1) if listed is None else int(listed.reshape(-1)[0]) % len(data.shape)
    nests = []
    for output in context.outputs:
        loops, positions = space_loops(output)
        indices = tuple(
            Index(((loop, 0),), opaque=True) if dim == axis else Index(((loop, 1),))
            for dim, loop in enumerate(positions)
        )
        depth = max(math.ceil(math.log2(max(data.shape[axis], 2))), 1)
        work = Operations(simple=1 if context.kind == "CumSum" else depth)
        read = Access(data.name, data.shape, indices)
        nests.append(LoopNest(context.kind, loops, (read,), whole(output, positions), per_output=work))
    return Lowered(tuple(nests))


def _reduce(context: NodeContext, axes: Collection[int], *, keepdims: bool) -> LoopNest:
    """Return the nest that reduces ``axes`` of the first input."""
    data, output = context.input(0), context.output
    kept = [dim for dim in data.order if dim not in axes]
    loops = tuple(Loop(f"i{dim}", data.shape[dim], reduction=dim in axes) for dim in (*kept, *sorted(axes)))
    place = {dim: position for position, dim in enumerate((*kept, *sorted(axes)))}
    read = whole(data, [place[dim] for dim in range(len(data.shape))])
    if keepdims:
        indices = tuple(Index() if d in axes else Index(((place[d], 1),)) for d in range(len(data.shape)))
    else:
        indices = tuple(Index(((place[d], 1),)) for d in range(len(data.shape)) if d not in axes)
    write = Access(output.name, output.shape, indices)
    each = _PER_ITERATION.get(context.kind, _SIMPLE)
    return LoopNest(context.kind, loops, (read,), write, each, _PER_OUTPUT.get(context.kind, Operations()))


def _statistic(
    name: str,
    data: Tensor,
    axes: Collection[int],
    extra: Iterable[Tensor],
    each: Operations,
    last: Operations,
) -> tuple[LoopNest, Tensor]:
    """Return the nest that reduces ``data`` over ``axes`` to a tensor with ones there, and that tensor."""
    shape = tuple(1 if dim in axes else size for dim, size in enumerate(data.shape))
    result = Tensor(name, shape, data.dtype, "activation", data.order)
    loops = tuple(Loop(f"i{dim}", data.shape[dim], reduction=dim in axes) for dim in data.order)
    place = {dim: position for position, dim in enumerate(data.order)}
    positions = [place[dim] for dim in range(len(data.shape))]
    reads = (whole(data, positions), *(broadcast(tensor, positions, data.shape) for tensor in extra))
    indices = tuple(Index() if dim in axes else Index(((place[dim], 1),)) for dim in range(len(shape)))
    return LoopNest(name.rpartition(":")[2], loops, reads, Access(name, shape, indices), each, last), result


def _pointwise_nest(name: str, output: Tensor, reads: Iterable[Tensor], each: Operations) -> LoopNest:
    loops, positions = space_loops(output)
    accesses = tuple(broadcast(tensor, positions, output.shape) for tensor in reads)
    return LoopNest(name, loops, accesses, whole(output, positions), per_output=each)


@operator("Softmax", "LogSoftmax")
def _softmax(context: NodeContext) -> Lowered:
    """Maximum, exponential, sum, division. Before opset 13 everything from the axis on is one line."""
    data, output = context.input(0), context.output
    rank = len(data.shape)
    legacy = context.opset < _LEGACY_SOFTMAX_OPSET
    axis = context.axis(1 if legacy else -1)
    axes = tuple(range(axis, rank)) if legacy else (axis,)
    maximum, top = _statistic(f"{output.name}:max", data, axes, (), _SIMPLE, Operations())
    shifted = Tensor(f"{output.name}:exp", data.shape, data.dtype, "activation", data.order)
    exponential = _pointwise_nest("exp", shifted, (data, top), Operations(simple=1, special=1))
    total, denominator = _statistic(f"{output.name}:sum", shifted, axes, (), _SIMPLE, _SPECIAL)
    scale = _pointwise_nest("scale", output, (shifted, denominator), _SIMPLE)
    return Lowered((maximum, exponential, total, scale), (top, shifted, denominator))


def _normalise(
    context: NodeContext, axes: Collection[int], first_affine_dim: int, *, centred: bool
) -> Lowered:
    """Return mean, reciprocal deviation and the scaled difference; without mean where not ``centred``.

    The inputs behind the first one (scale, bias) lie along the dimensions from ``first_affine_dim`` on.
    """
    data, output = context.input(0), context.output
    nests, internals = [], []
    if centred:
        nest, mean = _statistic(f"{output.name}:mean", data, axes, (), _SIMPLE, _SIMPLE)
        nests.append(nest)
        internals.append(mean)
    spread = Operations(simple=3 if centred else 2)
    nest, deviation = _statistic(
        f"{output.name}:rstd", data, axes, internals, spread, Operations(simple=2, special=1)
    )
    nests.append(nest)
    statistics = [*internals, deviation]
    parameters = [t for t in context.inputs[1:] if t is not None]
    each = Operations(simple=len(statistics) + len(parameters))
    scaled = _pointwise_nest("normalise", output, (data, *statistics), each)
    _, positions = space_loops(output)
    affine = [whole(t, positions[first_affine_dim : first_affine_dim + len(t.shape)]) for t in parameters]
    nests.append(replace(scaled, reads=(*scaled.reads, *affine)))
    return Lowered(tuple(nests), tuple(statistics))


@operator("LayerNormalization", "RMSNormalization")
def _layer_normalization(context: NodeContext) -> Lowered:
    rank = len(context.input(0).shape)
    axis = context.axis(-1)
    return _normalise(context, range(axis, rank), axis, centred=context.kind == "LayerNormalization")


@operator("InstanceNormalization")
def _instance_normalization(context: NodeContext) -> Lowered:
    rank = len(context.input(0).shape)
    return _normalise(context, range(2, rank), 1, centred=True)


@operator("LpNormalization", "MeanVarianceNormalization")
def _plain_normalization(context: NodeContext) -> Lowered:
    rank = len(context.input(0).shape)
    if context.kind == "LpNormalization":
        return _normalise(context, (context.axis(-1),), rank, centred=False)
    return _normalise(context, [a % rank for a in context.ints("axes", (0, 2, 3))], rank, centred=True)


@operator("LRN", layout="channels_last")
def _local_response(context: NodeContext) -> Lowered:
    """Sum of squares over a window of channels, then a power and a division."""
    data, output = context.input(0), context.output
    size = int(context.attributes["size"])
    loops, positions = space_loops(output)
    window = Loop("w", size, reduction=True)
    channel = Index(((positions[1], 1), (len(loops), 1)), offset=-((size - 1) // 2))
    plain = whole(data, positions)
    around = Access(data.name, data.shape, (plain.indices[0], channel, *plain.indices[2:]))
    nest = LoopNest(
        "LRN", (*loops, window), (around, plain), whole(output, positions),
        Operations(simple=2), Operations(simple=2, special=2),
    )  # fmt: skip
    return Lowered((nest,))
