"""What a later kernel finds in caches: as much as others have left of what lies where it reads and writes."""

from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.experiments.point.pipeline import run_stages
from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Cpu, SimulationResult, load_hardware, with_values
from dsascape.scheduler import Placing, make_policy
from dsascape.scheduler.cpu.cost.work import held_by_others
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.repeated import repeated_kernels
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.cpu.schedule.steps import steps_of
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.scheduler.cpu.running import planned, run, simulated, tiles_of

US = 1_000_000


def layers(count: int) -> Graph:
    net = Net("layers")
    x = net.input(1, 32, 28, 28)
    for _ in range(count):
        x = net.relu(net.conv(x, 32))
    return net.graph(x, dtype="fp32")


def dram_bytes(graph: Graph, kept: str | None, *, warm: bool, fresh: str | None = None) -> int:
    """Return what a run moves where others use the shared cache, too, or what is new to it has a part of it only."""
    spec = with_values(load_hardware("epyc", Cpu), {"l3.kept": kept, "l3.fresh": fresh})
    placing = Placing(hardware=spec, parts=1, dtype="fp32", tuning=CpuTuning(warm_caches=warm))
    return run_stages(Analysis(graph), make_policy("fixed-pattern"), placing).result.traffic_bytes["dram"]


def run_on_two_threads(graph: Graph, changed: dict[str, object], threads: int = 2) -> SimulationResult:
    """Return the run of a network again and again, where its fixed patterns are kernels."""
    placing = Placing(
        hardware=with_values(load_hardware("epyc", Cpu), changed), parts=1, dtype="fp32",
        tuning=CpuTuning(warm_caches=True, threads=threads, winograd=0),
    )  # fmt: skip
    return run_stages(Analysis(graph), make_policy("fixed-pattern"), placing).result


def test_a_small_network_that_runs_again_finds_everything_if_nobody_else_is_there() -> None:
    assert dram_bytes(layers(3), None, warm=True) < 0.02 * dram_bytes(layers(3), None, warm=False)


@pytest.mark.parametrize("warm", [True, False])
def test_the_sooner_others_replace_lines_the_more_comes_from_dram(warm: bool) -> None:
    moved = [dram_bytes(layers(3), kept, warm=warm) for kept in (None, "100 ms", "100 us", "10 us", "1 ps")]

    assert moved == sorted(moved)
    assert moved[-1] > 1.2 * moved[0]


@pytest.mark.parametrize("warm", [True, False])
def test_the_less_there_is_for_new_lines_the_more_comes_from_dram(warm: bool) -> None:
    moved = [dram_bytes(layers(3), None, warm=warm, fresh=fresh) for fresh in (None, "4 MiB", "64 KiB", "1 KiB")]

    assert moved == sorted(moved)
    assert moved[-1] > moved[0] or warm  # run again, all of it is settled


def test_groups_of_cores_each_fetch_what_both_use() -> None:
    # each core has two of four images, and both read weights of 9.4 MB, more than a copy of the cache holds
    net = Net("weights")
    graph = net.graph(net.relu(net.conv(net.input(4, 512, 7, 7), 512)), dtype="fp32")

    small: dict[str, object] = {"l3.capacity": "2 MiB"}
    epyc, tuning = load_hardware("epyc", Cpu), CpuTuning(warm_caches=True, threads=2, winograd=0)
    of_one, of_two = (
        CpuCosts(CpuView(with_values(epyc, small | {"l3.shared_by": number}), tuning), Analysis(graph), "fp32")
        for number in (2, 1)
    )
    planned_once = planned(of_one, "fixed-pattern")
    (kernel,) = planned_once.runs
    own = tiles_of(kernel, of_one)
    _, channels, *pixels = own.padded((1, own.register[1], 7, 7))
    tiles = replace(own, tile=(1, channels, *pixels), order=(0, 1, 2, 3), parallel=1, depth_step=None)
    steps = steps_of(kernel.layer, tiles, of_one.view.lanes("fp32"))
    schedule = replace(planned_once, runs=(replace(kernel, steps=steps, threads=2),))
    one, two = simulated(schedule, of_one), simulated(schedule, of_two)

    assert 1.2 * one.traffic_bytes["dram"] < two.traffic_bytes["dram"] <= 2.1 * one.traffic_bytes["dram"]
    assert one.makespan_ps <= two.makespan_ps
    assert run_on_two_threads(graph, small) == run_on_two_threads(graph, small | {"l3.shared_by": 2})


def test_what_other_cores_have_read_is_claimed_from_them() -> None:
    # activations are written, read by all cores, and overwritten: stores to them wait
    graph = layers(6)

    claims = (None, "0 ns", "200 ns", "300 ns")
    taken = [run_on_two_threads(graph, {"claimed_line": each}).makespan_ps for each in claims]
    alone = [run_on_two_threads(graph, {"claimed_line": each}, threads=1).makespan_ps for each in (None, "300 ns")]

    assert taken[0] == taken[1] < taken[2] < taken[3]
    assert alone[0] == alone[1]
    # lines of 28 x 28 x 32 numbers, half of them on each core, of six layers at the most
    assert taken[3] - taken[2] <= 6 * 28 * 28 * 32 * 4 // 64 // 2 * 100_000 * 1.01


@settings(max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(count=st.integers(1, 3), threads=st.integers(1, 2), channels=st.sampled_from([8, 32, 48]))
def test_no_kernel_that_is_repeated_alone_claims_lines(count: int, threads: int, channels: int) -> None:
    net = Net("alone")
    x = net.input(1, channels, 14, 14)
    for _ in range(count):
        x = net.relu(net.conv(x, channels))
    graph = net.graph(x, dtype="fp32")
    plain, claiming = (
        CpuCosts(CpuView(spec, CpuTuning(threads=threads, warm_caches=True)), Analysis(graph), "fp32")
        for spec in (load_hardware("epyc", Cpu), load_hardware("epyc", Cpu).model_copy(update={"claimed_line_ps": US}))
    )
    schedule = kernel_by_kernel(fixed_pattern_plan(graph), plain)

    alone, again = (
        {group: each.seconds for group, each in repeated_kernels(schedule, costs).items()}
        for costs in (plain, claiming)
    )

    assert alone == again


@given(number=st.integers(1, 4), threads=st.integers(1, 8))
def test_a_line_is_held_by_others_the_likelier_the_more_have_used_it(number: int, threads: int) -> None:
    used, more = (min(each, threads) for each in (number, number + 1))

    assert 0 <= held_by_others(used, threads) <= held_by_others(more, threads) <= 1
    assert held_by_others(1, 1) == 0


def test_what_is_used_often_in_between_passes_by_once() -> None:
    # 30 layers use the same two buffers of 25 KiB by turns; the weights of the first still lie in the 512 KiB of l2
    net = Net("alternating")
    x = net.conv(net.input(1, 32, 14, 14), 32)
    for _ in range(30):
        x = net.relu(x)
    placing = Placing(
        hardware=load_hardware("raspberry_pi_3b_plus"), parts=1, dtype="fp32", tuning=CpuTuning(warm_caches=True)
    )

    run = run_stages(Analysis(net.graph(x, dtype="fp32")), make_policy("unfused"), placing)

    assert run.result.traffic_bytes["dram"] < 0.02 * 32 * 32 * 9 * 4


def test_equal_layers_each_fetch_their_own_weights() -> None:
    """Three products of 512 x 512 weights in fp32, 1 MiB each, equal but for what they read."""
    net = Net("chain")
    x = net.input(4, 512)
    for _ in range(3):
        x = net.dense(x, 512)
    moved = run(net.graph(x, dtype="fp32"), load_hardware("epyc", Cpu), threads=1).traffic_bytes["dram"]

    assert 3 << 20 <= moved <= 1.1 * (3 << 20)


def test_a_network_made_of_another_finds_what_is_known_of_its_equal_layers() -> None:
    net = Net()
    graph = net.graph(net.dense(net.input(4, 64), 64), dtype="fp32")
    whole, view = Analysis(graph), CpuView(load_hardware("epyc", Cpu))
    (first,), (second,) = [
        kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(view, analysis, "fp32")).runs
        for analysis in (whole, Analysis(graph, made_of=whole))
    ]

    assert first.layer.memos is second.layer.memos
    assert first.layer.memo_key == second.layer.memo_key
    assert first.layer.memo_identity != second.layer.memo_identity
