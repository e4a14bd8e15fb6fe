"""Recomputation when one operator is fused into the tiles of another (AGO, section III-B).

The loops of the upstream operator are attached to the outer loops of the downstream one. An element of the upstream
result is then computed once for every tile of the downstream result that needs it: for every iteration of an outer loop
that it does not depend on, and for every tile whose window overlaps the next one's. Tiling a dimension recomputes
nothing if no two tiles along it need the same element; dimensions where they do are *reused*, and intensive fusion
leaves them whole. All of this follows from the access maps of the loop nests between the two, for any operators.

For convolutions this gives the paper's two categories: downstream of a depthwise convolution only rows and columns are
reused, of a pointwise one only output channels.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Box, Extents, box_volume, full_box, intersect
from dsascape.workloads.regions import moving_dims, required_regions
from dsascape.workloads.subgraph import Subgraph


@dataclass(frozen=True, slots=True)
class Redundancy:
    """Elements of an upstream tensor that are computed for, and needed by, the tiles of a downstream one."""

    computed: int
    """Elements computed by all tiles together, repeats included."""
    needed: int
    """Elements needed by any tile, each counted once."""

    @property
    def again(self) -> int:
        """Redundant element computations."""
        return self.computed - self.needed

    @property
    def factor(self) -> float:
        """Average number of times that an element is computed."""
        return self.computed / self.needed if self.needed else 1.0


def redundancy(graph: Graph, ops: Sequence[int], upstream: str, tile: Extents) -> Redundancy:
    """Return the redundancy of ``upstream`` for tiles of the last operator's output, with all ``ops`` fused.

    The paper's |GS2/TS2 x (GS1/TS1 - GS2/TS2)| * |TS1|, per iteration of upstream's reduction, borders counted exactly.
    ``ops`` ascending; ``tile`` elements per dimension of the first output of the last one, less at the border. The
    need of a tile is a box: gaps between strides count as computed.
    """
    sink = Subgraph(graph, tuple(ops)).sink
    boxes = [box for box in _boxes(graph, ops, upstream, sink.name, sink.shape, tile) if box is not None]
    return Redundancy(sum(map(box_volume, boxes)), _union(boxes))


def _boxes(
    graph: Graph, ops: Sequence[int], upstream: str, sink: str, shape: Extents, tile: Extents
) -> Iterator[Box | None]:
    starts = (range(0, size, step) for size, step in zip(shape, tile, strict=True))
    for first in itertools.product(*starts):
        wanted = tuple((lo, min(lo + step, size)) for lo, step, size in zip(first, tile, shape, strict=True))
        yield required_regions(graph, ops, {sink: wanted}).get(upstream)


def _union(boxes: Sequence[Box]) -> int:
    """Return the number of elements in the union of ``boxes``, summed over the grid of their edges."""
    if not boxes:
        return 0
    edges = [sorted({edge for box in boxes for edge in box[dim]}) for dim in range(len(boxes[0]))]
    pieces = itertools.product(*(list(itertools.pairwise(cuts)) for cuts in edges))
    return sum(
        box_volume(piece)
        for piece in pieces
        if any(all(lo <= a and b <= hi for (a, b), (lo, hi) in zip(piece, box, strict=True)) for box in boxes)
    )


def reused_dims(analysis: Analysis, ops: tuple[int, ...], upstream: str) -> frozenset[int]:
    """Return the dimensions of the last operator's output along which tiles need the same elements of ``upstream``.

    Fused and tiled along other dimensions only, nothing of ``upstream`` is computed twice.
    """
    shape = Subgraph(analysis.graph, ops).sink.shape
    return frozenset(d for d, size in enumerate(shape) if size > 1 and _reused(analysis, ops, upstream, d))


def tiled_dims(analysis: Analysis, ops: tuple[int, ...], upstream: str) -> frozenset[int]:
    """Return the dimensions of more than one element that can be tiled without recomputing any of ``upstream``."""
    shape = Subgraph(analysis.graph, ops).sink.shape
    return frozenset(d for d, size in enumerate(shape) if size > 1) - reused_dims(analysis, ops, upstream)


def can_be_tiled(analysis: Analysis, ops: tuple[int, ...], upstream: Sequence[str]) -> bool:
    """Whether some dimension can be tiled without recomputing any of the ``upstream`` tensors."""
    shape = Subgraph(analysis.graph, ops).sink.shape
    cut = sorted((size, dim) for dim, size in enumerate(shape) if size > 1)
    return any(not any(_reused(analysis, ops, name, dim) for name in upstream) for _, dim in cut)


def _behind(graph: Graph, ops: tuple[int, ...], upstream: str) -> tuple[int, ...]:
    """Return the operators of ``ops`` that depend on ``upstream``, directly or not."""
    needing = {upstream}
    for op in ops:
        if not needing.isdisjoint(graph.ops[op].inputs):
            needing.update(graph.ops[op].outputs)
    return tuple(op for op in ops if not needing.isdisjoint(graph.ops[op].inputs))


def _reused(analysis: Analysis, ops: tuple[int, ...], upstream: str, dim: int) -> bool:
    return analysis.of(_is_reused, _behind(analysis.graph, ops, upstream), upstream, dim)


def _is_reused(analysis: Analysis, ops: tuple[int, ...], upstream: str, dim: int) -> bool:
    """Whether two tiles of one element along ``dim``, whole along the others, share elements of ``upstream``.

    Only neighbouring tiles are compared: the need of a tile moves in one direction along a dimension.
    """
    graph = analysis.graph
    sink = Subgraph(graph, ops).sink
    moving = moving_dims(graph, ops, [sink.name], dim)
    if moving is not None:
        return upstream not in moving
    whole, before = full_box(sink.shape), None
    for position in range(sink.shape[dim]):
        wanted = (*whole[:dim], (position, position + 1), *whole[dim + 1 :])
        box = required_regions(graph, ops, {sink.name: wanted}).get(upstream)
        if box is not None and before is not None and intersect(before, box) is not None:
            return True
        before = before if box is None else box
    return False
