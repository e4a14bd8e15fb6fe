"""The estimated time of tiles counts the bytes and start-ups of each memory beyond the global buffer by itself."""

from dataclasses import replace

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler.dsa.tiling.candidates import TileCandidates
from dsascape.scheduler.dsa.tiling.estimate import First, Moved, Stages
from dsascape.scheduler.dsa.tiling.search import TilingError, choose_tiling
from dsascape.scheduler.dsa.tiling.tiling import TileRequest, Tiling
from dsascape.scheduler.dsa.view import DsaView, LevelTiming
from dsascape.workloads import Graph
from tests.graphs import machine, machines, networks
from tests.scheduler.dsa.test_further_levels import chain, level, pinned
from tests.scheduler.dsa.tiling.test_estimate import estimated_and_simulated
from tests.scheduler.dsa.tiling.test_tiles_in_c import layers
from tests.tiers import examples

AS_DDR, FASTER = {"bandwidth": "16 GB/s", "startup": "100 ns"}, {"bandwidth": "64 GB/s", "startup": "20 ns"}


def on(path: dict[str, str]) -> DsaView:
    """Return the small machine with a further level; its DMA has 16 GB/s and 100 ns."""
    spec: ClusteredDsa = machine(further_levels={"l2": level(path=path)})
    return DsaView(spec, 1)


def moved_to(request: TileRequest, memory: str) -> TileRequest:
    """Return the request with all of its operands in ``memory``, and its output."""
    further = () if memory == "ddr" else ((memory, 1.0),)
    routes = {
        name: route._replace(from_ddr=0.0 if further else 1.0, from_further=further)
        for name, route in request.routes.items()
    }
    return replace(request, routes=routes, stored_in=((memory, 1.0),))


def chosen(request: TileRequest, view: DsaView) -> Tiling:
    """Return the chosen tiles; a draw in which nothing fits is not what the test is about."""
    try:
        return choose_tiling(request, view)
    except TilingError:
        assume(False)
        raise


@given(spec=machines())
@settings(max_examples=examples(20), deadline=None)
def test_outer_memories_are_numbered_as_they_are_listed(spec: ClusteredDsa) -> None:
    """On the part of the machine that on-chip times depend on, too, which has no DDR."""
    further = {"l2": level(), "l3": level(of="chip")} if spec.global_buffer is not None else {}
    view = DsaView(ClusteredDsa.model_validate(spec.model_dump(by_alias=True) | {"further_levels": further}), 1)

    assert list(view.outer_number) == [each.name for each in view.outer] == [*further, "ddr"]
    assert view.on_chip_rates.outer_number == view.outer_number


def test_loads_from_two_memories_overlap_and_each_takes_the_time_of_its_own_bandwidth() -> None:
    """1,000 B at 1 B/ps beside 4,000 B at 4 B/ps, in four passes: 750 ps of pace, and 250 ps of each first load."""
    moved = Moved(1000.0, ((0.0, 4),), 0, 0.0), Moved(4000.0, ((0.0, 4),), 0, 0.0)
    first = First(0.0, 0, 250.0), First(0.0, 1, 1000.0)
    stages = Stages(4, moved, 0.0, 0.0, 0.0, (), first, 0, 0, 0.0)
    slow, fast = LevelTiming(1.0, 1, 0, 2), LevelTiming(4.0, 1, 0, 2)

    assert stages.estimate_ps((slow, fast), 0, 0.0) == 750 + 250 + 250
    assert stages.estimate_ps((slow, slow), 0, 0.0) == 4000 * 0.75 + 250 + 1000


def test_the_longest_start_up_counts_once() -> None:
    moved = Moved(8.0, ((0.0, 1),), 0, 0.0), Moved(8.0, ((0.0, 1),), 0, 0.0)
    stages = Stages(1, moved, 0.0, 0.0, 0.0, (), (), 0, 0, 0.0)

    assert stages.estimate_ps((LevelTiming(1.0, 1, 30, 2), LevelTiming(1.0, 1, 50, 2)), 0, 0.0) == 50


@settings(max_examples=examples(40), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(data=st.data(), graph=networks())
def test_a_level_with_the_timing_of_ddr_has_the_tiles_and_the_estimate_of_ddr(
    data: st.DataObject, graph: Graph
) -> None:
    view = on(AS_DDR)
    drawn = data.draw(st.sampled_from(layers(graph, view)))
    request = replace(drawn, local_gaps=(data.draw(st.sampled_from([512, 4096, 65536])),))
    far, near = (chosen(moved_to(request, memory), view) for memory in ("ddr", "l2"))

    assert near == far
    assert near.estimate_ps == far.estimate_ps


@settings(max_examples=examples(40), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(data=st.data(), graph=networks())
def test_the_same_tiles_take_no_longer_from_a_faster_level(data: st.DataObject, graph: Graph) -> None:
    view = on(FASTER)
    request = data.draw(st.sampled_from(layers(graph, view)))
    far, candidates = chosen(request, view), TileCandidates(moved_to(request, "l2"), view)

    near = candidates.decided(far.tile, far.depth, far.order, (), tuple(far.staged), far.store_burst_bytes)
    assert near.estimate_ps <= far.estimate_ps


def test_outputs_leave_in_bursts_of_the_memory_that_they_go_to() -> None:
    """Where transfers start at once, each tile leaves by itself; DDR's 100 ns are worth several tiles."""
    view = on({"bandwidth": "64 GB/s", "startup": "0 ps"})
    request = replace(layers(chain(), view)[0], local_gaps=(4096,))

    far, near = (choose_tiling(moved_to(request, memory), view) for memory in ("ddr", "l2"))
    assert (near.store_burst_bytes, far.store_burst_bytes) == (1, view.burst_bytes)
    assert view.burst_bytes > 1


@pytest.mark.parametrize("path", [{"bandwidth": "1 GB/s", "startup": "1 us"}, FASTER])
def test_the_estimate_of_layers_that_use_a_level_is_near_their_simulated_time(path: dict[str, str]) -> None:
    """As near as for DDR alone; a path of a sixteenth of DDR's bandwidth would be ten times too short as DDR."""
    times = estimated_and_simulated(pinned(machine(further_levels={"l2": level(path=path)}), chain(), relu1="l2"))

    assert (times.estimate_ps / times.simulated_ps).between(0.95, 1.35).all()
