"""Lines that loops touch of an array: the boxes of its loads and stores while some of the loops run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dsascape.hw_models.caches.lines import Array, Lines, box_lines
from dsascape.scheduler.kernels.cost.places import Derived, Position, Use


@dataclass(frozen=True)
class Term:
    """How far apart in a dimension iterations of a loop are, or values of a quotient or rest of loops."""

    stride: int
    loop: str
    """Empty: it is of ``derived``."""
    derived: Derived | None = None
    goes_on: bool = False
    """Whether it is of loops that run as one, and go on with the next row where one ends."""

    def iterations(self, running: Mapping[str, int]) -> int:
        """Return how many values it has while the loops ``running`` go through so many iterations, all others fixed."""
        return running.get(self.loop, 1) if self.derived is None else _values(self.derived, running)


class Box(NamedTuple):
    """Elements that a load or store touches along one dimension of an array, while some loops run."""

    begin: int
    span: int
    """Elements from the first to the last."""
    piece: int
    """Elements that follow each other."""
    pieces: int
    rows: int
    """Neighbours in the next dimension further out that elements go on into."""


@dataclass(frozen=True)
class Side:
    """What a load or store touches along one dimension of its array."""

    size: int
    offset: int
    terms: tuple[Term, ...]

    def box(self, running: Mapping[str, int], rows: int) -> Box:
        """Return what is touched; ``rows``: neighbours that elements of the next dimension further in go on into."""
        steps = [(abs(each.stride), each.iterations(running), each) for each in self.terms]
        flat = rows + sum([stride * (count - 1) for stride, count, term in steps if term.goes_on])
        begin, span, piece, pieces = self.offset, flat, flat, 1
        for stride, count, term in sorted(steps, key=lambda step: step[0]):
            if count == 1 or term.goes_on:
                continue
            if term.derived is not None and term.derived.is_chosen:
                pieces *= min(count, max(self.size // stride, 1))
                span = self.size
                continue
            begin += min(term.stride, 0) * (count - 1)
            if pieces == 1 and stride <= piece:
                piece += stride * (count - 1)
            else:
                pieces *= count
            span += stride * (count - 1)
        span, piece = min(span, self.size), min(piece, self.size)
        return Box(begin, span, piece, max(min(pieces, span // piece), 1), -(-flat // self.size))


Limit = tuple[float, tuple[Term, ...], float]
"""Where not every iteration touches an array: the share that does, and terms that decide it, with all their values."""


@dataclass(frozen=True)
class Touch:
    """One load or store, as the lines that it touches follow from it."""

    array: Array
    sides: tuple[Side, ...]
    """Dimensions as they lie in memory, outermost first."""
    limits: tuple[Limit, ...] = ()

    @cached_property
    def moving(self) -> frozenset[str]:
        """Loops that it moves with."""
        return frozenset([loop for side in self.sides for term in side.terms for loop in _loops(term)])

    def boxes(self, running: Mapping[str, int]) -> list[Box]:
        """Return what it touches along each dimension while the loops ``running`` go through so many iterations."""
        found: list[Box] = []
        rows = 1
        for side in reversed(self.sides):
            found.append(side.box(running, rows))
            rows = found[-1].rows
        return found[::-1]

    @cached_property
    def is_window(self) -> bool:
        """Whether one iteration takes several elements of it together, as a fast transform of a line does."""
        return any(term.derived is not None and term.derived.window > 1 for side in self.sides for term in side.terms)

    def lines(self, running: Mapping[str, int], line_bytes: int) -> Lines:
        """Return the lines that it touches while the loops ``running`` go through so many iterations."""
        boxes = self.boxes(running)
        pieces = math.prod([each.pieces for each in boxes])
        found = box_lines(self.array, [each.piece for each in boxes], line_bytes)
        if pieces > 1:
            hull = box_lines(self.array, [each.span for each in boxes], line_bytes)
            jumps = min(found.count, 1.0) * pieces
            found = Lines(min(found.count * pieces, hull.count), found.runs * pieces, found.pitch_lines, jumps)
        share = self._share(running)
        return found if share == 1 else Lines(found.count * share, found.runs, found.pitch_lines, found.jumps * share)

    def _share(self, running: Mapping[str, int]) -> float:
        """Return the share of the iterations of all other loops in which it touches anything."""
        share = 1.0
        for happens, terms, values in self.limits:
            inside = 1 + sum([abs(each.stride) * (each.iterations(running) - 1) for each in terms])
            share *= min(max(happens, inside / values), 1.0)
        return share

    def elements(self, running: Mapping[str, int]) -> float:
        """Return the elements that it touches, in the mean over iterations of all other loops."""
        return self._share(running) * math.prod([each.piece * each.pieces for each in self.boxes(running)])

    def is_apart(self, loop: str, running: Mapping[str, int]) -> bool:
        """Whether iterations of a loop, around those that are running, touch other elements each."""
        return any(
            each.loop == loop and abs(each.stride) >= box.span
            for side, box in zip(self.sides, self.boxes(running), strict=True) for each in side.terms
        )

    def ends(self, running: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        """Return the first element along each dimension, and the one behind the last."""
        return tuple([(each.begin, each.begin + each.span) for each in self.boxes(running)])


def lines_of(touched: Sequence[tuple[Touch, Mapping[str, int]]], line_bytes: int) -> Lines:
    """Return the lines that several loads and stores of one array touch, each while the loops beside it run.

    Boxes that overlap, or nearly, count as the one around them.
    """
    found = [each.lines(running, line_bytes) for each, running in touched]
    if len(found) == 1:
        return found[0]
    largest = max(found, key=lambda each: each.count)
    boxes = [each.ends(running) for each, running in touched]
    array = touched[0][0].array
    ends = [(min([begin for begin, _ in side]), max([end for _, end in side])) for side in zip(*boxes, strict=True)]
    around = [min(end - begin, size) for (begin, end), size in zip(ends, array.shape, strict=True)]
    hull = box_lines(array, around, line_bytes)
    apart = sum([each.count for each in found])
    if hull.count <= largest.count:
        return largest
    return hull if hull.count <= apart else Lines(apart, largest.runs, 0, sum([each.jumps for each in found]))


def touch_of(
    use: Use, sizes: Sequence[int], strides: Sequence[int], array: Array,
    limits: tuple[Limit, ...] = (),
) -> Touch:  # fmt: skip
    """Return what a load or store touches of an array of ``sizes``, as they lie in memory, ``strides`` apart."""
    terms: list[list[Term]] = [[] for _ in sizes]
    flat = frozenset() if use.run is None else frozenset([loop for loop, _ in use.run.value.terms])
    for term in _terms(use.place):
        sign = 1 if term.stride > 0 else -1
        for dim, part in _parts(abs(term.stride), sizes, strides):
            terms[dim].append(Term(sign * part, term.loop, term.derived, term.loop in flat))
    offsets = [0] * len(sizes)
    for dim, part in _parts(use.place.value.offset, sizes, strides):
        offsets[dim] = part
    sides = [Side(size, offset, tuple(own)) for size, offset, own in zip(sizes, offsets, terms, strict=True)]
    return Touch(array, tuple(sides), limits)


def _terms(place: Position) -> Iterator[Term]:
    """Yield the terms of a place in memory, in elements."""
    for loop, stride in place.value.terms:
        if stride:
            yield Term(stride, loop)
    for derived, factor in place.derived:
        if factor:
            yield Term(factor, "", derived)


def _parts(distance: int, sizes: Sequence[int], strides: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield how many elements of which dimensions a distance in memory is; before the first one, of a border's."""
    left = distance
    for dim, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        number = left // stride if left >= 0 else round(left / stride)
        if number and size > 1:
            yield dim, number
            left -= number * stride


def _values(derived: Derived, running: Mapping[str, int]) -> int:
    """Return how many values a quotient or rest has, in the mean over where it begins."""
    span = 1
    for loop, stride in derived.whole.value.terms:
        span += abs(stride) * (running.get(loop, 1) - 1)
    for other, factor in derived.whole.derived:
        span += abs(factor) * (_values(other, running) - 1)
    if derived.window > 1:
        return derived.window
    if derived.is_chosen:
        return math.prod([running.get(loop, 1) for loop in derived.whole.moving])
    found = -(-(span + derived.divisor - 1) // derived.divisor) if span > 1 else 1
    return min(found, derived.modulus) if derived.modulus else found


def _loops(term: Term) -> Iterator[str]:
    """Yield the loops that a term moves with."""
    if term.derived is None:
        yield term.loop
        return
    waiting = [term.derived.whole]
    while waiting:
        position = waiting.pop()
        yield from [loop for loop, _ in position.value.terms]
        waiting += [derived.whole for derived, _ in position.derived]
