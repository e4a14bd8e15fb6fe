"""A kernel's anchor: the reduction whose outputs are held in registers, and over how many elements it is computed."""

import math
from dataclasses import dataclass, replace

from scheduler.cpu.tiles import LoopTiles
from scheduler.kernels.layer import Layer
from workloads.index import Index
from workloads.loopnest import Extents, LoopNest


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


def moving(nest: LoopNest, index: Index) -> Index:
    """Return ``index`` without loops of a single iteration: two that move alike are equal."""
    if all(nest.loops[loop].extent > 1 for loop, _ in index.terms):
        return index
    return replace(index, terms=tuple(term for term in index.terms if nest.loops[term[0]].extent > 1))


def anchored_nest(layer: Layer) -> LoopNest | None:
    """Return the nest that tiles of ``layer`` are held in registers of, if there is one.

    It is the only reduction, and what follows it up to the sink works element by element on its output.
    """
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
    along = moving(nest, nest.write.indices[dim])
    if nest.write.shape[dim] == 1 or not along.terms:
        return False
    tensors = {t.name: t for p in layer.ops for t in layer.graph.ops[p].internals} | dict(layer.graph.tensors)
    reduced = [p for p, loop in enumerate(nest.loops) if loop.reduction]
    return any(
        tensors[read.tensor].role == "weight" or moving(nest, read.indices[tensors[read.tensor].order[-1]]) == along
        for read in nest.reads
        if any(map(read.uses, reduced)) and along in [moving(nest, index) for index in read.indices]
    )


def anchor_of(layer: Layer, tiles: LoopTiles | None) -> Anchor | None:
    """Return the anchor of ``layer`` in register tiles of ``tiles``; None where it is not tiled."""
    nest = anchored_nest(layer)
    if nest is None or tiles is None or tiles.vector_dim < 0:
        return None
    padded = tuple(-(-size // part) * part for size, part in zip(nest.write.shape, tiles.register, strict=True))
    return Anchor(nest, padded, tiles.vector_dim, reduction_order(nest))


def reduction_order(nest: LoopNest) -> tuple[int, ...]:
    """Return the reduction loops, the longest innermost, the others as the nest has them."""
    loops = [p for p, loop in enumerate(nest.loops) if loop.reduction]
    longest = max(loops, key=lambda p: nest.loops[p].extent)
    return (*(p for p in loops if p != longest), longest)


def iterations(nest: LoopNest) -> int:
    """Return the iterations of the reduction loops for one output."""
    return math.prod(loop.extent for loop in nest.loops if loop.reduction)
