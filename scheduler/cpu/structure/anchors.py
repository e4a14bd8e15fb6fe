"""Register tiles of an anchor (`scheduler.kernels.structure.anchors`): vectors, padding, order of its reductions.

The cost of instructions and generated code both ask here, so that what is simulated is what runs.
"""

import math
from dataclasses import dataclass

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.kernels.lanes import halvings
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.workloads.loopnest import Extents, LoopNest
from dsascape.workloads.memo import memoized
from dsascape.workloads.spaced import executed_extents


@dataclass(frozen=True)
class Anchor:
    """A nest that is computed in register tiles."""

    nest: LoopNest
    padded: Extents
    """Elements per dimension of its output, rounded up to whole register tiles."""
    vector_dim: int
    """The dimension along which vectors lie."""
    reductions: tuple[int, ...]
    """Its reduction loops, outermost first: the longest, the depth, is innermost."""


def anchor_of(layer: Layer, tiles: LoopTiles) -> Anchor | None:
    """Return the anchor of ``layer`` in register tiles of ``tiles``; None where it is not tiled."""
    nest = anchored_nest(layer)
    if nest is None or tiles.vector_dim < 0:
        return None
    return Anchor(nest, tiles.padded(nest.write.shape), tiles.vector_dim, reduction_order(layer, nest))


def reduction_order(layer: Layer, nest: LoopNest) -> tuple[int, ...]:
    """Return the reduction loops as the nest has them, but for that of most iterations for each result: innermost.

    Of equally long ones that along which the data's elements follow each other in memory.
    """
    loops = [p for p, loop in enumerate(nest.loops) if loop.reduction]
    data, executed = nest.reads[0], executed_extents(nest)
    tensor = layer.graph.tensors.get(data.tensor)
    order = range(len(data.shape)) if tensor is None else tensor.order
    inner = next((dim for dim in reversed(order) if data.shape[dim] > 1), -1)
    following = {loop for loop, stride in data.indices[inner].terms if stride == 1} if inner >= 0 else set()
    longest = max(loops, key=lambda loop: (executed[loop], loop in following))
    return (*(p for p in loops if p != longest), longest)


def lanes_along(nest: LoopNest, dim: int, lanes: int) -> int:
    """Return the length of the vectors along ``dim``: shorter than the machine's where that takes no more of them.

    Vectors do not reach over groups of channels that are made of different data.
    """
    size = nest.write.shape[dim]
    terms = nest.write.indices[dim].terms
    own = nest.loops[terms[-1][0]].extent if terms else size
    whole = size if len(terms) == 1 or own == 1 or _is_shared(nest, dim) else own
    lengths = [each for each in halvings(lanes) if whole == size or whole % each == 0]
    return min(lengths, key=lambda each: (-(-size // each), each))


def is_aligned(nest: LoopNest, dim: int, size: int) -> bool:
    """Whether tiles of ``size`` along a dimension lie inside of one of its parts each, or consist of whole parts.

    Parts are what one iteration of each outer one of several loops writes: channels of a group, columns of a head.
    What a tile that crosses their borders reads is told apart by no loop.
    """
    own = [stride for loop, stride in nest.write.indices[dim].terms if nest.loops[loop].extent > 1]
    return all(size % stride == 0 or stride % size == 0 for stride in own)


def vector_lanes(nest: LoopNest, tiles: LoopTiles, lanes: int) -> int:
    """Return the lanes of the vectors that an anchor's register tiles consist of, on a machine that has ``lanes``."""
    return math.gcd(tiles.lanes(lanes), lanes_along(nest, tiles.vector_dim, lanes))


@memoized
def most_lanes(layer: Layer, dim: int, lanes: int) -> int:
    """Return `lanes_along` a dimension of the anchor of ``layer``, worked out once; ``lanes`` where it has none."""
    nest = anchored_nest(layer)
    return lanes if nest is None else lanes_along(nest, dim, lanes)


def _is_shared(nest: LoopNest, dim: int) -> bool:
    """Whether the same data makes all outputs along ``dim``: a dense convolution or product, no depthwise one."""
    loops = [loop for loop, _ in nest.write.indices[dim].terms if nest.loops[loop].extent > 1]
    return not any(nest.reads[0].uses(loop) for loop in loops)
