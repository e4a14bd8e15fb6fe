"""The index of one tensor dimension as a function of loops, and which elements a range of loops reaches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dsascape.workloads.memo import memoized_in_process

Interval = tuple[int, int]
"""Half-open interval: ``lo <= x < hi``."""
Box = tuple[Interval, ...]
"""A tile of a tensor: one interval per dimension."""
Extents = tuple[int, ...]
"""Size of a tile, independent of its position: elements per dimension, or iterations per loop."""


_TERM_LENGTH = 2
_MOST_COMBINATIONS = 4096
"""Loop iterations enumerated at most; above it, the elements reached are bounded instead of counted."""


def is_count(value: object) -> bool:
    """Whether ``value`` is a whole number of at least 0 (a bool is none)."""
    return type(value) is int and value >= 0


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a nest: ``extent`` iterations from zero."""

    name: str
    extent: int
    reduction: bool = False

    def __post_init__(self) -> None:
        if not (type(self.name) is str and is_count(self.extent) and type(self.reduction) is bool):
            raise ValueError(f"loop {self.name!r} has the extent {self.extent!r}; needs a name and a whole number")


@dataclass(frozen=True, slots=True)
class Index:
    """Element of one tensor dimension: ``(offset + sum(stride * loop)) / divisor``.

    ``rounding``: "floor" rounds down; "exact" skips iterations that do not divide (transposed convolution);
    ``window``: number of consecutive elements from there on (interpolation). Elements beyond the border do
    not exist (padding) unless ``clamp``: then the border element stands in for them. ``opaque``: the element
    depends on data in a way that is not affine; ``terms`` then name the loops that choose it (stride 0 means
    any). Where the choice is known at import, ``table`` holds the element for every value of the affine
    expression.
    """

    terms: tuple[tuple[int, int], ...] = ()
    offset: int = 0
    divisor: int = 1
    rounding: Literal["floor", "exact"] = "floor"
    window: int = 1
    opaque: bool = False
    clamp: bool = False
    table: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for term in self.terms:
            if len(term) != _TERM_LENGTH or not is_count(term[0]) or type(term[1]) is not int:
                raise ValueError(f"index term {term!r}; needs the position of a loop and a stride")
        if type(self.offset) is not int or not is_count(self.divisor) or not is_count(self.window) or not self.divisor:
            raise ValueError(
                f"index with offset {self.offset!r}, divisor {self.divisor!r}, window {self.window!r};"
                " needs whole numbers, the divisor at least 1"
            )
        if self.rounding not in ("floor", "exact") or not (type(self.opaque) is type(self.clamp) is bool):
            raise ValueError(f"index with rounding {self.rounding!r}; needs floor or exact, and flags of yes or no")
        if self.table and not all(map(is_count, self.table)):
            raise ValueError("index with a table of something other than element numbers")

    def span(self, ranges: Sequence[Interval]) -> Interval:
        """Return the unclipped interval of elements that the loops ``ranges`` touch."""
        lo = hi = self.offset
        for loop, stride in self.terms:
            first, end = ranges[loop]
            if stride >= 0:
                lo += stride * first
                hi += stride * (end - 1)
            else:
                lo += stride * (end - 1)
                hi += stride * first
        if self.divisor != 1:
            lo = -(-lo // self.divisor) if self.rounding == "exact" else lo // self.divisor
            hi //= self.divisor
        return lo, hi + self.window

    def touched(self, ranges: Sequence[Interval], size: int) -> Interval:
        """Return the interval of elements, of a dimension of ``size``, that the loop ranges touch; empty if none."""
        for loop, _ in self.terms:
            first, end = ranges[loop]
            if first >= end:
                return 0, 0
        if self.opaque:
            return self._chosen(ranges) if self.table else (0, size)
        lo, hi = self.span(ranges)
        if 0 <= lo < hi <= size and self.rounding == "floor":
            return lo, hi
        if self.clamp:
            return min(max(lo, 0), size - 1), max(min(hi, size), 1)
        return (max(lo, 0), min(hi, size)) if self.window > 1 else _reach(self, ranges, size)

    def _chosen(self, ranges: Sequence[Interval]) -> Interval:
        lo, hi = self.span(ranges)
        chosen = self.table[max(lo, 0) : hi]
        return (min(chosen), max(chosen) + 1) if chosen else (0, 0)


def overlaps(index: Index, extents: Sequence[int]) -> bool:
    """Whether several iterations of the index's loops may address the same element, as those of a window do."""
    covered = 1
    for stride, extent in sorted([(abs(stride), extents[loop]) for loop, stride in index.terms]):
        if extent > 1 and stride < covered and not index.opaque:
            return True
        covered += stride * (extent - 1)
    return False


@memoized_in_process(4096)
def hit_share(index: Index, extents: tuple[int, ...], size: int) -> Fraction:
    """Return the share of the iterations of the index's loops that address one of ``size`` elements exactly.

    All loops but the longest are enumerated; where that is too much, one iteration in ``divisor`` is assumed to count.
    """
    if 0 in extents:
        return Fraction(0)
    moving = [(extent, stride) for extent, (_, stride) in zip(extents, index.terms, strict=True) if stride]
    *shorter, (longest, stride) = sorted(moving) or [(1, 1)]
    iterations = math.prod(extent for extent, _ in shorter)
    if iterations > _MOST_COMBINATIONS:
        return Fraction(1, index.divisor)
    bases = [index.offset]
    for extent, step in shorter:
        bases = [base + step * number for base in bases for number in range(extent)]
    count = sum(_size(_reached(base, stride, (0, longest), index, size)) for base in bases)
    return Fraction(count, iterations * longest)


def _size(steps: range) -> int:
    """Return the number of steps; ``len`` stops at the largest machine word."""
    return max((steps.stop - steps.start + steps.step - 1) // steps.step, 0)


def by_stride(term: tuple[int, int]) -> int:
    """Return the sort key that puts the outermost loop of a merged dimension first."""
    return -term[1]


def invert(index: Index, lo: int, hi: int, loops: Sequence[Loop], ranges: list[Interval]) -> bool:
    """Narrow ``ranges`` to the iterations that write elements ``lo..hi`` of one output dimension; False if none do.

    The strides of a write index form a mixed radix: each is the product of the extents of the loops inside it.
    """
    lo, hi = lo - index.offset, hi - index.offset
    terms = sorted(index.terms, key=by_stride) if len(index.terms) > 1 else index.terms
    for loop, stride in terms:
        first, last = max(lo // stride, 0), min((hi - 1) // stride, loops[loop].extent - 1)
        if first > last:
            return False
        ranges[loop] = (first, last + 1)
        if first != last:
            return True
        lo, hi = lo - first * stride, hi - first * stride
    return lo <= 0 < hi


def _reach(index: Index, ranges: Sequence[Interval], size: int) -> Interval:
    """Return the least interval around the elements of 0..``size`` that ``ranges`` reach; empty if none.

    All loops but the longest are enumerated; the elements that the longest reaches are an arithmetic progression.
    """
    extents = [ranges[loop][1] - ranges[loop][0] for loop, _ in index.terms]
    if min(extents, default=1) <= 0:
        return 0, 0
    if not extents:
        ends = _first_and_last(index.offset, 0, (0, 1), index, size)
        return (0, 0) if ends is None else (ends[0], ends[1] + 1)
    *shorter, (longest, stride) = sorted(index.terms, key=lambda term: ranges[term[0]][1] - ranges[term[0]][0])
    if math.prod(extents) > _MOST_COMBINATIONS * max(extents):
        lo, hi = index.span(ranges)
        return max(lo, 0), min(hi, size)
    bases = [index.offset]
    for loop, step_stride in shorter:
        bases = [base + step_stride * step for base in bases for step in range(*ranges[loop])]
    bounds = [_first_and_last(base, stride, ranges[longest], index, size) for base in bases]
    inside = [pair for pair in bounds if pair is not None]
    if not inside:
        return 0, 0
    return min(lo for lo, _ in inside), max(hi for _, hi in inside) + 1


def _first_and_last(base: int, stride: int, steps: Interval, index: Index, size: int) -> Interval | None:
    """Return the least and greatest element of ``base + stride * step`` inside 0..``size``; None if there is none."""
    inside = _reached(base, stride, steps, index, size)
    if not inside:
        return None
    ends = [(base + stride * step) // index.divisor for step in (inside[0], inside[-1])]
    return min(ends), max(ends)


def _reached(base: int, stride: int, steps: Interval, index: Index, size: int) -> range:
    """Return the ``steps`` at which ``base + stride * step``, divided, is an element of 0..``size``.

    A stride of 0 counts its first step only.
    """
    first, last = steps[0], steps[1] - 1
    limit = size * index.divisor - 1
    exact = index.rounding == "exact"
    if stride == 0:
        is_inside = 0 <= base <= limit and not (exact and base % index.divisor) and first <= last
        return range(first, first + is_inside)
    low, high = (0, limit) if stride > 0 else (limit, 0)
    first, last = max(first, -((base - low) // stride)), min(last, (high - base) // stride)
    if not exact:
        return range(first, last + 1)
    common = math.gcd(stride, index.divisor)
    if base % common:
        return range(0)
    period = index.divisor // common
    hit = -(base // common) * pow(stride // common, -1, period) % period
    return range(first + (hit - first) % period, last + 1, period)


def skip_padding(index: Index, size: int, loops: Sequence[Loop], ranges: list[Interval]) -> None:
    """Narrow the reduction loops of ``index`` to the iterations that read an element and not only padding."""
    if index.window > 1 or index.clamp:
        return
    lo, hi = index.span(ranges)
    if 0 <= lo < hi <= size and index.rounding == "floor":
        return
    for term in index.terms:
        loop, (first, end) = term[0], ranges[term[0]]
        if loops[loop].reduction and end - first <= _MOST_COMBINATIONS:
            hits = [step for step in range(first, end) if _reaches_any(index, size, term, step, ranges)]
            ranges[loop] = (hits[0], hits[-1] + 1) if hits else (first, first)


def _reaches_any(
    index: Index, size: int, term: tuple[int, int], step: int, ranges: Sequence[Interval]
) -> bool:
    """Whether ``index`` reaches an element of 0..``size`` while the loop of ``term`` is at ``step``."""
    others = [each for each in index.terms if each[0] != term[0]]
    if len(others) == len(index.terms) - 1 == 1:  # a window along a dimension
        other, stride = others[0]
        return bool(_reached(index.offset + term[1] * step, stride, ranges[other], index, size))
    lo, hi = _reach(index, [(step, step + 1) if n == term[0] else each for n, each in enumerate(ranges)], size)
    return lo < hi


def full_box(shape: Sequence[int]) -> Box:
    """Return the box that covers a whole tensor of ``shape``."""
    return tuple((0, size) for size in shape)


def box_volume(box: Box) -> int:
    """Return the number of elements in ``box``."""
    return math.prod([hi - lo for lo, hi in box])


def hull(one: Box | None, other: Box) -> Box:
    """Return the smallest box around ``one`` and ``other``; ``other`` where ``one`` is None."""
    if one is None:
        return other
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))


def widest(one: Extents, other: Extents) -> Extents:
    """Return the larger of two extents, dimension by dimension."""
    return tuple(map(max, one, other))


def intersect(one: Box, other: Box) -> Box | None:
    """Return the intersection of two boxes, None if it is empty."""
    common = []
    for (a, b), (c, d) in zip(one, other, strict=True):
        lo = a if a > c else c
        hi = b if b < d else d
        if lo >= hi:
            return None
        common.append((lo, hi))
    return tuple(common)
