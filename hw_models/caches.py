"""How many bytes a cache passes on while a nest of loops runs: footprints and reuse distances, no trace.

Caches hold whole lines and forget the one used longest ago. Between two uses of a line, one iteration of some loop
apart, everything that the loop's body touches passes by: that is the reuse distance. If the lines of the body fit,
whatever the loop's iterations have in common is found again, and running the loop once costs the lines that all of it
touches; if they do not fit, every iteration pays for its own lines. Bodies grow outwards, so there is for each array an
outermost loop between whose iterations it stays, and what is fetched is the lines of that loop once for each time that
it is run.

The model was held against an exact simulation of traces (in the tests). It is within 10 % where loops divide and
arrays are touched in boxes. It is off, by up to two fifths, where a body fits only just, or only just does not (within
a factor of 0.75 to 1.5 of the cache): the real cache then keeps a part. Of windows with gaps (a stride larger than the
kernel) the body counts what lies between. Conflicts are those of one array whose rows lie a multiple of the cache's
ways apart; different arrays are taken to lie in different sets.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


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
        share = math.exp(-(1 - share) * times)
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
    still: tuple[frozenset[int], ...] = ()
    """Per array: the loops that go through the same elements of it again; empty where that is not known."""

    @cached_property
    def innermost(self) -> tuple[int, ...]:
        """Per array: the depth of the iterations that touch it."""
        return self.outside or (len(self.trips),) * len(self.is_written)

    @cached_property
    def body_lines(self) -> tuple[float, ...]:
        """By depth: all lines that the loops from there on touch."""
        held = self.held or (0.0,) * len(self.touched)
        return tuple([
            more + sum([lines.count for lines, last in zip(row, self.innermost, strict=True) if depth <= last])
            for depth, (more, row) in enumerate(zip(held, self.touched, strict=True))
        ])  # fmt: skip

    @cached_property
    def reuse_lines(self) -> tuple[tuple[float, ...], ...]:
        """Per array, outwards from the innermost loop that touches it: what passes between its uses, in lines.

        That is the body of the loop; of an array that loops further in go through as a whole in every iteration, it is
        the body of the innermost of these: it was used by the last of them, and is used again by the first.
        """
        found = []
        for place, last in enumerate(self.innermost):
            whole, lines, distances = last, self.touched[last][place].count, []
            for depth in range(last, 0, -1):
                if self.touched[depth][place].count != lines:
                    whole, lines = depth, self.touched[depth][place].count
                distances.append(self.body_lines[whole])
            found.append(tuple(distances))
        return tuple(found)

    @cached_property
    def fetched_once(self) -> tuple[tuple[float, ...], ...]:
        """By depth: per array what the loops from there on fetch if all that they touch stays."""
        now = [self.touched[last][place].count for place, last in enumerate(self.innermost)]
        found = [tuple(now)]
        for depth in range(len(self.trips) - 1, -1, -1):
            for place, lines in enumerate(self.touched[depth]):
                if depth < self.innermost[place]:
                    now[place] = min(lines.count, self.trips[depth] * now[place])
            found.append(tuple(now))
        return tuple(reversed(found))

    @cached_property
    def times(self) -> tuple[int, ...]:
        """By depth: how often the loops from there on are run."""
        return tuple([math.prod(self.trips[:depth]) for depth in range(len(self.touched))])

    @cached_property
    def in_rows(self) -> tuple[tuple[int, int], ...]:
        """Depths and arrays of boxes whose rows may lie in few sets of a cache, innermost first."""
        return tuple(
            (depth, place)
            for depth in range(len(self.trips), 0, -1)
            for place, lines in enumerate(self.touched[depth])
            if depth <= self.innermost[place]
            and lines.runs > _FEW and lines.pitch_lines and lines.pitch_lines % _FEW == 0
        )  # fmt: skip


_FEW = 4
"""Rows as far apart as fewer lines, or fewer rows, find room in every cache that has some ways."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Lines that a cache passes on per array: those that it fetches, those that it writes back."""

    fetched: tuple[float, ...]
    written: tuple[float, ...]

    @property
    def total(self) -> float:
        """Of all arrays, both ways."""
        return sum(self.fetched) + sum(self.written)

    def total_of(self, shares: Sequence[float]) -> float:
        """Return the same where of each array that share is moved."""
        moved = [
            (fetched + written) * share
            for fetched, written, share in zip(self.fetched, self.written, shares, strict=True)
        ]
        return sum(moved)


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
    moving = [{loop for terms in each.terms for loop, _ in terms} for each in accesses]
    still = tuple([frozenset(range(len(trips))) - loops for loops in moving])
    return Nest(tuple(trips), tuple(touched), tuple([each.is_written for each in accesses]), still=still)


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


def passed_on(nest: Nest, cache: CacheShape, *, write_allocate: bool) -> Passed:
    """Return what a cache that begins empty passes on while ``nest`` runs once, all that it wrote written back.

    With ``write_allocate`` a line is fetched before it is first written; else only when the nest comes back to it.
    """
    depths = _stays_between(nest, cache)
    fetched = [nest.times[depth] * nest.fetched_once[depth][place] for place, depth in enumerate(depths)]
    if not cache.forgets_oldest:
        _keep_a_part(nest, cache, depths, fetched)
    if cache.sets > 1 and nest.in_rows:
        _let_rows_conflict(nest, cache, depths, fetched)
    first = (0.0,) * len(fetched) if write_allocate else nest.fetched_once[0]
    written = nest.is_written
    return Passed(
        tuple([count - each * wrote for count, each, wrote in zip(fetched, first, written, strict=True)]),
        tuple([count * wrote for count, wrote in zip(fetched, written, strict=True)]),
    )


def _stays_between(nest: Nest, cache: CacheShape) -> list[int]:
    """Return for each array the depth of the outermost loop between whose iterations it stays."""
    return [len(each) - bisect_right(each, cache.lines) for each in nest.reuse_lines]


def share_of_iterations(nest: Nest, cache: CacheShape) -> float:
    """Return the share of a nest's iterations in which the cache fetches, averaged over what it fetches.

    Of loops that go through the same lines again, and find them, only the first iteration does.
    """
    moved = weighted = 0.0
    for place, depth in enumerate(_stays_between(nest, cache)):
        lines, share = nest.times[depth] * nest.fetched_once[depth][place], 1.0
        for loop in nest.still[place] if nest.still else ():
            if depth <= loop < nest.innermost[place]:
                share /= nest.trips[loop]
        moved += lines
        weighted += lines * share
    return weighted / moved if moved else 1.0


def _keep_a_part(nest: Nest, cache: CacheShape, depths: Sequence[int], fetched: list[float]) -> None:
    """Let arrays that do not quite stay between iterations of a loop be found there in part."""
    for place, depth in enumerate(depths):
        if depth:
            further = nest.reuse_lines[place][nest.innermost[place] - depth]
            fewer = nest.times[depth - 1] * nest.fetched_once[depth - 1][place]
            fetched[place] -= found_again(further / cache.lines) * max(fetched[place] - fewer, 0.0)


def _let_rows_conflict(nest: Nest, cache: CacheShape, depths: Sequence[int], fetched: list[float]) -> None:
    """Let what a set cannot hold of an array's rows be fetched by every iteration around these rows."""
    for depth, place in nest.in_rows:
        share = nest.touched[depth][place].pushed_out(cache) if depth > depths[place] else 0.0
        again = nest.times[depth] * nest.fetched_once[depth][place]
        if share and again > fetched[place]:
            fetched[place] += share * (again - fetched[place])
