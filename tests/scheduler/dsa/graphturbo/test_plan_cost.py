"""Cost of a layout before tiling: small numbers, and against the simulation of random networks."""

import pytest
from hypothesis import given, settings

from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.dsa.deciding.execution import decide
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.deciding.runs import evaluate_schedule
from dsascape.scheduler.dsa.graphturbo.plan_cost import no_overlap_s
from dsascape.scheduler.policies.fixed_pattern import FixedPattern
from dsascape.workloads import Graph
from tests.graphs import Net, machine, machines, networks
from tests.scheduler.runs import costs_on
from tests.tiers import examples


def test_layers_without_overlap_take_the_longer_of_traffic_and_arithmetic() -> None:
    """1024 elements, 4096 bytes at 16 GB/s, take 256 ns after a start-up of 100 ns; a launch takes 1 us.

    A core has 256 elements, eight a cycle: 32 ns. With 128 elements in all the traffic takes 132 ns, computing 4 ns;
    loads and stores start up for 110 ns each.
    """
    for elements, layer_ns in ((1024, 100 + 256), (128, 4 + 110 + 110)):
        net = Net("one layer")
        costs = costs_on(machine(), net.graph(net.relu(net.input(1, elements))))
        layout = through_ddr(FixedPattern().plan(costs.analysis.graph, costs), costs)

        assert no_overlap_s(costs, layout) == pytest.approx(1e-9 * (1000 + layer_ns))


@settings(max_examples=examples(100), deadline=None)
@given(graph=networks(), spec=machines())
def test_layers_one_after_the_other_take_no_less_but_for_a_fifth(graph: Graph, spec: ClusteredDsa) -> None:
    """It is an estimate: small tiles, for one, do not bring what strides jump over."""
    costs = costs_on(spec, graph)
    try:
        layout = through_ddr(FixedPattern().plan(graph, costs), costs)
        found = evaluate_schedule(decide(layout, costs, "test"), costs)
    except ScheduleError:
        return

    assert found.seconds >= no_overlap_s(costs, layout) * 0.8
