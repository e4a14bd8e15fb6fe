"""Loop nests around arrays: lines touched per loop, and reuse distances."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from dsascape.hw_models.caches.lines import Array, Lines, box_lines

Column = tuple[float, ...]
"""Number of cache lines of one array, per loop depth."""


@dataclass(frozen=True)
class Nest:
    """Loops, outermost first, and the lines that they touch. All per-array tuples have the same order."""

    trips: tuple[int, ...]
    """Trip count of each loop."""
    touched: tuple[tuple[Lines, ...], ...]
    """Per depth (one more than loops) and array, lines touched by the loops from there inwards, outer ones fixed."""
    is_written: tuple[bool, ...]
    """Per array, whether it is written (and read again where the nest returns to it); others are only read."""
    outside: tuple[int, ...] = ()
    """Per array, the depth from which on loops do not touch it because it is held in registers; empty if every
    iteration touches every array."""
    axes: tuple[int, ...] = ()
    """Iteration axis of each loop."""
    moved_by: tuple[frozenset[int], ...] = ()
    """Per array, the axes that index it; empty if unknown."""
    @cached_property
    def derived(self) -> "Derived":
        """Quantities that follow from trip counts and lines touched, computed together."""
        trips, depths = self.trips, len(self.touched)
        innermost = self.outside or (len(trips),) * len(self.is_written)
        columns = tuple(zip(*[[lines.count for lines in row] for row in self.touched], strict=True))
        body = [0.0] * depths
        for column, last in zip(columns, innermost, strict=True):
            for depth in range(last + 1):
                body[depth] += column[depth]
        reuse, fetched = [], []
        for column, last in zip(columns, innermost, strict=True):
            whole, lines, distances = last, column[last], []
            own = lines
            once = [own]
            for depth in range(last, 0, -1):
                if column[depth] != lines:
                    whole, lines = depth, column[depth]
                distances.append(body[whole])
                own = min(column[depth - 1], trips[depth - 1] * own)
                once.append(own)
            once.reverse()
            reuse.append(tuple(distances))
            fetched.append(tuple(once))
        times = tuple(accumulate(trips, mul, initial=1))
        return Derived(innermost, columns, tuple(body), tuple(reuse), tuple(fetched), times)

    @property
    def innermost(self) -> tuple[int, ...]:
        """Per array, the depth of the innermost loop that touches it."""
        return self.derived.innermost

    @property
    def columns(self) -> tuple[Column, ...]:
        """Lines touched, per array and depth."""
        return self.derived.columns

    @property
    def body_lines(self) -> Column:
        """Working set per depth: lines that the loops from there inwards touch, over all arrays."""
        return self.derived.body_lines

    @property
    def reuse_lines(self) -> tuple[Column, ...]:
        """Reuse distances in lines, per array and loop, outwards from the innermost loop that touches it.

        The distance is the working set of the loop's body. For an array that inner loops traverse completely in every
        iteration, it is the body of the innermost of these: the last iteration used it, the first uses it again.
        """
        return self.derived.reuse_lines

    @property
    def fetched_once(self) -> tuple[Column, ...]:
        """Lines fetched by the loops from a depth inwards if nothing is evicted, per array and depth."""
        return self.derived.fetched_once

    @property
    def times(self) -> tuple[int, ...]:
        """Per depth, how often the loops from there inwards are run."""
        return self.derived.times

    @cached_property
    def in_rows(self) -> tuple[tuple[int, int], ...]:
        """Pairs of depth and array whose rows may conflict in few sets of a cache, innermost first."""
        innermost = self.innermost
        return tuple([
            (depth, place)
            for depth in range(len(self.trips), 0, -1)
            for place, lines in enumerate(self.touched[depth])
            if lines.pitch_lines and lines.runs > _FEW and not lines.pitch_lines % _FEW
            and depth <= innermost[place]
        ])  # fmt: skip


class Derived(NamedTuple):
    """Quantities derived from a nest's trip counts and lines; see the properties of the same names."""

    innermost: tuple[int, ...]
    columns: tuple[Column, ...]
    body_lines: Column
    reuse_lines: tuple[Column, ...]
    fetched_once: tuple[Column, ...]
    times: tuple[int, ...]


_FEW = 4
"""Threshold for conflicts: a smaller row pitch in lines, or fewer rows, fit every set-associative cache."""


@dataclass(frozen=True, slots=True)
class Access:
    """Access of a nest to an array, as affine expressions of its loops."""

    array: Array
    terms: tuple[tuple[tuple[int, int], ...], ...]
    """Per dimension, pairs of a loop and its stride in elements; a sliding window has two loops in one dimension."""
    is_written: bool = False

    def extents(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Return the extent in elements per dimension that ``counts`` iterations of the loops access."""
        reached = [1 + sum([stride * (counts[loop] - 1) for loop, stride in terms]) for terms in self.terms]
        return tuple(map(min, reached, self.array.shape))


def nest_of(trips: Sequence[int], accesses: Sequence[Access], line_bytes: int) -> Nest:
    """Return the nest of loops with ``trips`` iterations, outermost first, around ``accesses``, one per array."""
    touched = []
    for depth in range(len(trips) + 1):
        counts = [1] * depth + list(trips[depth:])
        touched.append(tuple([box_lines(each.array, each.extents(counts), line_bytes) for each in accesses]))
    moved_by = tuple([frozenset(loop for terms in each.terms for loop, _ in terms) for each in accesses])
    written = tuple([each.is_written for each in accesses])
    return Nest(tuple(trips), tuple(touched), written, axes=tuple(range(len(trips))), moved_by=moved_by)
