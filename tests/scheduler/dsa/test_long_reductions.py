"""Reductions too long for a local buffer are accumulated in parts; sequential loops take their full time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto, helper

from dsascape import simulate
from dsascape.experiments.question.points import RunRecord
from dsascape.hw_models import ClusteredDsa, load_hardware, with_values
from tests.tiers import examples
from tests.workloads.onnx_models import model, read

MACHINES = ("stcp920", "ascend910", "goya", "ipu_mk1", "stcp920_paper")
SMALL = with_values(
    load_hardware("stcp920", ClusteredDsa), {"local_buffer.capacity": "64 KiB", "global_buffer.capacity": "2 MiB"}
)


def op(kind: str, inputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs.split(), ["y"], **attributes)


def run(node: NodeProto, shape: list[int], machine: str | ClusteredDsa, **known: Any) -> RunRecord:
    return simulate(read(model(node, inputs={"x": shape}, **known)), machine, "fixed-pattern").record


def check(record: RunRecord, elements: int) -> None:
    """Every operand is read once at least, and the time is within 50 times what DDR and the units need."""
    moved = record.traffic_bytes["ddr"]
    assert moved >= elements * {"fp16": 2, "int8": 1}[record.dtype]
    bound_s = max(moved / record.off_chip_bytes_per_s, record.macs / record.peak_macs_per_s)
    assert bound_s * 0.99 <= record.latency_s < 50 * bound_s + 200e-6


@pytest.mark.parametrize("machine", MACHINES)
class TestOnEveryMachine:
    @pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool"])
    def test_pooling_over_a_plane_larger_than_a_local_buffer(self, machine: str, kind: str) -> None:
        check(run(op(kind, "x"), [1, 8, 2048, 2048], machine), 8 * 2048**2)

    @pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "ReduceMax", "ReduceSum", "ReduceL2"])
    def test_rows_of_a_million(self, machine: str, kind: str) -> None:
        attributes = {"axis": -1} if "max" in kind and kind[0] != "R" else {}
        check(run(op(kind, "x", **attributes), [2, 2**20], machine), 2 * 2**20)

    def test_normalisation_of_long_rows(self, machine: str) -> None:
        scale = np.ones(2**20, np.float32)
        check(run(op("LayerNormalization", "x s"), [2, 2**20], machine, s=scale), 2 * 2**20)

    def test_normalisation_of_groups(self, machine: str) -> None:
        ones = np.ones(8, np.float32)
        node = op("GroupNormalization", "x s b", num_groups=2)
        built = read(_opset_21(model(node, inputs={"x": [1, 8, 1024, 1024]}, s=ones, b=ones)))
        check(simulate(built, machine, "fixed-pattern").record, 8 * 1024**2)


def _opset_21(built: Any) -> Any:
    built.opset_import[0].version = 21
    return built


@given(
    rows=st.integers(1, 8),
    columns=st.integers(20_000, 400_000),
    kind=st.sampled_from(["Softmax", "ReduceSum", "ReduceMax", "LpNormalization"]),
)
@settings(deadline=None, max_examples=examples(25))
def test_any_long_row_runs_and_a_larger_buffer_is_no_slower(rows: int, columns: int, kind: str) -> None:
    node = op(kind, "x", **({"axis": -1} if kind in ("Softmax", "LpNormalization") else {}))
    small = run(node, [rows, columns], SMALL)
    large = run(node, [rows, columns], with_values(SMALL, {"local_buffer.capacity": "128 KiB"}))

    check(small, rows * columns)
    assert large.latency_s <= 1.02 * small.latency_s


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_steps_of_a_recurrence_take_their_time_one_after_the_other(machine: str, kind: str) -> None:
    """39 more steps of a product of 64 x 64 a gate take 39 steps' time, as 190 do: at least 16 cycles."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    weights = np.ones((1, gates * 64, 64), np.float32)
    node = op(kind, "x w r", hidden_size=64)
    few, more, many = (run(node, [steps, 1, 64], machine, w=weights, r=weights).latency_s for steps in (100, 139, 290))
    step_s = (many - few) / 190

    assert step_s == pytest.approx((more - few) / 39, rel=0.25)
    assert step_s > 16 / load_hardware(machine, ClusteredDsa).clock_hz
