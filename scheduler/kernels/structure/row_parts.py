"""Parts that rows of a concatenation consist of: vectors lie inside of one each, so that no lane has to choose."""

import itertools

from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized

_MOST_PARTS = 16
"""Parts of a row up to which each has code of its own."""


@memoized
def lengths_of_parts(layer: Layer, shape: Extents, dim: int) -> tuple[int, ...]:
    """Return the elements along a dimension of the parts that tensors of ``shape`` are written in, first to last.

    What is computed element by element from a tensor that is put together has the same shape, and reads one part
    within each. One that is not put together along this dimension, or of too many parts for code of their own, has one.
    """
    borders = {0, shape[dim]}
    for compiled in layer.nests:
        nest = compiled.nest
        if compiled.target in layer.put_together and nest.write.shape == shape:
            borders |= set(nest.write.indices[dim].span([(0, loop.extent) for loop in nest.loops]))
    inside = sorted(each for each in borders if 0 <= each <= shape[dim])
    lengths = tuple([end - begin for begin, end in itertools.pairwise(inside)])
    return lengths if len(lengths) <= _MOST_PARTS else (shape[dim],)
