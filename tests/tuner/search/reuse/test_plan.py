"""Plans of reuse: what is tuned from nothing, what from what, printed and written; bridges never make them dearer."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.tuner.search.reuse.choices import ROOT, arborescence, choices_of
from dsascape.tuner.search.reuse.nests import operators_of
from dsascape.tuner.search.reuse.operators import Operator, ReuseError
from dsascape.tuner.search.reuse.plan import ReusePlan, Tuning, plan_json, plan_reuse, read_plan
from dsascape.workloads import load_network
from tests.tiers import examples
from tests.tuner.search.reuse.drawn import product_of, sets_of_products

SMALL, WIDE, TALL = product_of(1, 8, 8, 8), product_of(1, 8, 16, 8), product_of(1, 16, 8, 8)


def ten(operator: Operator, reused: Operator) -> float:
    """Return that any reuse takes ten trials."""
    return 10.0


def dearer_for_smaller(operator: Operator, reused: Operator) -> float:
    """Return 10 trials for an operator that is larger than what it reuses, 20 for a smaller one."""
    return 10.0 if operator.loops.size > reused.loops.size else 20.0


def convolutions(network: str) -> list[Operator]:
    return [each.operator for each in operators_of(load_network(network)) if str(each.operator.kind) == "C2D"]


def test_one_operator_is_tuned_from_nothing_and_the_others_from_it() -> None:
    assert str(plan_reuse([WIDE, SMALL, TALL], dearer_for_smaller, hops=0)) == (
        "3 operators and 0 bridges: trials: 1,020.0, 1 tuned from nothing\n"
        "  0: BMM 1x8x8 over 8 from nothing, trials: 1,000.0\n"
        "  1: BMM 1x8x16 over 8 from number 0, trials: 10.0\n"
        "  2: BMM 1x16x8 over 8 from number 0, trials: 10.0"
    )


def test_a_bridge_joins_two_operators_that_cannot_reuse_each_other() -> None:
    assert plan_reuse([WIDE, TALL], dearer_for_smaller, hops=0).cost == 2000
    assert str(plan_reuse([WIDE, TALL], dearer_for_smaller)) == (
        "2 operators and 1 bridge: trials: 1,020.0, 1 tuned from nothing\n"
        "  0: bridge BMM 1x8x8 over 8 from nothing, trials: 1,000.0\n"
        "  1: BMM 1x8x16 over 8 from number 0, trials: 10.0\n"
        "  2: BMM 1x16x8 over 8 from number 0, trials: 10.0"
    )


def test_reuse_that_costs_more_than_a_tuning_from_nothing_is_not_planned() -> None:
    plan = plan_reuse([WIDE, SMALL, TALL], lambda operator, reused: 1001.0)

    assert [each.reuses for each in plan.tunings] == [None, None, None]


def test_the_cost_of_a_tuning_from_nothing_can_be_given() -> None:
    assert plan_reuse([WIDE, TALL], ten, from_nothing=15).cost == 30


def test_nothing_to_tune_costs_nothing() -> None:
    assert plan_reuse([], ten).tunings == ()


@pytest.mark.parametrize(("hops", "from_nothing", "bridges"), [(0, 8, 0), (1, 1, 1), (None, 1, 1)])
def test_resnet50_has_one_operator_tuned_from_nothing_with_bridges_and_eight_without(
    hops: int | None, from_nothing: int, bridges: int
) -> None:
    plan = plan_reuse(convolutions("resnet50-v1"), ten, hops=hops)

    assert (len(plan.from_nothing), len(plan.bridges)) == (from_nothing, bridges)
    assert plan.cost == 1000 * from_nothing + 10 * (20 + bridges - from_nothing)


@settings(max_examples=examples(60), deadline=None)
@given(sets_of_products, st.randoms(use_true_random=False))
def test_without_bridges_a_plan_costs_what_the_arborescence_does_and_with_them_never_more(
    operators: list[Operator], rng: Any
) -> None:
    known: dict[tuple[Operator, Operator], float] = {}

    def cost(operator: Operator, reused: Operator) -> float:
        return known.setdefault((operator, reused), float(rng.randint(1, 1500)))

    plain, bridged, every = (plan_reuse(operators, cost, hops=hops) for hops in (0, 1, None))
    choices = choices_of(operators, cost)

    assert plain.cost == choices.cost(arborescence(choices, range(len(operators))))
    assert max(bridged.cost, every.cost) <= plain.cost
    for plan in (plain, bridged, every):
        assert [each.operator for each in plan.tunings if not each.is_bridge and each.operator not in operators] == []
        assert sum(not each.is_bridge for each in plan.tunings) == len(operators)
        assert read_plan(json.loads(json.dumps(plan_json(plan)))) == plan


def test_a_plan_is_the_same_in_another_process() -> None:
    code = (
        "from tests.tuner.search.reuse.test_plan import convolutions\n"
        "from dsascape.tuner.search.reuse.plan import plan_reuse\n"
        "print(plan_reuse(convolutions('resnet50'), lambda a, b: 5 + a.loops.size % 97))"
    )
    command = [sys.executable, "-c", code]
    path = os.pathsep.join(["src", "."])
    printed = {
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(printed) == 1
    assert b"23 operators" in printed.pop()


def test_an_operator_is_asked_about_its_reuse_pairs_alone() -> None:
    asked: list[tuple[Operator, Operator]] = []

    def cost(operator: Operator, reused: Operator) -> float:
        asked.append((operator, reused))
        return 5.0

    choices = choices_of([WIDE, SMALL, TALL], cost)

    assert asked == [(WIDE, SMALL), (SMALL, WIDE), (SMALL, TALL), (TALL, SMALL)]
    assert choices.costs[1, 0] == 5
    assert choices.costs[ROOT, 2] == 1000


@pytest.mark.parametrize(
    ("tunings", "told"),
    [
        ([Tuning(SMALL, 0, 5.0)], "tunings.0: BMM 1x8x8 over 8: reuses number 0; needs one before it"),
        ([Tuning(SMALL, None, 0.0)], "has the cost 0.0; needs a positive number of trials"),
        ([Tuning(SMALL, None, 5.0, is_bridge=True)], "is a bridge that nothing is tuned from"),
        ([Tuning(WIDE, None, 5.0), Tuning(TALL, 0, 5.0)], "cannot reuse BMM 1x8x16 over 8: they are no reuse pair"),
    ],
)
def test_an_impossible_plan_is_refused(tunings: list[Tuning], told: str) -> None:
    with pytest.raises(ReuseError, match=told):
        ReusePlan(tuple(tunings))


def changed(key: str, value: object) -> dict[str, Any]:
    """Return a plan of one operator with one of its fields changed, or added."""
    written = plan_json(plan_reuse([SMALL], ten))
    *path, last = key.split(".")
    place: Any = written["tunings"][0]
    for step in path:
        place = place[step]
    place[last] = value
    return written


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], r"mine.json: has \[\]; needs an object with tunings"),
        ({}, "mine.json.tunings: Field required"),
        (changed("cost", "many"), "mine.json.tunings.0.cost: Input should be a valid number"),
        (changed("operator.loops.space", [1, 0, 2]), r"mine.json.tunings.0.operator.loops.*needs whole numbers from 1"),
        (changed("reuses", 7), "reuses number 7; needs one before it"),
        (changed("operator.loops.depth", 1), "mine.json.tunings.0.operator.loops.depth: is unknown"),
    ],
)
def test_a_file_that_holds_no_plan_is_refused_with_the_place_of_the_mistake(data: object, told: str) -> None:
    with pytest.raises(ReuseError, match=told):
        read_plan(data, "mine.json")
