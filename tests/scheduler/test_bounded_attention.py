"""Attention on machines: what a mask leaves out takes no time, and keys come in pieces where a policy fuses all."""

import pytest
from onnx import helper

from dsascape import load_hardware, simulate
from dsascape.experiments.question.points import RunRecord
from dsascape.hw_models import Gpu
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import Placing
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.schedule_json import read_schedule, schedule_json
from dsascape.scheduler.kernels.loops.steps import Running
from dsascape.workloads.analysis import Analysis
from tests.workloads.test_masked_attention import network

MACHINES = ("kirin990", "h100", "stcp920")
HEADS, WIDTH = 8, 64


def run(tokens: int, machine: str, policy: str, keys: int = 0, *, is_causal: bool = False) -> RunRecord:
    shared = [1, HEADS, keys or tokens, WIDTH]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=int(is_causal))
    graph = network([node], {"q": [1, HEADS, tokens, WIDTH], "k": shared, "v": shared}, {})
    return simulate(graph, machine, policy, dtype="fp16").record


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("policy", ["unfused", "ago"])
def test_a_causal_mask_saves_nearly_half(machine: str, policy: str) -> None:
    """Where nothing is fused, masking is a kernel more."""
    causal, whole = (run(2048, machine, policy, is_causal=mask) for mask in (True, False))

    assert causal.macs * 2 * 2048 == whole.macs * 2049
    assert 0.4 * whole.latency_s < causal.latency_s < (0.75 if policy == "ago" else 0.9) * whole.latency_s


@pytest.mark.parametrize("machine", MACHINES)
def test_twice_the_tokens_take_four_times_as_long(machine: str) -> None:
    few, many = (run(tokens, machine, "ago", is_causal=True) for tokens in (2048, 4096))

    assert 3.99 < many.macs / few.macs < 4
    spec = load_hardware(machine)
    launch_s = spec.launch_ps / PS_PER_S if isinstance(spec, Gpu) else 0.0
    assert 3 < (many.latency_s - launch_s) / (few.latency_s - launch_s) < 5


@pytest.mark.parametrize(("machine", "memory"), [("h100", "dram"), ("stcp920", "ddr")])
def test_scores_stay_on_the_chip_however_many_keys(machine: str, memory: str) -> None:
    """One kernel, of which a row of scores fits no block: 256 queries, 65,536 keys."""
    fused, apart = (run(256, machine, policy, 65_536) for policy in ("ago", "unfused"))
    scores = 2 * HEADS * 256 * 65_536

    assert (fused.kernels, apart.kernels) == (1, 4)
    assert apart.traffic_bytes[memory] > 3 * scores
    assert fused.traffic_bytes[memory] < apart.traffic_bytes[memory] / 4


def test_tiles_of_streamed_attention_are_written_and_read() -> None:
    shape = [1, HEADS, 2048, WIDTH]
    graph = network([helper.make_node("Attention", ["q", "k", "v"], ["y"])], dict.fromkeys("qkv", shape), {})
    outcome = simulate(graph, "h100", "ago", dtype="fp16")
    assert isinstance(outcome.schedule, GpuSchedule)
    (kernel,) = outcome.schedule.runs
    costs = Placing(hardware=load_hardware("h100"), parts=1, dtype="fp16").costs(Analysis(outcome.schedule.plan.graph))
    assert isinstance(costs, GpuCosts)

    assert any(isinstance(step, Running) for step in kernel.steps)
    assert read_schedule(schedule_json(outcome.schedule), costs).runs[0].steps == kernel.steps
