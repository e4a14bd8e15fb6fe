"""Lower bound on a plan's traffic: small numbers, and against layouts of random networks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.plan import Group, Split, plan_from_groups
from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler.dsa.graphturbo.instance_binding import bind_instances
from dsascape.scheduler.dsa.graphturbo.placement import Capacity
from dsascape.scheduler.dsa.graphturbo.plan_bound import least_bytes
from dsascape.scheduler.dsa.graphturbo.plan_cost import moved_bytes
from dsascape.scheduler.dsa.schedule.schedule import Layout
from dsascape.scheduler.graphturbo.grouping import group_subgraphs
from dsascape.scheduler.graphturbo.instances import split_into_instances
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, machines, networks
from tests.scheduler.runs import costs_on
from tests.tiers import examples


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


@settings(max_examples=examples(200), deadline=None)
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
    local_bytes = data.draw(st.sampled_from([0, 256, 2**20]))
    global_bytes = data.draw(st.sampled_from([0, 4096, 2**24]))
    room = Capacity(local_bytes, (("global_buffer", global_bytes),))
    parts = split_into_instances(analysis, plan)
    bound = bind_instances(parts, range(len(parts.instances)), costs, {})
    layout = Layout(plan, bound.instances, bound.placement.within(room))

    assert moved_bytes(layout)["ddr"] >= least_bytes(analysis, plan, room.largest_bytes(costs.cores))


@pytest.mark.parametrize(("split", "room_bytes", "spilled"), [
    (None, 2048, 0), (None, 2047, 2 * 2048), (Split(0, 2), 1024, 0), (Split(0, 2), 1000, 2 * (2048 - 1000)),
])  # fmt: skip
def test_intermediates_that_fit_no_buffer_are_stored_and_loaded(
    split: Split | None, room_bytes: int, spilled: int
) -> None:
    """Two images of 1024 bytes each between the layers: one instance may fit where two do not."""
    net = Net("two layers")
    graph = net.graph(net.conv(net.conv(net.input(2, 8, 8, 8), 8, 1), 8, 1))
    analysis, plan = Analysis(graph), plan_from_groups(graph, [Group(tuple(range(len(graph.ops))), "", split)])

    assert least_bytes(analysis, plan, room_bytes) - least_bytes(analysis, plan) == spilled


def test_only_needed_regions_of_inputs_and_weights_count() -> None:
    """A stride of 2 leaves out three quarters of 15 x 15 elements; half of the channels that are made is dropped."""
    net = Net("strided")
    first, _ = net.halves(net.conv(net.input(1, 4, 16, 16), 8, 1, 2))
    graph = net.graph(first)

    assert least_bytes(Analysis(graph)) == 2 * (4 * 15 * 15 // 4 + 4 * 4 + 4 * 8 * 8)
