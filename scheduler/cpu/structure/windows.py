"""Loops of a nest and what they move: windows, dimensions that both operands have, neighbours that find the same."""

from collections.abc import Collection, Mapping, Sequence

from dsascape.workloads.loopnest import Access, Extents, LoopNest
from dsascape.workloads.spaced import Spaced


def is_in_window(nest: LoopNest, read: Access, loop: int) -> bool:
    """Whether a loop reaches over the edge of what is read, or another moves by less than all of it."""
    index = next(index for index in read.indices if loop in dict(index.terms))
    low, high = index.span([(0, each.extent) for each in nest.loops])
    others = [stride for other, stride in index.terms if other != loop and nest.loops[other].extent > 1]
    size = read.shape[read.indices.index(index)]
    return low < 0 or high > size or any(stride < nest.loops[loop].extent for stride in others)


def has_depth(nest: LoopNest, reduction: Sequence[int]) -> bool:
    """Whether both operands of a product have a dimension along which it adds up, all of it and nothing between."""
    left, right = nest.reads[0], nest.reads[1] if nest.reads[1:] else nest.reads[0]
    return any(left.uses(loop) and right.uses(loop) and not is_in_window(nest, left, loop) for loop in reduction)


def periods_of(
    read: Access, loops_of_dim: Sequence[Collection[int]], spaced: Mapping[int, Spaced]
) -> tuple[tuple[int, int], ...]:
    """Return how many neighbours along each dimension meet iterations of their own, where these alone choose."""
    return tuple([
        (dim, each.period)
        for dim, loops in enumerate(loops_of_dim)
        for each in spaced.values()
        if read.uses(each.loop) and each.rest.terms == tuple([(loop, 1) for loop in loops])
        and not any(map(read.uses, loops))
    ])  # fmt: skip


def runs_in_parts_of(read: Access, written: Access, extents: Extents) -> tuple[tuple[int, int], ...]:
    """Return the neighbours along each written dimension that find the same, as only outer ones of its loops move it.

    Query heads that share keys and values are an example: the inner loop goes over them.
    """
    found = []
    for dim, index in enumerate(written.indices):
        moving = [stride for loop, stride in index.terms if extents[loop] > 1 and read.uses(loop)]
        if moving and min(moving) > 1:
            found.append((dim, min(moving)))
    return tuple(found)


def runs_of(
    read: Access, loops_of_dim: Sequence[Collection[int]], spaced: Mapping[int, Spaced]
) -> tuple[tuple[int, int], ...]:
    """Return how many neighbours along each dimension find the same element, each by iterations of its own."""
    return tuple([
        (dim, each.period)
        for dim, loops in enumerate(loops_of_dim)
        for each in spaced.values()
        if each.index in read.indices and each.rest.terms == tuple([(loop, 1) for loop in loops])
        and abs(dict(each.index.terms)[each.loop]) == 1
    ])  # fmt: skip
