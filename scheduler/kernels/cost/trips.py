"""How often a part of a loop program runs: iterations of loops, as far as conditions hold in them.

All counts of a program are counts of iterations of some of its loops: executions of all around a statement, loads of
those that move what is loaded. Conditions that depend on other loops count as met where these can meet them. Sizes may
be columns, one row a candidate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.columns import Size, anywhere, ceil_div, chosen, everywhere, largest, least, most
from dsascape.scheduler.kernels.loops.nodes import Condition, Reach

_MOST_CELLS = 1 << 22
"""Iterations that are enumerated at most, of loops that several conditions tie together; the shares of the conditions
count as independent beyond that."""

@dataclass(frozen=True, slots=True)
class Within:
    """A limit of a loop that is no affine condition: it goes through what whole steps leave of a range."""

    loop: str
    reach: Reach

    @property
    def value(self) -> Affine:
        """Expression that moves with all loops that it depends on."""
        ends = [each for each in (self.reach.first, self.reach.end, self.reach.stop) if each is not None]
        others = dict.fromkeys([name for each in ends for name, _ in each.terms])
        return Affine(0, tuple([(name, 1) for name in (self.loop, *others)]))

    def range(self, at: Mapping[str, Any], extent: Size) -> tuple[Any, Any]:
        """Return its first iteration and the one behind its last, for iterations of other loops."""
        def value(expression: Affine) -> Any:
            return expression.offset + sum([at.get(name, 0) * stride for name, stride in expression.terms], 0)

        reach, step = self.reach, self.reach.step
        first = np.maximum(0 if reach.first is None else value(reach.first), 0)
        end: Any = _upright(extent)
        for limit in (reach.end, reach.stop):
            end = end if limit is None else np.minimum(end, value(limit))
        end = np.maximum(end, 0)
        if reach.part == "before":
            return first, np.minimum(-(-first // step) * step, end)
        return np.maximum(-(-first // step), end // step) * step, end


Limit = Condition | Within
"""What bounds the iterations of loops."""
Term = tuple[Size, Size]
"""Stride, which is not negative, and extent of a loop."""


def iterations(counted: Mapping[str, Size], conditions: Sequence[Limit], extents: Mapping[str, Size]) -> Size:
    """Return how many iterations of the loops ``counted`` meet all conditions, with the best of all other loops.

    ``counted``: extents by loop; ``extents``: those of all loops that conditions depend on.
    """
    total: Size = 1
    left = dict(counted)
    bounded = [
        each if isinstance(each, Within) else _bounded(each, counted, extents)
        for each in conditions if not isinstance(each, Within) or each.loop in counted
    ]  # fmt: skip
    for group in _tied(bounded):
        own = {name: left.pop(name) for each in group for name, _ in each.value.terms if name in left}
        total = total * _of_group(own, group)
    return math.prod(left.values(), start=total)


def below(terms: Sequence[Term], limit: Size) -> Size:
    """Return how many iterations of loops have a sum of ``stride * iteration`` below a limit."""
    if not terms:
        return chosen(limit > 0, 1, 0)
    (stride, extent), *inner = terms
    stands = stride == 0
    if anywhere(stands):  # in some rows the loop does not move the sum
        times = chosen(stands, extent, 1)
        return times * below([(chosen(stands, 1, stride), chosen(stands, 1, extent)), *inner], limit)
    within = least(most(ceil_div(limit, stride), 0), extent)
    if not inner:
        return within
    span = sum([each * (count - 1) for each, count in inner], 0)
    full = least(most(ceil_div(limit - span, stride), 0), extent)
    total = full * math.prod([count for _, count in inner], start=1)
    partial = within - full
    number = 0
    while not everywhere(partial <= number):
        total = total + chosen(partial > number, below(inner, limit - (full + number) * stride), 0)
        number += 1
    return total


def _bounded(condition: Condition, counted: Mapping[str, Size], extents: Mapping[str, Size]) -> Condition:
    """Return a condition on counted loops alone: others do what meets it."""
    least_value: Any = condition.value.offset
    terms = []
    for name, stride in condition.value.terms:
        if name in counted:
            terms.append((name, stride))
        else:
            least_value = least_value + least(stride * (extents[name] - 1), 0)
    return Condition(Affine(0, tuple(terms)), condition.limit - least_value)


def _tied(conditions: Sequence[Limit]) -> list[list[Limit]]:
    """Return the conditions in groups that share no loops; those that others imply are left out."""
    groups: list[list[Limit]] = []
    for each in _needed(conditions):
        names = {name for name, _ in each.value.terms}
        own = [group for group in groups if any(name in names for other in group for name, _ in other.value.terms)]
        groups = [group for group in groups if group not in own]
        groups.append([each, *[other for group in own for other in group]])
    return groups


def _needed(conditions: Sequence[Limit]) -> list[Limit]:
    """Return the conditions without those that follow from another one."""
    found: list[Limit] = []
    for number, each in enumerate(conditions):
        others = [*found, *conditions[number + 1 :]]
        if not any(_implies(other, each) for other in others):
            found.append(each)
    return found


def _implies(one: Limit, other: Limit) -> bool:
    """Whether a condition always holds where ``one`` does: that adds to it what is never negative."""
    if isinstance(one, Within) or isinstance(other, Within):
        return False
    strides = dict(one.value.terms)
    for name, stride in other.value.terms:
        if name not in strides or not everywhere(strides.pop(name) == stride):
            return False
    return all(everywhere(each >= 0) for each in strides.values()) and everywhere(one.limit <= other.limit)


def _of_group(loops: Mapping[str, Size], group: Sequence[Limit]) -> Size:
    """Return the iterations of ``loops`` that meet conditions which are tied together."""
    affine = [each for each in group if isinstance(each, Condition)]
    if len(affine) < len(group):
        return _enumerated(loops, group)
    if len(affine) == 1:
        terms, limit = _ascending(affine[0], loops)
        return below(terms, limit)
    if len(affine) == len(_OPPOSITE) and _is_opposite(*affine):
        upper, lower = sorted(affine, key=lambda each: -_sign(each))
        terms, limit = _ascending(upper, loops)
        shift = sum([least(stride * (loops[name] - 1), 0) for name, stride in upper.value.terms], 0)
        return most(below(terms, limit) - below(terms, 1 - lower.limit - shift), 0)
    return _enumerated(loops, group)


_OPPOSITE = ("below", "from")


def _ascending(condition: Condition, loops: Mapping[str, Size]) -> tuple[list[Term], Size]:
    """Return a condition with strides that are not negative, the longest first: loops count down where they are."""
    terms: list[Term] = []
    limit: Size = condition.limit
    for name, stride in condition.value.terms:
        limit = limit - least(stride * (loops[name] - 1), 0)
        terms.append((abs(stride), loops[name]))
    return sorted(terms, key=lambda each: -largest(each[0])), limit


def _sign(condition: Condition) -> int:
    return 1 if all(everywhere(stride > 0) for _, stride in condition.value.terms) else -1


def _is_opposite(one: Condition, other: Condition) -> bool:
    """Whether two conditions bound the same expression, from above and from below."""
    strides = dict(one.value.terms)
    return (
        {_sign(one), _sign(other)} == {1, -1} and len(strides) == len(other.value.terms)
        and all(name in strides and everywhere(strides[name] == -stride) for name, stride in other.value.terms)
    )  # fmt: skip


def _enumerated(loops: Mapping[str, Size], group: Sequence[Limit]) -> Size:
    """Return the iterations that meet conditions on the same loops: the longest of these in closed form."""
    own_ranges = [each.loop for each in group if isinstance(each, Within)]
    longest = own_ranges[-1] if own_ranges else max(loops, key=lambda name: largest(loops[name]))
    others = {name: largest(extent) for name, extent in loops.items() if name != longest}
    rows = max([np.size(extent) for extent in loops.values()])
    if math.prod(others.values()) * rows > _MOST_CELLS:
        return _independent(loops, group)
    numbers = np.meshgrid(*[np.arange(extent) for extent in others.values()], indexing="ij")
    at = {name: each.reshape(-1) for name, each in zip(others, numbers, strict=True)}
    first: Any = 0
    end: Any = _upright(loops[longest])
    is_there: Any = True
    for name in others:
        is_there = is_there & (at[name] < _upright(loops[name]))
    for each in group:
        if isinstance(each, Within):
            begin, behind = each.range(at, loops[longest])
            first, end = np.maximum(first, begin), np.minimum(end, behind)
            continue
        strides = dict(each.value.terms)
        own = _upright(strides.pop(longest, 0))
        left = _upright(each.limit) - sum([at[name] * _upright(stride) for name, stride in strides.items()], 0)
        with np.errstate(divide="ignore"):
            last = np.where(own > 0, -(-left // np.where(own == 0, 1, own)), end)
            from_on = np.where(own < 0, left // np.where(own == 0, 1, own) + 1, 0)
        is_there = is_there & np.where(own == 0, left > 0, True)
        first, end = np.maximum(first, from_on), np.minimum(end, last)
    found = np.where(is_there, np.maximum(end - first, 0), 0)
    total = found.reshape(-1).sum() if rows == 1 else found.sum(axis=-1)
    return int(total) if rows == 1 and all(isinstance(each, int) for each in loops.values()) else np.atleast_1d(total)


def _upright(size: Size) -> Any:
    """Return a size as a number, or as rows above each other."""
    return np.int64(size) if isinstance(size, int) else size[:, None]


def _independent(loops: Mapping[str, Size], group: Sequence[Limit]) -> Size:
    whole = math.prod(loops.values(), start=1)
    shares = []
    for each in [limit for limit in group if isinstance(limit, Condition)]:
        own = {name: loops[name] for name, _ in each.value.terms}
        shares.append(_of_group(own, [each]) / np.maximum(math.prod(own.values(), start=1), 1))
    total = whole * math.prod(shares, start=1.0)
    return round(float(total)) if np.ndim(total) == 0 else np.asarray(np.rint(total), np.int64)
