"""Operands of products in shared memory: elements and bytes of their copies, and how many steps are there at a time.

Threads of a block that share a reduction hand over their sums in shared memory, too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dsascape.scheduler.gpu.nests import BlockNest
from dsascape.scheduler.kernels.loops.columns import least
from dsascape.workloads.loopnest import Access, Extents, LoopNest


def copied_shape(nest: BlockNest, operand: int, extents: Sequence[int], step: int) -> Extents:
    """Return the elements of each dimension of an operand's copy, for ``step`` of the depth of ``extents``."""
    stepped = list(extents)
    if nest.depth_loop is not None:
        stepped[nest.depth_loop] = min(step, stepped[nest.depth_loop])
    return tuple(_copied(nest.compiled.nest, nest.compiled.nest.reads[operand], stepped))


def operands_bytes(nest: BlockNest, extents: Sequence[int], step: int) -> tuple[int, int]:
    """Return the bytes of either operand, 0 if it lies in shared memory, for ``step`` of the depth of ``extents``."""
    data, weight = [
        0 if read.source == "shared"
        else math.ceil(math.prod(copied_shape(nest, operand, extents, step)) * read.element_bytes)
        for operand, read in enumerate(nest.reads[:2])
    ]
    return data, weight


def sharing(threads: int, elements: int, iterations: int) -> int:
    """Return how many of a block's threads share a reduction of so many iterations, for each of so many elements.

    They are a power of two, as their sums are put together in halves; each has an iteration at least.
    """
    count = 1
    while 2 * count * elements <= threads and 2 * count <= iterations:
        count *= 2
    return count


def slots(nest: BlockNest, step: int, stages: int) -> int:
    """Return how many steps of the depth are in shared memory or on their way at a time, of ``stages`` at most."""
    return least(stages, -(-nest.depth // step))


def _copied(nest: LoopNest, read: Access, extents: Sequence[int]) -> Iterator[int]:
    """Yield the elements of each dimension that a copy has for so many iterations of each loop, padding included.

    An index that is divided moves with tiles where these are whole multiples of the divisor; else a copy has all that
    the nest ever reads of the dimension, in tiles that stick out, too.
    """
    every = [(0, -(-loop.extent // each) * each) for loop, each in zip(nest.loops, extents, strict=True)]
    for index, size in zip(read.indices, read.shape, strict=True):
        spread = sum([abs(stride) * (extents[loop] - 1) for loop, stride in index.terms])
        if index.opaque or index.table or index.clamp:
            yield size
        elif index.divisor == 1:
            yield spread + index.window
        elif all(
            extents[loop] * stride % index.divisor == 0 or extents[loop] == nest.loops[loop].extent
            for loop, stride in index.terms
        ):
            first = index.offset + sum([min(stride, 0) * (extents[loop] - 1) for loop, stride in index.terms])
            yield (first % index.divisor + spread) // index.divisor + index.window
        else:
            undivided = replace(index, divisor=1, window=1, rounding="floor").span(every)
            yield (undivided[1] - 1) // index.divisor - undivided[0] // index.divisor + index.window
