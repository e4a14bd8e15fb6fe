"""Lines that a nest takes at once: elements that all results along them need, as in a Fourier transform."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dsascape.workloads.loopnest import Access, LoopNest


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
