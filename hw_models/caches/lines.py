"""The lines that boxes of arrays take of a cache, and how many of them lie in each other's way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What a nest has of one cache."""

    lines: int
    """That it holds."""
    sets: int = 1
    """Into which lines are sorted by their address; 1 where any line may lie anywhere, or a hash chooses."""
    forgets_oldest: bool = True
    """Whether a full set gives up the line that was used longest ago; real ones only come near to that."""
    by_chance: bool = False
    """Whether lines lie in sets by chance, as pages or a hash put them (`found_again`); else neighbouring lines lie in
    neighbouring sets."""

    @property
    def ways(self) -> int:
        """Lines of one set."""
        return self.lines // self.sets

    def of_cores(self, cores: int) -> "CacheShape":
        """Return what one of ``cores`` that use it alike has of it."""
        return self if cores == 1 else replace(self, lines=self.lines // cores)

    def keeps(self, passed: float) -> float:
        """Return the share that it still has of what was used before ``passed`` lines went by, itself among them."""
        if self.by_chance:
            return found_again(passed / self.lines)
        if self.forgets_oldest:
            return float(passed <= self.lines)
        return kept_at_random(passed / self.lines)


@dataclass(frozen=True, slots=True)
class Lines:
    """What a box of an array takes of a cache."""

    count: float
    """Lines touched; not whole where boxes begin at all places of a line by turns."""
    runs: int = 1
    """Of consecutive bytes, one like the other."""
    pitch_lines: int = 0
    """From one run to the next, if that is a whole number of lines."""
    jumps: float = 0.0
    """Of the lines: those that do not follow another one of the box."""

    def pushed_out(self, cache: CacheShape) -> float:
        """Return the share of lines that others of this box push out of their sets before they are used again."""
        if cache.sets == 1 or self.runs <= cache.ways or not self.pitch_lines:
            return 0.0
        places = cache.sets // math.gcd(self.pitch_lines, cache.sets)
        reached = min(places * math.ceil(self.count / self.runs), cache.sets)
        held = reached * cache.ways
        if cache.forgets_oldest:
            return float(self.count > held)
        return 1 - kept_at_random(self.count / held)


def found_again(times: float) -> float:
    """Return the share of what is used in turns, ``times`` as much as a cache holds, that it still has.

    Of a cache in which lines lie by chance: some sets get more than they hold, even where all is less than the whole
    cache holds. How many lines a set gets has Poisson's distribution. What a full set keeps is `_kept_of_set`: less
    than if any line might be replaced, and more than if always the oldest were.
    """
    place = times * _STEPS
    below = int(place)
    found = _found_by_step()
    if below >= len(found) - 1:
        return 0.0
    return found[below] + (place - below) * (found[below + 1] - found[below])


_WAYS = 16
"""Of caches in which lines lie by chance: of most second and shared ones, and of others it is about the same."""
_STEPS = 64
MOST_TIMES = 4
"""As much used in turns as a cache holds so many times leaves nothing to be found again."""
_NEARER_THE_OLDEST = 3
"""Power of the share that replacing any line would leave, for replacement that comes near to the oldest: read off
arrays of half to three times a second cache (2 MiB in 16 ways), of which it comes within 0.03."""


def _kept_of_set(times: float) -> float:
    """Return the share that one set keeps of ``times`` as many lines as it holds, used in turns."""
    return kept_at_random(times) ** _NEARER_THE_OLDEST


def kept_at_random(times: float) -> float:
    """Return the share that is kept of ``times`` as much as there is room for, used in turns, if any may be replaced.

    A line survives so many replacements with e^-(those by lines).
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


def _found(times: float) -> float:
    """Return `found_again` of lines whose set gets a number of others, by Poisson's distribution, besides them."""
    mean = times * _WAYS
    chance = math.exp(-mean)
    share = 0.0
    for others in range(int(mean + _WAYS * math.sqrt(mean)) + _WAYS):
        share += chance * _kept_of_set((others + 1) / _WAYS)
        chance *= mean / (others + 1)
    return round(share, 3)


@cache
def _found_by_step() -> Sequence[float]:
    """Return `_found` of 0, 1, 2 and so on of ``_STEPS``, up to where nothing is found again."""
    return tuple([_found(step / _STEPS) for step in range(MOST_TIMES * _STEPS)] + [0.0])


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
    if together <= apart:  # runs closer than a line share lines
        return Lines(together, runs, row_lines)
    return Lines(apart, runs, row_lines, float(runs))
