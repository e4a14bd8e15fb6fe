"""The three tiers: a claim of each room in a minute, every kind of claim by day, every case at night."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import FEW, NIGHT, chosen, examples, told_apart

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
by_day = pytest.mark.skipif(NIGHT, reason="at night all runs")
SEEN: list[int] = []
STATED = 10
"""Examples that a test may draw by day and at night alike."""


@by_day
def test_a_part_of_the_examples_is_drawn_but_never_fewer_than_a_few() -> None:
    assert [examples(count) for count in (1, FEW, 2 * FEW, 480)] == [1, FEW, FEW, 40]


@settings(max_examples=examples(400))
@given(st.integers(min_value=0))
def test_no_more_examples_are_drawn_than_the_tier_has(number: int) -> None:
    SEEN.append(number)

    assert len(SEEN) <= examples(400)


def stated(source: str) -> list[int]:
    """Return the lines that give Hypothesis a number of examples which is the same by day and at night."""
    given_numbers = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.keyword)]
    return [
        node.lineno
        for node in given_numbers
        if node.arg == "max_examples" and isinstance(node.value, ast.Constant) and int(str(node.value.value)) > STATED
    ]


def test_every_property_test_draws_a_part_of_its_examples_by_day() -> None:
    paths = sorted((ROOT / "tests").rglob("*.py"))

    assert stated("settings(max_examples=60)\nsettings(max_examples=examples(60))\nsettings(max_examples=5)") == [1]
    found = [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in stated(path.read_text(encoding="utf-8"))]
    assert found == [], f"write max_examples=examples({STATED + 1}), with examples of tests.tiers"


def test_each_value_of_each_argument_is_chosen_while_there_is_room() -> None:
    cases = {f"{x}-{y}": (x, y) for x in range(7) for y in range(4)}
    taken = chosen(cases, 7)

    assert len(taken) == 7
    assert {cases[name][0] for name in taken} == set(range(7))
    assert {cases[name][1] for name in taken} == set(range(4))


def test_each_pair_of_values_is_chosen_while_there_is_room() -> None:
    cases = {f"{x}-{y}-{z}": (x, y, z) for x in range(5) for y in range(5) for z in range(5)}
    taken = chosen(cases, 40)

    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert len({(cases[name][one], cases[name][other]) for name in taken}) == 25


def test_values_that_are_given_together_count_each_by_itself() -> None:
    cases = {f"{x}-{y}": told_apart((x, [y])) for x in range(4) for y in range(4)}

    assert cases["1-2"] == (1, "[2]")
    assert {name[-1] for name in chosen(cases, 4)} == set("0123")


def test_what_takes_long_is_left_to_the_night() -> None:
    cases = {str(number): (number,) for number in range(10)}

    assert chosen(cases, 9, long=["3", "7"]) == frozenset(cases) - {"3", "7"}


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
