"""Kind of mapping between what a loop nest reads and what it writes, from its access maps alone."""

from typing import Literal

from dsascape.workloads.loopnest import Access, LoopNest


def is_view(nest: LoopNest) -> bool:
    """Whether the nest only renames elements, which keep their order in memory: no data has to move."""
    if nest.per_iteration or nest.per_output or len(nest.reads) != 1 or nest.has_reduction:
        return False
    return _linear(nest, nest.reads[0]) == _linear(nest, nest.write) is not None


def _linear(nest: LoopNest, access: Access) -> tuple[int, tuple[int, ...]] | None:
    """Return the row-major address as (offset, coefficient per loop of more than one iteration)."""
    offset, coefficients, pitch = 0, [0] * len(nest.loops), 1
    for index, size in zip(reversed(access.indices), reversed(access.shape), strict=True):
        if index.opaque or index.divisor != 1 or index.window != 1:
            return None
        offset += index.offset * pitch
        for loop, stride in index.terms:
            coefficients[loop] += stride * pitch
        pitch *= size
    relevant = (0 if loop.extent == 1 else c for c, loop in zip(coefficients, nest.loops, strict=True))
    return offset, tuple(relevant)


Mapping = Literal["elementwise", "broadcast", "injective", "reduction", "contraction"]


def mapping_of(nest: LoopNest) -> Mapping:
    """Classify how output elements depend on inputs, from the access maps alone.

    contraction: multiply-accumulate over a reduction; reduction: any other reduction, also a running one;
    elementwise: some read has the map of the write and the others broadcast; broadcast: every read is a broadcast;
    injective: elements move.
    """
    if nest.per_iteration.macs and nest.has_reduction:
        return "contraction"
    if nest.has_reduction:
        return "reduction"
    written = nest.write.indices
    moving = {loop for index in written for loop, _ in index.terms}
    kinds = set()
    for read in nest.reads:
        if read.shape == nest.write.shape and read.indices == written:
            kinds.add("elementwise")
        elif _is_broadcast(read, nest, moving):
            kinds.add("broadcast")
        else:
            return "injective"
    return "elementwise" if "elementwise" in kinds else "broadcast"


def _is_broadcast(read: Access, nest: LoopNest, moving: set[int]) -> bool:
    """Whether ``read`` has the write's indices, aligned at the innermost dimension, or stays put."""
    for index, target in zip(reversed(read.indices), reversed(nest.write.indices), strict=False):
        if index != target and (index.terms or index.offset):
            return False
    return all(loop in moving for index in read.indices for loop, _ in index.terms)
