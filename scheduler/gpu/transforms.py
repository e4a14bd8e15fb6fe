"""Transforms of whole lines on a GPU: every result of a line needs all of its elements, as a Fourier transform's do.

A fast transform combines elements in stages, each of which needs results of the one before. A thread does stages by
itself for the elements that it keeps in registers, a block more of them through shared memory for as many as it makes;
for longer lines all blocks end, and a further grid takes the results up: a pass over the whole tensor (Govindaraju et
al., "High performance discrete Fourier transforms on graphics processors", SC 2008).
"""

from typing import NamedTuple

from dsascape.scheduler.gpu.lines import results_along
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized


@memoized
def passes_of(layer: Layer, tile: Extents) -> int:
    """Return the grids, one after the other, in which blocks of ``tile`` make transforms of ``layer``; else 1."""
    nests, most = nests_of(layer), 1
    if all(read.line is None for each in nests.nests for read in each.reads):
        return 1
    for each, work in zip(nests.nests, nests.works(layer, tile), strict=True):
        nest = each.compiled.nest
        for access, read in zip(nest.reads, each.reads, strict=True):
            if read.line is not None:
                most = max(most, read.line.grids(results_along(nest, access, work.extents)))
    return most


class LineWork(NamedTuple):
    """What a block takes of one tensor whose lines it transforms, in one pass."""

    elements: float
    """Elements loaded."""
    exchanged: float
    """Elements that threads pass to each other in shared memory."""
    by_thread: int
    """Results of a thread."""
    element_bytes: float
    is_outside: bool
    """Whether the tensor comes from outside of the block."""
    results_bytes: float
    """Bytes of the block's results."""

    def at_once(self, vector_bytes: int) -> int:
        """Return how many elements one instruction of a thread loads."""
        return int(max(1, min(vector_bytes // self.element_bytes, self.by_thread)))


@memoized
def lines_taken(layer: Layer, tile: Extents, threads: int) -> tuple[LineWork, ...]:
    """Return what a block of so many threads takes that computes ``tile`` of transforms; empty where there are none."""
    nests, found = nests_of(layer), list[LineWork]()
    if all(read.line is None for each in nests.nests for read in each.reads):
        return ()
    for each, work in zip(nests.nests, nests.works(layer, tile), strict=True):
        nest, by_thread = each.compiled.nest, max(-(-work.outputs // threads), 1)
        for access, read in zip(nest.reads, each.reads, strict=True):
            if read.line is not None:
                made = results_along(nest, access, work.extents)
                exchanges = read.line.exchanges(made, min(made, by_thread))
                found.append(LineWork(
                    work.outputs * read.line.elements / read.line.results, work.outputs * exchanges, by_thread,
                    read.element_bytes, read.source == "outside", work.outputs * each.element_bytes,
                ))  # fmt: skip
    return tuple(found)
