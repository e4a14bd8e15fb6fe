"""Lengths of vectors: those of a machine, and shorter ones of the same instructions."""

from collections.abc import Iterator


def halvings(lanes: int) -> Iterator[int]:
    """Yield ``lanes`` and its halves, down to one."""
    while lanes > 1:
        yield lanes
        lanes //= 2
    yield 1


def dividing(extent: int, lanes: int) -> int:
    """Return the longest of ``lanes`` and its halvings that divide ``extent``."""
    return next(each for each in halvings(lanes) if extent % each == 0)
