"""Bridges: the elementwise minimum of loops, hop by hop, and how many there are in the paper's networks."""

from itertools import combinations

import pytest
from hypothesis import given, settings

from dsascape.tuner.search.reuse.bridges import bridge_between, bridges
from dsascape.tuner.search.reuse.kernels import graph_of
from dsascape.tuner.search.reuse.nests import operator_of, operators_of
from dsascape.tuner.search.reuse.operators import IterationSpace, Operator, ReuseError, Window, is_reuse_pair
from dsascape.workloads import load_network
from dsascape.workloads.single_operators import SingleOperator, single_operator
from tests.tiers import examples
from tests.tuner.search import kernels
from tests.tuner.search.reuse.drawn import product_of, sets_of_products


def convolution(data: tuple[int, ...], weight: tuple[int, ...], **attributes: list[int] | int) -> Operator:
    (found,) = operators_of(single_operator(SingleOperator("it", "Conv", (data,), (weight,), attributes)))
    return found.operator


def convolutions(network: str) -> list[Operator]:
    return [each.operator for each in operators_of(load_network(network)) if each.operator.windows]


def test_the_bridge_of_the_papers_two_convolutions() -> None:
    one = convolution((1, 64, 16, 16), (64, 64, 3, 3))
    other = convolution((1, 64, 56, 56), (64, 64, 1, 1), strides=[2, 2])

    bridge = bridge_between(one, other)

    assert bridge is not None
    assert not is_reuse_pair(one, other)
    assert bridge.loops == IterationSpace((1, 64, 14, 14), (64, 1, 1))
    assert bridge.windows == (Window(2, 1, 14), Window(3, 2, 14))


def test_a_bridge_with_other_sketches_is_none() -> None:
    # 64 elements over 100 iterations: threads could share them.
    assert bridge_between(product_of(1, 8, 64, 200), product_of(1, 64, 8, 100)) is None
    assert bridge_between(product_of(1, 8, 64, 200), product_of(1, 64, 8, 60)) is not None


def test_operators_of_other_sketches_have_no_bridge() -> None:
    assert bridge_between(product_of(1, 8, 8, 100), product_of(1, 64, 8, 8)) is None


def test_groups_of_a_bridge_are_those_that_both_can_be_split_into() -> None:
    four = convolution((1, 16, 8, 8), (8, 4, 3, 3), group=4)
    six = convolution((1, 24, 9, 5), (12, 4, 3, 3), group=6)
    five = convolution((1, 20, 9, 5), (10, 4, 3, 3), group=5)

    shared = bridge_between(four, six)

    assert shared is not None
    assert (str(shared), shared.groups) == ("GRP 1x8x6x3 over 4x3x3, 2 groups", 2)
    assert bridge_between(four, five) is None


def test_a_bridge_of_depthwise_convolutions_is_depthwise() -> None:
    wide = convolution((1, 9, 5, 5), (9, 1, 3, 3), group=9)
    deep = convolution((1, 4, 9, 9), (4, 1, 3, 3), group=4)

    bridge = bridge_between(wide, deep)

    assert str(bridge) == "DEP 1x4x3x3 over 3x3, 4 groups"


@settings(max_examples=examples(100), deadline=None)
@given(sets_of_products)
def test_bridges_of_one_hop_can_be_reused_by_both_sides(operators: list[Operator]) -> None:
    found = bridges(operators)
    loops = {each.loops for each in operators}

    for one, other in combinations(operators, 2):
        bridge = bridge_between(one, other)
        if bridge is not None and bridge.loops not in loops:
            assert bridge in found
            assert is_reuse_pair(one, bridge)
            assert is_reuse_pair(other, bridge)
    assert len({each.loops for each in found} | loops) == len(found) + len(loops)


@settings(max_examples=examples(100), deadline=None)
@given(sets_of_products)
def test_there_are_no_more_bridges_behind_those_of_m_minus_1_hops(operators: list[Operator]) -> None:
    everything = bridges(operators, None)

    assert bridges(operators, len(operators[0].loops.extents) - 1) == everything
    assert bridges([*operators, *everything]) == ()
    assert bridges(operators, 0) == ()


@pytest.mark.parametrize(("network", "one_hop", "every"), [("resnet50-v1", 44, 49), ("resnet50", 51, 56)])
def test_bridges_of_resnet50(network: str, one_hop: int, every: int) -> None:
    operators = convolutions(network)

    assert (len(bridges(operators)), len(bridges(operators, None))) == (one_hop, every)


@pytest.mark.parametrize("network", ["mobilenet-v2", "resnest50", "r2plus1d-18", "dcgan", "bert-base-128"])
def test_operators_and_bridges_are_networks_of_one_operator(network: str) -> None:
    operators = [each.operator for each in operators_of(load_network(network))]

    for operator in [*operators, *bridges(operators)]:
        (found,) = operators_of(graph_of(operator))
        assert found.operator == operator


def test_what_is_neither_a_convolution_nor_a_product_has_no_network() -> None:
    with pytest.raises(ReuseError, match="is neither a convolution nor a product"):
        graph_of(operator_of(kernels.softmax()))
    with pytest.raises(ReuseError, match="MaxPool"):
        graph_of(operator_of(kernels.max_pool()))
