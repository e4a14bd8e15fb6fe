"""A machine file adds memories between the global buffer and DDR: tensors are kept there, and their bytes pass."""

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.fusion.unfused import unfused_plan
from dsascape.hw_models import ClusteredDsa, HardwareError, Transfer, load_hardware, unrolled
from dsascape.scheduler import PinError, ScheduleError, make_policy, read_pins
from dsascape.scheduler.dsa.deciding.execution import decide
from dsascape.scheduler.dsa.deciding.kernel_by_kernel import kernel_by_kernel, through_ddr
from dsascape.scheduler.dsa.graphturbo.instance_binding import bind_instances
from dsascape.scheduler.dsa.graphturbo.placement import Capacity, Placement
from dsascape.scheduler.dsa.lower.program import lower
from dsascape.scheduler.dsa.pins import DsaPin
from dsascape.scheduler.dsa.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.dsa.schedule.schedule import Layout, live_ranges
from dsascape.scheduler.dsa.schedule.violations import violations
from dsascape.scheduler.graphturbo.instances import split_into_instances
from dsascape.workloads import Graph
from tests.graphs import Net, machine, networks
from tests.scheduler.runs import Run, costs_on, overlaps, run_of, simulated
from tests.tiers import examples

FAST = {"bandwidth": "100000 GB/s", "startup": "0 ps"}
AS_DDR = {"bandwidth": "16 GB/s", "startup": "100 ns"}
"""Bandwidth and start-up of the DMA of `tests.graphs.machine`."""
SLOW = {"bandwidth": "1 GB/s", "startup": "2 us"}
TIGHT = {
    "local_buffer": {"capacity": "2 KiB", "bandwidth": "128 GB/s", "weight_window": 0.4},
    "global_buffer": {"capacity": "8 KiB", "bandwidth": "64 GB/s"},
    "ddr": {"capacity": "1 GiB", "bandwidth": "4 GB/s"},
}
"""Buffers that hold a part of the drawn networks' tensors, and a slow DDR."""
IMAGES = 12
"""Batch with which about half of the drawn networks keep a tensor in a further level."""
TENSOR_BYTES = 2 * 16 * 32 * 32


def level(capacity: str = "64 MiB", of: str = "cluster", path: object = None) -> dict[str, object]:
    rates = {"bandwidth": "64 GB/s", "startup": "20 ns"} if path is None else path
    return {"of": of, "capacity": capacity, "bandwidth": "100000 GB/s", "path": rates, "energy": "3 pJ/B"}


def chain() -> Graph:
    """Return three element-wise layers: their tensors are of 32 KiB each."""
    net = Net("chain")
    return net.graph(net.relu(net.unary("Tanh", net.relu(net.input(1, 16, 32, 32)))))


def pinned(spec: ClusteredDsa, graph: Graph, **memories: str) -> Run:
    """Return the run of ``graph``, operator by operator, with the outputs of some of them in ``memories``, by name."""
    costs, plan = costs_on(spec, graph), unfused_plan(graph)
    wanted = {name: {"output": memory} for name, memory in memories.items()}
    pins = read_pins({"layers": wanted}, DsaPin, spec.kind) if wanted else None
    if pins is not None:
        costs = costs.with_pins(pins.on(plan, lambda: kernel_by_kernel(plan, costs).placed_layers))
    schedule = kernel_by_kernel(plan, costs)
    program = lower(schedule, costs.view)
    return Run(graph, spec, schedule, program, simulated(program, spec))


def moved_by(run: Run) -> Counter[str]:
    """Return the bytes of one cluster's transfers by unit."""
    moved: Counter[str] = Counter()
    for instruction in run.program.instructions:
        if isinstance(instruction.payload, Transfer):
            moved[instruction.unit] += instruction.payload.size_bytes
    return moved


class TestOneTensorInAFurtherLevel:
    """The middle one of three tensors is kept there, the others in DDR."""

    def test_it_is_stored_once_and_loaded_once_through_its_own_path(self) -> None:
        run = pinned(machine(further_levels={"l2": level()}), chain(), relu1="l2")

        moved = moved_by(run)
        assert {unit: moved[unit] for unit in ("l2_store", "l2_load")} == dict.fromkeys(
            ("l2_store", "l2_load"), TENSOR_BYTES
        )
        assert moved["dma_load"] == moved["dma_store"] == 2 * TENSOR_BYTES
        assert run.result.traffic_bytes["l2"] == 2 * TENSOR_BYTES
        assert run.result.peak_occupancy_bytes["l2"] == TENSOR_BYTES
        assert run.result.energy_pj["l2"] == 3.0 * 2 * TENSOR_BYTES
        assert run.schedule.tensor_scopes == {"local_buffer": 0, "global_buffer": 0, "ddr": 2, "l2": 1}

    def test_ddr_moves_less_by_what_the_level_moves(self) -> None:
        spec = machine(further_levels={"l2": level()})

        kept, far = pinned(spec, chain(), relu1="l2"), pinned(spec, chain())
        assert far.result.traffic_bytes["ddr"] - kept.result.traffic_bytes["ddr"] == 2 * TENSOR_BYTES
        assert far.result.traffic_bytes["l2"] == far.result.peak_occupancy_bytes["l2"] == 0
        assert kept.result.traffic_bytes["global_buffer"] == far.result.traffic_bytes["global_buffer"]

    def test_its_transfers_take_the_bandwidth_and_the_start_up_of_its_path(self) -> None:
        slow = {"bandwidth": "1 GB/s", "startup": "1 us", "in_flight": 1}
        run = pinned(machine(further_levels={"l2": level(path=slow)}), chain(), relu1="l2")

        stores = sum(instruction.unit == "l2_store" for instruction in run.program.instructions)
        moving_ps = TENSOR_BYTES * 1000  # 1 GB/s
        assert run.result.busy_ps["l2_store"] == moving_ps + stores * 10**6

    def test_a_level_no_faster_than_ddr_saves_at_most_the_time_of_the_bytes_that_ddr_saves(self) -> None:
        spec = machine(further_levels={"l2": level(path=AS_DDR) | {"bandwidth": "16 GB/s"}})

        kept, far = pinned(spec, chain(), relu1="l2"), pinned(spec, chain())
        saved_bytes = far.result.traffic_bytes["ddr"] - kept.result.traffic_bytes["ddr"]
        assert 0 <= far.result.makespan_ps - kept.result.makespan_ps <= saved_bytes * 1000 / 16

    def test_clusters_share_a_level_of_the_chip_in_equal_parts(self) -> None:
        spec = machine(clusters=2, further_levels={"l2": level(f"{2 * TENSOR_BYTES} B", "chip")})

        run = pinned(spec, chain(), relu1="l2")
        assert run.result.peak_occupancy_bytes["l2"] == 2 * TENSOR_BYTES
        assert run.result.traffic_bytes["l2"] == 2 * 2 * TENSOR_BYTES
        less = machine(clusters=2, further_levels={"l2": level(f"{2 * TENSOR_BYTES - 2} B", "chip")})
        with pytest.raises(PinError, match=f"needs {TENSOR_BYTES} B of l2 .*; {TENSOR_BYTES - 1} B are for outputs"):
            pinned(less, chain(), relu1="l2")

    def test_it_counts_as_area_per_mib(self) -> None:
        larger = machine(clusters=2, further_levels={"l2": level("3 MiB"), "l3": level("5 MiB", "chip")})

        assert larger.area_mm2 - machine(clusters=2).area_mm2 == pytest.approx(2 * 3 + 5)

    def test_a_schedule_file_says_what_comes_from_it(self) -> None:
        spec = machine(further_levels={"l2": level()})
        schedule = pinned(spec, chain(), relu1="l2").schedule

        document = json.loads(json.dumps(schedule_json(schedule)))
        routes = [run["routes"] for instance in document["instances"] for run in instance["runs"]]
        assert [route.get("from_further") for each in routes for route in each.values()] == [None, {"l2": 1.0}, None]
        assert read_schedule(document, costs_on(spec, chain())).executions == schedule.executions
        with pytest.raises(ScheduleError, match="there is no memory 'l2'; the machine has local_buffer, global_buffer"):
            read_schedule(document, costs_on(machine(), chain()))


def test_tensors_spill_from_level_to_level_outwards() -> None:
    room = TENSOR_BYTES
    spec = machine(**TIGHT, further_levels={"l2": level(f"{room} B"), "l3": level(f"{room} B", "chip")})
    net = Net("three at once")
    x = net.input(1, 16, 32, 32)
    a, b, c = net.relu(x), net.unary("Tanh", x), net.unary("Sigmoid", x)
    graph = net.graph(net.add(net.add(a, net.unary("Exp", b)), net.unary("Sqrt", c)))

    capacity = Capacity(0, (("global_buffer", 0), ("l2", room), ("l3", room)))
    layout = through_ddr(unfused_plan(graph), costs_on(spec, graph))
    placed = Placement(layout.runs, layout.slices).within(capacity)
    lives = live_ranges(layout.runs)
    for memory in ("l2", "l3"):
        there = [lives[number] for number, each in enumerate(placed) if each.memory == memory]
        assert there
        assert all(set(one).isdisjoint(other) for one, other in itertools.combinations(there, 2))
    assert {each.memory for each in placed} == {"l2", "l3", "ddr"}


@given(graph=networks(), data=st.data())
@settings(max_examples=examples(80, few=16), deadline=None, phases=(Phase.explicit, Phase.generate))
def test_nothing_is_lost_on_the_way_through_further_levels(graph: Graph, data: st.DataObject) -> None:
    """Every tensor is kept where it has room in drawn memories, so that layers read and write several at once."""
    rooms = st.sampled_from([0, 256, 1024, 4096, 2**20])
    shared = data.draw(st.sampled_from(["cluster", "chip"]))
    spec = machine(clusters=data.draw(st.sampled_from([1, 2])), further_levels={
        "l2": level("2 MiB", shared), "l3": level("2 MiB", "chip", AS_DDR),
    })  # fmt: skip
    costs, policy = costs_on(spec, graph), make_policy("graphturbo")
    parts = split_into_instances(costs.analysis, plan := policy.plan(graph, costs))
    bound = bind_instances(parts, range(len(parts.instances)), costs)
    outer = tuple([(name, data.draw(rooms) // 2) for name in ("global_buffer", "l2", "l3")])
    capacity = Capacity(data.draw(rooms) // 64, outer)
    layout = Layout(plan, bound.instances, bound.placement.within(capacity))
    schedule = decide(layout, costs, "drawn", overlaps_layers=data.draw(st.booleans()))
    program = lower(schedule, costs.view)
    run = Run(graph, spec, schedule, program, simulated(program, spec))

    assert violations(schedule, costs.view) == []
    assert overlaps(run) == []
    moved, stores = moved_by(run), Counter(instruction.unit for instruction in program.instructions)
    for memory, unit in (("l2", "l2"), ("l3", "l3"), ("ddr", "dma")):
        loaded, stored = moved[f"{unit}_load"], moved[f"{unit}_store"]
        assert run.result.traffic_bytes[memory] == (loaded + stored) * spec.clusters
        there = [each for each in schedule.slices if each.memory == memory]
        assert abs(stored - sum(each.size_bytes for each in there)) <= stores[f"{unit}_store"]
        assert bool(loaded) is bool(there) or memory == "ddr"
    for memory, room in capacity.outer[1:]:
        sharing = spec.clusters if spec.further_levels[memory].of == "chip" else 1
        assert run.result.peak_occupancy_bytes[memory] <= room * sharing
    document = json.loads(json.dumps(schedule_json(schedule)))
    assert read_schedule(document, costs).executions == schedule.executions
    assert simulated(unrolled(program), spec).traffic_bytes == run.result.traffic_bytes


@given(
    graph=networks(most_blocks=2), policy=st.sampled_from(["graphturbo", "astitch"]),
    path=st.sampled_from([FAST, AS_DDR, SLOW]), of=st.sampled_from(["cluster", "chip"]),
)  # fmt: skip
@settings(max_examples=examples(60, few=12), deadline=None, phases=(Phase.explicit, Phase.generate))
def test_a_level_never_makes_a_network_slower(graph: Graph, policy: str, path: dict[str, str], of: str) -> None:
    """Whatever its path: where tensors in it do not pay, the schedule is that of the machine without it."""
    larger = graph.with_batch(IMAGES)
    with_level = machine(**TIGHT, further_levels={"l2": level(path=path, of=of)})
    without, run = (run_of(make_policy(policy), larger, spec).result for spec in (machine(**TIGHT), with_level))

    assert run.makespan_ps <= without.makespan_ps
    assert run.makespan_ps == without.makespan_ps or run.traffic_bytes["l2"] > 0


@pytest.mark.parametrize("policy", ["graphturbo", "astitch"])
def test_a_fast_level_makes_a_network_of_large_tensors_faster(policy: str) -> None:
    net = Net("large")
    x = net.input(8, 8, 24, 24)
    graph = net.graph(net.relu(net.add(net.conv(net.relu(net.conv(x, 8)), 8), x)))

    without, run = (
        run_of(make_policy(policy), graph, machine(**TIGHT, further_levels=levels)).result
        for levels in ({}, {"l2": level(path=FAST)})
    )
    assert run.traffic_bytes["l2"] > 0
    assert run.makespan_ps < 0.9 * without.makespan_ps


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("further_levels: {matrix: %s}", "further_levels.matrix: matrix is the name of another"),
        ("further_levels: {ddr: %s}", "further_levels.ddr: is a reserved name"),
        ("further_levels: {static: %s}", "further_levels.static: is a component of energy"),
        ("further_levels: {l2: %s, l2_load: %s}", "further_levels.l2: l2_load is the name of another part"),
        ("global_buffer: null\nfurther_levels: {l2: %s}", "further_levels has l2; needs a global_buffer"),
        ("further_levels: {l2: {of: core}}", "further_levels.l2.of"),
    ],
)
def test_a_level_that_makes_no_sense_is_rejected_when_it_is_read(changes: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    one = "{of: chip, capacity: 1 MiB, bandwidth: 1 GB/s, path: {bandwidth: 1 GB/s, startup: 0 ps}}"
    path.write_text(f"base: stcp920\n{changes.replace('%s', one)}\n", encoding="utf-8")

    with pytest.raises(HardwareError, match=re.escape(said)):
        load_hardware(path)
