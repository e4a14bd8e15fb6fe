"""The three tiers: a claim of each room in a minute, every kind of claim by day, every case at night."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import FEW, NIGHT, STATED, chosen, examples

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
by_day = pytest.mark.skipif(NIGHT, reason="at night all runs")
SEEN: list[int] = []


@by_day
def test_a_part_of_the_examples_is_drawn_but_never_fewer_than_a_few() -> None:
    assert [examples(count) for count in (1, FEW, 2 * FEW, 400)] == [1, FEW, FEW, 100]


@settings(max_examples=400)
@given(st.integers(min_value=0))
def test_what_a_test_says_is_what_is_shared_out(number: int) -> None:
    SEEN.append(number)

    assert len(SEEN) <= examples(400)


@by_day
def test_hypothesis_still_keeps_settings_where_they_are_changed() -> None:
    stated = getattr(test_what_a_test_says_is_what_is_shared_out, STATED)

    assert stated.max_examples == examples(400)


def test_each_value_of_each_argument_is_chosen_while_there_is_room() -> None:
    cases = {f"{x}-{y}": (x, y) for x in range(7) for y in range(4)}
    taken = chosen(cases, 7)

    assert len(taken) == 7
    assert {cases[name][0] for name in taken} == set(range(7))
    assert {cases[name][1] for name in taken} == set(range(4))


def test_the_choice_does_not_depend_on_the_order() -> None:
    cases = {str(number): (number,) for number in range(30)}

    assert chosen(cases, 5) == chosen(dict(reversed(cases.items())), 5)
    assert chosen(cases, 99) == frozenset(cases)


@pytest.mark.parametrize("room", ["workloads", "fusion", "hw_models", "scheduler", "tuner", "experiments"])
def test_a_claim_of_each_room_is_checked(room: str) -> None:
    (listed,) = re.findall(r"^CHECK := ((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)
    paths = [path for path in listed.split() if path != "\\"]

    assert [path for path in paths if not (ROOT / path).is_file()] == []
    assert any(path.startswith(f"tests/{room}/") for path in paths)
