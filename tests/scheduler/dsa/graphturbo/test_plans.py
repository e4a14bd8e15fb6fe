"""Of several plans the one with the least traffic and fewest launches is taken; ResNet-50's is the paper's."""

import pytest
from hypothesis import assume, given, settings

from hw_models import ClusteredDsa, load_hardware, with_values
from scheduler import Schedule
from scheduler.dsa.graphturbo.plan_cost import moved_bytes
from scheduler.dsa.lower.program import lower
from scheduler.dsa.view import DsaView
from scheduler.policies.graphturbo import GraphTurbo
from tests.graphs import networks
from tests.scheduler.runs import schedule_of, simulated
from workloads import Graph, LoopNest, load_network

SPEC = load_hardware("stcp920")


def network(model: str, images: int) -> Graph:
    return load_network(model, batch=images).with_dtype("fp16")


def ddr_bytes(schedule: Schedule) -> float:
    """Return what the simulation moves to and from DDR, per cluster."""
    return simulated(lower(schedule, DsaView(SPEC, SPEC.clusters)), SPEC).traffic_bytes["ddr"] / SPEC.clusters


def resnet50_in_instances() -> Schedule:
    """Return the schedule of what the paper gives a cluster at once (Table 2): sixteen images."""
    return schedule_of(GraphTurbo(), network("resnet50", 16), SPEC)


def test_resnet50_becomes_the_four_stages_of_figure_3_in_eight_four_two_and_one_instances() -> None:
    groups = [instance.group for instance in resnet50_in_instances().instances]

    assert [groups.count(group) for group in sorted(set(groups))] == [8, 4, 2, 1]


def test_they_run_in_the_order_of_figure_3b() -> None:
    stages = ["abcd"[instance.group] for instance in resnet50_in_instances().instances]

    assert "".join(stages) == "aab" + "aab" + "c" + "aab" + "aab" + "c" + "d"


@pytest.mark.parametrize(("launch", "instances"), [("0 us", 15), ("22 us", 15), ("5 ms", 3)])
def test_instances_whose_launches_cost_more_than_they_save_are_not_made(launch: str, instances: int) -> None:
    spec = with_values(SPEC, {"launch": launch})
    assert isinstance(spec, ClusteredDsa)

    schedule = schedule_of(GraphTurbo(), network("resnet50", 16), spec)

    assert schedule.kernels == instances


@pytest.mark.parametrize(("model", "images"), [("resnet50", 16), ("mobilenet-v2", 32), ("unet", 1)])
def test_what_is_said_to_leave_the_chip_is_what_the_simulation_moves(model: str, images: int) -> None:
    schedule = schedule_of(GraphTurbo(), network(model, images), SPEC)

    assert ddr_bytes(schedule) == pytest.approx(moved_bytes(schedule)["ddr"], rel=0.01)


def leaves_out(nest: LoopNest) -> bool:
    """Whether a stride jumps over elements, which tiles then do not bring either."""
    for index in (index for read in nest.reads for index in read.indices):
        reach = index.window
        for stride, extent in sorted((abs(stride), nest.loops[loop].extent) for loop, stride in index.terms):
            if stride > reach and extent > 1:
                return True
            reach += stride * (extent - 1)
    return False


@settings(max_examples=20, deadline=None)
@given(graph=networks())
def test_nothing_is_moved_less_often_than_that_where_no_stride_leaves_elements_out(graph: Graph) -> None:
    assume(not any(leaves_out(nest) for op in graph.ops for nest in op.nests))
    schedule = schedule_of(GraphTurbo(), graph, SPEC)

    assert ddr_bytes(schedule) >= 0.99 * moved_bytes(schedule)["ddr"]


@pytest.mark.parametrize(("model", "images"), [("mobilenet-v2", 32), ("densenet121", 8)])
def test_instances_bring_large_batches_near_to_what_has_to_move(model: str, images: int) -> None:
    """Without instances all images are alive at once, and most of what they exchange goes to DDR."""
    graph = network(model, images)
    split, whole = (moved_bytes(schedule_of(GraphTurbo(instances=on), graph, SPEC))["ddr"] for on in (True, False))
    least = graph.weight_bytes + sum(graph.tensors[name].size_bytes for name in (*graph.inputs, *graph.outputs))

    assert least <= split < 1.6 * least
    assert whole > 5 * split
