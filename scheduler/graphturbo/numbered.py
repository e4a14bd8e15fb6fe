"""Persistent integer maps with structural sharing: the cost of a join grows with the overlap, not with the sizes.

A map is a tree over aligned ranges of numbers (Okasaki and Gill, "Fast mergeable integer maps", 1998). It is immutable,
so that a sub-graph and those that it has grown from keep their own. None is the empty map.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")


@dataclass(slots=True)
class Entry(Generic[_T]):
    """Map of a single number, ``begin``."""

    begin: int
    value: _T
    span = 1


@dataclass(slots=True)
class Fork(Generic[_T]):
    """Map of numbers in the ``span`` numbers from ``begin`` on, as a lower and an upper half."""

    begin: int
    span: int
    low: "Entry[_T] | Fork[_T]"
    high: "Entry[_T] | Fork[_T]"


Numbered = Entry[_T] | Fork[_T] | None
_Tree = Entry[_T] | Fork[_T]


def range_around(one: int, other: int) -> tuple[int, int]:
    """Return (begin, length) of the smallest aligned range that holds two different numbers."""
    span = 1 << (one ^ other).bit_length()
    return one & -span, span


def value_of(numbered: Numbered[_T], number: int) -> _T | None:
    """Return the value at ``number``; None if there is none."""
    while isinstance(numbered, Fork):
        numbered = numbered.low if number < numbered.begin + numbered.span // 2 else numbered.high
    return numbered.value if numbered is not None and numbered.begin == number else None


def joined(one: Numbered[_T], other: Numbered[_T], both: Callable[[_T, _T], _T]) -> Numbered[_T]:
    """Return the union of two maps; ``both`` combines two values at one number and must be commutative."""
    if one is None or other is None:
        return other if one is None else one
    return _joined(one, other, both)


def _joined(one: _Tree[_T], other: _Tree[_T], both: Callable[[_T, _T], _T]) -> _Tree[_T]:
    if one.span < other.span:
        one, other = other, one
    if not one.begin <= other.begin < one.begin + one.span:
        low, high = (one, other) if one.begin < other.begin else (other, one)
        return Fork(*range_around(one.begin, other.begin), low, high)
    if isinstance(one, Entry):
        assert isinstance(other, Entry)
        return Entry(one.begin, both(one.value, other.value))
    if isinstance(other, Fork) and other.span == one.span:
        return Fork(one.begin, one.span, _joined(one.low, other.low, both), _joined(one.high, other.high, both))
    if other.begin < one.begin + one.span // 2:
        return Fork(one.begin, one.span, _joined(one.low, other, both), one.high)
    return Fork(one.begin, one.span, one.low, _joined(one.high, other, both))


def without(numbered: Numbered[_T], number: int) -> Numbered[_T]:
    """Return the map without ``number``, which need not be in it."""
    if numbered is None or not numbered.begin <= number < numbered.begin + numbered.span:
        return numbered
    if isinstance(numbered, Entry):
        return None
    low, high = numbered.low, numbered.high
    if number < numbered.begin + numbered.span // 2:
        less = without(low, number)
        return high if less is None else numbered if less is low else Fork(numbered.begin, numbered.span, less, high)
    less = without(high, number)
    return low if less is None else numbered if less is high else Fork(numbered.begin, numbered.span, low, less)


def in_both(one: Numbered[_T], other: Numbered[_T]) -> Iterator[tuple[int, _T]]:
    """Yield the numbers in both maps, ascending, with the first map's values."""
    waiting: list[tuple[Numbered[_T], Numbered[_T]]] = [(one, other)]
    while waiting:
        left, right = waiting.pop()
        if left is None or right is None:
            continue
        if not (left.begin < right.begin + right.span and right.begin < left.begin + left.span):
            continue
        if isinstance(left, Fork) and left.span >= right.span:
            waiting += [(left.high, right), (left.low, right)]
        elif isinstance(right, Fork):
            waiting += [(left, right.high), (left, right.low)]
        elif isinstance(left, Entry):
            yield left.begin, left.value


def entries(numbered: Numbered[_T]) -> Iterator[tuple[int, _T]]:
    """Yield the numbers of a map, ascending, with their values."""
    return in_both(numbered, numbered)
