"""Nests of loops around arrays: what each loop touches, and what passes by between two uses of a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import mul
from typing import NamedTuple

from dsascape.hw_models.caches.lines import Array, Lines, box_lines

Column = tuple[float, ...]
"""Lines of one array, depth by depth."""


@dataclass(frozen=True)
class Nest:
    """Loops, outermost first, and the lines that they touch. All tuples by array have the same order."""

    trips: tuple[int, ...]
    touched: tuple[tuple[Lines, ...], ...]
    """By depth, one more than loops: per array what the loops from that depth on touch, those outside held still."""
    is_written: tuple[bool, ...]
    """Per array: written, and read again where the nest comes back to it; others are read only."""
    held: tuple[float, ...] = ()
    """By depth: further lines that are used there and of which nothing is passed on, such as a buffer of the tile."""
    outside: tuple[int, ...] = ()
    """Per array: the depth from which on loops leave it alone, as registers have what they need of it; empty where
    every iteration touches every array."""
    axes: tuple[int, ...] = ()
    """What each loop goes along."""
    moved_by: tuple[frozenset[int], ...] = ()
    """Per array: the axes along which there are other elements of it; empty where that is not known."""
    passes: tuple[tuple[int, ...], ...] = ()
    """Per array: which passes over what the innermost loop touches use it, where its body is several passes that
    follow each other; empty where the body uses each array once."""

    @cached_property
    def derived(self) -> "Derived":
        """All that follows from trips and lines touched, worked out at once."""
        trips, depths = self.trips, len(self.touched)
        innermost = self.outside or (len(trips),) * len(self.is_written)
        columns = tuple(zip(*[[lines.count for lines in row] for row in self.touched], strict=True))
        body = [0.0] * depths
        for column, last in zip(columns, innermost, strict=True):
            for depth in range(last + 1):
                body[depth] += column[depth]
        if self.held:
            body = [more + lines for more, lines in zip(self.held, body, strict=True)]
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
        """Per array: the depth of the iterations that touch it."""
        return self.derived.innermost

    @property
    def columns(self) -> tuple[Column, ...]:
        """Per array, by depth: the lines touched."""
        return self.derived.columns

    @property
    def body_lines(self) -> Column:
        """By depth: all lines that the loops from there on touch."""
        return self.derived.body_lines

    @property
    def reuse_lines(self) -> tuple[Column, ...]:
        """Per array, outwards from the innermost loop that touches it: what passes between its uses, in lines.

        That is the body of the loop; of an array that loops further in go through as a whole in every iteration, it is
        the body of the innermost of these: it was used by the last of them, and is used again by the first.
        """
        return self.derived.reuse_lines

    @property
    def fetched_once(self) -> tuple[Column, ...]:
        """Per array, down to the innermost loop that touches it: what the loops from a depth on fetch if all stays."""
        return self.derived.fetched_once

    @property
    def times(self) -> tuple[int, ...]:
        """By depth: how often the loops from there on are run."""
        return self.derived.times

    @cached_property
    def scattered(self) -> tuple[float, ...]:
        """Per array: the share of its lines that do not follow another one, as they are first touched.

        Read off the innermost loops that touch as much as a page: what comes later is too late to be foreseen.
        """
        found, touched = [], self.touched
        for place, last in enumerate(self.innermost):
            box = touched[last][place]
            depth = last
            while box.count < _PAGE_LINES and depth:
                depth -= 1
                box = touched[depth][place]
            found.append(min(box.jumps / box.count, 1.0) if box.count else 0.0)
        return tuple(found)

    @cached_property
    def repeats(self) -> tuple[Column, ...]:
        """Per array, for each pass that uses it after another one: what passes by since then, in lines.

        Of what only one of the two passes uses besides, half has passed by, as neither has come to its end.
        """
        if not self.passes:
            return ()
        bodies = [column[last] for column, last in zip(self.columns, self.innermost, strict=True)]
        found = []
        for own, used in enumerate(self.passes):
            distances = []
            for before, now in pairwise(used):
                passed = 0.0
                for other, (lines, uses) in enumerate(zip(bodies, self.passes, strict=True)):
                    between = any(before < each < now for each in uses) or (before in uses and now in uses)
                    at_ends = before in uses or now in uses
                    passed += lines if between or other == own else lines / 2 if at_ends else 0.0
                distances.append(passed)
            found.append(tuple(distances))
        return tuple(found)

    @cached_property
    def in_rows(self) -> tuple[tuple[int, int], ...]:
        """Depths and arrays of boxes whose rows may lie in few sets of a cache, innermost first."""
        innermost = self.innermost
        return tuple([
            (depth, place)
            for depth in range(len(self.trips), 0, -1)
            for place, lines in enumerate(self.touched[depth])
            if lines.pitch_lines and lines.runs > _FEW and not lines.pitch_lines % _FEW
            and depth <= innermost[place]
        ])  # fmt: skip


class Derived(NamedTuple):
    """What follows from a nest's trips and the lines that it touches: see the properties of the same names."""

    innermost: tuple[int, ...]
    columns: tuple[Column, ...]
    body_lines: Column
    reuse_lines: tuple[Column, ...]
    fetched_once: tuple[Column, ...]
    times: tuple[int, ...]


_PAGE_LINES = 64
"""As far as caches look ahead for what may be fetched next: most stay within a page."""
_FEW = 4
"""Rows as far apart as fewer lines, or fewer rows, find room in every cache that has some ways."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a nest does with an array, as affine expressions of its loops."""

    array: Array
    terms: tuple[tuple[tuple[int, int], ...], ...]
    """Per dimension: loops and their strides in elements; windows are two loops in one dimension."""
    is_written: bool = False

    def extents(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Return how many elements per dimension ``counts`` iterations of the loops reach."""
        reached = [1 + sum([stride * (counts[loop] - 1) for loop, stride in terms]) for terms in self.terms]
        return tuple(map(min, reached, self.array.shape))


def nest_of(trips: Sequence[int], accesses: Sequence[Access], line_bytes: int) -> Nest:
    """Return the nest of loops of ``trips`` iterations, outermost first, around ``accesses``: one for each array."""
    touched = []
    for depth in range(len(trips) + 1):
        counts = [1] * depth + list(trips[depth:])
        touched.append(tuple([box_lines(each.array, each.extents(counts), line_bytes) for each in accesses]))
    moved_by = tuple([frozenset(loop for terms in each.terms for loop, _ in terms) for each in accesses])
    written = tuple([each.is_written for each in accesses])
    return Nest(tuple(trips), tuple(touched), written, axes=tuple(range(len(trips))), moved_by=moved_by)
