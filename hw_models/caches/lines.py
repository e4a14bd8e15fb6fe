"""Cache lines touched by boxes of arrays, conflicts between them, and replacement models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

PAGE_LINES = 64
"""Lines of a page: 4 KiB. Hardware prefetchers mostly stay within one, and its lines lie in sets next to each other."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Capacity and organisation of one cache, as available to a loop nest."""

    lines: int
    """Capacity in lines."""
    sets: int = 1
    """Number of sets, selected by address; 1 for a fully associative cache, or if a hash selects the set."""
    is_lru: bool = True
    """Whether replacement is exact LRU; real caches only approximate that."""
    is_randomly_placed: bool = False
    """Whether lines are placed in sets at random, by page allocation or a hash (`random_placement_hit_rate`); otherwise
    adjacent lines lie in adjacent sets."""

    @property
    def ways(self) -> int:
        """Associativity: lines per set."""
        return self.lines // self.sets

    def of_cores(self, cores: int) -> "CacheShape":
        """Return the share of one of ``cores`` that use the cache equally."""
        return self if cores == 1 else replace(self, lines=self.lines // cores)

    def keeps(self, passed: float) -> float:
        """Return the hit rate of data used again at a reuse distance of ``passed`` lines, its own included."""
        if self.is_randomly_placed:
            return random_placement_hit_rate(passed / self.lines)
        if self.is_lru:
            return float(passed <= self.lines)
        return random_replacement_hit_rate(passed / self.lines)


@dataclass(frozen=True, slots=True)
class Lines:
    """Cache lines of a box (tile) of an array."""

    count: float
    """Lines touched; fractional where averaged over the offsets within a line at which boxes begin."""
    runs: int = 1
    """Number of runs of consecutive bytes, all equally long."""
    pitch_lines: int = 0
    """Distance between runs in lines; 0 if that is not a whole number."""
    jumps: float = 0.0
    """Number of non-sequential lines: those that do not follow another line of the box."""

    def conflict_share(self, cache: CacheShape) -> float:
        """Return the share of lines that conflicts with other lines of this box evict before they are used again.

        Where lines are placed at random, that holds for whole pages: lines at the same place in pages share few sets.
        """
        if cache.sets == 1 or self.runs <= cache.ways or not self.pitch_lines:
            return 0.0
        if cache.is_randomly_placed:
            page = min(PAGE_LINES, cache.sets)
            offsets = page // math.gcd(self.pitch_lines, page) * math.ceil(self.count / self.runs)
            if offsets >= page:
                return 0.0
            return 1 - random_placement_hit_rate(self.count * page / (offsets * cache.lines))
        places = cache.sets // math.gcd(self.pitch_lines, cache.sets)
        reached = min(places * math.ceil(self.count / self.runs), cache.sets)
        held = reached * cache.ways
        if cache.is_lru:
            return float(self.count > held)
        return 1 - random_replacement_hit_rate(self.count / held)


def random_placement_hit_rate(times: float) -> float:
    """Return the hit rate of a working set of ``times`` the cache's capacity that is used cyclically.

    Lines are placed in sets at random: some sets overflow even if the working set is smaller than the cache. The number
    of lines per set has a Poisson distribution. A full set keeps the share `_kept_of_set`: less than with random
    replacement, more than with exact LRU.
    """
    place = times * _STEPS
    below = int(place)
    rates = _hit_rates()
    if below >= len(rates) - 1:
        return 0.0
    return rates[below] + (place - below) * (rates[below + 1] - rates[below])


_WAYS = 16
"""Associativity assumed for caches with random placement: that of most L2 and shared caches; others differ little."""
_STEPS = 64
"""Resolution of the tabulated hit rate, in steps per cache capacity."""
MOST_TIMES = 4
"""Working set, in cache capacities, from which on the hit rate is 0."""
_PSEUDO_LRU_EXPONENT = 3
"""Exponent that turns the hit rate of random replacement into that of pseudo-LRU: read off arrays of half to
three times an L2 cache (2 MiB, 16 ways), within 0.03."""


def _kept_of_set(times: float) -> float:
    """Return the hit rate of one set for ``times`` as many lines as it holds, used cyclically."""
    return random_replacement_hit_rate(times) ** _PSEUDO_LRU_EXPONENT


def random_replacement_hit_rate(times: float) -> float:
    """Return the hit rate of ``times`` the capacity, used cyclically, with random replacement.

    A line survives n replacements among m lines with probability e^-(n / m); the hit rate is the fixed point of that.
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
"""Iterations after which the fixed point no longer changes in its significant digits."""


def _hit_rate(times: float) -> float:
    """Return `random_placement_hit_rate`: the mean hit rate of a line, whose set has a Poisson number of others."""
    mean = times * _WAYS
    chance = math.exp(-mean)
    share = 0.0
    for others in range(int(mean + _WAYS * math.sqrt(mean)) + _WAYS):
        share += chance * _kept_of_set((others + 1) / _WAYS)
        chance *= mean / (others + 1)
    return round(share, 3)


@cache
def _hit_rates() -> Sequence[float]:
    """Return the hit rates of working sets of 0, 1, 2 ... / ``_STEPS`` capacities, up to a hit rate of 0."""
    return tuple([_hit_rate(step / _STEPS) for step in range(MOST_TIMES * _STEPS)] + [0.0])


@dataclass(frozen=True, slots=True)
class Array:
    """Array in memory, its dimensions outermost first."""

    shape: tuple[int, ...]
    element_bytes: float
    """Bytes of one element in the mean: a half, where two share a byte."""
    is_packed: bool = False
    """Whether tiles are contiguous, as for constants that are reordered before the program runs."""


def box_lines(array: Array, extents: Sequence[int], line_bytes: int) -> Lines:
    """Return the lines of a box of ``extents`` elements per dimension, averaged over its start offset within a line.

    Arrays begin at a line boundary; boxes begin at multiples of their own extent, as tiles do.
    """
    if array.element_bytes < 1:  # in parts of a byte, of which a line has more
        each = round(1 / array.element_bytes)
        return box_lines(Array(array.shape, 1, array.is_packed), extents, line_bytes * each)
    element_bytes = round(array.element_bytes)
    size_bytes = math.prod(extents) * element_bytes
    if array.is_packed:
        return Lines(max(size_bytes / line_bytes, 1.0)) if size_bytes else Lines(0.0)
    if not size_bytes:
        return Lines(0.0)
    run, pitch, runs, row = element_bytes, element_bytes, 1, 0
    span = element_bytes
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
    separate, contiguous = ((run - step) / line_bytes + 1) * runs, (span - step) / line_bytes + 1
    if contiguous <= separate:  # runs closer than a line share lines
        return Lines(contiguous, runs, row_lines)
    return Lines(separate, runs, row_lines, float(runs))
