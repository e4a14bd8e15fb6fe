"""Softmax and normalisations, each as several loop nests."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from dsascape.wording import count
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import at, broadcast, space_loops, whole
from dsascape.workloads.operators.reduction import statistic
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator

_SIMPLE = Operations(simple=1)
_SPECIAL = Operations(special=1)
_LEGACY_SOFTMAX_OPSET = 13
_GROUPS_SCALED_OPSET = 21
"""Opset from which GroupNormalization has one scale per channel; before it, one per group."""


def pointwise_nest(name: str, output: Tensor, reads: Iterable[Tensor], each: Operations) -> LoopNest:
    """Return the nest that computes ``output`` from ``reads``, broadcast to it."""
    loops, positions = space_loops(output)
    accesses = tuple(broadcast(tensor, positions, output.shape) for tensor in reads)
    return LoopNest(name, loops, accesses, whole(output, positions), per_output=each)


@operator("Softmax", "LogSoftmax")
def _softmax(context: NodeContext) -> Lowered:
    """Maximum, exponential, sum, division. Before opset 13 all dimensions from the axis on form one line."""
    rank = len(context.input(0).shape)
    legacy = context.opset < _LEGACY_SOFTMAX_OPSET
    axis = context.axis(1 if legacy else -1)
    return softmax_nests(context.input(0), context.output, range(axis, rank) if legacy else (axis,))


def softmax_nests(data: Tensor, output: Tensor, axes: Collection[int]) -> Lowered:
    """Return the nests of a softmax of ``data`` over ``axes``."""
    maximum, top = statistic(f"{output.name}:max", data, axes, (), _SIMPLE, Operations())
    shifted = Tensor(f"{output.name}:exp", data.shape, data.dtype, "activation", data.order)
    exponential = pointwise_nest("exp", shifted, (data, top), Operations(simple=1, special=1))
    total, denominator = statistic(f"{output.name}:sum", shifted, axes, (), _SIMPLE, _SPECIAL)
    scale = pointwise_nest("scale", output, (shifted, denominator), _SIMPLE)
    maximum, total = replace(maximum, running=True), replace(total, running=True)
    return Lowered((maximum, exponential, total, scale), (top, shifted, denominator))


def _normalise(
    context: NodeContext,
    axes: Collection[int],
    affine: Callable[[Tensor, tuple[int, ...]], Access],
    *,
    centred: bool,
    saved: tuple[Tensor | None, ...] = (),
) -> Lowered:
    """Return the nests of mean, reciprocal deviation and scaled difference; no mean unless ``centred``.

    ``affine`` returns the access to an input behind the first one (scale, bias), given each dimension's loop;
    ``saved`` are outputs that hold the statistics.
    """
    data, output = context.input(0), context.output
    names = ("mean", "rstd") if centred else ("rstd",)
    kept = {name: t.name for name, t in zip(names, saved, strict=False) if t is not None}
    nests, statistics = [], []
    if centred:
        nest, mean = statistic(kept.get("mean", f"{output.name}:mean"), data, axes, (), _SIMPLE, _SIMPLE)
        nests.append(nest)
        statistics.append(mean)
    spread, root = Operations(simple=3 if centred else 2), Operations(simple=2, special=1)
    name = kept.get("rstd", f"{output.name}:rstd")
    nest, deviation = statistic(name, data, axes, tuple(statistics), spread, root)
    nests.append(nest)
    statistics.append(deviation)
    parameters = [t for t in context.inputs[1:] if t is not None]
    each = Operations(simple=len(statistics) + len(parameters))
    scaled = pointwise_nest("normalise", output, (data, *statistics), each)
    _, positions = space_loops(output)
    nests.append(replace(scaled, reads=(*scaled.reads, *(affine(t, positions) for t in parameters))))
    inside = tuple(t for t in statistics if t.name not in kept.values())
    return Lowered(tuple(nests), inside)


@operator("LayerNormalization", "RMSNormalization")
def _layer_normalization(context: NodeContext) -> Lowered:
    shape = context.input(0).shape
    centred = context.kind == "LayerNormalization"

    def affine(tensor: Tensor, positions: tuple[int, ...]) -> Access:
        return broadcast(tensor, positions, shape)

    saved = context.outputs[1:]
    return _normalise(context, range(context.axis(-1), len(shape)), affine, centred=centred, saved=saved)


def _per_channel(tensor: Tensor, positions: tuple[int, ...]) -> Access:
    return whole(tensor, (positions[1],))


@operator("InstanceNormalization")
def _instance_normalization(context: NodeContext) -> Lowered:
    return _normalise(context, range(2, len(context.input(0).shape)), _per_channel, centred=True)


def _like_the_input(context: NodeContext) -> list[tuple[Sequence[int], str]]:
    data = context.input(0)
    return [(data.shape, data.dtype)]


@operator("LpNormalization")
def _lp_normalization(context: NodeContext) -> Lowered:
    return _normalise(context, (context.axis(-1),), _per_channel, centred=False)


@operator("MeanVarianceNormalization", shapes=_like_the_input)
def _mean_variance_normalization(context: NodeContext) -> Lowered:
    rank = len(context.input(0).shape)
    axes = [axis % rank for axis in context.ints("axes", (0, 2, 3))]
    return _normalise(context, axes, _per_channel, centred=True)


@operator("GroupNormalization", shapes=_like_the_input)
def _group_normalization(context: NodeContext) -> Lowered:
    """Layer normalisation of each group of channels: channel = group x (channels per group) + c."""
    data, output = context.input(0), context.output
    groups = int(context.attributes["num_groups"])
    batch, channels, *pixels = data.shape
    if groups < 1 or channels % groups:
        raise UnsupportedOperatorError(f"{count(channels, 'channel')} do not divide into {count(groups, 'group')}")
    inner = channels // groups
    sizes = {"n": batch, "g": groups, "c": inner} | {f"p{d}": size for d, size in enumerate(pixels)}
    place = {name: position for position, name in enumerate(sizes)}
    channel = Index(((place["g"], inner), (place["c"], 1)))
    spots = tuple(at(place[f"p{d}"]) for d in range(len(pixels)))
    element = (at(place["n"]), channel, *spots)
    shape, line = (batch, groups), (at(place["n"]), at(place["g"]))
    mean, deviation = (
        Tensor(f"{output.name}:{n}", shape, data.dtype, "activation") for n in ("mean", "rstd")
    )
    one = Access(data.name, data.shape, element)
    reductions = tuple(Loop(name, size, reduction=name not in ("n", "g")) for name, size in sizes.items())
    mean_access, deviation_access = (Access(t.name, shape, line) for t in (mean, deviation))
    averaging = LoopNest("mean", reductions, (one,), mean_access, _SIMPLE, _SIMPLE)
    root = Operations(simple=2, special=1)
    spreading = LoopNest("rstd", reductions, (one, mean_access), deviation_access, Operations(simple=3), root)
    grouped = context.opset < _GROUPS_SCALED_OPSET
    affine = (
        Access(t.name, t.shape, (at(place["g"]) if grouped else channel,))
        for t in context.inputs[1:]
        if t is not None
    )
    loops = tuple(Loop(name, size) for name, size in sizes.items())
    write = Access(output.name, output.shape, element)
    reads = (one, mean_access, deviation_access, *affine)
    scaling = LoopNest("normalise", loops, reads, write, per_output=Operations(simple=4))
    return Lowered((averaging, spreading, scaling), (mean, deviation))


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
        Operations(simple=2), Operations(simple=2, special=2), late=(1,),
    )  # fmt: skip
    return Lowered((nest,))
