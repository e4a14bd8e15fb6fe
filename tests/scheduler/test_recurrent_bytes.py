"""Recurrences on every kind of machine: weights are read once where they fit, and once per step where not."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from dsascape import Graph, simulate
from dsascape.experiments.question.points import RunRecord
from dsascape.workloads import import_onnx

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
MEMORY = {"kirin990": "dram", "raspberry_pi_3b_plus": "dram", "h100": "dram", "stcp920": "ddr", "ascend910": "ddr"}
STEPS, INPUTS = 50, 256


def both_ways(kind: str, steps: int, batch: int, inputs: int, units: int, *, lengths: bool = False) -> Graph:
    rows = GATES[kind] * units
    shapes = {"w": (2, rows, inputs), "r": (2, rows, units), "b": (2, 2 * rows)}
    weights = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in shapes.items()]
    names = ["x", *shapes, *(["n"] if lengths else [])]
    node = helper.make_node(kind, names, ["y"], hidden_size=units, direction="bidirectional")
    entries = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, inputs])]
    if lengths:
        entries.append(helper.make_tensor_value_info("n", TensorProto.INT32, [batch]))
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    body = helper.make_graph([node], "tagger", entries, [result], weights)
    built = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
    return import_onnx(built.SerializeToString(), name="tagger")


def run(graph: Graph, machine: str) -> RunRecord:
    dtype = "fp32" if machine.startswith("raspberry") else "fp16"
    return simulate(graph, machine, "fixed-pattern", dtype=dtype).record


def by_hand(kind: str, units: int) -> tuple[int, int, int]:
    """Return the bytes of the recurrent weights, of the others, and of inputs, gates, states and results, in FP16."""
    recurrent, others = (2 * 2 * GATES[kind] * units * size for size in (units, INPUTS))
    moved = STEPS * (INPUTS + 2 * (2 * GATES[kind] + 4) * units)
    return recurrent, others, 2 * moved


def copies(record: RunRecord) -> int:
    """Return how many clusters run the recurrence: all that share the kernels of one image, as it is not divided."""
    return record.parts_at_work if record.parts_share == "kernels" else 1


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(("machine", "units"), [("kirin990", 512), ("h100", 512), ("h100", 2048), ("stcp920", 512)])
def test_weights_that_fit_are_read_once(machine: str, units: int, kind: str) -> None:
    """A direction has 2 MiB at most for a phone's caches and a DSA's buffers, 32 MiB for the L2 of an H100."""
    recurrent, others, moved = by_hand(kind, units)
    record = run(both_ways(kind, STEPS, 1, INPUTS, units), machine)
    traffic = record.traffic_bytes[MEMORY[machine]]

    assert recurrent + others <= traffic <= copies(record) * (1.2 * (recurrent + others) + moved)


@pytest.mark.sampled(2, long=["kirin990-LSTM"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("machine", ["kirin990", "stcp920"])
def test_weights_that_do_not_fit_are_read_once_per_step(machine: str, kind: str) -> None:
    """A direction of 2,048 units has 24 or 32 MiB."""
    recurrent, others, moved = by_hand(kind, 2048)
    record = run(both_ways(kind, STEPS, 1, INPUTS, 2048), machine)
    traffic = record.traffic_bytes[MEMORY[machine]]

    assert 0.98 * STEPS * recurrent <= traffic <= 1.01 * copies(record) * (STEPS * recurrent + others + moved)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("machine", MEMORY)
@pytest.mark.parametrize("batch", [1, 8, 32])
def test_many_sequences_take_no_more_than_their_operations_or_their_weights_per_step(
    kind: str, machine: str, batch: int
) -> None:
    """The gates of a step are added to its sums once; a launch or a wait may come to each step."""
    steps, units = 20, 1024
    record = run(both_ways(kind, steps, batch, INPUTS, units), machine)
    width = 4 if machine.startswith("raspberry") else 2
    weights_s = steps * 2 * GATES[kind] * units**2 * width / record.off_chip_bytes_per_s
    bound_s = max(record.macs / record.peak_macs_per_s, weights_s)

    assert record.latency_s < 8 * record.parts / record.parts_at_work * bound_s + 2 * steps * 20e-6


@pytest.mark.parametrize("lengths", [False, True])
def test_a_recurrence_is_taken_apart_where_no_good_tile_holds_it(lengths: bool) -> None:
    """With lengths, a tile of the whole layer of 8 sequences has one result, and each computes the gates anew."""
    graphs = [both_ways("RNN", 30, batch, 200, 300, lengths=lengths) for batch in (4, 8, 9)]
    taken_s = [run(graph, "ascend910").latency_s for graph in graphs]

    assert max(taken_s) < 2 * min(taken_s)


def test_steps_of_one_direction_run_backwards_as_fast() -> None:
    def one_way(direction: str) -> Any:
        weights = [numpy_helper.from_array(np.zeros((1, 256, 64), np.float32), name) for name in "wr"]
        node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=64, direction=direction)
        entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, [20, 1, 64])
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        body = helper.make_graph([node], "one way", [entry], [result], weights)
        built = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
        return run(import_onnx(built.SerializeToString(), name="one way"), "kirin990").latency_s

    assert one_way("reverse") == pytest.approx(one_way("forward"), rel=0.01)
