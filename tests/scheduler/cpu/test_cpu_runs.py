"""Networks on CPUs, plan to simulated run: what must hold on any of them, and claims an architect would check."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.hw_models import Compute, Cpu, load_hardware, with_values
from dsascape.scheduler import ScheduleError, make_policy
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.cost.work import kernel_work
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import lower, works
from dsascape.scheduler.cpu.repeated import repeated_kernels
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.view import CpuView
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.hw_models.cpu.cpus import big_and_little, core, cpu, cpus
from tests.scheduler.cpu.running import costs_of, planned, run, sizes_of, tiles_of
from tests.scheduler.small import compulsory_bytes, convolution, elementwise
from tests.tiers import examples


@given(graph=networks(), spec=cpus(), policy=st.sampled_from(["unfused", "fixed-pattern"]))
@settings(deadline=None, max_examples=examples(40))
def test_nothing_beats_the_machine(graph: Graph, spec: Cpu, policy: str) -> None:
    graph = graph.with_dtype("fp32")
    result = run(graph, spec, policy)
    seconds = result.makespan_ps / 1e12

    assert seconds >= graph.operations.macs / spec.peak_macs_per_s("fp32") * (1 - 1e-9)
    assert seconds >= result.traffic_bytes["dram"] / spec.dram.bandwidth_bytes_per_s * (1 - 1e-9)
    assert all(0 <= share <= 1 for share in result.utilisation.values())
    assert all(joules >= 0 for joules in result.energy_pj.values())


@given(graph=networks(), spec=cpus(), pj=st.integers(1, 500))
@settings(deadline=None, max_examples=examples(20))
def test_energy_of_instructions_adds_to_the_rest_and_takes_no_time(graph: Graph, spec: Cpu, pj: int) -> None:
    graph = graph.with_dtype("fp32")
    without, one, many = (
        run(graph, with_values(spec, {"energy.instruction": f"{each} pJ"}), "unfused") for each in (0, 1, pj)
    )
    rest = {name: spent for name, spent in many.energy_pj.items() if name != "instructions"}

    assert (one.makespan_ps, many.makespan_ps) == (without.makespan_ps, without.makespan_ps)
    assert rest == without.energy_pj
    assert many.energy_pj["instructions"] == pytest.approx(pj * one.energy_pj["instructions"])
    assert many.energy_j >= one.energy_j >= without.energy_j


@given(graph=networks(), spec=cpus())
@settings(deadline=None, max_examples=examples(40))
def test_every_multiply_accumulate_is_done_once_where_nothing_is_computed_twice(graph: Graph, spec: Cpu) -> None:
    costs = costs_of(graph.with_dtype("fp32"), spec)
    program = lower(planned(costs, "unfused"), costs)
    macs = sum(each.payload.macs * each.blocks for each in program.instructions if isinstance(each.payload, Compute))

    assert macs >= graph.operations.macs
    if not any(kernel.layer.contraction is None for kernel in planned(costs, "unfused").runs):
        assert macs == graph.operations.macs


@given(graph=networks(), spec=cpus())
@settings(deadline=None, max_examples=examples(30))
def test_tiles_are_parts_of_what_they_tile_and_the_same_every_time(graph: Graph, spec: Cpu) -> None:
    graph = graph.with_dtype("fp32")
    one, other = (planned(costs_of(graph, spec), "fixed-pattern") for _ in range(2))

    assert str(one) == str(other)
    for kernel in one.runs:
        assert all(part >= 1 for part in sizes_of(kernel).tile)
        assert 1 <= kernel.chunks <= kernel.threads <= spec.core_count


@given(graph=networks(), spec=cpus())
@settings(deadline=None, max_examples=examples(30))
def test_outer_levels_pass_less_than_inner_ones(graph: Graph, spec: Cpu) -> None:
    costs = costs_of(graph.with_dtype("fp32"), spec)
    for work in works(planned(costs, "fixed-pattern"), costs.view):
        for chunk in work.chunks:
            sizes = dict(chunk.payload.traffic)
            assert sizes["dram"] <= sizes.get("l3", math.inf)


class TestClaims:
    def test_fused_is_faster_than_unfused(self) -> None:
        graph = convolution(dtype="fp32")

        assert run(graph, cpu()).makespan_ps < run(graph, cpu(), "unfused").makespan_ps

    def test_everything_is_fetched_once_into_caches_that_hold_it_all(self) -> None:
        graph = convolution(dtype="fp32")
        large = {"capacity": "1 GiB", "bandwidth": "16 GB/s", "bytes_per_cycle": 8.0, "latency": "20 ns"}

        (kernel,) = planned(costs_of(graph, cpu(l3=large)), "fixed-pattern").runs
        scratch = kernel_of(kernel.layer, kernel.steps, kernel.threads, "fp32", CpuView(cpu(l3=large))).traffic
        moved = run(graph, cpu(l3=large)).traffic_bytes["dram"]

        # and what is written of the copy with padding
        assert moved == pytest.approx(compulsory_bytes(graph) + scratch.scratch_bytes, rel=0.01)

    def test_twice_the_dram_bandwidth_is_twice_as_fast_where_dram_is_the_limit(self) -> None:
        spec = with_values(cpu(), {"cores.big.dram_bandwidth": "100 GB/s", "l3": None})
        assert isinstance(spec, Cpu)
        slow, fast = (with_values(spec, {"dram.bandwidth": bandwidth}) for bandwidth in ("1 GB/s", "2 GB/s"))
        graph = elementwise(1024, "fp32")

        assert run(graph, slow).bottleneck == "dram"
        ratio = run(graph, slow).makespan_ps / run(graph, fast).makespan_ps
        assert ratio == pytest.approx(2, rel=0.02)

    def test_more_cores_help_up_to_the_bandwidth(self) -> None:
        graph = elementwise(1024, "fp32")
        times = [run(graph, cpu_of(cores)).makespan_ps for cores in (1, 2, 4)]

        # a core moves 4 GB/s of the 6 that there are
        assert times[0] / times[1] == pytest.approx(1.5, rel=0.02)
        assert times[2] == pytest.approx(times[1], rel=0.02)

    def test_more_cores_compute_faster(self) -> None:
        graph = convolution(channels=128, dtype="fp32")

        assert run(graph, cpu_of(4)).makespan_ps < 0.4 * run(graph, cpu_of(1)).makespan_ps

    def test_little_cores_that_would_hold_up_equal_chunks_are_left_out(self) -> None:
        graph, spec = convolution(channels=128, dtype="fp32"), big_and_little()

        assert run(graph, spec, threads=4).makespan_ps == run(graph, spec, threads=2).makespan_ps
        best = run(graph, spec).makespan_ps
        assert best <= run(graph, spec, threads=2).makespan_ps

    def test_a_network_that_fits_is_faster_when_caches_are_warm(self) -> None:
        graph = elementwise(64, "fp32")

        # the next run overwrites the result
        assert run(graph, cpu(), warm_caches=True).traffic_bytes["dram"] == 0
        assert run(graph, cpu(), warm_caches=True).makespan_ps < run(graph, cpu()).makespan_ps

    def test_a_tensor_that_stays_in_the_shared_cache_does_not_go_to_dram(self) -> None:
        graph = convolution(dtype="fp32")
        fused, unfused = (run(graph, cpu(), policy).traffic_bytes for policy in ("fixed-pattern", "unfused"))

        assert unfused["dram"] == pytest.approx(fused["dram"], rel=0.02)
        assert unfused["l3"] > fused["l3"]

    def test_half_as_many_lanes_take_longer(self) -> None:
        graph = convolution(dtype="fp32")

        assert costs_in(graph, "fp16").kernel_s(range(3)) < costs_in(graph, "fp32").kernel_s(range(3))


def cpu_of(cores: int) -> Cpu:
    changed = with_values(cpu(), {"cores.big.count": cores})
    assert isinstance(changed, Cpu)
    return changed


def costs_in(graph: Graph, dtype: str) -> CpuCosts:
    return CpuCosts(CpuView(cpu()), Analysis(graph.with_dtype(dtype)), dtype)


def test_any_plan_is_scheduled_kernel_by_kernel() -> None:
    costs = costs_of(convolution(dtype="fp32"), cpu())
    plan = FusionPlan(costs.analysis.graph, (Group((0,), "alone"), Group((1, 2), "together")))

    assert kernel_by_kernel(plan, costs).kernels == 2


@pytest.mark.parametrize("policy", ["graphturbo", "astitch"])
def test_policies_for_scratchpads_say_so(policy: str) -> None:
    point = DesignPoint(Workload("mobilenet-v2"), load_hardware("kirin990"), make_policy(policy))

    with pytest.raises(ScheduleError, match=f"policy {policy} schedules clustered_dsa, gpu; kirin990 is a cpu"):
        evaluate(point)


@pytest.mark.parametrize(
    ("network", "hardware", "least_ms", "most_ms"),
    [("mobilenet-v2", "kirin990", 4.2, 30), ("resnet50", "platinum_8124m", 2.6, 10)],
)
def test_real_networks_take_what_is_known_of_such_parts(
    network: str, hardware: str, least_ms: float, most_ms: float
) -> None:
    """Between the peak of the cores that are used and what good libraries are known to reach."""
    record = evaluate(DesignPoint(Workload(network), load_hardware(hardware), make_policy("fixed-pattern"))).record

    assert record.dtype == "fp32"
    assert least_ms < record.latency_s * 1000 < most_ms


@pytest.mark.parametrize("columns", [1000, 936, 48, 17])
def test_weights_are_read_as_a_whole_however_little_of_them_is_left_for_the_last_chunk(columns: int) -> None:
    net = Net()
    graph = net.graph(net.dense(net.input(4, 1280), columns), dtype="fp32")

    result = run(graph, load_hardware("epyc", Cpu), "unfused", threads=2)

    assert result.traffic_bytes["dram"] >= (4 + columns) * 1280 * 4


@given(graph=networks(), spec=cpus())
@settings(deadline=None, max_examples=examples(20))
def test_register_tiles_are_whole_vectors_that_the_registers_hold(graph: Graph, spec: Cpu) -> None:
    lanes = spec.simd.lanes["fp32"]
    costs = costs_of(graph.with_dtype("fp32"), spec)
    for kernel in planned(costs, "unfused").runs:
        tiles = tiles_of(kernel, costs)
        if tiles.vector_dim >= 0:
            assert tiles.register[tiles.vector_dim] % tiles.lanes(lanes) == 0
            assert math.prod(tiles.register) // tiles.lanes(lanes) <= spec.simd.registers


class TestRepeatedKernels:
    """A kernel that runs again and again by itself finds its data in the caches that hold it."""

    def parts(self, graph: Graph, **l2: str) -> dict[str, float]:
        large = {"capacity": "4 MiB", "associativity": 8, "bytes_per_cycle": 16.0, "latency_cycles": 10.0} | l2
        costs = costs_of(graph, cpu(cores={"big": core(l2=large)}), threads=1)
        (kernel,) = repeated_kernels(planned(costs, "fixed-pattern"), costs).values()
        return dict(kernel.parts_s)

    def test_nothing_comes_from_further_out_than_the_cache_that_holds_it(self) -> None:
        assert set(self.parts(elementwise(64, "fp32"))) == {"core", "l1", "l2"}

    def test_of_what_is_more_than_a_cache_a_part_is_still_there(self) -> None:
        # three tensors of 1024 KiB: one half more than the cache holds, of which a seventh is found
        graph = elementwise(256, "fp32")
        all_of_it = self.parts(graph, capacity="64 KiB")["l3"]

        assert self.parts(graph, capacity="2 MiB")["l3"] == pytest.approx((1 - 0.14) * all_of_it, rel=0.05)

    def test_the_call_is_left_out(self) -> None:
        slow, quick = (
            repeated_kernels(planned(costs, "unfused"), costs)
            for costs in (costs_of(elementwise(4, "fp32"), cpu(kernel_call=text)) for text in ("1 ms", "1 us"))
        )

        assert [kernel.seconds for kernel in slow.values()] == [kernel.seconds for kernel in quick.values()]


def test_what_is_copied_with_padding_is_traffic_where_the_copy_leaves_the_cache() -> None:
    net = Net()
    graph = net.graph(net.depthwise(net.input(1, 64, 56, 56)), dtype="fp32")
    costs = costs_of(graph, cpu(), threads=1)
    (kernel,) = planned(costs, "unfused").runs
    own = tiles_of(kernel, costs)
    whole = replace(own, tile=own.padded(kernel.layer.sink.shape), parallel=0)
    row = replace(own, tile=own.register, parallel=0)

    def l2_bytes(tiles: LoopTiles) -> int:
        (chunk,) = kernel_work(kernel_of(kernel.layer, tiles, 1, "fp32", costs.view)).chunks
        return dict(chunk.payload.traffic)["l2"]

    image = 64 * 56 * 56 * 4
    assert l2_bytes(whole) >= l2_bytes(row) + image
