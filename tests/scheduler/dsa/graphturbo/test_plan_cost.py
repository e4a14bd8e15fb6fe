"""What a layout costs before its tiles are known: worked out by hand, and beside the simulation of random networks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.plan import Group, Split, plan_from_groups
from hw_models import ClusteredDsa
from scheduler import ScheduleError
from scheduler.dsa.execution import decide
from scheduler.dsa.graphturbo.instance_binding import bind_instances
from scheduler.dsa.graphturbo.placement import Capacity
from scheduler.dsa.graphturbo.plan_cost import apart_s, least_bytes, moved_bytes
from scheduler.dsa.judging import judged
from scheduler.dsa.kernel_by_kernel import through_ddr
from scheduler.dsa.schedule import Layout
from scheduler.graphturbo.grouping import group_subgraphs
from scheduler.graphturbo.instances import split_into_instances
from scheduler.policies.fixed_pattern import FixedPattern
from tests.graphs import Net, machine, machines, networks
from tests.scheduler.runs import costs_on
from workloads import Graph
from workloads.analysis import Analysis


def test_layers_apart_take_their_traffic_or_their_arithmetic_with_start_ups_and_launches() -> None:
    """Of 1024 elements, 4096 bytes at 16 GB/s take 256 ns, and 100 ns until they begin; a launch takes 1 us.

    A core has 256 elements, eight a cycle: 32 ns. With 128 elements in all the traffic takes 132 ns, computing 4 ns;
    loads and stores start up for 110 ns each.
    """
    for elements, layer_ns in ((1024, 100 + 256), (128, 4 + 110 + 110)):
        net = Net("one layer")
        costs = costs_on(machine(), net.graph(net.relu(net.input(1, elements))))
        layout = through_ddr(FixedPattern().plan(costs.analysis.graph, costs), costs)

        assert apart_s(costs, layout) == pytest.approx(1e-9 * (1000 + layer_ns))


@settings(max_examples=100, deadline=None)
@given(graph=networks(), spec=machines())
def test_layers_one_after_the_other_take_no_less_but_for_a_fifth(graph: Graph, spec: ClusteredDsa) -> None:
    """It is an estimate: small tiles, for one, do not bring what strides jump over."""
    costs = costs_on(spec, graph)
    try:
        layout = through_ddr(FixedPattern().plan(graph, costs), costs)
        found = judged(decide(layout, costs, "test"), costs)
    except ScheduleError:
        return

    assert found.seconds >= apart_s(costs, layout) * 0.8


@pytest.mark.parametrize(("split", "times"), [(None, 1), (Split(0, 2), 2), (Split(1, 2), 1)])
def test_weights_are_loaded_at_least_once_by_each_instance_that_needs_all_of_them(
    split: Split | None, times: int
) -> None:
    """Sixteen channels of two images become 32, whose halves are added.

    Instances of an image each need all weights. Those of half of the channels need parts of both halves: more than
    half of the weights, but not all.
    """
    net = Net("halves added")
    graph = net.graph(net.add(*net.halves(net.conv(net.input(2, 16, 8, 8), 32, 1))))
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))), "", split)])
    ends = sum(graph.tensors[name].size_bytes for name in (*graph.inputs, *graph.outputs))

    assert least_bytes(Analysis(graph), plan) == ends + times * graph.weight_bytes


@settings(max_examples=150, deadline=None)
@given(data=st.data(), graph=networks(), spec=machines(), local_bytes=st.sampled_from([64, 512, 4096, 2**30]))
def test_no_layout_moves_less_than_the_least(
    data: st.DataObject, graph: Graph, spec: ClusteredDsa, local_bytes: int
) -> None:
    costs = costs_on(spec, graph)
    analysis = costs.analysis
    groups = []
    for grouped in group_subgraphs(analysis, local_bytes, 1.0).subgraphs:
        shape = grouped.sub.sink.shape
        dim = data.draw(st.integers(0, len(shape) - 1)) if grouped.sub.has_single_output else 0
        factors = [factor for factor in range(1, shape[dim] + 1) if shape[dim] % factor == 0]
        factor = data.draw(st.sampled_from(factors))
        groups.append(Group(grouped.sub.ops, "", Split(dim, factor) if factor > 1 else None))
    plan = plan_from_groups(graph, groups)
    parts = split_into_instances(analysis, plan)
    bound = bind_instances(parts, range(len(parts.instances)), costs, {})
    room = Capacity(data.draw(st.sampled_from([0, 256, 2**20])), data.draw(st.sampled_from([0, 4096, 2**24])))
    layout = Layout(plan, bound.instances, bound.placement.within(room))

    assert moved_bytes(layout)["ddr"] >= least_bytes(analysis, plan)
