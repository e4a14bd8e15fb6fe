"""Division of an extent, or of a number of cores, into equal or nearly equal parts."""

from collections.abc import Iterable
from math import isqrt

from dsascape.workloads.memo import memoized_in_process


@memoized_in_process(4096)
def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of ``number``, largest first, in time that grows with its root."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}, reverse=True))


def splits_evenly_enough(extent: int, parts: int, most_padding: float) -> bool:
    """Return whether ``parts`` parts of equal size, the last one cut short, cover ``extent`` with none empty.

    Their padded sizes may add up to at most ``1 + most_padding`` times ``extent``.
    """
    size = -(-extent // parts)
    if extent % parts == 0:
        return True
    return (parts - 1) * size < extent and size * parts <= extent * (1 + most_padding)


def filled(whole: Iterable[int], part: Iterable[int]) -> float:
    """Return the fraction of the padded parts that holds data, when ``whole`` is cut into parts of ``part`` elements.

    Both are elements per dimension; the result is the product over dimensions of size / padded size.
    """
    share = 1.0
    for extent, size in zip(whole, part, strict=True):
        if size:
            share *= extent / (-(-extent // size) * size)
    return share
