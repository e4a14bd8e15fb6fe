"""Objectives and the gradient of appendix A, by hand."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.tuner.search.objectives import (
    Objective,
    OwnObjective,
    Progress,
    Requirements,
    SpeedUp,
    StopEarly,
    TotalLatency,
)
from dsascape.tuner.search.task_scheduler import SchedulerOptions, TaskFacts, cut_to, gradients, next_task, unit_trials

GREEDY = SchedulerOptions(epsilon=0.0)
ALONE = [TaskFacts(1000, "a"), TaskFacts(1000, "b"), TaskFacts(1000, "c")]


def progress(*history: list[float]) -> Progress:
    """Return tasks of one network in which each occurs once."""
    return Progress(history, [dict.fromkeys(range(len(history)), 1)])


def test_total_latency_counts_how_often_a_task_occurs() -> None:
    own = Progress([[2.0], [3.0]], [{0: 4, 1: 1}, {1: 2}])
    assert TotalLatency().value(own) == 4 * 2 + 3 + 2 * 3
    assert TotalLatency().slopes(own) == [4, 3]


def test_a_network_that_meets_its_requirement_promises_nothing() -> None:
    own = Progress([[2.0], [3.0]], [{0: 1}, {1: 1}])
    assert Requirements([2.5, 2.5]).value(own) == 2.5 + 3
    assert Requirements([2.5, 2.5]).slopes(own) == [0, 1]


def test_the_mean_speed_up_is_geometric() -> None:
    """Speed-ups 2 and 8: the mean is 4, and its slope by a latency l is 4 / (2 l)."""
    own = Progress([[1.0], [0.5]], [{0: 1}, {1: 1}])
    objective = SpeedUp([2.0, 4.0])
    assert objective.value(own) == pytest.approx(-4)
    assert objective.slopes(own) == pytest.approx([2, 4])


def test_a_task_is_stopped_early_once_units_have_brought_nothing() -> None:
    own = progress([5.0, 4.0, 4.0, 4.0], [5.0, 4.0, 4.0, 3.9])
    assert StopEarly(units=2).slopes(own) == [0, 1]


def test_the_slope_of_ones_own_objective_is_found_by_trying() -> None:
    own = progress([2.0], [3.0])
    assert OwnObjective(lambda latencies: latencies[0] ** 2).slopes(own) == pytest.approx([10, 10], rel=1e-3)


@pytest.mark.parametrize("objective", [TotalLatency(), Requirements([1.0]), SpeedUp([4.0])])
def test_slopes_are_derivatives(objective: Objective) -> None:
    step = 1e-6
    own, more = progress([2.0], [3.0]), progress([2.0 + step], [3.0])
    assert (objective.value(more) - objective.value(own)) / step == pytest.approx(objective.slopes(own)[0], rel=1e-4)


def test_the_gradient_of_a_fresh_task_is_its_latency_by_its_units() -> None:
    """No window yet: 0.8 min(-g / t, 2 C / V - g) with V of the task itself, C / g: 0.8 min(-g, g)."""
    found = gradients(progress([3.0], [5.0, 5.0]), ALONE, TotalLatency(), GREEDY)
    assert found == pytest.approx([-0.8 * 3, -0.8 * 5 / 2])


def test_what_the_last_units_have_brought_counts_a_fifth() -> None:
    """After 4 units from 8 to 5, looking 3 back: 0.2 (5 - 8) / 3 + 0.8 (-5 / 4)."""
    found = gradients(progress([8.0, 6.0, 6.0, 5.0]), ALONE[:1], TotalLatency(), GREEDY)
    assert found == pytest.approx([0.2 * -1 + 0.8 * -1.25])


def test_a_task_is_hoped_to_be_twice_as_slow_as_similar_ones_at_most() -> None:
    """10 s for 1,000 operations beside 1 s for the same: 2 * 1 - 10 is less than -10 / 4."""
    facts = [TaskFacts(1000, "a"), TaskFacts(1000, "a")]
    found = gradients(progress([10.0] * 4, [1.0] * 4), facts, TotalLatency(), GREEDY)
    assert found[0] == pytest.approx(0.8 * -8)
    assert found[1] == pytest.approx(0.8 * -1 / 4)


def test_the_gradient_of_a_stalled_task_shrinks() -> None:
    stalled = [gradients(progress([4.0] * units), ALONE[:1], TotalLatency(), GREEDY)[0] for units in range(1, 6)]
    assert stalled == sorted(stalled)
    assert stalled[-1] == pytest.approx(stalled[0] / 5)


def test_each_task_gets_a_unit_first_then_that_of_the_largest_gradient() -> None:
    rng = random.Random(0)
    fresh = progress([9.0], [1.0], [2.0])
    assert next_task(fresh, ALONE, TotalLatency(), GREEDY, [0, 1, 2], rng, first={1, 2}) == 2
    started = progress([1.0], [3.0], [2.0])
    assert next_task(started, ALONE, TotalLatency(), GREEDY, [0, 1, 2], rng) == 1
    assert next_task(started, ALONE, TotalLatency(), GREEDY, [0, 2], rng) == 2


def test_the_first_round_begins_with_what_takes_most_of_the_network() -> None:
    """Once 5 s, four times 2 s, once 6 s: 5, 8 and 6 s of the network."""
    own = Progress([[5.0], [2.0], [6.0]], [{0: 1, 1: 4, 2: 1}])
    order, fresh = [], {0, 1, 2}
    while fresh:
        order.append(next_task(own, ALONE, TotalLatency(), GREEDY, [0, 1, 2], random.Random(0), first=fresh))
        fresh.discard(order[-1] or 0)
    assert order == [1, 2, 0]
    met = next_task(own, ALONE, Requirements([1e3]), GREEDY, [0, 1, 2], random.Random(0), first={0, 1, 2})
    assert met == 0, "a round is one unit for each, in their order where the objective weighs none"


def test_with_trials_for_few_tasks_heavy_ones_get_several_units_before_light_ones_get_any() -> None:
    """8, 3 and 1 s, nothing found: a task is worth its latency by its units, the first task 8, 8/2, 8/3, 8/4."""
    units, order = [0, 0, 0], []
    for _ in range(6):
        own = progress(*([latency] * max(each, 1) for latency, each in zip((8.0, 3.0, 1.0), units, strict=True)))
        task = next_task(own, ALONE, TotalLatency(), GREEDY, [0, 1, 2], random.Random(0))
        assert task is not None
        units[task] += 1
        order.append(task)
    assert order[0] == 0
    assert units == [4, 2, 0]


@pytest.mark.parametrize(
    ("trials", "tasks", "unit", "size"),
    [(1000, 13, 64, 64), (312, 26, 64, 12), (34, 13, 64, 8), (34, 13, 4, 4), (3, 13, 64, 8), (5, 0, 64, 8)],
)
def test_units_are_smaller_with_few_trials_but_not_tiny(trials: int, tasks: int, unit: int, size: int) -> None:
    assert unit_trials(trials, tasks, unit) == size


@given(st.integers(1, 500), st.integers(1, 64))
def test_units_are_cut_to_what_is_left_and_none_is_a_scrap(trials: int, size: int) -> None:
    left, units = trials, []
    while left:
        units.append(cut_to(left, size))
        left -= units[-1]
    assert sum(units) == trials
    assert max(units) <= size
    assert min(units) >= min(size // 2, trials)
    assert len(units) == -(-trials // size)


def test_34_trials_are_four_units_of_eight_and_less() -> None:
    assert [cut_to(left, 8) for left in (34, 26, 18, 10, 5)] == [8, 8, 8, 5, 5]


def test_a_few_units_go_to_any_task() -> None:
    rng, own = random.Random(0), progress([100.0], [1.0], [1.0])
    options = SchedulerOptions(epsilon=0.3)
    chosen = [next_task(own, ALONE, TotalLatency(), options, [0, 1, 2], rng) for _ in range(300)]
    assert 0.1 < sum([each != 0 for each in chosen]) / 300 < 0.3


def test_without_a_scheduler_tasks_take_turns() -> None:
    options, rng = SchedulerOptions("round-robin"), random.Random(0)
    assert next_task(progress([9.0, 9.0], [1.0], [5.0]), ALONE, TotalLatency(), options, [0, 1, 2], rng) == 1
    assert next_task(progress([9.0], [1.0], [5.0]), ALONE, TotalLatency(), options, [0, 1, 2], rng, first=[2]) == 2


def test_nothing_is_chosen_where_no_task_promises_anything() -> None:
    rng = random.Random(0)
    met = progress([1.0], [1.0])
    assert next_task(met, ALONE[:2], Requirements([5.0]), GREEDY, [0, 1], rng) is None
    assert next_task(met, ALONE[:2], TotalLatency(), GREEDY, [], rng) is None
