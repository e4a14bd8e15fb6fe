"""Multiply-accumulate operators: convolutions of any dimension, transposed ones, matrix products, einsum."""

from collections.abc import Sequence

from workloads.graph import Tensor
from workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from workloads.operators.registry import (
    Lowered,
    NodeContext,
    UnsupportedOperatorError,
    broadcast,
    operator,
    whole,
)
from workloads.operators.windows import window_of

_MAC = Operations(macs=1)


@operator("Conv", layout="channels_last")
def _conv(context: NodeContext) -> Lowered:
    """Output channel = group x (channels per group) + oc, input channel likewise; bias once per output."""
    data, weight = context.input(0), context.input(1)
    groups = int(context.attributes.get("group", 1))
    out_channels, in_channels, *kernel = weight.shape
    window = window_of(context, tuple(kernel))
    if groups < 1 or out_channels % groups or in_channels * groups != data.shape[1]:
        raise UnsupportedOperatorError(
            f"data has {data.shape[1]} channels, weight {list(weight.shape)} and group {groups} do not fit"
        )
    loops, place = _conv_loops(context, groups, out_channels // groups, in_channels, tuple(kernel))
    spatial = len(kernel)
    pixels = [
        Index(
            ((place[f"o{d}"], window.strides[d]), (place[f"k{d}"], window.dilations[d])),
            offset=-window.pads[d],
        )
        for d in range(spatial)
    ]
    taps = [Index(((place[f"k{d}"], 1),)) for d in range(spatial)]
    in_channel = _grouped(place, "ic", in_channels, groups)
    out_channel = _grouped(place, "oc", out_channels // groups, groups)
    reads = [
        Access(data.name, data.shape, (Index(((place["n"], 1),)), in_channel, *pixels)),
        Access(weight.name, weight.shape, (out_channel, Index(((place["ic"], 1),)), *taps)),
    ]
    outputs = [Index(((place[f"o{d}"], 1),)) for d in range(spatial)]
    write = Access(
        context.output.name, context.output.shape, (Index(((place["n"], 1),)), out_channel, *outputs)
    )
    return Lowered((_with_bias("Conv", loops, reads, write, context, out_channel),))


@operator("ConvTranspose", layout="channels_last")
def _conv_transpose(context: NodeContext) -> Lowered:
    """In gather form: output pixel o sums pixels (o + pad - k x dilation) / stride where that divides."""
    data, weight = context.input(0), context.input(1)
    groups = int(context.attributes.get("group", 1))
    channels, out_per_group, *kernel = weight.shape
    window = window_of(context, tuple(kernel), transposed=True)
    loops, place = _conv_loops(context, groups, out_per_group, channels // groups, tuple(kernel))
    spatial = len(kernel)
    pixels = [
        Index(
            ((place[f"o{d}"], 1), (place[f"k{d}"], -window.dilations[d])),
            offset=window.pads[d],
            divisor=window.strides[d],
            rounding="exact",
        )
        for d in range(spatial)
    ]
    taps = [Index(((place[f"k{d}"], 1),)) for d in range(spatial)]
    in_channel = _grouped(place, "ic", channels // groups, groups)
    out_channel = _grouped(place, "oc", out_per_group, groups)
    reads = [
        Access(data.name, data.shape, (Index(((place["n"], 1),)), in_channel, *pixels)),
        Access(weight.name, weight.shape, (in_channel, Index(((place["oc"], 1),)), *taps)),
    ]
    outputs = [Index(((place[f"o{d}"], 1),)) for d in range(spatial)]
    write = Access(
        context.output.name, context.output.shape, (Index(((place["n"], 1),)), out_channel, *outputs)
    )
    return Lowered((_with_bias("ConvTranspose", loops, reads, write, context, out_channel),))


def _conv_loops(
    context: NodeContext, groups: int, out_channels: int, in_channels: int, kernel: tuple[int, ...]
) -> tuple[tuple[Loop, ...], dict[str, int]]:
    """Return loops batch, output pixels, group, output channel, then the reductions; and their positions."""
    batch, _, *pixels = context.output.shape
    loops = [Loop("n", batch)]
    loops += [Loop(f"o{d}", size) for d, size in enumerate(pixels)]
    loops += [Loop("g", groups)] if groups > 1 else []
    loops += [Loop("oc", out_channels), Loop("ic", in_channels, reduction=True)]
    loops += [Loop(f"k{d}", size, reduction=True) for d, size in enumerate(kernel)]
    return tuple(loops), {loop.name: place for place, loop in enumerate(loops)}


def _grouped(place: dict[str, int], channel: str, per_group: int, groups: int) -> Index:
    inner = (place[channel], 1)
    return Index(((place["g"], per_group), inner)) if groups > 1 else Index((inner,))


def _with_bias(
    name: str,
    loops: tuple[Loop, ...],
    reads: list[Access],
    write: Access,
    context: NodeContext,
    channel: Index,
) -> LoopNest:
    bias = context.optional_input(2)
    if bias is not None:
        reads = [*reads, Access(bias.name, bias.shape, (channel,))]
    return LoopNest(name, loops, tuple(reads), write, _MAC, Operations(simple=int(bias is not None)))


@operator("Gemm", layout="row_major")
def _gemm(context: NodeContext) -> Lowered:
    left, right, output = context.input(0), context.input(1), context.output
    m, n, k = 0, 1, 2
    depth = left.shape[0 if context.attributes.get("transA") else 1]
    loops = (Loop("m", output.shape[0]), Loop("n", output.shape[1]), Loop("k", depth, reduction=True))
    reads = [
        whole(left, (k, m) if context.attributes.get("transA") else (m, k)),
        whole(right, (n, k) if context.attributes.get("transB") else (k, n)),
    ]
    bias = context.optional_input(2)
    if bias is not None:
        reads.append(broadcast(bias, (m, n), output.shape))
    nest = LoopNest(
        "Gemm", loops, tuple(reads), whole(output, (m, n)), _MAC, Operations(simple=int(bias is not None))
    )
    return Lowered((nest,))


@operator("MatMul", "MatMulInteger", layout="row_major")
def _matmul(context: NodeContext) -> Lowered:
    """Numpy semantics: leading dimensions broadcast, one-dimensional operands lose their dimension again."""
    left, right, output = context.input(0), context.input(1), context.output
    rows = len(left.shape) > 1
    columns = len(right.shape) > 1
    lead = len(output.shape) - rows - columns
    names = [f"b{d}" for d in range(lead)] + ["m"] * rows + ["n"] * columns
    loops = tuple(Loop(name, size) for name, size in zip(names, output.shape, strict=True))
    k = len(loops)
    loops = (*loops, Loop("k", left.shape[-1], reduction=True))
    left_positions = [*range(lead), lead, k] if rows else [k]
    right_positions = [*range(lead), k, lead + rows] if columns else [k]
    sizes = tuple(loop.extent for loop in loops)
    reads = tuple(
        _aligned(tensor, positions, sizes)
        for tensor, positions in ((left, left_positions), (right, right_positions))
    )
    return Lowered((LoopNest("MatMul", loops, reads, whole(output, range(k)), _MAC),))


def _aligned(tensor: Tensor, positions: Sequence[int], sizes: Sequence[int]) -> Access:
    """Return the access by the last of ``positions``; dimensions of size one stay put."""
    indices = tuple(
        Index() if size == 1 and sizes[loop] > 1 else Index(((loop, 1),))
        for size, loop in zip(tensor.shape, positions[len(positions) - len(tensor.shape) :], strict=True)
    )
    return Access(tensor.name, tensor.shape, indices)


@operator("Einsum", layout="row_major")
def _einsum(context: NodeContext) -> Lowered:
    """One loop per letter; letters that the output lacks are reductions. Ellipses are not taken."""
    written = context.attributes["equation"]
    equation = (written.decode() if isinstance(written, bytes) else str(written)).replace(" ", "")
    if "." in equation:
        raise UnsupportedOperatorError(f"equation {equation!r} has an ellipsis; write the dimensions out")
    terms, _, result = equation.partition("->")
    operands = terms.split(",")
    if "->" not in equation:
        result = "".join(
            sorted(letter for letter in set(terms) if letter.isalpha() and terms.count(letter) == 1)
        )
    sizes: dict[str, int] = {}
    for position, letters in enumerate(operands):
        for letter, size in zip(letters, context.input(position).shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    order = [*result, *sorted(set(sizes) - set(result))]
    loops = tuple(Loop(letter, sizes[letter], reduction=letter not in result) for letter in order)
    reads = tuple(
        whole(context.input(position), [order.index(letter) for letter in operand])
        for position, operand in enumerate(operands)
    )
    several = len(operands) > 1
    operations = _MAC if several else Operations(simple=1)
    write = whole(context.output, [order.index(letter) for letter in result])
    return Lowered((LoopNest("Einsum", loops, reads, write, operations),))
