"""AGO's partition: weights by eq. (1), affix sets, and stages recomputed after every step (Algorithm 1)."""

import math

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.ago import (
    THRESHOLD,
    Weights,
    cluster,
    heavy_layers,
    is_complex,
    join,
    split,
    threshold_for_any_two,
)
from dsascape.fusion.ago.clustering import Clustering
from dsascape.fusion.plan import Group, plan_from_groups, violations
from dsascape.workloads import Graph
from tests.fusion.random_dags import random_dag
from tests.graphs import Net
from tests.tiers import examples
from tests.workloads.test_masked_attention import written_out

PLAIN = Weights(1.0, 0.0, math.e)
"""Products of natural logarithms."""


def names(graph: Graph, threshold: float) -> list[list[str]]:
    return [[graph.ops[op].name for op in found.ops] for found in cluster(graph, PLAIN, threshold)]


class TestWeights:
    def test_a_convolution_weighs_the_product_of_the_logarithms_of_its_seven_loops(self) -> None:
        net = Net()
        op = net.graph(net.conv(net.input(2, 4, 8, 8), 16)).ops[0]
        expected = math.prod(math.log(extent) for extent in (2, 8, 8, 16, 4, 3, 3))

        assert Weights(3.0, 5.0, math.e).of(op) == pytest.approx(3 * expected + 5)

    def test_loops_of_one_iteration_do_not_count(self) -> None:
        net = Net()
        op = net.graph(net.relu(net.input(1, 4, 8, 1))).ops[0]

        assert PLAIN.of(op) == pytest.approx(math.log(4) * math.log(8))

    @pytest.mark.parametrize("base", [1.1, 1.1905, 2.0, 10.0])
    def test_the_base_does_not_fold_into_the_slope(self, base: float) -> None:
        """It divides a product of n logarithms n times: three loops here, two there."""
        net = Net()
        x = net.relu(net.input(4, 8))
        three, two = net.graph(net.matmul(x, net.input(8, 16)), x).ops[1], net.graph(x).ops[0]

        assert Weights(1.0, 0.0, base).of(two) == pytest.approx(PLAIN.of(two) / math.log(base) ** 2)
        assert Weights(1.0, 0.0, base).of(three) == pytest.approx(PLAIN.of(three) / math.log(base) ** 3)

    def test_operators_that_only_move_data_weigh_the_bias(self) -> None:
        net = Net()
        x = net.transpose(net.input(2, 4, 8), 0, 2, 1)
        graph = net.graph(net.relu(net.reshape(x, 8, 8)))

        assert [Weights(3.0, 5.0).of(op) for op in graph.ops[:2]] == [5.0, 5.0]
        assert Weights(3.0, 5.0).of(graph.ops[2]) > 5.0

    def test_complex_operators_multiply_and_add_up(self) -> None:
        net = Net()
        x = net.input(1, 4, 8, 8)
        graph = net.graph(net.relu(net.conv(x, 4)), net.softmax(x), net.matmul(x, x))

        assert [graph.ops[op].kind for op in range(len(graph.ops)) if is_complex(graph, op)] == ["Conv", "MatMul"]


class TestByHand:
    def figure_9(self) -> Graph:
        """Return conv1 -> conv2 -> conv3 with a shortcut over ReLUs, as far as the paper draws it."""
        net = Net()
        x = net.conv(net.input(1, 8, 8, 8), 8)
        return net.graph(net.conv(net.add(net.relu(x), net.conv(net.relu(x), 8)), 8))

    def test_everything_is_one_sub_graph_under_a_large_threshold(self) -> None:
        assert len(names(self.figure_9(), 1e9)) == 1

    def test_nothing_is_clustered_under_a_small_one(self) -> None:
        assert len(names(self.figure_9(), 1e-9)) == 6

    def test_a_chain_is_clustered_until_it_would_weigh_too_much(self) -> None:
        net = Net()
        x = net.input(8, 8)
        for kind in ("Relu", "Exp", "Tanh", "Sqrt"):
            x = net.unary(kind, x)
        graph = net.graph(x)
        one = PLAIN.of(graph.ops[0])
        found = cluster(graph, PLAIN, 2.5 * one)

        assert [sub.ops for sub in found] == [(0, 1), (2, 3)]
        assert found[0].weight == pytest.approx(2 * one)
        assert found[0].boundary_reason == f"would weigh {3 * one:.0f} with tanh1, not less than {2.5 * one:.0f}"

    def test_an_operator_further_away_than_a_stage_is_not_taken(self) -> None:
        """The addition is three stages behind the first ReLU, and the products between are too heavy for both."""
        net = Net()
        x = net.relu(net.input(8, 8))
        graph = net.graph(net.add(net.matmul(net.matmul(x, x), x), x))
        light = PLAIN.of(graph.ops[0])

        assert names(graph, 3 * light) == [["relu1"], ["matmul1"], ["matmul2"], ["add1"]]


def test_mini_sub_graphs_have_one_complex_operator_each_and_join_to_the_whole() -> None:
    net = Net()
    x = net.relu(net.conv(net.relu(net.conv(net.input(1, 8, 8, 8), 8)), 8))
    graph = net.graph(x)
    minis = split(graph, range(4), Weights())

    assert [[graph.ops[op].kind for op in mini.ops] for mini in minis] == [["Conv", "Relu"], ["Conv", "Relu"]]
    assert join(mini.ops for mini in minis) == (0, 1, 2, 3)


class TestThreshold:
    @given(slope=st.floats(1e-6, 1e300))
    def test_any_two_operators_are_lighter_however_heavy_they_are(self, slope: float) -> None:
        net = Net()
        graph = net.graph(net.relu(net.conv(net.input(1, 4, 8, 8), 4)))
        weights = Weights(slope)
        threshold = threshold_for_any_two(graph, weights)

        assert threshold >= THRESHOLD
        assert all(2 * weights.of(op) < threshold for op in graph.ops)
        assert threshold == THRESHOLD or threshold <= 4 * max(map(weights.of, graph.ops))


class TestHeavyLayers:
    def convolution_and_activation(self) -> Graph:
        net = Net()
        return net.graph(net.relu(net.conv(net.input(1, 4, 8, 8), 4)))

    def test_a_convolution_as_heavy_as_the_threshold_keeps_its_activation(self) -> None:
        graph = self.convolution_and_activation()
        threshold = PLAIN.of(graph.ops[0])
        layers = heavy_layers(graph, PLAIN, threshold)

        assert layers == [[0, 1]]
        assert [sub.ops for sub in cluster(graph, PLAIN, threshold, layers=layers)] == [(0, 1)]
        assert [sub.ops for sub in cluster(graph, PLAIN, threshold)] == [(0,), (1,)]

    def test_a_heavy_attention_is_one_node_with_its_softmax_and_both_products(self) -> None:
        graph = written_out(16, "added")
        whole = sum(map(PLAIN.of, graph.ops))

        assert heavy_layers(graph, PLAIN, whole) == [[0, 1, 2, 3]]
        assert heavy_layers(graph, PLAIN, 1.01 * whole) == []

    def test_an_attention_whose_scores_others_read_is_not(self) -> None:
        graph = written_out(16, "added", ("y", "p"))

        assert [0, 1, 2, 3] not in heavy_layers(graph, PLAIN, 1.0)

    def test_lighter_layers_are_left_to_the_algorithm(self) -> None:
        graph = self.convolution_and_activation()

        assert heavy_layers(graph, PLAIN, 2 * PLAIN.of(graph.ops[0])) == []


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 2**32), threshold=st.sampled_from([5.0, 20.0, 60.0, 1e9]), whole_layers=st.booleans())
def test_sub_graphs_are_an_acyclic_partition_lighter_than_the_threshold(
    seed: int, threshold: float, *, whole_layers: bool
) -> None:
    graph, weights = random_dag(seed), PLAIN
    layers = heavy_layers(graph, weights, threshold) if whole_layers else []
    found = cluster(graph, weights, threshold, layers=layers)

    assert violations(plan_from_groups(graph, (Group(sub.ops, sub.boundary_reason) for sub in found))) == []
    for sub in found:
        assert sub.weight == pytest.approx(sum(weights.of(graph.ops[op]) for op in sub.ops))
        assert len(sub.ops) == 1 or sub.weight < threshold or list(sub.ops) in layers
        assert sub.boundary_reason


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32))
def test_stages_are_the_longest_paths_after_every_step(seed: int) -> None:
    graph = random_dag(seed, 25)
    clustering = Clustering(graph, PLAIN, 40.0, layers=heavy_layers(graph, PLAIN, 40.0))
    parts = clustering.partition
    for _ in clustering.steps():
        quotient: nx.DiGraph[int] = nx.DiGraph()
        quotient.add_nodes_from(parts.parts)
        quotient.add_edges_from((part, reader) for part in parts.parts for reader in parts.readers(part))
        longest: dict[int, int] = {}
        for part in nx.topological_sort(quotient):
            longest[part] = 1 + max((longest[source] for source in quotient.predecessors(part)), default=0)
        assert clustering.stage == longest
