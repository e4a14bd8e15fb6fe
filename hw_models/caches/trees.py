"""Traffic of a cache while a tree of loops runs: several loops may follow each other in the body of another one.

The rules are those of `caches.passing`, where a nest has one loop in each body. Between two uses of a line everything
in between is touched: that is its reuse distance, by which it hits or not (`CacheShape.keeps`). From one iteration to
the next that is what the body touches; from one part of a body to a later one, what the parts touch from there to
there, of which the two at the ends count half where only one of them touches an array.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from dsascape.hw_models.caches.lines import PAGE_LINES, CacheShape, Lines


@dataclass(frozen=True)
class Body:
    """One loop of a program and what each iteration does, one after the other; without children: accesses at once."""

    trips: float
    """Iterations, in the mean; less than one, where it does not run each time."""
    children: tuple["Body", ...]
    once: Mapping[int, Lines]
    """Lines that one iteration touches, by the number of the array."""
    whole: Mapping[int, Lines]
    """Lines that all iterations touch."""
    stored: frozenset[int]
    """Arrays that something in it writes."""
    part: int
    """Part of the program that accesses belong to; of a body with children, of no meaning."""
    executions: tuple[float, ...]
    """Statements run in all iterations, by part."""
    is_moved: frozenset[int] = frozenset()
    """Arrays of which iterations touch other elements, be it in the same lines."""
    trips_of: Mapping[int, float] = field(default_factory=dict)
    """Iterations that count for arrays of which the last iteration touches less than others."""

    @cached_property
    def touching(self) -> Mapping[int, tuple[int, ...]]:
        """By array, which children touch it."""
        found: dict[int, list[int]] = {}
        for place, child in enumerate(self.children):
            for array in child.whole:
                found.setdefault(array, []).append(place)
        return {array: tuple(places) for array, places in found.items()}


@dataclass
class ArrayPassed:
    """Lines of one array that a cache passes on, by part of the program that moves them."""

    fetched: list[float]
    written: list[float]
    at_work: list[float]
    """Share of each part's iterations in which the cache fetches it."""


@dataclass(frozen=True)
class Together:
    """How many more lines several cores touch than one, array by array, and how many there are at most."""

    cores: int = 1
    bounds: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    def lines(self, array: int, count: float) -> float:
        """Return the lines of an array that all cores touch where each touches ``count``."""
        factor, most = self.bounds.get(array, (1.0, float("inf")))
        return min(count * factor, most)


ONE_CORE = Together()


def passed_by(tree: Body, cache: CacheShape, together: Together = ONE_CORE) -> dict[int, ArrayPassed]:
    """Return what passes a cache that begins empty while ``tree`` runs once, by array, write-backs to the end included.

    Every line that is written is fetched first. ``together``: cores that run it at the same pace and share the cache.
    """
    return _Passing(cache, together, len(tree.executions)).of(tree)


class _Passing:
    """What one cache passes on of each body."""

    def __init__(self, cache: CacheShape, together: Together, parts: int) -> None:
        self._cache, self._together, self._parts = cache, together, parts

    def of(self, body: Body) -> dict[int, ArrayPassed]:
        """Return what passes for all iterations of a body."""
        found = self._sequence(body) if body.children else self._accesses(body)
        for array, passed in found.items():
            if body.trips > 1:
                self._repeat(body, array, passed)
            elif body.trips < 1:
                for moved in (passed.fetched, passed.written):
                    moved[:] = [lines * body.trips for lines in moved]
        return found

    def _lines(self, array: int, lines: Lines) -> float:
        return self._together.lines(array, lines.count)

    def _accesses(self, body: Body) -> dict[int, ArrayPassed]:
        found = {}
        for array, lines in body.once.items():
            count = self._lines(array, lines)
            found[array] = ArrayPassed(
                self._in_part(body.part, count), self._in_part(body.part, count if array in body.stored else 0.0),
                self._in_part(body.part, 1.0),
            )  # fmt: skip
        return found

    def _in_part(self, part: int, amount: float) -> list[float]:
        return [amount if each == part else 0.0 for each in range(self._parts)]

    def _sequence(self, body: Body) -> dict[int, ArrayPassed]:
        """Return what passes for one iteration of a body: its children, one after the other."""
        children = body.children
        if len(children) == 1:
            return self.of(children[0])
        passed = [self.of(child) for child in children]
        found: dict[int, ArrayPassed] = {}
        for array, places in body.touching.items():
            if len(places) > 1:
                self._find_again(body, array, places, passed)
            total = ArrayPassed(*([0.0] * self._parts for _ in range(3)))
            for place in places:
                own = passed[place][array]
                for part in range(self._parts):
                    total.fetched[part] += own.fetched[part]
                    total.written[part] += own.written[part]
            self._share_work(body, array, places, passed, total)
            found[array] = total
        return found

    def _find_again(
        self, body: Body, array: int, places: Sequence[int], passed: Sequence[Mapping[int, ArrayPassed]]
    ) -> None:  # fmt: skip
        """Take off what later children find of an array that earlier ones have left."""
        children, every = body.children, self._lines(array, body.once[array])
        seen = self._lines(array, children[places[0]].whole[array])
        last_store = places[0] if array in children[places[0]].stored else -1
        for before, now in pairwise(places):
            own = self._lines(array, children[now].whole[array])
            after = min(seen + own, every)
            shared = max(seen + own - after, 0.0)
            if shared:
                kept = self._cache.keeps(self._between(body, array, before, now))
                _take_off(passed[now][array].fetched, kept * shared)
                if array in children[now].stored and last_store >= 0:
                    _take_off(passed[last_store][array].written, kept * shared)
            last_store = now if array in children[now].stored else last_store
            seen = max(after, seen)

    def _between(self, body: Body, array: int, before: int, now: int) -> float:
        """Return the lines touched from a use of an array in one child to the next use in another."""
        total = 0.0
        for other, places in body.touching.items():
            ends = (before in places) + (now in places)
            inside = [place for place in places if before <= place <= now]
            if not inside:
                continue
            lines = sum([self._lines(other, body.children[place].whole[other]) for place in inside])
            lines = min(lines, self._lines(other, body.once[other]))
            is_half = other != array and ends == 1 and len(inside) == 1
            total += lines / 2 if is_half else lines
        return total

    def _share_work(
        self, body: Body, array: int, places: Sequence[int], passed: Sequence[Mapping[int, ArrayPassed]],
        total: ArrayPassed,
    ) -> None:  # fmt: skip
        """Set the share of iterations in which an array is fetched: by children that fetch as much as any.

        What a child touches of less than a page is fetched, or written, while others go on.
        """
        children = body.children
        rates = [sum(passed[place][array].fetched) for place in places]
        most = max(rates)
        for part in range(self._parts):
            every = sum([child.executions[part] for child in children])
            if not every or not most:
                continue
            share = 0.0
            for place, rate in zip(places, rates, strict=True):
                own = children[place].executions[part] / every
                if children[place].whole[array].count < PAGE_LINES:
                    own = 1.0 if own else 0.0
                share += passed[place][array].at_work[part] * own * rate / most
            total.at_work[part] = min(share, 1.0)

    def _repeat(self, body: Body, array: int, passed: ArrayPassed) -> None:
        """Make what passes of an array in one iteration what passes in all of them."""
        once, whole = body.once[array], body.whole[array]
        trips, own = body.trips_of.get(array, body.trips), self._lines(array, once)
        every = self._lines(array, whole)
        again, kept = max(trips * own - every, 0.0), 0.0
        trips = max(trips, every / own) if own else trips  # lines are means over where boxes begin
        if again:
            kept = self._cache.keeps(self._reuse_lines(body, array))
            if self._together.cores == 1:
                kept *= 1 - once.conflict_share(self._cache)
        stored = trips * (1 - kept * again / (trips * own)) if again else trips
        for part in range(self._parts):
            passed.fetched[part] *= trips
            passed.written[part] *= stored
        _take_off(passed.fetched, kept * again)
        if array not in body.is_moved:
            for part in range(self._parts):
                passed.at_work[part] *= 1 - kept * (1 - 1 / trips)

    def _reuse_lines(self, body: Body, array: int) -> float:
        """Return the lines touched between two uses of a line in iterations that follow each other.

        That is the body, or of what an only child goes through whole in each of its iterations, the child's body.
        """
        lines = body.once[array].count
        while len(body.children) == 1:
            (child,) = body.children
            if array not in child.once or child.once[array].count != lines:
                break
            body = child
        return sum([self._lines(other, each) for other, each in body.once.items()])


def _take_off(moved: list[float], lines: float) -> None:
    """Take lines off what parts move, in proportion; no more than there are."""
    total = sum(moved)
    if total > 0:
        left = max(1 - lines / total, 0.0)
        for part, each in enumerate(moved):
            moved[part] = each * left
