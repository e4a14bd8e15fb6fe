"""What runs in order takes its time, and no more: each step reads what it needs once, running sums are linear."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

from dsascape import Graph, simulate
from dsascape.experiments.question.points import RunRecord
from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.hw_models import Cpu, Gpu, load_hardware
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.json import read_schedule as read_cpu_schedule
from dsascape.scheduler.cpu.schedule.json import schedule_json as cpu_schedule_json
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel as cpu_kernel_by_kernel
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import kernel_by_kernel
from dsascape.scheduler.gpu.schedule_json import read_schedule, schedule_json
from dsascape.scheduler.gpu.view import GpuView
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import FLOATS
from tests.workloads.onnx_models import model, read

CPUS = ("kirin990", "snapdragon865")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def op(kind: str, inputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs.split(), ["y"], **attributes)


def recurrent(kind: str, steps: int, batch: int, units: int, *, both_ways: bool = False) -> ModelProto:
    ways = 2 if both_ways else 1
    weights = np.ones((ways, GATES[kind] * units, units), np.float32)
    direction = {"direction": "bidirectional"} if both_ways else {}
    node = op(kind, "x w r", hidden_size=units, **direction)
    return model(node, inputs={"x": [steps, batch, units]}, w=weights, r=weights)


def running_sum(*shape: int, axis: int) -> ModelProto:
    return model(op("CumSum", "x a"), inputs={"x": list(shape)}, a=np.array(axis))


def fourier(length: int) -> ModelProto:
    return model(op("DFT", "x"), inputs={"x": [1, length, 1]})


def attention(heads: int, tokens: int, depth: int) -> ModelProto:
    shape = [1, heads, tokens, depth]
    built = model(op("Attention", "q k v"), inputs={"q": shape, "k": shape, "v": shape})
    built.opset_import[0].version = 23
    return built


def least_bytes(graph: Graph) -> int:
    """Return what has to come from or go to DRAM: inputs, weights, results; an axis is known beforehand."""
    moved = [t for name, t in graph.tensors.items() if t.role in ("input", "weight") or name in graph.outputs]
    return sum(t.size_bytes for t in moved if t.dtype in FLOATS)


def run(built: ModelProto, machine: str, policy: str = "fixed-pattern") -> RunRecord:
    return simulate(read(built), machine, policy).record


NETWORKS = {
    **{f"{kind}, {units} units": recurrent(kind, 10, 1, units) for kind in GATES for units in (16, 64, 256)},
    "LSTM of 8 sequences": recurrent("LSTM", 20, 8, 128),
    "LSTM both ways": recurrent("LSTM", 20, 1, 512, both_ways=True),
    "LSTM of 32 sequences, larger than caches": recurrent("LSTM", 10, 32, 768),
    "running sum of rows": running_sum(1000, 1000, axis=1),
    "running sum of columns": running_sum(1000, 1000, axis=0),
    "running sum of one line": running_sum(100_000, axis=0),
    "attention in caches": attention(2, 32, 16),
    "attention beyond them": attention(8, 256, 64),
    "Fourier transform": fourier(1024),
    "Fourier transform, larger than caches": fourier(2**20),
}


@pytest.mark.parametrize("machine", CPUS)
@pytest.mark.parametrize("name", NETWORKS)
def test_time_is_within_50_times_the_roofline_and_operands_are_read(name: str, machine: str) -> None:
    built = NETWORKS[name]
    graph, record = read(built), run(built, machine)
    moved, least = record.traffic_bytes["dram"], least_bytes(graph)
    bound_s = max(least / record.off_chip_bytes_per_s, record.macs / record.peak_macs_per_s)

    assert moved >= least
    assert bound_s <= record.latency_s < 50 * bound_s + 5e-6


@pytest.mark.parametrize("units", [64, 512, 1024])
@pytest.mark.parametrize("both_ways", [False, True])
def test_a_step_reads_no_more_than_its_weights(units: int, both_ways: bool) -> None:
    """Whatever caches hold, a step of one sequence fetches its recurrent weights once, and some vectors."""
    steps, ways = 10, 1 + both_ways
    built = recurrent("LSTM", steps, 1, units, both_ways=both_ways)
    of_step = 4 * (4 * units * units + 16 * units) * ways

    assert run(built, "kirin990").traffic_bytes["dram"] <= 1.05 * (least_bytes(read(built)) + steps * of_step)


@pytest.mark.parametrize("machine", ["h100", "a100"])
@pytest.mark.parametrize("kind", GATES)
def test_steps_follow_each_other_on_gpus(kind: str, machine: str) -> None:
    """A step is a launch, the latency of the L2 for what the last step has written, and its product."""
    few, many = (recurrent(kind, steps, 4, 512) for steps in (10, 20))
    shorter, longer = run(few, machine), run(many, machine)
    spec = load_hardware(machine, Gpu)
    launch_s = spec.launch_ps / PS_PER_S
    weights_s = 2 * GATES[kind] * 512 * 512 / spec.l2.bandwidth_bytes_per_s
    step_s = (longer.latency_s - shorter.latency_s) / 10

    assert launch_s + weights_s < step_s < 5 * (launch_s + weights_s)
    assert longer.traffic_bytes["dram"] >= least_bytes(read(many)) // 2  # fp16


@pytest.mark.parametrize("machine", ["h100", "a100"])
@pytest.mark.parametrize("both_ways", [False, True])
def test_gpus_read_every_weight(machine: str, both_ways: bool) -> None:
    built = recurrent("LSTM", 5, 2, 1024, both_ways=both_ways)

    assert run(built, machine).traffic_bytes["dram"] >= least_bytes(read(built)) // 2


def test_the_schedule_of_a_recurrence_on_a_gpu_is_read_back() -> None:
    analysis = Analysis(read(recurrent("LSTM", 5, 1, 256)))
    costs = GpuCosts(GpuView(load_hardware("h100", Gpu), "fp16"), analysis)
    schedule = kernel_by_kernel(fixed_pattern_of(analysis), costs)

    assert read_schedule(schedule_json(schedule), costs).runs == schedule.runs


@pytest.mark.parametrize("kind", GATES)
def test_twice_the_steps_take_twice_the_time(kind: str) -> None:
    few, more, many = (run(recurrent(kind, steps, 1, 64), "kirin990").latency_s for steps in (20, 40, 80))

    assert many - more == pytest.approx(2 * (more - few), rel=0.25)


def test_a_running_sum_is_linear() -> None:
    """A thousand times as long: a thousand times the time."""
    small, large = (run(running_sum(size, axis=0), "kirin990").latency_s for size in (10_000, 1_000_000))

    assert large < 120 * small


@pytest.mark.parametrize("machine", [*CPUS, "platinum_8124m", "raspberry_pi_3b_plus"])
@pytest.mark.parametrize("sizes", [(8, 256, 64), (32, 512, 128), (4, 100, 40)])
def test_an_attention_takes_as_long_as_its_operators_by_themselves(sizes: tuple[int, int, int], machine: str) -> None:
    """Keys are transposed first, so that their product with the queries has vectors of them."""
    shape = list(sizes)
    written_out = model(
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["q", "t"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"]),
        inputs={"q": shape, "k": shape, "v": shape},
    )  # fmt: skip

    whole, apart = run(attention(*sizes), machine), run(written_out, machine, "unfused")
    assert whole.latency_s == pytest.approx(apart.latency_s, rel=0.05)
    assert whole.traffic_bytes["dram"] == pytest.approx(apart.traffic_bytes["dram"], rel=0.05)


def packed(queries: int, keys: int, heads: int, width: int) -> ModelProto:
    """Return an attention of which query, key and value are lines of all heads."""
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=heads, kv_num_heads=heads)
    sizes = {"q": [1, queries, heads * width], "k": [1, keys, heads * width], "v": [1, keys, heads * width]}
    built = model(node, inputs=sizes)
    built.opset_import[0].version = 23
    return built


def grouped(tokens: int, heads: int, key_heads: int, width: int) -> ModelProto:
    """Return an attention of which several query heads share a key head."""
    own, shared = [1, heads, tokens, width], [1, key_heads, tokens, width]
    built = model(op("Attention", "q k v"), inputs={"q": own, "k": shared, "v": shared})
    built.opset_import[0].version = 23
    return built


@pytest.mark.parametrize("built", [packed(256, 256, 8, 64), grouped(256, 8, 2, 64)])
@pytest.mark.parametrize("machine", CPUS)
def test_an_attention_is_near_its_roofline_however_its_heads_lie(built: ModelProto, machine: str) -> None:
    record, least = run(built, machine), least_bytes(read(built))
    bound_s = max(least / record.off_chip_bytes_per_s, record.macs / record.peak_macs_per_s)

    assert bound_s < record.latency_s < 5 * bound_s


@pytest.mark.parametrize("machine", CPUS)
def test_keys_of_a_single_query_are_not_transposed(machine: str) -> None:
    """Reading keys along once costs less than reading, writing and reading them again."""
    built = packed(1, 4096, 8, 64)
    record, least = run(built, machine), least_bytes(read(built))

    assert least <= record.traffic_bytes["dram"] < 1.2 * least


def test_the_schedule_of_an_attention_is_read_back() -> None:
    analysis = Analysis(read(attention(4, 64, 32)))
    costs = CpuCosts(CpuView(load_hardware("kirin990", Cpu)), analysis, "fp32")
    schedule = cpu_kernel_by_kernel(fixed_pattern_of(analysis), costs)

    assert read_cpu_schedule(cpu_schedule_json(schedule), costs).runs == schedule.runs


@pytest.mark.parametrize("policy", ["unfused", "ago", "dnnfusion", "searched"])
def test_every_policy_runs_a_recurrence(policy: str) -> None:
    assert run(recurrent("LSTM", 10, 1, 64), "kirin990", policy).latency_s < 1e-3


@pytest.mark.parametrize("machine", CPUS)
def test_keys_are_transposed_where_that_is_faster(machine: str) -> None:
    """A few queries read keys as they lie, many transposed ones; time grows by no jump where that changes."""
    queries = (1, 2, 4, 8, 16, 24, 40, 64, 96, 128)
    outcomes = [simulate(read(packed(each, 4096, 8, 64)), machine, "fixed-pattern") for each in queries]
    taken_s = [each.record.latency_s for each in outcomes]
    kernels = [each.record.kernels for each in outcomes]

    assert all(0.98 * fewer <= more < 1.8 * fewer for fewer, more in pairwise(taken_s))
    assert kernels == sorted(kernels)
    assert kernels[0] < kernels[-1]
