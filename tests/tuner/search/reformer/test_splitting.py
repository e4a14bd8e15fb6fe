"""SPLIT: mini sub-graphs with at most one complex operator, each a task; decisions that print and come back."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.ago import Weights, is_complex
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.search.reformer.decisions import (
    Decision,
    DecisionError,
    JoinDecision,
    MiniEnd,
    MiniGraph,
    SplitDecision,
    decision_json,
    read_decision,
)
from dsascape.tuner.search.reformer.reforming import is_stable, tasks_with_minis
from dsascape.tuner.search.reformer.splitting import complex_operators, mini_graphs
from tests.graphs import Net
from tests.tiers import examples
from tests.tuner.search.kernels import convolution, pair_behind
from tests.tuner.search.reformer.pairs import PAIRS, alike, split_of, three


def test_a_pair_is_split_behind_what_follows_its_first_operator() -> None:
    """By hand: each convolution with the activation behind it; weights add up to the kernel's."""
    split = split_of(pair_behind())
    assert [mini.task.operators for mini in split.minis] == [("conv1", "relu1"), ("conv2", "relu2")]
    assert sum([mini.weight for mini in split.minis]) == pytest.approx(split.weight)
    assert [mini.task.weight for mini in split.minis] == [0, 0]
    graph = split.whole.naive.layer.graph
    assert split.minis[0].weight == pytest.approx(Weights().of(graph.ops[0]) + Weights().of(graph.ops[1]))


def test_equal_mini_sub_graphs_are_one_task() -> None:
    split = split_of(alike())
    first, second, third = [mini.task.key for mini in split.minis]
    assert first != second == third
    assert [task.key for task in tasks_with_minis([split.whole], [split])] == [split.whole.key, first, second]


def test_three_complex_operators_are_three_mini_sub_graphs() -> None:
    assert len(split_of(three()).minis) == 3


def test_a_kernel_with_one_complex_operator_stays_whole() -> None:
    split = split_of(convolution())
    assert split.minis == ()
    assert split.reason == ""


@pytest.mark.parametrize("own", PAIRS.values(), ids=PAIRS.keys())
def test_mini_sub_graphs_have_one_complex_operator_at_most_and_all_operators_once(
    own: Callable[[], NaiveProgram],
) -> None:
    layer = own().layer
    minis = mini_graphs(layer.graph, layer.ops, Weights())
    assert sorted(op for mini in minis for op in mini) == sorted(layer.ops)
    assert max([sum(is_complex(layer.graph, op) for op in mini) for mini in minis]) == 1
    assert len(minis) >= len(complex_operators(layer)) > 1


@given(st.lists(st.sampled_from(["conv", "depthwise", "relu", "branch", "bias"]), min_size=1, max_size=9))
@settings(max_examples=examples(60), deadline=None)
def test_random_chains_are_split_without_a_cycle(kinds: list[str]) -> None:
    """Producers come first: nobody reads what a later mini sub-graph writes."""
    net = Net()
    x = net.conv(net.input(1, 4, 6, 6), 4, 1)
    earlier = x
    one_operand: dict[str, Callable[[str], str]] = {
        "conv": lambda x: net.conv(x, 4, 1), "depthwise": net.depthwise, "relu": net.relu, "bias": net.bias,
    }  # fmt: skip
    for kind in kinds:
        x, earlier = net.add(x, earlier) if kind == "branch" else one_operand[kind](x), x
    graph = net.graph(x, dtype="fp32")
    minis = mini_graphs(graph, range(len(graph.ops)), Weights())
    place = {op: number for number, mini in enumerate(minis) for op in mini}
    assert len(place) == len(graph.ops)
    for op, number in place.items():
        sources = [graph.producer[name] for name in graph.ops[op].inputs if name in graph.producer]
        assert all(place[source] <= number for source in sources)
    assert max([sum(is_complex(graph, op) for op in mini) for mini in minis]) <= 1


@pytest.mark.parametrize(
    ("found", "units", "stable"),
    [
        ([5.0, 4.0, 4.0], 2, False),  # a gain in the second of three units: one unit without
        ([5.0, 4.0, 4.0, 4.0], 2, True),
        ([5.0, 4.0, 4.0, 3.0], 2, False),
        ([4.0, 4.0], 2, False),
        ([4.0, 4.0, 4.0], 2, True),
        ([], 1, False),
    ],
)
def test_stable_is_no_gain_in_so_many_units(found: list[float], units: int, stable: bool) -> None:
    assert is_stable(found, units) is stable


DECISIONS: list[Decision] = [
    SplitDecision("k0", "relu2", (MiniGraph("k1", ("conv1", "relu1"), 12.5), MiniGraph("k2", ("conv2",), 3.0))),
    SplitDecision("k0", "relu2", (), "its complex operators are those of one mini sub-graph"),
    JoinDecision(
        "k0", "relu2", 7, (MiniEnd("k1", 4, 32, 1.5e-6, "stable"), MiniEnd("k2", 3, 24, None, "budget")), "[]"
    ),
]


def test_decisions_print_and_come_back() -> None:
    assert [read_decision(decision_json(each)) for each in DECISIONS] == DECISIONS
    assert [str(each) for each in DECISIONS] == [
        "relu2 is split into [conv1, relu1] (12.5) [conv2] (3)",
        "relu2 is left whole: its complex operators are those of one mini sub-graph",
        "relu2 is joined after unit 7: 1.5 us after 32 trials (stable), no time after 24 trials (budget); composed",
    ]


@pytest.mark.parametrize("text", ["", "7", "{}", '{"decision": "No"}', '{"decision": "JoinDecision", "task": 3}'])
def test_anything_else_is_no_decision(text: str) -> None:
    with pytest.raises(DecisionError, match="no decision"):
        read_decision(text)
