"""Operators that only rename elements or move them to fixed places: reshapes, concatenations, slices, padding."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dsascape.wording import count
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest
from dsascape.workloads.operators.access import all_of, anything, at, space_loops, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator
from dsascape.workloads.rescale import aligned_runs


@operator("Reshape", "Flatten", "Squeeze", "Unsqueeze", layout="row_major")
def _reshape(context: NodeContext) -> Lowered:
    return Lowered((reshape_nest(context.kind, context.input(0), context.output),))


def reshape_nest(name: str, data: Tensor, output: Tensor) -> LoopNest:
    """Return the nest whose loops refine both shapes, so that both maps are affine where the shapes allow it.

    [6, 4] to [3, 8] runs over loops of 3, 2, 4. Runs of dimensions that share no refinement ([6, 4] to [4,
    6]) are affine in their first dimension only.
    """
    loops: list[Loop] = []
    read: list[Index] = []
    written: list[Index] = []
    for inputs, outputs in aligned_runs(data.shape, output.shape):
        sizes = [data.shape[d] for d in inputs], [output.shape[d] for d in outputs]
        steps = sorted({*_suffix_products(sizes[0]), *_suffix_products(sizes[1])})
        if any(outer % inner for inner, outer in itertools.pairwise(steps)):
            places = range(len(loops), len(loops) + len(outputs))
            loops += [Loop(f"r{place}", size) for place, size in zip(places, sizes[1], strict=True)]
            flat = tuple(zip(places, _suffix_products(sizes[1])[-2::-1], strict=True))
            read.append(Index(flat, divisor=math.prod(sizes[0][1:])))
            read += [anything(places)] * (len(inputs) - 1)
            written += [at(place) for place in places]
            continue
        extents = [outer // inner for inner, outer in itertools.pairwise(steps)]
        place_of = {step: len(loops) + len(extents) - 1 - k for k, step in enumerate(steps[:-1])}
        loops += [Loop(f"r{len(loops) + k}", extent) for k, extent in enumerate(reversed(extents))]
        read += _refined(sizes[0], place_of)
        written += _refined(sizes[1], place_of)
    source = Access(data.name, data.shape, tuple(read))
    return LoopNest(name, tuple(loops), (source,), Access(output.name, output.shape, tuple(written)))


def _refined(sizes: Sequence[int], place_of: dict[int, int]) -> list[Index]:
    """Return the indices of dimensions ``sizes`` over the loops ``place_of`` their flat step."""
    indices, pitch = [], 1
    for size in reversed(sizes):
        inside = sorted((step for step in place_of if pitch <= step < pitch * size), reverse=True)
        indices.append(Index(tuple((place_of[step], step // pitch) for step in inside)))
        pitch *= size
    return indices[::-1]


def _suffix_products(shape: Sequence[int]) -> list[int]:
    return [1, *itertools.accumulate(reversed(shape), lambda a, b: a * b)]


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


@operator("Concat", layout="as_first", appends=True)
def _concat(context: NodeContext) -> Lowered:
    """Build one nest per input, each writing its part of the output."""
    output, axis = context.output, context.axis(0)
    nests, offset = [], 0
    for tensor in context.inputs:
        if tensor is None or not tensor.elements:
            continue
        part = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.role, output.order)
        loops, positions = space_loops(part)
        indices = list(whole(output, positions).indices)
        indices[axis] = Index(((positions[axis], 1),), offset=offset)
        write = Access(output.name, output.shape, tuple(indices))
        nests.append(LoopNest(context.kind, loops, (whole(part, positions),), write))
        offset += tensor.shape[axis]
    return Lowered(tuple(nests))


@operator("Split", partial=True)
def _split(context: NodeContext) -> Lowered:
    axis, offset, nests = context.axis(0), 0, []
    for output in context.results:
        nests.append(_cut("Split", context.input(0), output, {axis: (offset, 1)}))
        offset += output.shape[axis]
    return Lowered(tuple(nests))


def _cut(name: str, data: Tensor, output: Tensor, starts: dict[int, tuple[int, int]]) -> LoopNest:
    """Return the nest that reads ``data`` from (start, step) per axis."""
    loops, positions = space_loops(output)
    indices = tuple(
        Index(((loop, starts[dim][1]),), offset=starts[dim][0]) if dim in starts else at(loop)
        for dim, loop in enumerate(positions)
    )
    return LoopNest(name, loops, (Access(data.name, data.shape, indices),), whole(output, positions))


@operator("Slice", partial=True)
def _slice(context: NodeContext) -> Lowered:
    """Read from (start, step) per axis; where these are unknown, the access is data-dependent along all axes."""
    data, output = context.input(0), context.output
    rank = len(data.shape)
    starts = context.known_ints(1, "starts", ())
    count = range(rank if starts is None else len(starts))
    axes = context.known_ints(3, "axes", count)
    steps = context.known_ints(4, "steps", (1,) * len(count))
    if starts is None or axes is None or steps is None:
        loops, positions = space_loops(output)
        chosen = tuple(anything((loop,)) for loop in positions)
        reads = (Access(data.name, data.shape, chosen), *(all_of(t) for t in context.unknown(1, 2, 3, 4)))
        return Lowered((LoopNest("Slice", loops, reads, whole(output, positions)),))
    cuts = {}
    for start, axis, step in zip(starts, axes, steps, strict=True):
        dim = axis % rank
        size = data.shape[dim]
        first = start + size if start < 0 else start
        cuts[dim] = (min(max(first, 0), size - 1 if step < 0 else size), step)
    return Lowered((_cut("Slice", data, output, cuts),))


@operator("Pad", partial=True)
def _pad(context: NodeContext) -> Lowered:
    """Build one nest for constant padding, otherwise one per piece of the output that is one run through the input."""
    data, output = context.input(0), context.output
    rank = len(data.shape)
    pads = context.known_ints(1, "pads", ())
    axes = context.known_ints(3, "axes", range(rank))
    loops, positions = space_loops(output)
    mode = context.text("mode", "constant")
    filler = tuple(all_of(t) for t in context.unknown(2)) if mode == "constant" else ()
    if not pads or axes is None:
        chosen = Access(data.name, data.shape, tuple(anything((loop,)) for loop in positions))
        reads = (chosen, *filler, *(all_of(t) for t in context.unknown(1, 3)))
        return Lowered((LoopNest("Pad", loops, reads, whole(output, positions)),))
    front = dict(zip((a % rank for a in axes), pads[: len(axes)], strict=True))
    back = dict(zip((a % rank for a in axes), pads[len(axes) :], strict=True))
    if mode == "constant":
        indices = tuple(Index(((loop, 1),), offset=-front.get(dim, 0)) for dim, loop in enumerate(positions))
        reads = (Access(data.name, data.shape, indices), *filler)
        return Lowered((LoopNest("Pad", loops, reads, whole(output, positions)),))
    pieces = [_pieces(size, front.get(dim, 0), back.get(dim, 0), mode) for dim, size in enumerate(data.shape)]
    if math.prod(map(len, pieces)) > _MOST_PIECES:
        raise UnsupportedOperatorError(f"padding {list(pads)} makes more than {_MOST_PIECES} pieces")
    return Lowered(tuple(_piece(data, output, chosen) for chosen in itertools.product(*pieces)))


def _pieces(size: int, before: int, after: int, mode: str) -> list[tuple[int, int, int, int]]:
    """Return (first output, length, first input, step) of the runs into which padding divides a dimension.

    Where it adds at least as many elements as there are, the runs are derived element by element.
    """
    cut, kept = max(-before, 0), size - max(-before, 0) - max(-after, 0)
    before, after = max(before, 0), max(after, 0)
    if max(before, after) < kept and mode in _RUNS:
        front, back = _RUNS[mode](cut, kept, before)
        runs = ((0, before, *front), (before, kept, cut, 1), (before + kept, after, *back))
        return [run for run in runs if run[1]]
    if before + max(kept, 0) + after > _LONGEST_PADDED:
        raise UnsupportedOperatorError(
            f"{mode} padding of {count(size, 'element')} by {before} and {after}; at most {_LONGEST_PADDED} elements"
            " are supported where as many are added as there are"
        )
    return _runs_in(np.pad(np.arange(cut, cut + kept), (before, after), mode=mode).tolist())  # type: ignore[call-overload]


_RUNS: Mapping[str, Callable[[int, int, int], tuple[tuple[int, int], tuple[int, int]]]] = {
    "reflect": lambda cut, kept, before: ((cut + before, -1), (cut + kept - 2, -1)),
    "edge": lambda cut, kept, _: ((cut, 0), (cut + kept - 1, 0)),
    "wrap": lambda cut, kept, before: ((cut + kept - before, 1), (cut, 1)),
}
"""First input element and step of front and back padding, given the elements cut off, kept, and added in front."""
_MOST_PIECES = 4096
_LONGEST_PADDED = 65_536


def _runs_in(padded: Sequence[int]) -> list[tuple[int, int, int, int]]:
    runs: list[tuple[int, int, int, int]] = []
    first = 0
    while first < len(padded):
        end = first + 1
        step = padded[end] - padded[first] if end < len(padded) else 1
        while end < len(padded) and padded[end] - padded[end - 1] == step:
            end += 1
        runs.append((first, end - first, padded[first], step))
        first = end
    return runs


def _piece(data: Tensor, output: Tensor, chosen: Sequence[tuple[int, int, int, int]]) -> LoopNest:
    part = Tensor(output.name, tuple(c[1] for c in chosen), output.dtype, "activation", output.order)
    loops, positions = space_loops(part)
    read = [
        Index(((loop, step),), offset=start)
        for loop, (_, _, start, step) in zip(positions, chosen, strict=True)
    ]
    written = [Index(((loop, 1),), offset=first) for loop, (first, *_) in zip(positions, chosen, strict=True)]
    return LoopNest(
        "Pad",
        loops,
        (Access(data.name, data.shape, tuple(read)),),
        Access(output.name, output.shape, tuple(written)),
    )


@operator("Tile", layout="row_major")
def _tile(context: NodeContext) -> Lowered:
    data, output = context.input(0), context.output
    loops: list[Loop] = []
    written, read = [], []
    for dim, size in enumerate(data.shape):
        outer, inner = len(loops), len(loops) + 1
        loops += [Loop(f"r{dim}", output.shape[dim] // max(size, 1)), Loop(f"i{dim}", size)]
        written.append(Index(((outer, size), (inner, 1))))
        read.append(at(inner))
    access = Access(data.name, data.shape, tuple(read))
    return Lowered(
        (LoopNest("Tile", tuple(loops), (access,), Access(output.name, output.shape, tuple(written))),)
    )


@operator("DepthToSpace", "SpaceToDepth", layout="channels_last")
def _depth_space(context: NodeContext) -> Lowered:
    """Map channel = (block row, block column, c) or, in mode CRD, (c, block row, block column)."""
    data, output = context.input(0), context.output
    block = int(context.attributes["blocksize"])
    deep, wide = (data, output) if context.kind == "DepthToSpace" else (output, data)
    batch, channels, height, width = wide.shape
    extents = {"n": batch, "h": height // block, "bh": block, "w": width // block, "bw": block, "c": channels}
    loops = tuple(Loop(name, extent) for name, extent in extents.items())
    n, h, bh, w, bw, c = range(6)
    crd = context.text("mode", "DCR") == "CRD"
    packed = (
        ((c, block * block), (bh, block), (bw, 1))
        if crd
        else ((bh, block * channels), (bw, channels), (c, 1))
    )
    spread = (at(n), at(c), Index(((h, block), (bh, 1))), Index(((w, block), (bw, 1))))
    stacked = (at(n), Index(packed), at(h), at(w))
    accesses = {
        wide.name: Access(wide.name, wide.shape, spread),
        deep.name: Access(deep.name, deep.shape, stacked),
    }
    return Lowered((LoopNest(context.kind, loops, (accesses[data.name],), accesses[output.name]),))
