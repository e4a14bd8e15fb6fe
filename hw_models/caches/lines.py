"""The lines that boxes of arrays take of a cache, and how many of them lie in each other's way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What a nest has of one cache."""

    lines: int
    """That it holds."""
    sets: int = 1
    """Into which lines are sorted by their address; 1 where any line may lie anywhere, or a hash chooses."""
    forgets_oldest: bool = True
    """Whether a full set gives up the line that was used longest ago; real ones only come near to that, and keep some
    of what is read in turns and is more than they hold."""

    @property
    def ways(self) -> int:
        """Lines of one set."""
        return self.lines // self.sets


@dataclass(frozen=True, slots=True)
class Lines:
    """What a box of an array takes of a cache."""

    count: float
    """Lines touched; not whole where boxes begin at all places of a line by turns."""
    runs: int = 1
    """Of consecutive bytes, one like the other."""
    pitch_lines: int = 0
    """From one run to the next, if that is a whole number of lines."""

    def pushed_out(self, cache: CacheShape) -> float:
        """Return the share of lines that others of this box push out of their sets before they are used again."""
        if cache.sets == 1 or self.runs <= cache.ways or not self.pitch_lines:
            return 0.0
        places = cache.sets // math.gcd(self.pitch_lines, cache.sets)
        reached = min(places * math.ceil(self.count / self.runs), cache.sets)
        held = reached * cache.ways
        if cache.forgets_oldest:
            return float(self.count > held)
        return 1 - found_again(self.count / held)


def found_again(times: float) -> float:
    """Return the share of what is used in turns, ``times`` as much as a cache holds, that it still has.

    Of a cache that replaces any line with equal chance: a line survives so many replacements with e^-(those by lines).
    """
    if times <= 1:
        return 1.0
    share = 0.0
    for _ in range(_ROUNDS):
        before, share = share, math.exp(-(1 - share) * times)
        if share == before:
            break
    return share


_ROUNDS = 60
"""After which the share no longer changes in its digits that count."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array, its dimensions as they lie in memory, outermost first."""

    shape: tuple[int, ...]
    element_bytes: int
    is_packed: bool = False
    """Whether what is read together lies together: constants are put in order before the program runs."""


def box_lines(array: Array, extents: Sequence[int], line_bytes: int) -> Lines:
    """Return the lines of a box of ``extents`` elements per dimension, averaged over where in a line it may begin.

    Arrays begin with a line; boxes begin at multiples of their own extent, as tiles do.
    """
    size_bytes = math.prod(extents) * array.element_bytes
    if array.is_packed:
        return Lines(max(size_bytes / line_bytes, 1.0)) if size_bytes else Lines(0.0)
    if not size_bytes:
        return Lines(0.0)
    run, pitch, runs, row = array.element_bytes, array.element_bytes, 1, 0
    span = array.element_bytes
    is_whole = True
    for size, extent in zip(reversed(array.shape), reversed(extents), strict=True):
        if is_whole:
            run = pitch * extent
        elif extent > 1:
            row = row or pitch
            runs *= extent
        is_whole = is_whole and extent == size
        span += (extent - 1) * pitch
        pitch *= size
    if is_whole:
        return Lines(float(-(-run // line_bytes)))
    step = math.gcd(run, row, line_bytes)
    row_lines = row // line_bytes if row % line_bytes == 0 else 0
    apart, together = ((run - step) / line_bytes + 1) * runs, (span - step) / line_bytes + 1
    return Lines(min(apart, together), runs, row_lines)  # runs closer than a line share lines
