"""Nothing is faster than reading its operands: operators that use a whole input read it on every machine."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from dsascape import simulate
from dsascape.experiments.question.points import RunRecord
from tests.workloads.onnx_models import model, read

MACHINES = ("stcp920", "kirin990", "a100")
SIZE = 512
ELEMENTS = SIZE * SIZE


def op(kind: str, inputs: str, *outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs.split(), outputs or ("y",), **attributes)


def square(*nodes: NodeProto, outputs: tuple[str, ...] = ("y",), **known: Any) -> ModelProto:
    return model(*nodes, inputs={"x": [SIZE, SIZE]}, outputs=outputs, **known)


def chosen(*nodes: NodeProto, shape: tuple[int, ...]) -> ModelProto:
    """A model of which data decides how much it writes; the file records it."""
    built = square(*nodes)
    del built.graph.output[:]
    built.graph.output.append(helper.make_tensor_value_info("y", TensorProto.INT64, shape))
    return built


WHOLE: dict[str, Callable[[], ModelProto]] = {
    "TopK of few": lambda: square(op("TopK", "x k", "y", "i"), k=np.array([4])),
    "TopK along columns": lambda: square(op("TopK", "x k", "y", "i", axis=0), k=np.array([4])),
    "ArgMax": lambda: square(op("ArgMax", "x")),
    "ArgMin along columns": lambda: square(op("ArgMin", "x", axis=0)),
    "NonZero": lambda: chosen(op("NonZero", "x"), shape=(2, 100)),
    "Multinomial": lambda: square(op("Multinomial", "x", sample_size=2)),
    "ReduceSum to one": lambda: square(op("ReduceSum", "x", keepdims=0)),
    "ReduceMax of rows": lambda: square(op("ReduceMax", "x a", keepdims=0), a=np.array([1])),
    "CumSum": lambda: square(op("CumSum", "x a"), a=np.array(0)),
    "Hardmax": lambda: square(op("Hardmax", "x")),
}
PART: dict[str, Callable[[], ModelProto]] = {
    "Gather of a row": lambda: square(op("Gather", "x i"), i=np.array([3])),
    "Slice of columns": lambda: square(op("Slice", "x s e a"), s=np.array([0]), e=np.array([4]), a=np.array([1])),
}


def run(built: ModelProto, machine: str) -> RunRecord:
    return simulate(read(built, batch_dims={}), machine, "fixed-pattern").record


def moved(record: RunRecord) -> tuple[float, float]:
    """Return the bytes that a run moved off chip, and those of its input."""
    outermost = record.traffic_bytes.get("dram", 0) + record.traffic_bytes.get("ddr", 0)
    return outermost, ELEMENTS * (4 if record.dtype == "fp32" else 2)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", WHOLE)
def test_what_looks_at_all_of_an_input_reads_it_within_50_times_the_roofline(name: str, machine: str) -> None:
    record = run(WHOLE[name](), machine)
    bytes_moved, least_bytes = moved(record)

    assert bytes_moved >= least_bytes
    assert least_bytes / record.off_chip_bytes_per_s <= record.latency_s
    launch_s = 60e-6
    assert record.latency_s < 50 * bytes_moved / record.off_chip_bytes_per_s + launch_s


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", PART)
def test_what_takes_a_part_reads_no_more(name: str, machine: str) -> None:
    bytes_moved, whole_bytes = moved(run(PART[name](), machine))

    assert bytes_moved < whole_bytes / 10


@pytest.mark.parametrize("machine", ["a100", "h100", "v100", "adreno640", "mali_g76"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((2**22,), [0]), ((2048, 2048), [0]), ((2048, 2048), [1]), ((1, 2**21), [1])]
)
def test_a_large_reduction_is_shared_by_the_sms(machine: str, shape: tuple[int, ...], axes: list[int]) -> None:
    node = helper.make_node("ReduceSum", ["x", "a"], ["y"], keepdims=0)
    built = model(node, inputs={"x": shape}, a=np.array(axes))
    record = simulate(read(built, batch_dims={}), machine, "fixed-pattern").record
    bound_s = 2 * np.prod(shape) / record.off_chip_bytes_per_s

    assert bound_s <= record.latency_s < 2 * bound_s + 25e-6


@pytest.mark.parametrize("machine", ["a100", "adreno640"])
def test_the_largest_of_many_takes_no_longer_than_their_softmax(machine: str) -> None:
    largest, softmax = (
        simulate(read(model(op(kind, "x"), inputs={"x": [1, 50_000]})), machine, "fixed-pattern").record.latency_s
        for kind in ("ArgMax", "Softmax")
    )
    assert largest <= softmax


@pytest.mark.parametrize("machine", ["adreno640", "kirin990", "stcp920", "a100"])
def test_a_join_costs_its_bytes_whatever_the_number_of_inputs(machine: str) -> None:
    """64 images of 4 channels joined take about as long as two of 128."""

    def joined(count: int) -> float:
        names = [f"x{number}" for number in range(count)]
        node = helper.make_node("Concat", names, ["y"], axis=1)
        built = model(node, inputs={name: [1, 256 // count, 56, 56] for name in names})
        record = simulate(read(built), machine, "fixed-pattern").record
        moved_bytes = 2 * 256 * 56 * 56 * (4 if record.dtype == "fp32" else 2)
        assert record.latency_s < 3 * moved_bytes / record.off_chip_bytes_per_s + 100e-6
        return record.latency_s

    assert joined(64) < 1.5 * joined(2)


