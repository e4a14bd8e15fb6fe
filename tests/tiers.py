"""How much of the tests runs: by day, ``make test``, every kind of claim; ``make night`` every case of it.

A campaign looks at one claim in many cases. By day a part of the cases runs: of a property test a quarter of its
examples, of a test marked ``sampled(count)`` only that many of its parameters, chosen so that each value of each
argument comes at least once as far as ``count`` allows. ``DSASCAPE_TESTS=night`` in the environment runs all.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

import pytest
from hypothesis import settings

NIGHT = os.environ.get("DSASCAPE_TESTS") == "night"
SHARE = 4
"""By day, one example of so many is drawn."""
FEW = 10
"""Examples that are drawn in any case, if a test asks for so many."""


def examples(count: int) -> int:
    """Return how many examples of ``count`` are drawn in this run."""
    return count if NIGHT else max(min(count, FEW), count // SHARE)


def chosen(cases: Mapping[str, Sequence[Hashable]], count: int) -> frozenset[str]:
    """Return ``count`` names of test cases, given the values of each one's arguments: new values come first.

    The same cases are chosen in every run, whatever their order; a case that is added changes little.
    """
    left = sorted(cases, key=lambda name: zlib.crc32(name.encode()))
    taken: list[str] = []
    seen: set[tuple[int, Hashable]] = set()
    while left and len(taken) < count:
        best = max(left, key=lambda name: len({*enumerate(cases[name])} - seen))
        taken.append(best)
        left.remove(best)
        seen.update(enumerate(cases[best]))
    return frozenset(taken)


def leave_to_the_night(items: Sequence[pytest.Item]) -> None:
    """Mark with ``night`` what a day's run leaves out of tests that are marked ``sampled(count)``."""
    families: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("sampled"):
            families[item.nodeid.partition("[")[0]].append(item)
    for family in families.values():
        marker = family[0].get_closest_marker("sampled")
        assert marker is not None
        kept = chosen({item.callspec.id: tuple(item.callspec.indices.values()) for item in family}, marker.args[0])
        for item in family:
            if item.callspec.id not in kept:
                item.add_marker("night")


def draw_fewer(items: Sequence[pytest.Item]) -> None:
    """Lower the number of examples of tests that say how many they draw; the profile says it for the others."""
    for test in {item.function for item in items if isinstance(item, pytest.Function)}:
        stated: settings | None = getattr(test, STATED, None)
        if stated is not None and stated is not settings.default:
            setattr(test, STATED, settings(stated, max_examples=examples(stated.max_examples)))


STATED = "_hypothesis_internal_use_settings"
"""Where Hypothesis keeps the settings of a test until it runs."""
