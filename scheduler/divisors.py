"""Divisors: the numbers of equal parts into which an extent or some cores can be cut."""

from functools import lru_cache
from math import isqrt


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of ``number``, largest first, in time that grows with its root."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}, reverse=True))
