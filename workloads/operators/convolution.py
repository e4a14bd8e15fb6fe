"""Convolutions of any dimension: plain, transposed, deformable, quantised, and columns to images."""

import math
from collections.abc import Sequence

from dsascape.wording import count
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import along, anything, at, everything, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator
from dsascape.workloads.operators.windows import Window, window_of

_MAC = Operations(macs=1)
_NONE = Operations()
_REQUANTISE = Operations(simple=3)
_BILINEAR = Operations(simple=8)


class _Frame:
    """Loops of a convolution (batch, output pixels, group, output channel, reductions) and the indices over them."""

    def __init__(
        self, output: Tensor, groups: int, channels: tuple[int, int], kernel: tuple[int, ...]
    ) -> None:
        self._groups = groups
        self._per_group = dict(zip(("oc", "ic"), channels, strict=True))
        batch, _, *pixels = output.shape
        loops = [Loop("n", batch)]
        loops += [Loop(f"o{d}", size) for d, size in enumerate(pixels)]
        loops += [Loop("g", groups)] if groups > 1 else []
        loops += [Loop("oc", channels[0]), Loop("ic", channels[1], reduction=True)]
        loops += [Loop(f"k{d}", size, reduction=True) for d, size in enumerate(kernel)]
        self.loops = tuple(loops)
        self.place = {loop.name: place for place, loop in enumerate(loops)}
        self.taps = tuple(at(self.place[f"k{d}"]) for d in range(len(kernel)))
        pixel_indices = (at(self.place[f"o{d}"]) for d in range(len(pixels)))
        self.write = Access(output.name, output.shape, (at(0), self.channel("oc"), *pixel_indices))

    def channel(self, name: str) -> Index:
        """Return the index of a channel in the whole tensor: group x (channels per group) + ``name``."""
        inner = (self.place[name], 1)
        return (
            Index(((self.place["g"], self._per_group[name]), inner)) if self._groups > 1 else Index((inner,))
        )

    def inside(self, name: str) -> Index:
        """Return the index of a channel within its group."""
        return at(self.place[name])


def _conv_reads(context: NodeContext, data: Tensor, weight: Tensor) -> tuple[_Frame, list[Access]]:
    groups = int(context.attributes.get("group", 1))
    out_channels, in_channels, *kernel = weight.shape
    window = window_of(context, tuple(kernel))
    _check_groups(data, weight, groups, (out_channels, in_channels * groups))
    frame = _Frame(context.output, groups, (out_channels // groups, in_channels), tuple(kernel))
    place = frame.place
    pixels = (window.gather(d, place[f"o{d}"], place[f"k{d}"]) for d in range(len(kernel)))
    return frame, [
        Access(data.name, data.shape, (at(0), frame.channel("ic"), *pixels)),
        Access(weight.name, weight.shape, (frame.channel("oc"), frame.inside("ic"), *frame.taps)),
    ]


def _check_groups(data: Tensor, weight: Tensor, groups: int, channels: tuple[int, int]) -> None:
    """Raise ``UnsupportedOperatorError`` unless groups divide ``channels[0]`` and data has ``channels[1]`` channels."""
    if groups < 1 or channels[0] % groups or channels[1] != data.shape[1]:
        raise UnsupportedOperatorError(
            f"data has {count(data.shape[1], 'channel')}, weight {list(weight.shape)} and group {groups} do not fit"
        )


def _nest(
    context: NodeContext, frame: _Frame, reads: list[Access], bias: Tensor | None, last: Operations
) -> LoopNest:
    if bias is not None:
        reads = [*reads, Access(bias.name, bias.shape, (frame.channel("oc"),))]
        last = last + Operations(simple=1)
    return LoopNest(context.kind, frame.loops, tuple(reads), frame.write, _MAC, last)


@operator("Conv", layout="channels_last")
def _conv(context: NodeContext) -> Lowered:
    frame, reads = _conv_reads(context, context.input(0), context.input(1))
    return Lowered((_nest(context, frame, reads, context.optional_input(2), _NONE),))


@operator("ConvInteger", layout="channels_last")
def _conv_integer(context: NodeContext) -> Lowered:
    frame, reads = _conv_reads(context, context.input(0), context.input(1))
    reads += [along(zero, frame.channel("oc")) for zero in context.unknown(2, 3)]
    return Lowered((_nest(context, frame, reads, None, _NONE),))


@operator("QLinearConv", layout="channels_last")
def _quantised_conv(context: NodeContext) -> Lowered:
    """Convolve integers, then scale each output back to the output's steps."""
    frame, reads = _conv_reads(context, context.input(0), context.input(3))
    reads += [along(scale, frame.channel("oc")) for scale in context.unknown(1, 2, 4, 5, 6, 7)]
    return Lowered((_nest(context, frame, reads, context.optional_input(8), _REQUANTISE),))


def _spread_shape(context: NodeContext) -> list[tuple[Sequence[int], str]]:
    """Return the shape that the standard gives: an inference of it adds ``output_padding`` to images padded as SAME.

    ``output_shape`` comes first, perhaps with batch and channels in front; then ``auto_pad``, by which an image is as
    large as the input times the stride.
    """
    data, weight = context.input(0), context.input(1)
    groups, (_, channels, *kernel) = int(context.attributes.get("group", 1)), weight.shape
    rank, image = len(kernel), data.shape[2:]
    strides, dilations = context.ints("strides", (1,) * rank), context.ints("dilations", (1,) * rank)
    extra, given = context.ints("output_padding", (0,) * rank), context.ints("output_shape", ())
    mode = context.text("auto_pad", "NOTSET")
    pads = context.ints("pads", (0,) * 2 * rank) if mode in ("NOTSET", "") else (0,) * 2 * rank
    if given:
        sizes = given[-rank:]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        sizes = tuple([size * stride for size, stride in zip(image, strides, strict=True)])
    else:
        sizes = tuple([
            stride * (size - 1) + more + (k - 1) * dilation + 1 - before - behind
            for size, stride, more, k, dilation, before, behind in zip(
                image, strides, extra, kernel, dilations, pads[:rank], pads[rank:], strict=True
            )
        ])
    if len(sizes) != rank or min(sizes, default=1) < 1:
        raise UnsupportedOperatorError(f"its image would be {list(sizes)}; needs {count(rank, 'size')} of at least 1")
    return [((data.shape[0], channels * groups, *sizes), data.dtype)]


@operator("ConvTranspose", layout="channels_last", shapes=_spread_shape)
def _conv_transpose(context: NodeContext) -> Lowered:
    """Build gather form: output pixel o sums pixels (o + pad - k x dilation) / stride where that divides."""
    data, weight = context.input(0), context.input(1)
    groups = int(context.attributes.get("group", 1))
    channels, out_per_group, *kernel = weight.shape
    _check_groups(data, weight, groups, (channels, channels))
    window = window_of(context, tuple(kernel), transposed=True)
    frame = _Frame(context.output, groups, (out_per_group, channels // groups), tuple(kernel))
    place = frame.place
    pixels = (window.spread(d, place[f"o{d}"], place[f"k{d}"]) for d in range(len(kernel)))
    reads = [
        Access(data.name, data.shape, (at(0), frame.channel("ic"), *pixels)),
        Access(weight.name, weight.shape, (frame.channel("ic"), frame.inside("oc"), *frame.taps)),
    ]
    return Lowered((_nest(context, frame, reads, context.optional_input(2), _NONE),))


@operator("DeformConv", layout="channels_last")
def _deform_conv(context: NodeContext) -> Lowered:
    """Sample the image where the offsets point (anywhere), then convolve the samples with stride one."""
    data, weight, offset = context.input(0), context.input(1), context.input(2)
    mask = context.optional_input(4)
    groups = int(context.attributes.get("group", 1))
    out_channels, in_channels, *kernel = weight.shape
    _check_groups(data, weight, groups, (out_channels, in_channels * groups))
    pixels = context.output.shape[2:]
    rank, taps = len(kernel), math.prod(kernel)
    shape = (data.shape[0], data.shape[1], *kernel, *pixels)
    columns = Tensor(f"{context.output.name}:columns", shape, data.dtype, "activation")
    loops = tuple(Loop(name, size) for name, size in zip(_column_names(rank), shape, strict=True))
    pixel_positions = range(2 + rank, 2 + 2 * rank)
    chosen = anything([0, *range(2, len(loops))])

    def by_tap(tensor: Tensor, width: int) -> Access:
        strides = [width * math.prod(kernel[d + 1 :]) for d in range(rank)]
        one_group = tensor.shape[1] == width * taps
        flat = Index(tuple((2 + d, strides[d]) for d in range(rank)), window=width)
        index = flat if one_group else everything(tensor.shape[1])
        return Access(tensor.name, tensor.shape, (at(0), index, *(at(p) for p in pixel_positions)))

    sampled = [Access(data.name, data.shape, (at(0), at(1), *(chosen,) * rank)), by_tap(offset, rank)]
    sampled += [] if mask is None else [by_tap(mask, 1)]
    sample = LoopNest(
        "sample", loops, tuple(sampled), whole(columns, range(len(loops))), per_output=_BILINEAR
    )
    frame = _Frame(context.output, groups, (out_channels // groups, in_channels), tuple(kernel))
    outs = tuple(at(frame.place[f"o{d}"]) for d in range(rank))
    reads = [
        Access(columns.name, shape, (at(0), frame.channel("ic"), *frame.taps, *outs)),
        Access(weight.name, weight.shape, (frame.channel("oc"), frame.inside("ic"), *frame.taps)),
    ]
    return Lowered((sample, _nest(context, frame, reads, context.optional_input(3), _NONE)), (columns,))


def _column_names(rank: int) -> list[str]:
    return ["n", "c", *(f"k{d}" for d in range(rank)), *(f"o{d}" for d in range(rank))]


@operator("Col2Im", layout="channels_last")
def _columns_to_image(context: NodeContext) -> Lowered:
    """Add up, for each pixel, the columns whose blocks cover it."""
    data, output = context.input(0), context.output
    image, block = (context.constant(position) for position in (1, 2))
    if image is None or block is None:
        raise UnsupportedOperatorError("image and block shape are not known before the network runs")
    kernel = tuple(int(size) for size in block.reshape(-1))
    rank = len(kernel)
    pads = context.ints("pads", (0,) * 2 * rank)
    strides = context.ints("strides", (1,) * rank)
    dilations = context.ints("dilations", (1,) * rank)
    steps = tuple(
        (int(size) + pads[d] + pads[rank + d] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1
        for d, size in enumerate(image.reshape(-1))
    )
    batch, channels = output.shape[:2]
    shape = (batch, channels, *kernel, *steps)
    columns = Tensor(f"{output.name}:columns", shape, data.dtype, "activation")
    loops = tuple(Loop(name, size) for name, size in zip(_column_names(rank), shape, strict=True))

    def flat(first: int, sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        return tuple((first + d, math.prod(sizes[d + 1 :])) for d in range(len(sizes)))

    split = (at(0), Index(flat(1, (channels, *kernel))), Index(flat(2 + rank, steps)))
    view = LoopNest("view", loops, (Access(data.name, data.shape, split),), whole(columns, range(len(loops))))
    frame = _Frame(output, 1, (channels, 1), kernel)
    window = Window(kernel, strides, dilations, pads[:rank])
    places = (window.spread(d, frame.place[f"o{d}"], frame.place[f"k{d}"]) for d in range(rank))
    read = Access(columns.name, shape, (at(0), frame.channel("oc"), *frame.taps, *places))
    add = LoopNest("Col2Im", frame.loops, (read,), frame.write, Operations(simple=1))
    return Lowered((view, add), (columns,))
