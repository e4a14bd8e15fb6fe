"""Partial sums of a reduction whose elements lie together."""

from dsascape.scheduler.kernels.lanes import halvings


def partial_sums(extent: int, lanes: int) -> int:
    """Return in how many partial sums a reduction of ``extent`` elements that lie together is added up.

    Whole vectors of ``lanes`` elements, up to four of them, or less than one: as many as make the longest chain of
    additions shortest. In a chain are those of one partial sum, the foldings in half, and the elements left over.
    """
    counts = halvings(MOST_VECTORS * lanes)
    return min([count for count in counts if count <= extent], key=lambda count: (_chain(extent, count), -count))


MOST_VECTORS = 4
"""Number of partial sums: as many additions are in flight as one takes cycles on most processors."""


def _chain(extent: int, count: int) -> int:
    return extent // count + count.bit_length() - 1 + extent % count
