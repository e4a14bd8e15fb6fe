"""The search never returns a grouping that costs more than its start, and its groupings can run."""

import itertools
import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion import fixed_pattern_plan
from dsascape.fusion.plan import Group, Split, plan_from_groups, violations
from dsascape.fusion.searched import BudgetedCosts, Grouping, best_intervals, grouping_of, improved, neighbours
from dsascape.workloads import Graph
from tests.fusion.random_dags import random_dag
from tests.graphs import Net
from tests.tiers import examples

SEEDS = st.integers(0, 2**32)
MANY = 10**6


def alone(graph: Graph) -> Grouping:
    return frozenset((op,) for op in range(len(graph.ops)))


def drawn_cost(seed: int) -> dict[tuple[int, ...], float]:
    """Return costs that are drawn as they are asked for: neither monotone nor alike."""

    class Drawn(dict[tuple[int, ...], float]):
        def __missing__(self, part: tuple[int, ...]) -> float:
            self[part] = random.Random(f"{seed} {part}").uniform(0.2, 1) * math.sqrt(len(part))
            return self[part]

    return Drawn()


def chain(length: int) -> Graph:
    net = Net()
    x = net.input(1, 8)
    for _ in range(length):
        x = net.relu(x)
    return net.graph(x)


def plan_of(graph: Graph, grouping: Grouping) -> list[str]:
    """Return what is wrong with the plan of a grouping; a circle raises."""
    return violations(plan_from_groups(graph, map(Group, grouping)))


class TestImproved:
    @settings(max_examples=examples(300))
    @given(seed=SEEDS, most_ops=st.integers(1, 6))
    def test_it_costs_no_more_and_can_run(self, seed: int, most_ops: int) -> None:
        graph = random_dag(seed, 25)
        costs = BudgetedCosts(drawn_cost(seed).__getitem__, MANY)
        starts = (alone(graph), grouping_of(fixed_pattern_plan(graph)), best_intervals(graph, costs, most_ops))

        for start in starts:
            found = improved(graph, start, costs, most_ops)

            assert plan_of(graph, found) == []
            assert costs.total_s(found) <= costs.total_s(start) * (1 + 1e-12)
            assert all(len(part) <= most_ops for part in found - start)

    def test_two_kernels_become_one_where_that_is_cheaper(self) -> None:
        costs = BudgetedCosts(lambda part: 1.0, MANY)

        assert improved(chain(3), alone(chain(3)), costs, 8) == {(0, 1, 2)}

    def test_an_operator_goes_over_to_the_next_kernel_where_that_is_cheaper(self) -> None:
        seconds = {(0, 1): 5.0, (2,): 5.0, (0,): 1.0, (1, 2): 2.0}
        costs = BudgetedCosts(lambda part: seconds.get(part, math.inf), MANY)

        assert improved(chain(3), frozenset({(0, 1), (2,)}), costs, 8) == {(0,), (1, 2)}

    def test_groups_that_would_form_a_cycle_are_not_joined(self) -> None:
        net = Net()
        first = net.relu(net.input(1, 8))
        last = net.add(first, net.unary("Exp", first))
        graph = net.graph(last)
        costs = BudgetedCosts(lambda part: 0.0 if part == (0, 2) else float(len(part)), MANY)

        found = improved(graph, alone(graph), costs, 8)

        assert (0, 2) not in found

    def test_the_budget_of_evaluated_kernels_is_kept(self) -> None:
        asked_for: list[tuple[int, ...]] = []

        def kernel_s(part: tuple[int, ...]) -> float:
            asked_for.append(part)
            return 1.0

        improved(chain(60), alone(chain(60)), BudgetedCosts(kernel_s, 50), 8)

        assert len(asked_for) == len(set(asked_for)) == 50

    def test_an_operator_that_no_kernel_can_hold_stays_by_itself(self) -> None:
        costs = BudgetedCosts(lambda part: math.inf, MANY)

        assert best_intervals(chain(3), costs, 8) == alone(chain(3))
        assert improved(chain(3), alone(chain(3)), costs, 8) == alone(chain(3))


def all_stretches(count: int, most_ops: int) -> Iterator[Grouping]:
    """Yield every way to cut an order of ``count`` operators."""
    for cuts in itertools.product((False, True), repeat=count - 1):
        ends = [place + 1 for place, cut in enumerate(cuts) if cut] + [count]
        parts = [tuple(range(begin, end)) for begin, end in zip([0, *ends], ends, strict=False)]
        if all(len(part) <= most_ops for part in parts):
            yield frozenset(parts)


@settings(max_examples=examples(60))
@given(seed=SEEDS, length=st.integers(1, 8), most_ops=st.integers(1, 8))
def test_the_best_intervals_are_those_of_exhaustive_search(seed: int, length: int, most_ops: int) -> None:
    costs = BudgetedCosts(drawn_cost(seed).__getitem__, MANY)
    least = min(costs.total_s(each) for each in all_stretches(length, most_ops))

    found = best_intervals(chain(length), costs, most_ops)

    assert costs.total_s(found) == pytest.approx(least)


class TestNeighbours:
    @settings(max_examples=examples(100))
    @given(seed=SEEDS)
    def test_each_is_a_plan_that_can_run_and_differs(self, seed: int) -> None:
        plan = fixed_pattern_plan(random_dag(seed, 15))

        for other in itertools.islice(neighbours(plan), 20):
            assert violations(other) == []
            assert grouping_of(other) != grouping_of(plan)

    def test_groups_are_joined_first_then_cut_into_more_or_fewer_instances_then_in_two(self) -> None:
        plan = plan_from_groups(chain(3), (Group((0, 1), "", Split(1, 2)), Group((2,))))

        shown = [[(group.ops, group.instances) for group in other.groups] for other in neighbours(plan)]

        assert shown == [
            [((0, 1, 2), 1)],
            [((0, 1), 4), ((2,), 1)],
            [((0, 1), 1), ((2,), 1)],
            [((0,), 1), ((1,), 1), ((2,), 1)],
        ]
