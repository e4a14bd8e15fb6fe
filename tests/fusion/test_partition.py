"""A partition grown by merging detects cycles exactly as a search of the whole graph does."""

import random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.partition import AcyclicPartition
from tests.fusion.random_dags import random_dag
from tests.graphs import Net
from tests.tiers import examples


def quotient(partition: AcyclicPartition) -> "nx.DiGraph[int]":
    found: nx.DiGraph[int] = nx.DiGraph()
    found.add_nodes_from(partition.parts)
    found.add_edges_from((part, reader) for part in partition.parts for reader in partition.readers(part))
    return found


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32))
def test_merging_keeps_order_and_edges_and_finds_every_circle(seed: int) -> None:
    draw = random.Random(seed)
    partition = AcyclicPartition(random_dag(seed, 30))
    for _ in range(20):
        graph = quotient(partition)
        assert all(partition.place(a) < partition.place(b) for a, b in graph.edges)
        assert all(part in partition.sources(reader) for part, reader in graph.edges)
        if not graph.edges:
            break
        one, other = draw.choice(sorted(graph.edges))
        merged = nx.contracted_nodes(graph, one, other, self_loops=False)
        assert partition.closes_circle(one, other) == (not nx.is_directed_acyclic_graph(merged))
        if not partition.closes_circle(one, other):
            members = {*partition.members(one), *partition.members(other)}
            assert set(partition.members(partition.merge(one, other))) == members


def test_a_merge_that_would_close_a_circle_is_refused() -> None:
    net = Net()
    x = net.relu(net.input(2, 4))
    partition = AcyclicPartition(net.graph(net.add(net.unary("Exp", x), x)))

    assert partition.closes_circle(0, 2)
    with pytest.raises(ValueError, match="parts 0 and 2 cannot be merged: a path over others joins them"):
        partition.merge(0, 2)
