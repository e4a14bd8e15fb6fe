"""Elements that a core's part of a layer reads of each operand, found by walking every iteration.

Shares nothing with the scheduler: it walks all iterations of every loop nest and marks the elements that they touch.
For nests small enough; `tests.scheduler.dsa.products` finds the same elements of large ones.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dsascape.workloads.loopnest import Access, Box, LoopNest
from tests.scheduler.dsa.touched import Ints, Mask, loop_values, touched_places


def elements_read(nests: Sequence[LoopNest], sink: str, part: Box) -> Mapping[str, Mask]:
    """Return which elements of every tensor are read, at whatever remove, to compute ``part`` of ``sink``.

    ``nests``: in the order in which they are computed.
    """
    shapes = {access.tensor: access.shape for nest in nests for access in _accesses(nest)}
    marks = {name: np.zeros(shape, bool) for name, shape in shapes.items()}
    marks[sink][tuple(slice(lo, hi) for lo, hi in part)] = True
    for nest in reversed(nests):
        _mark(nest, marks)
    return marks


def _accesses(nest: LoopNest) -> tuple[Access, ...]:
    return (*nest.reads, nest.write)


def _mark(nest: LoopNest, marks: Mapping[str, Mask]) -> None:
    """Mark what ``nest`` reads in the iterations that write marked elements."""
    loops, count = loop_values(dict(enumerate(nest.extents))), math.prod(nest.extents)
    written = _touched(nest.write, loops, count)
    live = np.zeros(count, bool)
    for places, there in written:
        live |= there & marks[nest.write.tensor][places]
    reads = [(read, _touched(read, loops, count)) for read in nest.reads]
    if nest.per_iteration:  # a product of which one factor is padding is skipped, and reads neither
        for _, touched in reads:
            live &= np.logical_or.reduce([there for _, there in touched])
    for read, touched in reads:
        for places, there in touched:
            chosen = there & live
            if chosen.any():  # a scalar has no axis that could be empty
                marks[read.tensor][tuple(axis[chosen] for axis in places)] = True


def _touched(access: Access, loops: Mapping[int, Ints], count: int) -> list[tuple[tuple[Ints, ...], Mask]]:
    """Return by way of touching (windows have several) the element of every iteration, and whether it is there."""
    ways = [touched_places(index, size, loops, count) for index, size in zip(access.indices, access.shape, strict=True)]
    found = []
    for chosen in itertools.product(*ways):
        there = np.ones(count, bool)
        for _, valid in chosen:
            there &= valid
        found.append((tuple(values for values, _ in chosen), there))
    return found
