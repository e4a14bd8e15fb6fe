"""A layer's anchor: the reduction whose outputs are held in registers, and over how many elements it is computed.

The cost of instructions and generated code both ask here, so that what is simulated is what runs.
"""

import math
from dataclasses import dataclass

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.kernels.lanes import halvings
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Access, Extents, LoopNest
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


def anchored_nest(layer: Layer) -> LoopNest | None:
    """Return the nest that tiles of ``layer`` are held in registers of, if there is one.

    It is the only reduction, and what follows it up to the sink works element by element on its output. Layers with
    several are cut into parts that have one each (`scheduler.cpu.structure.chains`).
    """
    place = _anchor_place(layer)
    return None if place is None else layer.nests[place].nest


@memoized
def _anchor_place(layer: Layer) -> int | None:
    """Return where among the layer's nests its anchor is."""
    nest = _anchored_nest(layer)
    return None if nest is None else next(place for place, c in enumerate(layer.nests) if c.nest is nest)


def _anchored_nest(layer: Layer) -> LoopNest | None:
    reductions = [c.nest for c in layer.nests if any(loop.reduction for loop in c.nest.loops)]
    if len(reductions) != 1 or len(layer.outputs) != 1:
        return None
    nest = reductions[0]
    followed = nest.write.tensor
    shape = nest.write.shape
    if shape != layer.sink.shape or not shape:
        return None
    for compiled in reversed(layer.nests):
        later = compiled.nest
        chained = [read for read in later.reads if read.tensor == followed]
        if not chained or later is nest:
            continue
        if any(read.indices != later.write.indices or read.shape != later.write.shape for read in chained):
            return None
        followed = later.write.tensor
    order = layer.sink.order
    produced = next((layer.graph.tensors[n] for n in [nest.write.tensor] if n in layer.graph.tensors), None)
    if followed != layer.sink.name or produced is None or produced.order != order:
        return None
    return nest if _has_vectors(layer, nest, order[-1]) else None


def _has_vectors(layer: Layer, nest: LoopNest, dim: int) -> bool:
    """Whether outputs along ``dim`` come from what lies together: of data, or of a weight that can be packed."""
    along = nest.moving(nest.write.indices[dim])
    if nest.write.shape[dim] == 1 or not along.terms:
        return False
    tensors = {t.name: t for p in layer.ops for t in layer.graph.ops[p].internals} | dict(layer.graph.tensors)
    reduced = [p for p, loop in enumerate(nest.loops) if loop.reduction]
    loops = [loop for loop, _ in along.terms]
    return any(
        any(map(read.uses, loops))
        if tensors[read.tensor].role == "weight"
        else nest.moving(read.indices[tensors[read.tensor].order[-1]]) == along
        for read in nest.reads
        if any(map(read.uses, reduced))
    )


def anchor_of(layer: Layer, tiles: LoopTiles) -> Anchor | None:
    """Return the anchor of ``layer`` in register tiles of ``tiles``; None where it is not tiled."""
    nest = anchored_nest(layer)
    if nest is None or tiles.vector_dim < 0:
        return None
    return Anchor(nest, tiles.padded(nest.write.shape), tiles.vector_dim, reduction_order(nest))


def reduction_order(nest: LoopNest) -> tuple[int, ...]:
    """Return the reduction loops as the nest has them, but for that of most iterations for each result: innermost."""
    loops = [p for p, loop in enumerate(nest.loops) if loop.reduction]
    longest = max(loops, key=executed_extents(nest).__getitem__)
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


def is_padded(nest: LoopNest, read: Access) -> bool:
    """Whether ``nest`` reads beyond the border of ``read``, in places that do not depend on data."""
    ranges = [(0, loop.extent) for loop in nest.loops]
    if any(index.divisor != 1 or index.window != 1 or index.opaque or index.clamp for index in read.indices):
        return False
    spans = [index.span(ranges) for index in read.indices]
    return any(low < 0 or high > size for (low, high), size in zip(spans, read.shape, strict=True))


@memoized
def shared_rows(layer: Layer) -> int:
    """Return how many of the sink's outer dimensions, as stored, may be computed element by element.

    Next to nothing is then computed twice: what has several reductions (a softmax, a normalisation) is finished row by
    row, and what rows have in common, such as a bound of a mask, counts for little.
    """
    shape, order = layer.sink.shape, layer.sink.order
    whole = _operations(layer, shape)
    for rows in range(len(order) - 1, 0, -1):
        row = tuple([1 if dim in order[:rows] else size for dim, size in enumerate(shape)])
        if _operations(layer, row) * math.prod([shape[dim] for dim in order[:rows]]) <= whole * (1 + _COMPUTED_TWICE):
            return rows
    return 0


_COMPUTED_TWICE = 0.01
"""Share of a layer's operations that rows may compute again."""


def _operations(layer: Layer, tile: Extents) -> int:
    return sum([work.operations.flops for work in layer.tile_work(tile).nests])
