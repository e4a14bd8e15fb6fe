"""Misses and write-backs of a cache while a loop nest runs, from footprints and reuse distances, without a trace.

Caches hold whole lines and evict the least recently used one. Between two uses of a line, one iteration of some loop
apart, everything that the loop's body touches is accessed: that is the reuse distance. If the lines of the body fit,
the data that iterations share hits, and running the loop once fetches the lines that all of it touches; if they do not
fit, every iteration fetches its own lines. Bodies grow outwards, so each array has an outermost loop across whose
iterations it stays cached, and the lines fetched are those of that loop times the number of times that it runs.

With random placement of lines there is no such threshold: data that iterations share hits at a rate between 0 and 1.

The model was compared with an exact trace simulation (in the tests). It is within 10 % where loops divide and arrays
are accessed in boxes. It is off by up to two fifths where a body only just fits, or only just does not (within a factor
of 0.75 to 1.5 of the cache): the real cache then keeps a part. For windows with gaps (a stride larger than the kernel)
the body includes the gaps. Conflicts are modelled within one array whose row pitch maps its rows to few sets; different
arrays are assumed to lie in different sets.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models.caches.lines import CacheShape, random_placement_hit_rate, random_replacement_hit_rate
from dsascape.hw_models.caches.nests import Nest


@dataclass(frozen=True, slots=True)
class Passed:
    """Traffic of a cache with the next outer level, in lines per array: fetched (misses) and written back."""

    fetched: tuple[float, ...]
    written: tuple[float, ...]

    @property
    def total(self) -> float:
        """Lines of all arrays, fetched and written back."""
        return sum(self.fetched) + sum(self.written)

    def total_of(self, shares: Sequence[float]) -> float:
        """Return the total in lines with each array weighted by its entry in ``shares``."""
        moved = [
            (fetched + written) * share
            for fetched, written, share in zip(self.fetched, self.written, shares, strict=True)
        ]
        return sum(moved)


def passed_on(nest: Nest, cache: CacheShape, *, write_allocate: bool) -> Passed:
    """Return the traffic of a cache that begins empty while ``nest`` runs once, including all write-backs.

    With ``write_allocate`` a line is fetched before it is first written; otherwise only when the nest returns to it.
    """
    has_conflicts = cache.sets > 1 and bool(nest.in_rows)
    depths = _stays_between(nest, cache) if has_conflicts or not cache.is_randomly_placed else []
    times, once = nest.times, nest.fetched_once
    if cache.is_randomly_placed:
        fetched = _fetched_by_chance(nest, cache)
    else:
        fetched = [times[depth] * own[depth] for depth, own in zip(depths, once, strict=True)]
        if not cache.is_lru:
            _keep_a_part(nest, cache, depths, fetched)
    if has_conflicts:
        _let_rows_conflict(nest, cache, depths, fetched)
    written = tuple([count if wrote else 0.0 for count, wrote in zip(fetched, nest.is_written, strict=True)])
    if not write_allocate:
        first = [own[0] if wrote else 0.0 for own, wrote in zip(once, nest.is_written, strict=True)]
        fetched = [count - each for count, each in zip(fetched, first, strict=True)]
    return Passed(tuple(fetched), written)


def _stays_between(nest: Nest, cache: CacheShape) -> list[int]:
    """Return per array the depth of the outermost loop across whose iterations it stays cached."""
    lines = cache.lines
    return [len(each) - bisect_right(each, lines) for each in nest.reuse_lines]


def _fetched_by_chance(nest: Nest, cache: CacheShape) -> list[float]:
    """Return the lines fetched per array with random placement, where the hit rate falls with the reuse distance.

    Starts from the lines that every iteration touches, and subtracts for each enclosing loop the hits on data that its
    iterations share.
    """
    fetched = []
    innermost, _, _, reuse_lines, fetched_once, times = nest.derived
    trips, room = nest.trips, cache.lines
    for distances, once, last in zip(reuse_lines, fetched_once, innermost, strict=True):
        lines = times[last] * once[last]
        before, share = -1.0, 0.0
        depth = last
        for distance in distances:
            again = trips[depth - 1] * once[depth] - once[depth - 1]
            depth -= 1
            if again > 0:
                if distance != before:
                    before, share = distance, random_placement_hit_rate(distance / room)
                lines -= times[depth] * again * share
        fetched.append(lines)
    return fetched


def _keep_a_part(nest: Nest, cache: CacheShape, depths: Sequence[int], fetched: list[float]) -> None:
    """Reduce ``fetched`` for arrays that only just do not stay cached across a loop: a part of them still hits."""
    for place, depth in enumerate(depths):
        if depth:
            fewer = nest.times[depth - 1] * nest.fetched_once[place][depth - 1]
            if fewer < fetched[place]:
                further = nest.reuse_lines[place][-depth]
                fetched[place] -= random_replacement_hit_rate(further / cache.lines) * (fetched[place] - fewer)


def _let_rows_conflict(nest: Nest, cache: CacheShape, depths: Sequence[int], fetched: list[float]) -> None:
    """Raise ``fetched`` for arrays with row conflicts: evicted rows are fetched again in every enclosing iteration."""
    for depth, place in nest.in_rows:
        share = nest.touched[depth][place].conflict_share(cache) if depth > depths[place] else 0.0
        again = nest.times[depth] * nest.fetched_once[place][depth]
        if share and again > fetched[place]:
            fetched[place] += share * (again - fetched[place])
