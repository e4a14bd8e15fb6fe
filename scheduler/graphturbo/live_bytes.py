"""Live bytes at each operator of a sub-graph, as a persistent tree with fast merging and range addition.

The tree is over aligned ranges of operator positions, as in `scheduler.graphturbo.numbered`; an addition to a whole
range is stored once, at the root of its subtree. It is immutable.
"""

from dataclasses import dataclass

from dsascape.scheduler.graphturbo.numbered import range_around


@dataclass(slots=True)
class AtOperator:
    """Live bytes at the operator at position ``begin`` (``most``), and ``after`` it."""

    begin: int
    most: int
    after: int
    span = 1


@dataclass(slots=True)
class AtOperators:
    """Live bytes at the operators among the ``span`` positions from ``begin`` on."""

    begin: int
    span: int
    most: int
    """Maximum live bytes at any of these operators."""
    after: int
    """Live bytes after the last of them."""
    rise: int
    """Offset in bytes to add to all values of both halves."""
    low: "LiveBytes"
    high: "LiveBytes"


LiveBytes = AtOperator | AtOperators


def _halves(begin: int, span: int, rise: int, low: LiveBytes, high: LiveBytes) -> AtOperators:
    most = low.most if low.most > high.most else high.most
    return AtOperators(begin, span, most + rise, high.after + rise, rise, low, high)


def _risen(live: LiveBytes, by: int) -> LiveBytes:
    if not by:
        return live
    if isinstance(live, AtOperator):
        return AtOperator(live.begin, live.most + by, live.after + by)
    return AtOperators(live.begin, live.span, live.most + by, live.after + by, live.rise + by, live.low, live.high)


def joined(one: LiveBytes, one_before: int, other: LiveBytes, other_before: int) -> LiveBytes:
    """Return the sum of the live bytes of two sets of operators, which must be disjoint.

    ``one_before`` and ``other_before``: live bytes of each before its first operator.
    """
    if one.span < other.span:
        one, one_before, other, other_before = other, other_before, one, one_before
    if not one.begin <= other.begin < one.begin + one.span:
        begin, span = range_around(one.begin, other.begin)
        if one.begin < other.begin:
            return _halves(begin, span, 0, _risen(one, other_before), _risen(other, one.after))
        return _halves(begin, span, 0, _risen(other, one_before), _risen(one, other.after))
    assert isinstance(one, AtOperators), "an operator is on both sides"
    low, high = _risen(one.low, one.rise), _risen(one.high, one.rise)
    if isinstance(other, AtOperators) and other.span == one.span:
        other_low, other_high = _risen(other.low, other.rise), _risen(other.high, other.rise)
        low_joined = joined(low, one_before, other_low, other_before)
        return _halves(one.begin, one.span, 0, low_joined, joined(high, low.after, other_high, other_low.after))
    if other.begin < one.begin + one.span // 2:
        high = _risen(high, other.after)
        return _halves(one.begin, one.span, 0, joined(low, one_before, other, other_before), high)
    return _halves(
        one.begin, one.span, 0, _risen(low, other_before), joined(high, low.after, other, other_before)
    )


def raised(live: LiveBytes, first: int, last: int, by: int) -> LiveBytes:
    """Return ``live`` with ``by`` bytes added from the operator at position ``first`` to the one at ``last``."""
    end = live.begin + live.span - 1
    if last < live.begin or first > end or not by:
        return live
    if first <= live.begin and end < last:
        return _risen(live, by)
    if isinstance(live, AtOperator):
        return AtOperator(live.begin, live.most + by, live.after)
    low, high = raised(live.low, first, last, by), raised(live.high, first, last, by)
    return _halves(live.begin, live.span, live.rise, low, high)
