"""Operators that sample an image at computed places: resizing, grids, regions of interest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import all_of, anything, at, everything, space_loops, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator

_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
_SAMPLES_PER_BIN = 4
"""Samples per bin, the usual 2 x 2, where RoiAlign's number depends on the size of each region."""
_MOST_PLACES = 65_536
"""Output elements along one dimension at most whose rounding is checked one by one."""
_PER_SAMPLE = 8
"""Operations per bilinear sample: four weights multiplied and added."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """Coordinate map of one dimension: output o lies at ``scale`` x o + ``offset`` of the input."""

    small: int
    large: int
    scale: Fraction
    offset: Fraction


@operator("Resize", "Upsample", partial=True)
def _resize(context: NodeContext) -> Lowered:
    """Read the input at a rational function of the output coordinate; the window holds the taps that are mixed."""
    data, output = context.input(0), context.output
    mode = context.text("mode", "nearest")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    loops, positions = space_loops(output)
    axes = [_axis(context, dim) for dim in range(len(data.shape))]
    indices, moved = [], 0
    for axis, loop in zip(axes, positions, strict=True):
        if axis is None:
            indices.append(anything((loop,)))
        elif axis.scale == 1 and axis.offset == 0:
            indices.append(at(loop))
        else:
            moved += 1
            indices.append(_sample(context, axis, loop, mode))
    work = Operations(simple=2 * _TAPS.get(mode, 2) ** moved) if mode != "nearest" else Operations()
    given = (1,) if context.kind == "Upsample" else (1, 2, 3)
    parameters = (all_of(t) for t in context.unknown(*given))
    reads = (Access(data.name, data.shape, tuple(indices)), *parameters)
    return Lowered((LoopNest(context.kind, loops, reads, whole(output, positions), per_output=work),))


_FIRST_WITH_MODES = 11
"""Opset of the standard from which Resize has modes for coordinates and rounding, and a region of interest."""


def _is_without_modes(context: NodeContext) -> bool:
    """Whether output o reads input o / scale: Upsample, and Resize of opset 10.

    The position is rounded down, but up where the image shrinks, as in onnxruntime (the standard does not say).
    """
    return context.kind == "Upsample" or context.opset < _FIRST_WITH_MODES


def _axis(context: NodeContext, dim: int) -> _Axis | None:
    """Return the coordinate map of a dimension, None if it depends on unknown values."""
    small, large = context.input(0).shape[dim], context.output.shape[dim]
    transform = context.text("coordinate_transformation_mode", "half_pixel")
    if _is_without_modes(context):
        transform = "asymmetric"
    scale = _scale(context, dim, small, large)
    if scale is None:
        return None
    step = 1 / scale
    if transform == "tf_crop_and_resize":
        return _crop(context, dim, small, large)
    if transform == "align_corners":
        wide = large if context.optional_input(3) is not None else scale * small
        return _Axis(
            small, large, Fraction(small - 1) / (wide - 1) if wide != 1 else Fraction(0), Fraction(0)
        )
    if transform == "asymmetric":
        return _Axis(small, large, step, Fraction(0))
    if transform == "pytorch_half_pixel" and large == 1:
        return _Axis(small, large, Fraction(0), Fraction(0))
    offset = step / 2 - Fraction(1, 2)
    if transform == "half_pixel_symmetric":
        adjustment = Fraction(large) / (scale * small)
        offset += Fraction(small, 2) * (1 - adjustment)
    return _Axis(small, large, step, offset)


def _scale(context: NodeContext, dim: int, small: int, large: int) -> Fraction | None:
    """Return the scale (output over input size) that the operator uses, None if it is unknown."""
    rank = len(context.input(0).shape)
    place = 1 if _is_without_modes(context) else 2
    axes = [axis % rank for axis in context.ints("axes", range(rank))]
    if dim not in axes:
        return Fraction(1)
    given = context.optional_input(place)
    listed: Sequence[float] | None = context.attributes.get("scales")
    if given is not None and given.elements:
        value = context.constant(place)
        if value is None:
            return None if small != large else Fraction(1)
        listed = [float(v) for v in value.reshape(-1)]
    if listed is not None:
        return Fraction(float(listed[axes.index(dim)]))
    policy = context.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        sizes = context.constant(3)
        if sizes is None:
            return None
        data = context.input(0).shape
        ratios = [Fraction(int(size), data[axis]) for size, axis in zip(sizes.reshape(-1), axes, strict=True)]
        return min(ratios) if policy == "not_larger" else max(ratios)
    return Fraction(large, small)


def _crop(context: NodeContext, dim: int, small: int, large: int) -> _Axis | None:
    rank = len(context.input(0).shape)
    axes = [axis % rank for axis in context.ints("axes", range(rank))]
    if dim not in axes:
        return _Axis(small, large, Fraction(1), Fraction(0))
    region = context.constant(1)
    if region is None:
        return None
    values = [Fraction(float(v)) for v in region.reshape(-1)]
    start, end = values[axes.index(dim)], values[len(axes) + axes.index(dim)]
    if large > 1:
        return _Axis(small, large, (end - start) * (small - 1) / (large - 1), start * (small - 1))
    return _Axis(small, large, Fraction(0), (start + end) * (small - 1) / 2)


def _sample(context: NodeContext, axis: _Axis, loop: int, mode: str) -> Index:
    """Return the index of the taps that the mode mixes around the coordinate."""
    offset, taps = axis.offset, _TAPS.get(mode, 2)
    if mode == "nearest":
        rounding = context.text("nearest_mode", "round_prefer_floor")
        if _is_without_modes(context):
            rounding = "ceil" if axis.scale > 1 else "floor"
        return _nearest(axis, loop, rounding)
    if mode == "cubic":
        offset -= 1
    if context.flag("antialias") and axis.scale > 1:
        wider = math.ceil(taps * axis.scale) + 2
        offset -= Fraction(wider - taps, 2)
        taps = wider
    return _rational(axis.scale, offset, loop, taps)


def _nearest(axis: _Axis, loop: int, rounding: str) -> Index:
    """Return the index rounded exactly, one element wider where floats could round the other way."""
    half = Fraction(1, 2)
    shift = {
        "floor": Fraction(0),
        "round_prefer_ceil": half,
        "ceil": Fraction(0),
        "round_prefer_floor": -half,
    }[rounding]
    up = rounding in ("ceil", "round_prefer_floor")
    slack = Fraction(1, 2**16)
    offset = axis.offset + shift
    wide = _rational(axis.scale, offset - slack * 2 + (1 if up else 0), loop, 2)
    if axis.large > _MOST_PLACES:
        return wide
    places = [axis.scale * step + axis.offset + shift for step in range(axis.large)]
    risky = any(0 < abs(place - round(place)) < slack for place in places)
    close = any(place == round(place) for place in places) and not _is_dyadic(axis)
    if risky or close:
        return wide
    if up:
        divisor = math.lcm(axis.scale.denominator, offset.denominator)
        offset += Fraction(divisor - 1, divisor)
    return _rational(axis.scale, offset, loop, 1)


def _is_dyadic(axis: _Axis) -> bool:
    """Whether binary floating-point numbers represent the map exactly, as a product or (without offset) a quotient."""
    divides = axis.scale and not axis.offset and _is_binary(1 / axis.scale)
    return bool(divides) or (_is_binary(axis.scale) and _is_binary(axis.offset))


def _is_binary(value: Fraction) -> bool:
    return value.denominator & (value.denominator - 1) == 0


def _rational(scale: Fraction, offset: Fraction, loop: int, window: int) -> Index:
    divisor = math.lcm(scale.denominator, offset.denominator)
    return Index(
        ((loop, int(scale * divisor)),),
        offset=int(offset * divisor),
        divisor=divisor,
        window=window,
        clamp=True,
    )


@operator("GridSample", layout="channels_last")
def _grid_sample(context: NodeContext) -> Lowered:
    """Read any pixel of the same image and channel; the grid decides which."""
    data, grid, output = context.input(0), context.input(1), context.output
    loops, positions = space_loops(output)
    rank = len(data.shape) - 2
    chosen = anything(positions[2:])
    reads = (
        Access(data.name, data.shape, (at(positions[0]), at(positions[1]), *(chosen,) * rank)),
        Access(grid.name, grid.shape, (at(positions[0]), *(at(p) for p in positions[2:]), everything(rank))),
    )
    mode = context.text("mode", "linear")
    taps = _TAPS.get(mode.removeprefix("bi"), 2) ** rank
    work = Operations(simple=2 * taps + 4 * rank)
    return Lowered((LoopNest("GridSample", loops, reads, whole(output, positions), per_output=work),))


@operator("RoiAlign", "MaxRoiPool", layout="channels_last")
def _regions(context: NodeContext) -> Lowered:
    """Read any pixel of one channel; the region decides image and position."""
    data, regions, output = context.input(0), context.input(1), context.output
    loops, positions = space_loops(output)
    region, channel, *bins = positions
    chosen = anything((region, *bins))
    reads = [
        Access(data.name, data.shape, (anything((region,)), at(channel), chosen, chosen)),
        Access(regions.name, regions.shape, (at(region), everything(regions.shape[1]))),
    ]
    images = context.optional_input(2)
    if images is not None:
        reads.append(Access(images.name, images.shape, (at(region),)))
    ratio = int(context.attributes.get("sampling_ratio", 0))
    samples = ratio * ratio or _SAMPLES_PER_BIN
    each = samples * _PER_SAMPLE if context.kind == "RoiAlign" else samples
    work = Operations(simple=each)
    return Lowered((LoopNest(context.kind, loops, tuple(reads), whole(output, positions), per_output=work),))


def _grid_shape(context: NodeContext) -> list[tuple[Sequence[int], str]]:
    size = context.constant(1)
    if size is None:
        raise UnsupportedOperatorError("the size of the grid is not known before the network runs")
    batch, _, *pixels = (int(value) for value in size.reshape(-1))
    return [((batch, *pixels, len(pixels)), context.input(0).dtype)]


@operator("AffineGrid", layout="row_major", shapes=_grid_shape)
def _affine_grid(context: NodeContext) -> Lowered:
    """Multiply the matrix of each image with the homogeneous coordinates of every pixel."""
    matrix, output = context.input(0), context.output
    space, positions = space_loops(output)
    loops = (*space, Loop("k", matrix.shape[2], reduction=True))
    reads = (whole(matrix, (positions[0], positions[-1], len(space))),)
    return Lowered((LoopNest("AffineGrid", loops, reads, whole(output, positions), Operations(macs=1)),))
