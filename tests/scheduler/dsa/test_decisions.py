"""Execution decisions for a layout are shared by machines that differ in DDR alone, with equal results."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import ClusteredDsa, load_hardware, with_values
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.execution import decide, execute, prefetch_buffers, prepare
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import through_ddr
from dsascape.scheduler.dsa.deciding.requests import ExecutionOptions, requests_of
from dsascape.scheduler.dsa.placing.needs import needs_of
from dsascape.scheduler.dsa.schedule.schedule import Layout
from dsascape.scheduler.policies.graphturbo import GraphTurbo
from dsascape.workloads import Graph, load_network
from tests.graphs import machines, networks
from tests.scheduler.runs import costs_on, schedule_of
from tests.tiers import examples

OTHERWISE: dict[str, tuple[object, ...]] = {
    "ddr.bandwidth": ("2 GB/s", "30 GB/s", "60 GB/s", "119.4 GB/s", "400 GB/s"),
    "ddr.efficiency": (1.0, 0.6),
    "ddr.sharing": ("shared", "private"),
    "dma.load.startup": ("0 ps", "3 us"),
    "dma.load_channels": (1, 2),
}
DDRS = st.fixed_dictionaries({}, optional={path: st.sampled_from(values) for path, values in OTHERWISE.items()})
"""Values of DDR, and of what moves data to it and from it."""


def at_bandwidth(spec: ClusteredDsa, bandwidth: str) -> ClusteredDsa:
    return with_values(spec, {"ddr.bandwidth": bandwidth})


def check_like_anew(layout: Layout, costs: list[DsaCosts], *, overlaps_layers: bool) -> None:
    """Compare schedules of one prepared layout on each machine of ``costs`` with those made for that machine alone."""
    needs = needs_of(layout.runs, layout.slices, broadcasts=costs[0].view.broadcasts)
    prepared = prepare(layout, costs[0], needs, overlaps_layers=overlaps_layers, paper_tiles=False)
    for at in costs:
        try:
            anew = decide(layout, at, "test", overlaps_layers=overlaps_layers)
        except ScheduleError:
            continue
        found = execute(prepared, at, "test")
        assert found == anew
        assert found.in_full() == anew.in_full()


@settings(max_examples=examples(30), deadline=None)
@given(graph=networks(), spec=machines(), ddrs=st.lists(DDRS, max_size=4), overlaps_layers=st.booleans())
def test_any_layout_is_decided_as_if_anew(
    graph: Graph, spec: ClusteredDsa, ddrs: list[dict[str, object]], overlaps_layers: bool
) -> None:
    costs = [costs_on(each, graph) for each in (spec, *(with_values(spec, values) for values in ddrs))]
    assert len({at.view.apart_from_ddr for at in costs}) == 1

    check_like_anew(through_ddr(fixed_pattern_plan(graph), costs[0]), costs, overlaps_layers=overlaps_layers)


def test_a_layout_whose_layers_overlap_is_decided_as_if_anew_where_few_of_its_tiles_change() -> None:
    graph, base = load_network("resnet18", batch=4).with_dtype("fp16"), load_hardware("stcp920", ClusteredDsa)
    layout = schedule_of(GraphTurbo(), graph, base)
    costs = [costs_on(at_bandwidth(base, f"{rate} GB/s"), graph) for rate in (40, 60, 62, 119, 60, 240, 2)]
    tiles = [[one.tiling for one in decide(layout, at, "", overlaps_layers=True).executions] for at in costs]
    changed = [sum(one != other for one, other in zip(*both, strict=True)) for both in pairwise(tiles)]

    assert any(0 < number < len(layout.runs) / 4 for number in changed)
    check_like_anew(layout, costs, overlaps_layers=True)


def test_runs_with_equal_requests_share_one_search() -> None:
    graph = load_network("bert-tiny").with_dtype("fp16")
    costs = costs_on(load_hardware("stcp920", ClusteredDsa), graph)
    layout = through_ddr(fixed_pattern_plan(graph), costs)
    needs = needs_of(layout.runs, layout.slices, broadcasts=costs.view.broadcasts)

    asked = requests_of(layout, costs, ExecutionOptions(prefetch_buffers(costs.view), True, False), needs)
    assert len(asked.runs) == len(layout.runs)
    assert len(asked.requests) < len(layout.runs) * 2 / 3
    for run, one in zip(layout.runs, asked.runs, strict=True):
        assert asked.requests[one.request].layer.signature == run.layer.signature
