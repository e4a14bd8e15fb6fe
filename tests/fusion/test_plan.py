"""A plan is a partition of the operators into kernels that can run one after the other."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.fusion.plan import (
    FusionError,
    FusionPlan,
    Group,
    Split,
    plan_from_groups,
    unfused_intermediate_bytes,
    violations,
)
from dsascape.fusion.unfused import unfused_plan
from dsascape.workloads import Graph
from tests.graphs import Net, networks
from tests.tiers import examples


def diamond() -> Graph:
    """Return conv1 -> (conv2, conv3) -> add1: operators 0, 1, 2, 3."""
    net = Net("diamond")
    x = net.conv(net.input(1, 4, 8, 8), 4)
    return net.graph(net.add(net.conv(x, 4), net.conv(x, 4)))


def plan_of(graph: Graph, *groups: tuple[int, ...]) -> FusionPlan:
    return FusionPlan(graph, tuple(Group(ops) for ops in groups))


def leaving(plan: FusionPlan) -> set[str]:
    """Return the tensors that leave their group."""
    return {name for group in range(len(plan.groups)) for name in plan.outputs(group)}


@settings(max_examples=examples(60))
@given(graph=networks())
def test_every_plan_is_a_partition_that_can_run_in_order(graph: Graph) -> None:
    assert violations(unfused_plan(graph)) == []
    assert violations(fixed_pattern_plan(graph)) == []


@settings(max_examples=examples(40))
@given(graph=networks())
def test_unfused_has_one_kernel_per_operator_that_does_anything(graph: Graph) -> None:
    plan = unfused_plan(graph)

    assert plan.kernels == sum(not op.is_view for op in graph.ops)
    for group in plan.groups:
        assert sum(not graph.ops[op].is_view for op in group.ops) <= 1


@settings(max_examples=examples(40))
@given(graph=networks())
def test_fusion_only_takes_tensors_away(graph: Graph) -> None:
    fused, unfused = fixed_pattern_plan(graph), unfused_plan(graph)

    assert fused.kernels <= unfused.kernels
    assert leaving(fused) <= leaving(unfused) <= {name for op in graph.ops for name in op.outputs}
    assert fused.intermediate_bytes <= unfused.intermediate_bytes <= unfused_intermediate_bytes(graph)


@settings(max_examples=examples(40))
@given(graph=networks())
def test_every_group_says_why_it_took_no_more(graph: Graph) -> None:
    for plan in (unfused_plan(graph), fixed_pattern_plan(graph)):
        for group in plan.groups:
            assert group.boundary_reason


class TestViolations:
    def test_nothing_is_wrong_with_one_operator_a_group(self) -> None:
        assert violations(plan_of(diamond(), (0,), (1,), (2,), (3,))) == []

    def test_a_missing_operator_is_named(self) -> None:
        assert violations(plan_of(diamond(), (0,), (1,), (3,))) == ["operator 2 (conv3) is in no group"]

    def test_an_operator_in_two_groups_is_named_with_both(self) -> None:
        assert violations(plan_of(diamond(), (0, 1), (1,), (2,), (3,))) == ["operator 1 is in groups 0 and 1"]

    def test_an_operator_twice_in_one_group_is_found(self) -> None:
        assert violations(plan_of(diamond(), (0,), (1, 1), (2,), (3,))) == ["operator 1 is in groups 1 and 1"]

    def test_an_empty_group_is_found(self) -> None:
        assert violations(plan_of(diamond(), (0,), (), (1,), (2,), (3,))) == ["group 1 is empty"]

    def test_a_group_before_the_one_it_reads_from_is_found(self) -> None:
        found = violations(plan_of(diamond(), (1,), (0,), (2,), (3,)))

        assert found == ["group 0 reads 'conv1' of group 1, which runs later"]

    def test_a_circle_is_found_in_whatever_order_its_groups_stand(self) -> None:
        ends, middle = (0, 3), (1, 2)

        assert violations(plan_of(diamond(), ends, middle)) == [
            "group 0 reads 'conv2' of group 1, which runs later",
            "group 0 reads 'conv3' of group 1, which runs later",
        ]
        assert violations(plan_of(diamond(), middle, ends)) == [
            "group 0 reads 'conv1' of group 1, which runs later",
            "group 0 reads 'conv1' of group 1, which runs later",
        ]


def test_groups_that_wait_for_each_other_make_no_plan() -> None:
    with pytest.raises(FusionError, match="diamond: groups of the plan depend on each other in a cycle"):
        plan_from_groups(diamond(), [Group((0, 3)), Group((1, 2))])


def test_groups_are_put_in_an_order_in_which_they_can_run() -> None:
    plan = plan_from_groups(diamond(), [Group((3,)), Group((1, 2)), Group((0,))])

    assert [group.ops for group in plan.groups] == [(0,), (1, 2), (3,)]


def test_inputs_and_outputs_of_a_group_are_stored_tensors() -> None:
    net = Net()
    x = net.relu(net.input(2, 4, 4, 4))
    y = net.reshape(x, 2, 64)
    graph = net.graph(net.dense(y, 8))
    plan = plan_of(graph, (0, 1), (2,))

    assert plan.outputs(0) == ("relu1",)
    assert plan.inputs(0) == ("in1",)
    assert plan.inputs(1) == ("relu1", "w1")


def test_a_view_is_no_kernel() -> None:
    net = Net()
    plan = plan_of(net.graph(net.relu(net.reshape(net.input(2, 8), 16))), (0,), (1,))

    assert [plan.is_kernel(group) for group in (0, 1)] == [False, True]
    assert plan.kernels == 1


def test_intermediate_bytes_count_each_tensor_that_leaves_its_kernel_once() -> None:
    plan = plan_of(diamond(), (0,), (1,), (2, 3))
    tensor_bytes = 4 * 8 * 8 * 2

    assert plan.intermediate_bytes == 3 * tensor_bytes  # conv1, conv2 and the result; conv3 stays inside


def test_a_plan_prints_its_kernels_and_why_they_end() -> None:
    plan = plan_from_groups(diamond(), [Group((0,), "two readers"), Group((1,)), Group((2, 3), "the end")])

    assert str(plan) == ("plan of diamond: 3 kernels\n  [conv1]  # two readers\n  [conv2]\n  [conv3, add1]  # the end")


def test_a_group_is_one_launch_unless_it_is_split_into_instances() -> None:
    assert Group((0,)).instances == 1
    assert Group((0,), split=Split(dim=2, factor=4)).instances == 4


def test_a_plan_knows_the_group_of_every_operator() -> None:
    plan = plan_of(diamond(), (0,), (1,), (2, 3))

    assert dict(plan.group_of) == {0: 0, 1: 1, 2: 2, 3: 2}
    assert replace(plan, groups=plan.groups[:2]).group_of == {0: 0, 1: 1}
