"""Networks on GPUs, plan to simulated run: what must hold on any of them, and claims an architect would check."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.evaluate import evaluate
from experiments.points import DesignPoint, Workload
from fusion.plan import FusionPlan, Group, violations
from hw_models import Gpu, SimulationResult, gpu_energy, gpu_machine, load_hardware, simulate, with_values
from hw_models.gpu.occupancy import occupancy
from scheduler import ScheduleError, make_policy
from scheduler.gpu.costs import GpuCosts
from scheduler.gpu.lower import lower, works
from scheduler.gpu.nests import nests_of
from scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from scheduler.gpu.schedule_json import read_schedule, schedule_json
from scheduler.gpu.tuning import GpuTuning
from scheduler.gpu.view import GpuView
from scheduler.gpu.work import grid_of
from scheduler.policy import SchedulingPolicy
from tests.graphs import Net, networks
from tests.hw_models.gpu.gpus import SHARED, gpu, gpus, sms
from workloads import Graph
from workloads.analysis import Analysis


def costs_of(graph: Graph, spec: Gpu, tuning: GpuTuning | None = None) -> GpuCosts:
    dtype = next(iter(graph.tensors.values())).dtype
    return GpuCosts(GpuView(spec, dtype, tuning or GpuTuning()), Analysis(graph))


def planned(costs: GpuCosts, policy: str = "fixed-pattern") -> GpuSchedule:
    return kernel_by_kernel(make_policy(policy).plan(costs.analysis.graph, costs), costs, policy)


def simulated(schedule: GpuSchedule, costs: GpuCosts) -> SimulationResult:
    spec = costs.view.spec
    return simulate(lower(schedule, costs), gpu_machine(spec), gpu_energy(spec))


def run(graph: Graph, spec: Gpu, policy: str = "fixed-pattern", tuning: GpuTuning | None = None) -> SimulationResult:
    costs = costs_of(graph, spec, tuning)
    return simulated(planned(costs, policy), costs)


def changed(spec: Gpu, **values: object) -> Gpu:
    found = with_values(spec, {path.replace("__", "."): value for path, value in values.items()})
    assert isinstance(found, Gpu)
    return found


def convolution(size: int = 28, channels: int = 64, kernel: int = 3, dtype: str = "fp16") -> Graph:
    net = Net("convolution")
    return net.graph(net.relu(net.bias(net.conv(net.input(1, channels, size, size), channels, kernel))), dtype=dtype)


def product(rows: int, columns: int, depth: int, dtype: str = "fp16") -> Graph:
    net = Net("product")
    return net.graph(net.matmul(net.input(rows, depth), net.weight(depth, columns)), dtype=dtype)


def elementwise(rows: int) -> Graph:
    net = Net("elementwise")
    return net.graph(net.add(net.input(rows, 1024), net.input(rows, 1024)))


def compulsory_bytes(graph: Graph) -> int:
    """Bytes of what comes from outside and is read, and of what goes there."""
    outside = [name for name, tensor in graph.tensors.items() if tensor.role != "activation"]
    read = [name for name in outside if graph.stored_readers.get(name)]
    return sum(graph.tensors[name].size_bytes for name in {*read, *graph.stored_outputs})


@given(graph=networks(), spec=gpus(), policy=st.sampled_from(["unfused", "fixed-pattern"]))
@settings(deadline=None, max_examples=15)
def test_nothing_beats_the_machine(graph: Graph, spec: Gpu, policy: str) -> None:
    result = run(graph, spec, policy)
    seconds = result.makespan_ps / 1e12

    assert seconds >= graph.operations.macs / spec.peak_macs_per_s("fp16") * (1 - 1e-9)
    assert seconds >= result.traffic_bytes["dram"] / spec.dram.bandwidth_bytes_per_s * (1 - 1e-9)
    assert seconds >= result.traffic_bytes["l2"] / spec.l2.bandwidth_bytes_per_s * (1 - 1e-9)
    assert all(0 <= share <= 1 for share in result.utilisation.values())
    assert all(joules >= 0 for joules in result.energy_pj.values())


@given(graph=networks(), spec=gpus())
@settings(deadline=None, max_examples=15)
def test_schedules_survive_writing_and_reading(graph: Graph, spec: Gpu) -> None:
    costs = costs_of(graph, spec)
    schedule = planned(costs)

    again = read_schedule(json.loads(json.dumps(schedule_json(schedule))), costs)

    assert str(again) == str(schedule)
    assert simulated(again, costs).makespan_ps == simulated(schedule, costs).makespan_ps


@given(graph=networks(), spec=gpus())
@settings(deadline=None, max_examples=15)
def test_every_block_fits_and_the_grid_covers_the_result(graph: Graph, spec: Gpu) -> None:
    costs = costs_of(graph, spec)
    schedule = planned(costs)

    for kernel, work in zip(schedule.runs, works(schedule, costs.view), strict=True):
        needs = grid_of(kernel.layer, kernel.tiles, costs.view).needs
        assert work.blocks_per_sm == occupancy(spec.sms, needs).blocks >= 1
        assert needs.threads <= spec.sms.threads_per_block
        assert needs.shared_bytes <= spec.sms.shared.per_block_bytes
        covered = [
            count * part for count, part in zip(
                kernel.tiles.blocks_along(kernel.layer.sink.shape), kernel.tiles.tile, strict=True
            )
        ]  # fmt: skip
        assert all(reached >= size for reached, size in zip(covered, kernel.layer.sink.shape, strict=True))
        assert work.blocks == kernel.blocks


@given(graph=networks(), spec=gpus())
@settings(deadline=None, max_examples=15)
def test_what_blocks_move_is_what_the_simulation_counts(graph: Graph, spec: Gpu) -> None:
    costs = costs_of(graph, spec)
    schedule = planned(costs, "unfused")
    of_blocks = dict.fromkeys(("shared", "l2", "dram"), 0)
    macs = 0
    for work in works(schedule, costs.view):
        macs += work.blocks * work.payload.macs
        for memory, size in work.payload.traffic:
            of_blocks[memory] += work.blocks * size

    assert simulated(schedule, costs).traffic_bytes == pytest.approx(of_blocks)
    assert macs >= graph.operations.macs


@given(graph=networks(), spec=gpus(), policy=st.sampled_from(["unfused", "fixed-pattern"]))
@settings(deadline=None, max_examples=15)
def test_half_an_l2_never_lowers_what_a_schedule_moves(graph: Graph, spec: Gpu, policy: str) -> None:
    costs = costs_of(graph, spec)
    schedule = planned(costs, policy)
    moved = []
    for share in (1, 2, 4):
        smaller = changed(spec, l2__capacity=f"{spec.l2.capacity_bytes // share} B")
        moved.append(simulated(schedule, costs_of(graph, smaller)).traffic_bytes["dram"])

    assert moved == sorted(moved)


@given(graph=networks(), spec=gpus())
@settings(deadline=None, max_examples=15)
def test_an_l2_that_holds_everything_passes_on_what_it_must(graph: Graph, spec: Gpu) -> None:
    result = run(graph, changed(spec, l2__capacity="1 GiB"))
    kernels = planned(costs_of(graph, spec)).kernels
    sector = spec.l2.sector_bytes

    # every tensor begins with a sector, and what a grid moves is rounded up for every block
    slack = sector * len(graph.tensors) + 1024 * kernels
    assert result.traffic_bytes["dram"] <= compulsory_bytes(graph) + slack


@given(graph=networks(), spec=gpus())
@settings(deadline=None, max_examples=15)
def test_a_schedule_is_no_slower_with_faster_memories(graph: Graph, spec: Gpu) -> None:
    """But for latencies that slower transfers of other blocks hide, where few SMs are at work: 1.4 % once."""
    costs = costs_of(graph, spec)
    schedule = planned(costs)
    faster = changed(
        spec, l2__bandwidth=f"{2 * spec.l2.bandwidth_bytes_per_s} B/s",
        dram__bandwidth=f"{2 * spec.dram.bandwidth_bytes_per_s} B/s",
    )  # fmt: skip

    slow, fast = simulated(schedule, costs).makespan_ps, simulated(schedule, costs_of(graph, faster)).makespan_ps
    assert fast <= 1.02 * slow


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("sms.count", [27, 54, 81, 108, 144]),
        ("dram.bandwidth", ["100 GB/s", "400 GB/s", "1555 GB/s"]),
        ("l2.bandwidth", ["1000 GB/s", "2500 GB/s", "5400 GB/s"]),
        ("l2.capacity", ["2 MiB", "10 MiB", "40 MiB"]),
        ("sms.clock", ["700 MHz", "1.41 GHz"]),
    ],
)
def test_a_larger_machine_is_no_slower(path: str, values: list[object]) -> None:
    """But for the 2 % that the search for tiles gives away for less traffic."""
    times = []
    for value in values:
        spec = with_values(load_hardware("a100"), {path: value})
        point = DesignPoint(Workload("resnet18-tailor", 8), spec, make_policy("fixed-pattern"))
        times.append(evaluate(point).record.latency_s)

    assert all(later <= 1.02 * earlier for earlier, later in itertools.pairwise(times)), times


class TestClaims:
    def test_fused_is_faster_than_unfused(self) -> None:
        assert run(convolution(), gpu()).makespan_ps < run(convolution(), gpu(), "unfused").makespan_ps

    def test_tensor_units_are_faster_than_lanes(self) -> None:
        graph = product(256, 256, 256)
        on_lanes = run(graph, gpu(), tuning=GpuTuning(tensor_units=False))

        assert run(graph, gpu()).makespan_ps < on_lanes.makespan_ps

    def test_tensor_units_get_products_and_nothing_else(self) -> None:
        net = Net("both")
        graph = net.graph(net.depthwise(net.conv(net.input(1, 32, 28, 28), 64, 1)))

        assert [kernel.tiles.unit for kernel in planned(costs_of(graph, gpu())).runs] == ["tensor", "lanes"]

    def test_a_large_product_comes_near_the_peak(self) -> None:
        """2048^3 in FP16: 8.6 G multiply-accumulates, 10.0 us at the peak of an A100 of half as many SMs."""
        spec = changed(load_hardware("a100", Gpu), launch="0 us")
        result = run(product(2048, 2048, 2048), spec)
        ideal_ps = 2048**3 / spec.peak_macs_per_s("fp16") * 1e12

        assert ideal_ps < result.makespan_ps < 2 * ideal_ps

    def test_twice_the_dram_bandwidth_is_twice_as_fast_where_dram_is_the_limit(self) -> None:
        slow, fast = (changed(gpu(launch="0 us"), dram__bandwidth=each) for each in ("1 GB/s", "2 GB/s"))
        graph = elementwise(1024)

        assert run(graph, slow).bottleneck == "dram"
        assert run(graph, slow).makespan_ps / run(graph, fast).makespan_ps == pytest.approx(2, rel=0.02)

    def test_more_sms_compute_faster(self) -> None:
        graph = convolution(size=56)
        few, many = (gpu(sms=sms(count=count), launch="0 us") for count in (1, 8))

        assert run(graph, many).makespan_ps < 0.3 * run(graph, few).makespan_ps

    def test_a_tensor_that_stays_in_the_l2_does_not_go_to_dram(self) -> None:
        graph = convolution(channels=16)
        fused, unfused = (run(graph, gpu(), policy).traffic_bytes for policy in ("fixed-pattern", "unfused"))

        assert unfused["dram"] == pytest.approx(fused["dram"], rel=0.02)
        assert unfused["l2"] > fused["l2"]

    def test_a_network_that_fits_is_faster_when_the_l2_is_warm(self) -> None:
        graph = elementwise(32)  # 64 KiB a tensor
        warm, cold = (run(graph, gpu(), tuning=GpuTuning(warm_l2=each)) for each in (True, False))

        assert warm.traffic_bytes["dram"] == 32 * 1024 * 2  # the result
        assert warm.makespan_ps < cold.makespan_ps

    def test_a_row_that_shared_memory_does_not_hold_is_still_normalised(self) -> None:
        net = Net("rows")
        graph = net.graph(net.layer_norm(net.input(4, 40_000)))

        assert run(graph, gpu()).makespan_ps > 0


class TestPolicies:
    def test_any_plan_is_scheduled_kernel_by_kernel(self) -> None:
        costs = costs_of(convolution(), gpu())
        plan = FusionPlan(costs.analysis.graph, (Group((0,), "alone"), Group((1, 2), "together")))

        assert kernel_by_kernel(plan, costs).kernels == 2

    def test_a_group_of_which_no_block_fits_is_cut(self) -> None:
        """Two products in one kernel: a row of 12,000 FP16 sums of the first takes 24,000 bytes."""
        net = Net("pair")
        graph = net.graph(net.matmul(net.matmul(net.input(64, 32), net.weight(32, 12_000)), net.weight(12_000, 32)))
        plan = FusionPlan(graph, (Group((0, 1), "together"),))
        sizes = ("128 KiB", "16 KiB")
        large, tight = (
            costs_of(graph, gpu(sms=sms(shared=SHARED | {"capacity": size, "per_block": size}))) for size in sizes
        )

        assert kernel_by_kernel(plan, large).kernels == 1
        assert kernel_by_kernel(plan, tight).kernels == 2
        assert tight.kernel_s((0, 1)) == float("inf")


def policy_run(graph: Graph, spec: Gpu, name: str) -> tuple[GpuSchedule, SimulationResult]:
    costs, policy = costs_of(graph, spec), make_policy(name)
    assert isinstance(policy, SchedulingPolicy)
    schedule = policy.schedule(policy.plan(graph, costs), costs)
    assert isinstance(schedule, GpuSchedule)
    return schedule, simulated(schedule, costs)


class TestStitching:
    @given(graph=networks(), spec=gpus())
    @settings(deadline=None, max_examples=15)
    def test_graphturbo_is_a_plan_and_never_slower_than_layers(self, graph: Graph, spec: Gpu) -> None:
        schedule, result = policy_run(graph, spec, "graphturbo")

        assert violations(schedule.plan) == []
        assert result.makespan_ps <= run(graph, spec).makespan_ps
        assert result.makespan_ps >= graph.operations.macs / spec.peak_macs_per_s("fp16") * 1e12 * (1 - 1e-9)
        assert all(group.boundary_reason for group in schedule.plan.groups)

    @given(graph=networks(), spec=gpus())
    @settings(deadline=None, max_examples=15)
    def test_astitch_leaves_products_alone(self, graph: Graph, spec: Gpu) -> None:
        schedule, _ = policy_run(graph, spec, "astitch")

        assert violations(schedule.plan) == []
        for kernel in schedule.runs:
            found = [nest for nest in nests_of(kernel.layer).nests if nest.compiled.contraction]
            assert len(found) <= 1

    def test_a_chain_of_small_layers_is_one_kernel(self) -> None:
        """Launches of 2 us each are most of what three products of 32 x 32 take."""
        net = Net("chain")
        x = net.input(32, 32)
        for _ in range(3):
            x = net.relu(net.dense(x, 32))
        graph = net.graph(x)
        schedule, result = policy_run(graph, gpu(), "graphturbo")

        assert schedule.kernels == 1
        assert schedule.tensor_scopes == {"shared": 2, "dram": 1}
        assert result.traffic_bytes["dram"] == pytest.approx(compulsory_bytes(graph), abs=1024)
        assert run(graph, gpu()).makespan_ps - result.makespan_ps > 2 * 2_000_000

    def test_what_others_read_too_is_written_as_well(self) -> None:
        """A residual sum goes into the kernel that normalises it, and to DRAM for the sum after that."""
        net = Net("residual")
        total = net.add(net.input(64, 256), net.input(64, 256))
        graph = net.graph(net.add(net.dense(net.layer_norm(total), 256), total))
        schedule, _ = policy_run(graph, gpu(), "astitch")

        assert [len(kernel.layer.outputs) for kernel in schedule.runs] == [2, 1]

    def test_large_convolutions_stay_apart(self) -> None:
        """Their blocks would compute what they share with others twice, and all channels of the first for each."""
        net = Net("pair")
        graph = net.graph(net.relu(net.conv(net.relu(net.conv(net.input(8, 256, 14, 14), 256)), 256)))

        assert policy_run(graph, load_hardware("a100", Gpu), "graphturbo")[0].kernels == 2

    def test_options_of_scratchpads_are_refused(self) -> None:
        point = DesignPoint(Workload("bert-tiny"), load_hardware("v100"), make_policy("graphturbo", {"order": "bfs"}))

        with pytest.raises(ScheduleError, match="option order is for clustered DSAs; leave it out on a GPU"):
            evaluate(point)


class TestFiles:
    @staticmethod
    def written() -> tuple[dict[str, object], GpuCosts]:
        costs = costs_of(convolution(), gpu())
        return json.loads(json.dumps(schedule_json(planned(costs)))), costs

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"tile": [1, 64, 28, 29]}, "tile [1, 64, 28, 29] is no part of [1, 64, 28, 28]"),
            ({"order": [0, 1, 2, 2]}, "tiles of 4 dimensions have order"),
            ({"part": [1, 64, 28, 28], "tile": [1, 4, 1, 1]}, "is larger than tile"),
            ({"tile": [1, 64, 1, 28], "part": [1, 1, 1, 1], "unit": "lanes"}, "its block takes 1792 threads"),
            ({"depth_step": None}, "tensor units take their operands from shared memory"),
            ({"unit": "vector"}, "Input should be 'lanes' or 'tensor'"),
            ({"operators": [99]}, "operators: needs some of the network's 3, ascending"),
            ({"colour": "red"}, "Extra inputs are not permitted"),
        ],
    )
    def test_a_kernel_that_cannot_run_is_refused(self, change: dict[str, object], complaint: str) -> None:
        data, costs = self.written()
        kernels = data["kernels"]
        assert isinstance(kernels, list)
        kernels[0].update(change)

        with pytest.raises(ScheduleError) as caught:
            read_schedule(data, costs)

        assert complaint in str(caught.value)

    def test_tensor_units_that_are_not_there_are_refused(self) -> None:
        data, costs = self.written()
        without = costs_of(costs.analysis.graph, gpu(sms=sms(tensor={})))

        with pytest.raises(ScheduleError, match="small has no tensor units for fp16 in use"):
            read_schedule(data, without)

    def test_a_schedule_that_leaves_something_out_is_refused(self) -> None:
        data, costs = self.written()

        with pytest.raises(ScheduleError, match="no kernel writes the network's result"):
            read_schedule(data | {"kernels": []}, costs)
        with pytest.raises(ScheduleError, match="needs every operator of the network once"):
            read_schedule(data | {"groups": []}, costs)

    def test_edited_tiles_are_run(self) -> None:
        data, costs = self.written()
        kernels = data["kernels"]
        assert isinstance(kernels, list)
        kernels[0].update(
            {"tile": [1, 4, 1, 28], "part": [1, 1, 1, 1], "unit": "lanes", "depth_step": None, "stages": 1}
        )
        edited = read_schedule(data, costs)

        assert simulated(edited, costs).makespan_ps > simulated(planned(costs), costs).makespan_ps
        assert "448 blocks of 1x4x1x28" in str(edited)


def test_another_process_finds_the_same_schedule_and_the_same_times() -> None:
    root = Path(__file__).resolve().parents[3]
    source = (
        "from experiments.evaluate import evaluate; from experiments.points import DesignPoint, Workload;"
        "from hw_models import load_hardware; from scheduler import make_policy;"
        "found = evaluate(DesignPoint(Workload('bert-tiny'), load_hardware('v100'), make_policy('fixed-pattern')));"
        "print(found.schedule, found.result.makespan_ps, found.result.trace.end_ps)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", source], check=True, capture_output=True, text=True, cwd=root,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip

    assert len(texts) == 1


@pytest.mark.parametrize(
    ("network", "batch", "hardware", "dtype", "least_ms", "most_ms"),
    [
        ("resnet50", 32, "a100", "fp16", 0.85, 4.0),
        ("resnet50", 32, "h100", "fp16", 0.3, 2.5),
        ("bert-base-128", 1, "v100", "fp16", 0.2, 3.0),
        ("mobilenet-v2", 1, "adreno640", "fp16", 0.4, 10.0),
        ("mobilenet-v2", 1, "mali_g76", "fp16", 1.2, 15.0),
        ("resnet50", 1, "p100", "fp32", 0.8, 6.0),
    ],
)
def test_real_networks_take_what_is_known_of_such_parts(
    network: str, batch: int, hardware: str, dtype: str, least_ms: float, most_ms: float
) -> None:
    """Between the peak of the machine and what good libraries are known to reach."""
    point = DesignPoint(Workload(network, batch, dtype=dtype), load_hardware(hardware), make_policy("fixed-pattern"))
    record = evaluate(point).record

    assert record.dtype == dtype
    assert least_ms < record.latency_s * 1000 < most_ms


@pytest.mark.parametrize(("hardware", "most_w"), [("a100", 400), ("v100", 300), ("h100", 700), ("p100", 300)])
def test_no_server_part_draws_more_than_it_is_made_for(hardware: str, most_w: float) -> None:
    """What a data sheet allows the whole board, against the parts that are modelled."""
    spec = load_hardware(hardware, Gpu)
    record = evaluate(DesignPoint(Workload("resnet50", 32), spec, make_policy("fixed-pattern"))).record

    assert spec.energy.static_power_w < record.energy_j / record.latency_s < most_w
