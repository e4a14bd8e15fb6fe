"""Anchor of a layer: the reduction whose outputs are held in registers; what it reads with padding, and shared rows."""

import math
from dataclasses import replace

from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.index import Index, overlaps
from dsascape.workloads.loopnest import Access, LoopNest
from dsascape.workloads.memo import memoized


def anchored_nest(layer: Layer) -> LoopNest | None:
    """Return the nest that tiles of ``layer`` are held in registers of, if there is one.

    It is the only reduction, and what follows it up to the sink works element by element on its output. Layers with
    several are cut into parts that have one each (`scheduler.kernels.structure.parts`).
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
        else _lies_along(nest, nest.moving(read.indices[tensors[read.tensor].order[-1]]), along)
        for read in nest.reads
        if any(map(read.uses, reduced))
    )


def _lies_along(nest: LoopNest, index: Index, along: Index) -> bool:
    """Whether neighbours along ``along`` are neighbours in the last dimension of an operand.

    Outer loops may have a part in either: the groups of a convolution, the gates of a recurrence.
    """
    inner = [term for term in along.terms if term[1] == 1]
    is_window = overlaps(index, [loop.extent for loop in nest.loops])
    return bool(inner) and inner[0] in index.terms and not is_window and replace(index, terms=along.terms) == along


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
    whole = layer.tile_work(shape).flops
    for rows in range(len(order) - 1, 0, -1):
        row = tuple([1 if dim in order[:rows] else size for dim, size in enumerate(shape)])
        rows_of_whole = math.prod([shape[dim] for dim in order[:rows]])
        if layer.tile_work(row).flops * rows_of_whole <= whole * (1 + _COMPUTED_TWICE):
            return rows
    return 0


_COMPUTED_TWICE = 0.01
"""Share of a layer's operations that rows may compute again."""
