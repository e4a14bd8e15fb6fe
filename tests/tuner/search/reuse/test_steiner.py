"""Trees of reuse: the least spanning one, and FLAC's, compared with all trees of small graphs."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings

from dsascape.tuner.search.reuse.choices import ROOT, Choices, arborescence
from dsascape.tuner.search.reuse.operators import ReuseError
from dsascape.tuner.search.reuse.steiner import greedy_flac, improved
from tests.tiers import examples
from tests.tuner.search.reuse.drawn import graph, graphs, is_tree, least_cost, product_of, random_graph, trees

ONE, OTHER, BRIDGE = 0, 1, 2


def fork(from_nothing: float) -> Choices:
    """Return two operators that each cost 4, or 1 from a bridge."""
    costs = {(ROOT, ONE): 4.0, (ROOT, OTHER): 4.0, (ROOT, BRIDGE): from_nothing}
    return graph(costs | {(BRIDGE, ONE): 1.0, (BRIDGE, OTHER): 1.0}, 2)


def test_water_of_two_operators_fills_the_edge_to_a_bridge_twice_as_fast() -> None:
    # Both edges from the bridge are full after 1 s; its own, of 5, is full after 1 + 5/2 = 3.5 s, before 4 s.
    assert greedy_flac(fork(5)) == {ONE: BRIDGE, OTHER: BRIDGE, BRIDGE: ROOT}
    # Of 7 it is full after 4.5 s, behind those of 4: one operator is reached, then the other.
    assert greedy_flac(fork(7)) == {ONE: ROOT, OTHER: ROOT}


def test_water_of_one_operator_does_not_arrive_twice_at_one_place() -> None:
    costs = {(ROOT, 1): 3.0, (1, 0): 2.0, (1, 2): 1.0, (2, 0): 1.0, (ROOT, 0): 50.0, (ROOT, 2): 50.0}

    tree = greedy_flac(graph(costs, 1))

    # Water arrives at 2 after 1 s. After 2 s both edges from 1 are full, and the second of them is left out.
    assert tree == {0: 1, 1: ROOT}


def test_what_is_reached_already_is_where_the_next_operators_are_reached_from() -> None:
    costs = {(ROOT, 0): 1.0, (ROOT, 1): 9.0, (0, 1): 3.0}

    assert greedy_flac(graph(costs, 2)) == {0: ROOT, 1: 0}


def test_a_bridge_that_makes_a_tree_dearer_is_left_out() -> None:
    assert improved(fork(5), {ONE: ROOT, OTHER: ROOT, BRIDGE: ROOT}) == {ONE: BRIDGE, OTHER: BRIDGE, BRIDGE: ROOT}
    assert improved(fork(9), {ONE: ROOT, OTHER: ROOT, BRIDGE: ROOT}) == {ONE: ROOT, OTHER: ROOT}


@settings(max_examples=examples(200), deadline=None)
@given(graphs(bridges=0))
def test_no_spanning_tree_costs_less_than_the_arborescence(choices: Choices) -> None:
    tree = arborescence(choices, range(choices.wanted))

    assert is_tree(tree)
    assert choices.cost(tree) == min(map(choices.cost, trees(choices)))


@settings(max_examples=examples(200), deadline=None)
@given(graphs(bridges=2))
def test_flac_reaches_all_operators_and_keeps_its_bound(choices: Choices) -> None:
    least = min(map(choices.cost, trees(choices)))
    tree = greedy_flac(choices)
    better = improved(choices, tree)

    assert least == least_cost(choices)
    for found in (tree, better):
        assert is_tree(found)
        assert set(range(choices.wanted)) <= found.keys()
        assert {source for source in found.values() if source >= choices.wanted} == {
            node for node in found if node >= choices.wanted
        }
    assert least <= choices.cost(better) <= choices.cost(tree) <= choices.wanted * least


def told_step_by_step(choices: Choices) -> dict[int, int]:
    """Return FLAC's tree by its definition: the water in each edge, and who is upstream, anew after each full edge."""
    tree: dict[int, int] = {}
    while missing := set(range(choices.wanted)) - tree.keys():
        full: set[tuple[int, int]] = set()
        left_out: set[tuple[int, int]] = set()
        water = dict.fromkeys(choices.costs, Fraction(0))
        while True:
            sources = {node: sources_of(node, missing, full) for node in range(len(choices.operators))}
            filling = [edge for edge in choices.costs if edge not in full | left_out and sources[edge[1]]]
            times = {
                edge: (Fraction(choices.costs[edge]) - water[edge]) / len(sources[edge[1]]) for edge in filling
            }  # fmt: skip
            first = min(filling, key=lambda edge: (times[edge], edge[1], choices.costs[edge], edge[0]))
            for edge in filling:
                water[edge] += times[first] * len(sources[edge[1]])
            source, target = first
            if source == ROOT or source in tree:
                break
            above = [node for node in sources if source in below(node, full)]
            is_joined = any(sources[node] & sources[target] for node in above)
            (left_out if is_joined else full).add(first)
        tree[target] = source
        tree |= {inner: outer for outer, inner in full if outer in below(target, full)}
    return tree


def below(node: int, full: set[tuple[int, int]]) -> set[int]:
    """Return a node and all that full edges lead to from it."""
    found = {node}
    while more := {target for source, target in full if source in found} - found:
        found |= more
    return found


def sources_of(node: int, missing: set[int], full: set[tuple[int, int]]) -> set[int]:
    return below(node, full) & missing


@settings(max_examples=examples(100), deadline=None)
@given(graphs(bridges=3, wanted=2))
def test_flac_is_what_its_definition_says_also_where_edges_are_full_at_the_same_time(choices: Choices) -> None:
    # Rates of 1 and 2 divide whole costs exactly, so that times are equal or not in floating point, too.
    assert greedy_flac(choices) == told_step_by_step(choices)


@pytest.mark.parametrize("density", [0.2, 0.6])
def test_flac_is_what_its_definition_says_with_more_operators(density: float) -> None:
    for seed in range(examples(20, few=4)):
        choices = random_graph(5, 4, density, seed)

        assert greedy_flac(choices) == told_step_by_step(choices)


@pytest.mark.parametrize(
    ("density", "greedy_optimal", "optimal", "worst"), [(0.2, 6, 21, 1.27), (0.5, 11, 23, 1.22), (1.0, 4, 21, 1.20)]
)
def test_how_often_a_tree_with_bridges_is_the_least_there_is(
    density: float, greedy_optimal: int, optimal: int, worst: float
) -> None:
    drawn = [random_graph(6, 6, density, seed) for seed in range(30)]
    greedy = [greedy_flac(choices) for choices in drawn]
    ratios = [
        (choices.cost(tree) / least, choices.cost(improved(choices, tree)) / least)
        for choices, tree in zip(drawn, greedy, strict=True)
        for least in (least_cost(choices),)
    ]

    assert sum(math.isclose(ratio, 1) for ratio, _ in ratios) >= greedy_optimal
    assert sum(math.isclose(ratio, 1) for _, ratio in ratios) >= optimal
    assert max(ratio for ratio, _ in ratios) <= worst


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        ({(ROOT, 0): 1000.0, (ROOT, 1): 1000.0, (0, 1): 0.0}, "from BMM 1x1x1 over 1 has the cost 0.0"),
        ({(ROOT, 0): math.inf, (ROOT, 1): 1000.0}, "from nothing has the cost inf"),
        ({(ROOT, 0): 1000.0, (0, 1): 5.0}, "BMM 1x2x1 over 1 cannot be tuned from nothing"),
        ({(ROOT, 0): 1000.0, (ROOT, 1): 1000.0, (7, 1): 5.0}, "an edge leads from 7 to 1 of 2 operators"),
    ],
)
def test_a_graph_with_impossible_costs_or_edges_is_refused(costs: dict[tuple[int, int], float], told: str) -> None:
    with pytest.raises(ReuseError, match=told):
        Choices((product_of(1, 1, 1, 1), product_of(1, 2, 1, 1)), 2, costs)
