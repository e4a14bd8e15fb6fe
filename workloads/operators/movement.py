"""Operators that only move elements: reshapes, permutations, joins, cuts, gathers, resizes."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from workloads.graph import Tensor
from workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from workloads.operators.registry import (
    Array,
    Lowered,
    NodeContext,
    UnsupportedOperatorError,
    operator,
    space_loops,
    whole,
)


@operator("Reshape", "Flatten", "Squeeze", "Unsqueeze", layout="row_major")
def _reshape(context: NodeContext) -> Lowered:
    return Lowered((reshape_nest(context.kind, context.input(0), context.output),))


def reshape_nest(name: str, data: Tensor, output: Tensor) -> LoopNest:
    """Return the nest whose loops refine both shapes, so that both maps are affine where the shapes allow it.

    [6, 4] to [3, 8] runs over loops of 3, 2, 4. Shapes that share no refinement ([6, 4] to [4, 6]) move
    opaquely.
    """
    steps = sorted({*_suffix_products(data.shape), *_suffix_products(output.shape)})
    if any(outer % inner for inner, outer in itertools.pairwise(steps)):
        return _opaque_copy(name, data, output)
    extents = [outer // inner for inner, outer in itertools.pairwise(steps)]
    strides = steps[:-1]
    order = range(len(extents) - 1, -1, -1)
    loops = tuple(Loop(f"r{place}", extents[place]) for place in order)
    place_of = {place: position for position, place in enumerate(order)}

    def access(tensor: Tensor) -> Access:
        indices, pitch = [], 1
        for size in reversed(tensor.shape):
            inside = [p for p in range(len(extents)) if pitch <= strides[p] < pitch * size]
            indices.append(Index(tuple((place_of[p], strides[p] // pitch) for p in reversed(inside))))
            pitch *= size
        return Access(tensor.name, tensor.shape, tuple(reversed(indices)))

    return LoopNest(name, loops, (access(data),), access(output))


def _suffix_products(shape: Sequence[int]) -> list[int]:
    return [1, *itertools.accumulate(reversed(shape), lambda a, b: a * b)]


def _opaque_copy(name: str, data: Tensor, output: Tensor) -> LoopNest:
    loops, positions = space_loops(output)
    anything = Index(tuple((loop, 0) for loop in range(len(loops))), opaque=True)
    read = Access(data.name, data.shape, (anything,) * len(data.shape))
    return LoopNest(name, loops, (read,), whole(output, positions))


@operator("Transpose", layout="row_major")
def _transpose(context: NodeContext) -> Lowered:
    data, output = context.input(0), context.output
    rank = len(data.shape)
    permutation = context.ints("perm", tuple(reversed(range(rank))))
    loops, positions = space_loops(output)
    source = [0] * rank
    for target, dim in enumerate(permutation):
        source[dim] = positions[target]
    return Lowered((LoopNest("Transpose", loops, (whole(data, source),), whole(output, positions)),))


@operator("Concat")
def _concat(context: NodeContext) -> Lowered:
    """One nest per input, each writing its part of the output."""
    output, axis = context.output, context.axis(0)
    nests, offset = [], 0
    for tensor in context.inputs:
        if tensor is None:
            continue
        nests.append(_copy_into(context.kind, tensor, output, axis, offset))
        offset += tensor.shape[axis]
    return Lowered(tuple(nests))


def _copy_into(name: str, data: Tensor, output: Tensor, axis: int, offset: int) -> LoopNest:
    part = Tensor(data.name, data.shape, data.dtype, data.role, output.order)
    loops, positions = space_loops(part)
    plain = whole(output, positions).indices
    shifted = (*plain[:axis], Index(((positions[axis], 1),), offset=offset), *plain[axis + 1 :])
    return LoopNest(name, loops, (whole(part, positions),), Access(output.name, output.shape, shifted))


@operator("Split")
def _split(context: NodeContext) -> Lowered:
    axis, offset, nests = context.axis(0), 0, []
    for output in context.outputs:
        starts = {axis: (offset, 1)}
        nests.append(_cut("Split", context.input(0), output, starts))
        offset += output.shape[axis]
    return Lowered(tuple(nests))


def _cut(name: str, data: Tensor, output: Tensor, starts: dict[int, tuple[int, int]]) -> LoopNest:
    """Return the nest that reads ``data`` from (start, step) per axis."""
    loops, positions = space_loops(output)
    indices = tuple(
        Index(((positions[dim], starts[dim][1]),), offset=starts[dim][0])
        if dim in starts
        else Index(((positions[dim], 1),))
        for dim in range(len(data.shape))
    )
    return LoopNest(name, loops, (Access(data.name, data.shape, indices),), whole(output, positions))


@operator("Slice")
def _slice(context: NodeContext) -> Lowered:
    data = context.input(0)
    if "starts" in context.attributes:
        starts: Sequence[int] = context.ints("starts", ())
        axes: Sequence[int] = context.ints("axes", range(len(starts)))
        steps: Sequence[int] = (1,) * len(starts)
    else:
        known = [context.constant(position) for position in range(1, 5)]
        if known[0] is None:
            raise UnsupportedOperatorError("where the slice starts is not known before the network runs")
        starts = [int(v) for v in known[0].reshape(-1)]
        axes = _listed(known[2], range(len(starts)))
        steps = _listed(known[3], (1,) * len(starts))
    cuts = {}
    for start, axis, step in zip(starts, axes, steps, strict=True):
        dim = axis % len(data.shape)
        size = data.shape[dim]
        first = start + size if start < 0 else start
        cuts[dim] = (min(max(first, 0), size - 1 if step < 0 else size), step)
    return Lowered((_cut("Slice", data, context.output, cuts),))


def _listed(values: Array | None, default: Sequence[int]) -> Sequence[int]:
    return default if values is None else [int(value) for value in values.reshape(-1)]


@operator("Pad")
def _pad(context: NodeContext) -> Lowered:
    data, output = context.input(0), context.output
    rank = len(data.shape)
    listed = context.constant(1)
    pads = context.ints("pads", ()) if listed is None else tuple(int(v) for v in listed.reshape(-1))
    if not pads:
        raise UnsupportedOperatorError("the padding is not known before the network runs")
    axes = _listed(context.constant(3), range(rank))
    front = dict(zip((a % rank for a in axes), pads[: len(axes)], strict=True))
    back = dict(zip((a % rank for a in axes), pads[len(axes) :], strict=True))
    mode = context.attributes.get("mode", b"constant")
    constant = mode in (b"constant", "constant")
    loops, positions = space_loops(output)
    indices = []
    for dim in range(rank):
        before, after = front.get(dim, 0), back.get(dim, 0)
        if constant or (before <= 0 and after <= 0):
            indices.append(Index(((positions[dim], 1),), offset=-before))
        else:
            indices.append(Index(((positions[dim], 1),), opaque=True))
    read = Access(data.name, data.shape, tuple(indices))
    return Lowered((LoopNest("Pad", loops, (read,), whole(output, positions)),))


@operator("Gather", layout="row_major")
def _gather(context: NodeContext) -> Lowered:
    """Take rows by index: known and evenly spaced indices are a slice, others choose at run time."""
    data, chosen, output = context.input(0), context.input(1), context.output
    axis = context.axis(0)
    loops, positions = space_loops(output)
    inner = len(chosen.shape)
    picking = positions[axis : axis + inner]
    known = context.constant(1)
    step = None if known is None else _even_spacing(known, data.shape[axis])
    if step is None:
        picked = Index(tuple((loop, 0) for loop in picking), opaque=True)
    else:
        picked = Index(tuple((loop, step[1]) for loop in picking[-1:]), offset=step[0])
    outer = [Index(((positions[dim], 1),)) for dim in range(axis)]
    rest = [Index(((positions[dim - 1 + inner], 1),)) for dim in range(axis + 1, len(data.shape))]
    reads = [Access(data.name, data.shape, (*outer, picked, *rest))]
    if known is None:
        reads.append(whole(chosen, picking))
    return Lowered((LoopNest("Gather", loops, tuple(reads), whole(output, positions)),))


def _even_spacing(values: Array, size: int) -> tuple[int, int] | None:
    """Return (first, step) if ``values`` has at most one dimension longer than one, the last, even."""
    if math.prod(values.shape[:-1]) != 1:
        return None
    flat = np.where(values < 0, values + size, values).reshape(-1)
    if flat.size == 0:
        return None
    step = int(flat[1] - flat[0]) if flat.size > 1 else 1
    even = bool(np.all(np.diff(flat) == step)) if flat.size > 1 else True
    return (int(flat[0]), step) if even else None


@operator("GatherElements", "GatherND", "ScatterND", "ScatterElements", "Scatter", layout="row_major")
def _by_index(context: NodeContext) -> Lowered:
    """Take any element of the data: indices are known at run time. Scatter also copies its first input."""
    output = context.output
    loops, positions = space_loops(output)
    several = tuple((loop, 0) for loop in range(len(loops)))
    scatter = context.kind.startswith("Scatter")
    reads = []
    for place, tensor in enumerate(t for t in context.inputs if t is not None):
        if scatter and place == 0:
            reads.append(whole(tensor, positions))
        else:
            reads.append(
                Access(tensor.name, tensor.shape, (Index(several, opaque=True),) * len(tensor.shape))
            )
    return Lowered((LoopNest(context.kind, loops, tuple(reads), whole(output, positions)),))


@operator("OneHot", layout="row_major")
def _one_hot(context: NodeContext) -> Lowered:
    chosen, output = context.input(0), context.output
    axis = context.axis(-1, len(output.shape))
    loops, positions = space_loops(output)
    read = whole(chosen, [position for dim, position in enumerate(positions) if dim != axis])
    nest = LoopNest("OneHot", loops, (read,), whole(output, positions), per_output=Operations(simple=1))
    return Lowered((nest,))


@operator("Tile", layout="row_major")
def _tile(context: NodeContext) -> Lowered:
    data, output = context.input(0), context.output
    loops: list[Loop] = []
    written, read = [], []
    for dim, size in enumerate(data.shape):
        repeats = output.shape[dim] // max(size, 1)
        outer, inner = len(loops), len(loops) + 1
        loops += [Loop(f"r{dim}", repeats), Loop(f"i{dim}", size)]
        written.append(Index(((outer, size), (inner, 1))))
        read.append(Index(((inner, 1),)))
    access = Access(data.name, data.shape, tuple(read))
    return Lowered(
        (LoopNest("Tile", tuple(loops), (access,), Access(output.name, output.shape, tuple(written))),)
    )


@operator("DepthToSpace", "SpaceToDepth", layout="channels_last")
def _depth_space(context: NodeContext) -> Lowered:
    """Channel = (block row, block column, c) or, in mode CRD, (c, block row, block column)."""
    data, output = context.input(0), context.output
    block = int(context.attributes["blocksize"])
    deep, wide = (data, output) if context.kind == "DepthToSpace" else (output, data)
    batch, channels, height, width = wide.shape
    extents = {"n": batch, "h": height // block, "bh": block, "w": width // block, "bw": block, "c": channels}
    loops = tuple(Loop(name, extent) for name, extent in extents.items())
    n, h, bh, w, bw, c = range(6)
    crd = context.attributes.get("mode", b"DCR") in (b"CRD", "CRD")
    packed = (
        ((c, block * block), (bh, block), (bw, 1))
        if crd
        else ((bh, block * channels), (bw, channels), (c, 1))
    )
    spread = (Index(((n, 1),)), Index(((c, 1),)), Index(((h, block), (bh, 1))), Index(((w, block), (bw, 1))))
    stacked = (Index(((n, 1),)), Index(packed), Index(((h, 1),)), Index(((w, 1),)))
    accesses = {
        wide.name: Access(wide.name, wide.shape, spread),
        deep.name: Access(deep.name, deep.shape, stacked),
    }
    return Lowered((LoopNest(context.kind, loops, (accesses[data.name],), accesses[output.name]),))


_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


@operator("Resize", "Upsample")
def _resize(context: NodeContext) -> Lowered:
    """Take the input at a coordinate rational in the output's; the window holds the taps that are mixed."""
    data, output = context.input(0), context.output
    mode = _text(context.attributes.get("mode", "nearest"))
    transform = _text(context.attributes.get("coordinate_transformation_mode", "half_pixel"))
    if context.kind == "Upsample":
        transform = "asymmetric"
    if mode not in _TAPS or transform == "tf_crop_and_resize":
        raise UnsupportedOperatorError(f"mode {mode!r} with {transform!r} has no affine access")
    rounding = _text(context.attributes.get("nearest_mode", "round_prefer_floor"))
    rounding = "floor" if context.kind == "Upsample" else rounding
    loops, positions = space_loops(output)
    indices = []
    moved = 0
    for dim, (small, large) in enumerate(zip(data.shape, output.shape, strict=True)):
        if small == large:
            indices.append(Index(((positions[dim], 1),)))
            continue
        moved += 1
        scale, offset = _coordinate(transform, small, large)
        indices.append(_sample(positions[dim], scale, offset, mode, rounding))
    work = Operations(macs=0, simple=2 * _TAPS[mode] ** moved) if mode != "nearest" else Operations()
    read = Access(data.name, data.shape, tuple(indices))
    return Lowered((LoopNest("Resize", loops, (read,), whole(output, positions), per_output=work),))


def _coordinate(transform: str, small: int, large: int) -> tuple[Fraction, Fraction]:
    """Return (a, b) of the input coordinate a x o + b."""
    ratio = Fraction(small, large)
    if transform == "align_corners":
        return (Fraction(small - 1, large - 1) if large > 1 else Fraction(0)), Fraction(0)
    if transform == "asymmetric" or (transform == "pytorch_half_pixel" and large == 1):
        return ratio, Fraction(0)
    return ratio, ratio / 2 - Fraction(1, 2)


def _sample(loop: int, scale: Fraction, offset: Fraction, mode: str, rounding: str) -> Index:
    if mode == "nearest":
        offset += {"floor": Fraction(0), "round_prefer_ceil": Fraction(1, 2)}.get(rounding, Fraction(0))
    divisor = math.lcm(scale.denominator, offset.denominator)
    if mode == "nearest" and rounding in ("ceil", "round_prefer_floor"):
        # ceil(x) = floor((numerator + divisor - 1) / divisor), after half is taken off for rounding half down
        offset -= Fraction(1, 2) if rounding == "round_prefer_floor" else 0
        divisor = math.lcm(divisor, offset.denominator)
        offset += Fraction(divisor - 1, divisor)
    if mode == "cubic":
        offset -= 1
    stride, start = int(scale * divisor), int(offset * divisor)
    return Index(((loop, stride),), offset=start, divisor=divisor, window=_TAPS[mode])


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
