"""Reductions over whole dimensions, running sums, determinants."""

from collections.abc import Collection

from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import all_of, anything, at, everything, space_loops, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator

_SIMPLE = Operations(simple=1)
_SPECIAL = Operations(special=1)
_PER_ITERATION = {
    "ReduceL2": Operations(simple=2), "ReduceSumSquare": Operations(simple=2),
    "ReduceL1": Operations(simple=2),
    "ReduceLogSumExp": Operations(simple=1, special=1), "ArgMax": Operations(simple=2),
    "ArgMin": Operations(simple=2), "GlobalLpPool": Operations(simple=2),
}  # fmt: skip
_PER_OUTPUT = {
    "ReduceMean": _SIMPLE, "ReduceL2": _SPECIAL, "ReduceLogSum": _SPECIAL, "ReduceLogSumExp": _SPECIAL,
    "GlobalAveragePool": _SIMPLE, "GlobalLpPool": _SPECIAL,
}  # fmt: skip


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", layout="channels_last")
def _global_pool(context: NodeContext) -> Lowered:
    return Lowered((_reduce(context, range(2, len(context.input(0).shape)), keepdims=True),))


@operator(
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def _reduction(context: NodeContext) -> Lowered:
    rank = len(context.input(0).shape)
    axes = context.known_ints(1, "axes", ())
    if axes is None:
        raise UnsupportedOperatorError("the axes are not known before the network runs")
    if not axes and not context.flag("noop_with_empty_axes"):
        axes = tuple(range(rank))
    keepdims = context.flag("keepdims", default=True)
    return Lowered((_reduce(context, [a % rank for a in axes], keepdims=keepdims),))


@operator("ArgMax", "ArgMin")
def _arg_extreme(context: NodeContext) -> Lowered:
    return Lowered((_reduce(context, [context.axis(0)], keepdims=context.flag("keepdims", default=True)),))


def _reduce(context: NodeContext, axes: Collection[int], *, keepdims: bool) -> LoopNest:
    """Return the nest that reduces ``axes`` of the first input."""
    data, output = context.input(0), context.output
    kept = [dim for dim in data.order if dim not in axes]
    order = (*kept, *sorted(axes))
    loops = tuple(Loop(f"i{dim}", data.shape[dim], reduction=dim in axes) for dim in order)
    place = {dim: position for position, dim in enumerate(order)}
    dims = range(len(data.shape))
    if keepdims:
        indices = tuple(Index() if d in axes else at(place[d]) for d in dims)
    else:
        indices = tuple(at(place[d]) for d in dims if d not in axes)
    read = whole(data, [place[dim] for dim in dims])
    write = Access(output.name, output.shape, indices)
    each = _PER_ITERATION.get(context.kind, _SIMPLE)
    return LoopNest(context.kind, loops, (read,), write, each, _PER_OUTPUT.get(context.kind, Operations()))


@operator("CumSum", "CumProd")
def _running(context: NodeContext) -> Lowered:
    """Combine each element with the running result before it; in reverse, behind it."""
    data, output = context.input(0), context.output
    loops, positions = space_loops(output)
    listed = context.constant(1)
    indices = [at(loop) for loop in positions]
    carried = None
    if listed is None:
        indices = [anything((loop,)) for loop in positions]
    else:
        axis = int(listed.reshape(-1)[0]) % len(data.shape)
        back = 1 if context.flag("reverse") else -1
        before = [at(loop) for loop in positions]
        before[axis] = Index(((positions[axis], 1),), offset=back)
        carried = Access(output.name, output.shape, tuple(before))
        if context.flag("exclusive"):
            indices[axis] = before[axis]
    reads = (Access(data.name, data.shape, tuple(indices)), *(all_of(t) for t in context.unknown(1)))
    write = whole(output, positions)
    return Lowered((LoopNest(context.kind, loops, reads, write, per_output=_SIMPLE, carried=carried),))


@operator("Det", layout="row_major")
def _determinant(context: NodeContext) -> Lowered:
    """Eliminate: a third of the side cubed multiply-accumulates."""
    data, output = context.input(0), context.output
    side = data.shape[-1]
    loops, positions = space_loops(output)
    read = Access(
        data.name, data.shape, (*(at(loop) for loop in positions), everything(side), everything(side))
    )
    work = Operations(macs=max(side**3 // 3, 1))
    return Lowered((LoopNest("Det", loops, (read,), whole(output, positions), per_output=work),))


def statistic(
    name: str,
    data: Tensor,
    axes: Collection[int],
    extra: Collection[Tensor],
    each: Operations,
    last: Operations,
) -> tuple[LoopNest, Tensor]:
    """Return the nest that reduces ``data`` over ``axes`` to ``name``, of size one there, and that tensor.

    ``extra`` tensors have the same shape as the result and are read as well.
    """
    shape = tuple(1 if dim in axes else size for dim, size in enumerate(data.shape))
    result = Tensor(name, shape, data.dtype, "activation", data.order)
    loops = tuple(Loop(f"i{dim}", data.shape[dim], reduction=dim in axes) for dim in data.order)
    place = {dim: position for position, dim in enumerate(data.order)}
    positions = [place[dim] for dim in range(len(data.shape))]
    kept = tuple(Index() if dim in axes else at(place[dim]) for dim in range(len(shape)))
    reads = (whole(data, positions), *(Access(tensor.name, tensor.shape, kept) for tensor in extra))
    return LoopNest(name.rpartition(":")[2], loops, reads, Access(name, shape, kept), each, last), result
