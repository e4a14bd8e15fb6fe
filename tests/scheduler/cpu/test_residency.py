"""What a later kernel finds in caches: as much as others have left of what lies where it reads and writes."""

import pytest

from dsascape.experiments.point.pipeline import run_stages
from dsascape.hw_models import Cpu, load_hardware, with_values
from dsascape.scheduler import Placing, make_policy
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net


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
    assert moved[-1] > moved[0]


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

    assert run.result.traffic_bytes["dram"] == 0
