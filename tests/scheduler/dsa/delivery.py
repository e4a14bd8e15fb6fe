"""Elements traced back one by one: which of each operand a core's part of a layer really reads.

Shares nothing with the scheduler: it walks all iterations of every loop nest and marks the elements that they touch.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from workloads import Graph
from workloads.loopnest import Access, Box, Index, LoopNest

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
MOST_ITERATIONS = 300_000
"""Of one nest; larger ones are not walked."""


def iterations(graph: Graph, ops: Sequence[int]) -> int:
    """Return the iterations of the longest nest."""
    return max(math.prod(nest.extents) for op in ops for nest in graph.ops[op].nests)


def elements_read(graph: Graph, ops: Sequence[int], sink: str, part: Box) -> Mapping[str, Mask]:
    """Return which elements of every tensor are read, at whatever remove, to compute ``part`` of ``sink``."""
    shapes = {access.tensor: access.shape for op in ops for nest in graph.ops[op].nests for access in _accesses(nest)}
    marks = {name: np.zeros(shape, bool) for name, shape in shapes.items()}
    marks[sink][tuple(slice(lo, hi) for lo, hi in part)] = True
    for op in reversed(ops):
        for nest in reversed(graph.ops[op].nests):
            _mark(nest, marks)
    return marks


def _accesses(nest: LoopNest) -> tuple[Access, ...]:
    return (*nest.reads, nest.write)


def _mark(nest: LoopNest, marks: Mapping[str, Mask]) -> None:
    """Mark what ``nest`` reads in the iterations that write marked elements."""
    loops = [grid.ravel() for grid in np.meshgrid(*(np.arange(e) for e in nest.extents), indexing="ij")]
    count = loops[0].size if loops else 1
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
            marks[read.tensor][tuple(axis[chosen] for axis in places)] = True


def _touched(access: Access, loops: Sequence[Ints], count: int) -> list[tuple[tuple[Ints, ...], Mask]]:
    """Return by way of touching (windows have several) the element of every iteration, and whether it is there."""
    ways = [_values(index, size, loops, count) for index, size in zip(access.indices, access.shape, strict=True)]
    found = []
    for chosen in itertools.product(*ways):
        there = np.ones(count, bool)
        for _, valid in chosen:
            there &= valid
        found.append((tuple(np.where(there, values, 0) for values, _ in chosen), there))
    return found


def _values(index: Index, size: int, loops: Sequence[Ints], count: int) -> list[tuple[Ints, Mask]]:
    value = np.full(count, index.offset, np.int64)
    for loop, stride in index.terms:
        value = value + stride * loops[loop]
    if index.opaque:
        if index.table:
            value = np.array(index.table, np.int64)[np.clip(value, 0, len(index.table) - 1)]
            return [(value, np.ones(count, bool))]
        return [(np.full(count, place, np.int64), np.ones(count, bool)) for place in range(size)]
    divides = value % index.divisor == 0 if index.rounding == "exact" else np.ones(count, bool)
    value = value // index.divisor
    ways = []
    for step in range(index.window):
        place = value + step
        if index.clamp:
            ways.append((np.clip(place, 0, size - 1), divides))
        else:
            ways.append((place, divides & (place >= 0) & (place < size)))
    return ways
