"""How much of the tests runs: by day, ``make test``, every kind of claim; ``make night`` every case of it.

A campaign looks at one claim in many cases. By day a part of the cases runs: of a property test a twelfth of its
examples (``max_examples=examples(60)``), of a test marked ``sampled(count)`` only that many of its parameters, chosen
so that each value of each argument comes at least once, and then as many pairs of values, as far as ``count`` allows.
``sampled(count, long=names)`` names the parameters that take too long to be chosen. ``DSASCAPE_TESTS=night`` in the
environment runs all.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import combinations

import pytest

NIGHT = os.environ.get("DSASCAPE_TESTS") == "night"
SHARE = 12
"""By day, one example of so many is drawn."""
FEW = 5
"""Examples that are drawn in any case, if a test asks for so many."""


def examples(count: int, few: int = FEW) -> int:
    """Return how many examples of ``count`` are drawn in this run: what ``settings(max_examples=...)`` is given.

    ``few`` is how many are drawn in any case; fewer than five do where a test draws them for each of its parameters.
    """
    return count if NIGHT else max(min(count, few), count // SHARE)


def chosen(cases: Mapping[str, Sequence[Hashable]], count: int, long: Collection[str] = ()) -> frozenset[str]:
    """Return ``count`` names of test cases, given the values of each one's arguments, and none of those in ``long``.

    New values come first, then new pairs of values. The same cases are chosen in every run, whatever their order; a
    case that is added changes little.
    """
    left = sorted(cases.keys() - set(long), key=lambda name: zlib.crc32(name.encode()))
    taken: list[str] = []
    values: set[Hashable] = set()
    pairs: set[Hashable] = set()
    while left and len(taken) < count:
        best = max(left, key=lambda name: (len(_values(cases[name]) - values), len(_pairs(cases[name]) - pairs)))
        taken.append(best)
        left.remove(best)
        values |= _values(cases[best])
        pairs |= _pairs(cases[best])
    return frozenset(taken)


def _values(case: Sequence[Hashable]) -> set[Hashable]:
    return {*enumerate(case)}


def _pairs(case: Sequence[Hashable]) -> set[Hashable]:
    return {*combinations(enumerate(case), 2)}


def told_apart(arguments: Iterable[object]) -> tuple[Hashable, ...]:
    """Return the arguments of a test case, as what can be counted: those that cannot be hashed as their text."""
    return tuple(value if isinstance(value, str | int | float) else repr(value) for value in arguments)


def leave_to_the_night(items: Sequence[pytest.Item]) -> None:
    """Mark with ``night`` what a day's run leaves out of tests that are marked ``sampled(count)``."""
    families: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("sampled"):
            families[item.nodeid.partition("[")[0]].append(item)
    for family in families.values():
        marker = family[0].get_closest_marker("sampled")
        assert marker is not None
        cases = {item.callspec.id: told_apart(item.callspec.params.values()) for item in family}
        kept = chosen(cases, *marker.args, **marker.kwargs)
        for item in family:
            if item.callspec.id not in kept:
                item.add_marker("night")
