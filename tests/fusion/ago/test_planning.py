"""AGO's sub-graphs are split into kernels, and joined if nothing is computed twice and the machine is no slower."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dsascape.fusion.ago import THRESHOLD, Tuning, Weights, ago_plan
from dsascape.fusion.plan import FusionPlan
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.workloads.test_masked_attention import written_out


def names(plan: FusionPlan) -> list[list[str]]:
    return [[plan.graph.ops[op].name for op in group.ops] for group in plan.groups]


def pair(kernel: int, *, depthwise: bool = False) -> Graph:
    """Return a convolution, a ReLU, and a convolution of that kernel."""
    net = Net()
    x = net.relu(net.conv(net.input(1, 8, 8, 8), 8))
    return net.graph(net.depthwise(x, kernel) if depthwise else net.conv(x, 8, kernel))


def fewer_is_faster(ops: Sequence[int]) -> float:
    return 1.0 + 0.1 * len(ops)


FEWER_IS_FASTER = Tuning(kernel_s=fewer_is_faster, threshold="any-two")
"""Td leaves room for any two, so that redundancy and cost alone decide."""


def test_kernels_that_no_single_cut_gives_are_found_starting_from_layers() -> None:
    """Each of two branches is fastest as one kernel, but any cut of both in order has a part with two results."""
    net = Net()
    x = net.input(1, 8)
    one, other = net.softmax(x), net.softmax(x)
    graph = net.graph(net.add(net.softmax(one), net.softmax(other)))
    costs = {(0, 1, 2, 3, 4): 2.5, (0, 2): 0.5, (1, 3): 0.5}
    plan = ago_plan(Analysis(graph), Tuning(kernel_s=lambda ops: costs.get(tuple(ops), float(len(ops)))))

    assert names(plan) == [["softmax1", "softmax3"], ["softmax2", "softmax4"], ["add1"]]


class TestIntensiveFusion:
    def test_a_pointwise_convolution_shares_a_kernel(self) -> None:
        plan = ago_plan(Analysis(pair(1)), FEWER_IS_FASTER)

        assert names(plan) == [["conv1", "relu1", "conv2"]]

    def test_a_depthwise_convolution_shares_a_kernel(self) -> None:
        plan = ago_plan(Analysis(pair(3, depthwise=True)), FEWER_IS_FASTER)

        assert names(plan) == [["conv1", "relu1", "conv2"]]

    def test_a_plain_convolution_at_batch_one_would_compute_its_input_again(self) -> None:
        one_image_only = replace(pair(3), rebuild=None)
        plan = ago_plan(Analysis(one_image_only), FEWER_IS_FASTER)

        assert names(plan) == [["conv1", "relu1"], ["conv2"]]
        assert plan.groups[0].boundary_reason == (
            "computed inside conv2, it would be computed again whichever dimension is cut"
        )

    def test_with_a_cost_model_one_image_may_have_the_kernels_of_two(self) -> None:
        for batch in (1, 2):
            plan = ago_plan(Analysis(pair(3).with_batch(batch)), FEWER_IS_FASTER)

            assert names(plan) == [["conv1", "relu1", "conv2"]]

        apart = ago_plan(Analysis(pair(3)), Tuning(kernel_s=lambda ops: 1e-6 * len(ops) ** 2))
        assert ["conv1", "relu1", "conv2"] not in names(apart)

    @pytest.mark.parametrize(("together_s", "kernels"), [(2.9, [[0, 1, 2, 3]]), (3.1, [[0, 1], [2], [3]])])
    def test_a_softmax_is_tried_with_both_of_its_products(self, together_s: float, kernels: list[list[int]]) -> None:
        """With one of them it cannot run. Apart, three kernels take a second each."""
        apart = {(0, 1): 1.0, (2,): 1.0, (3,): 1.0}
        costs = {**apart, (0, 1, 2, 3): together_s}
        tuning = Tuning(kernel_s=lambda ops: costs.get(tuple(ops), math.inf))
        plan = ago_plan(Analysis(written_out(16, "added")), tuning)

        assert [list(group.ops) for group in plan.groups] == kernels

    def test_a_softmax_that_others_read_stays_apart(self) -> None:
        def all_but_pairs(ops: Sequence[int]) -> float:
            return 1.0 if len(ops) != 3 else math.inf

        plan = ago_plan(Analysis(written_out(16, "added", ("y", "p"))), Tuning(kernel_s=all_but_pairs))
        assert [0, 1, 2, 3] not in [list(group.ops) for group in plan.groups]

    def test_it_can_be_switched_off(self) -> None:
        plan = ago_plan(Analysis(pair(1)), Tuning(kernel_s=fewer_is_faster, intensive=False))

        assert names(plan) == [["conv1", "relu1"], ["conv2"]]
        assert plan.groups[0].boundary_reason == "conv2 would be a second complex operator"

    def test_without_a_machine_redundancy_analysis_decides_alone(self) -> None:
        assert names(ago_plan(Analysis(pair(1)), Tuning())) == [["conv1", "relu1", "conv2"]]
        assert names(ago_plan(Analysis(pair(3)), Tuning())) == [["conv1", "relu1"], ["conv2"]]


class TestTheMachineDecides:
    def test_kernels_that_are_slower_fused_stay_separate(self) -> None:
        plan = ago_plan(Analysis(pair(1)), Tuning(kernel_s=lambda ops: 1e-6 * len(ops) ** 2))

        assert names(plan) == [["conv1"], ["relu1"], ["conv2"]] or names(plan) == [["conv1", "relu1"], ["conv2"]]
        assert "us with" in plan.groups[0].boundary_reason

    def test_a_kernel_that_the_machine_cannot_run_is_none(self) -> None:
        plan = ago_plan(Analysis(pair(1)), Tuning(kernel_s=lambda ops: float("inf") if len(ops) > 2 else 1.0))

        assert names(plan) == [["conv1", "relu1"], ["conv2"]]
        assert plan.groups[0].boundary_reason == "the machine cannot run conv2 in the same kernel"


def test_kernels_stay_within_their_sub_graphs_of_which_a_heavy_layer_is_one() -> None:
    plan = ago_plan(Analysis(pair(1)), Tuning(kernel_s=fewer_is_faster, threshold=1e-9))

    assert names(plan) == [["conv1", "relu1"], ["conv2"]]
    assert "not less than" in plan.groups[0].boundary_reason


def test_a_larger_batch_has_the_sub_graphs_of_one_image() -> None:
    one, many = (load_network("resnet18", batch=batch) for batch in (1, 64))

    plans = [ago_plan(Analysis(graph), Tuning(intensive=False)) for graph in (one, many)]

    assert [group.ops for group in plans[0].groups] == [group.ops for group in plans[1].groups]


def test_under_a_threshold_for_any_two_a_pair_of_any_weight_shares_a_sub_graph() -> None:
    heavy = Weights(slope=1e6)
    plans = [
        ago_plan(Analysis(pair(1)), Tuning(weights=heavy, threshold=threshold, kernel_s=fewer_is_faster))
        for threshold in (THRESHOLD, "any-two")
    ]

    assert [names(plan) for plan in plans] == [[["conv1", "relu1"], ["conv2"]], [["conv1", "relu1", "conv2"]]]


def test_three_kernels_in_a_row_are_tried_together_where_no_two_pay() -> None:
    """Complex ones too: a product between two others."""
    net = Net()
    graph = net.graph(net.dense(net.dense(net.dense(net.input(1, 4, 8), 8), 8), 8))
    costs = {(0,): 1.0, (1,): 1.0, (2,): 1.0, (0, 1): 2.1, (1, 2): 2.1, (0, 1, 2): 2.5}

    plan = ago_plan(Analysis(graph), Tuning(kernel_s=lambda ops: costs[tuple(ops)]))

    assert [group.ops for group in plan.groups] == [(0, 1, 2)]
