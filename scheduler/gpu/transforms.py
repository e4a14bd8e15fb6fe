"""Transforms of whole lines on a GPU: every result of a line needs all of its elements, as a Fourier transform's do.

A fast transform combines elements in stages, each of which needs results of the one before. A thread does stages by
itself for the elements that it keeps in registers, a block more of them through shared memory for as many as it makes;
for longer lines all blocks end, and a further grid takes the results up: a pass over the whole tensor (Govindaraju et
al., "High performance discrete Fourier transforms on graphics processors", SC 2008).
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Access, Extents, LoopNest


class Line(NamedTuple):
    """Elements that all results of a line need, and the results."""

    elements: int
    results: int

    def grids(self, results: int) -> int:
        """Return the passes of blocks that each make ``results`` of a line."""
        return 1 if results >= min(self.results, self.elements) else _stages(self.elements, results)

    def exchanges(self, results: int, by_thread: int) -> int:
        """Return how often a block that makes ``results`` passes them through shared memory in one pass."""
        return _stages(min(results, self.elements), by_thread) - 1


def _stages(elements: int, radix: int) -> int:
    """Return in how many stages ``elements`` are combined, ``radix`` at a time."""
    radix, stages, reached = max(radix, 2), 1, max(radix, 2)
    while reached < elements:
        stages, reached = stages + 1, reached * radix
    return stages


def line_of(nest: LoopNest, read: Access) -> Line | None:
    """Return the line that ``read`` takes at once; None if it goes through elements, or has fewer results than half."""
    if nest.has_reduction or any(index.opaque for index in read.indices):
        return None
    elements = math.prod(read.extents((1,) * len(nest.loops)))
    results = results_along(nest, read, nest.extents)
    return Line(elements, results) if elements > 1 and 2 * results >= elements else None


def results_along(nest: LoopNest, read: Access, extents: Sequence[int]) -> int:
    """Return how many of the results that loops of ``extents`` make need the same elements of ``read``."""
    return math.prod([extent for loop, extent in enumerate(extents) if not read.uses(loop)])


def passes_of(layer: Layer, tile: Extents) -> int:
    """Return the grids, one after the other, in which blocks of ``tile`` make transforms of ``layer``; else 1."""
    return layer.analysis.table(passes_of).get((layer.signature, tile), partial(_passes, layer, tile))


def _passes(layer: Layer, tile: Extents) -> int:
    nests, most = nests_of(layer), 1
    if all(line_of(each.compiled.nest, read) is None for each in nests.nests for read in each.compiled.nest.reads):
        return 1
    for each, work in zip(nests.nests, nests.works(layer, tile), strict=True):
        nest = each.compiled.nest
        for read in nest.reads:
            line = line_of(nest, read)
            if line is not None:
                most = max(most, line.grids(results_along(nest, read, work.extents)))
    return most
