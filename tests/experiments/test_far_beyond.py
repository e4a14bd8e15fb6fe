"""An answer far beyond the roofline, or a layer that moves its operands many times, has a warning with the cause."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dsascape import load_hardware, simulate
from dsascape.experiments.point.far_beyond import MOST_TIMES_ROOFLINE, warnings_of
from dsascape.experiments.point.layers import layers_of
from dsascape.experiments.point.roofline import bounds_of_layers, roofline_s
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import Gpu
from dsascape.workloads import Graph, import_onnx
from tests.experiments.terminal import Terminal


def tagger(steps: int, units: int) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(np.zeros((1, 4 * units, units), np.float32), name) for name in "wr"]
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=units)
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, 1, units])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    body = helper.make_graph([node], "tagger", [entry], [result], weights)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])


def read(built: onnx.ModelProto) -> Graph:
    return import_onnx(built.SerializeToString(), name="tagger")


def warned(built: onnx.ModelProto, machine: str) -> tuple[str, ...]:
    outcome = simulate(read(built), machine, "fixed-pattern", dtype="fp16")
    return warnings_of(outcome, layers_of(outcome), load_hardware(machine))


def test_steps_that_follow_each_other_are_named_as_the_cause() -> None:
    """100 launches on an H100 against 0.3 us that the weights take from memory."""
    (warning,) = warned(tagger(100, 256), "h100")

    assert "times the roofline" in warning
    assert "waits for launch" in warning
    assert "layer #0" in warning
    assert "its 100 steps follow each other" in warning


def test_a_layer_that_moves_its_operands_many_times_is_named() -> None:
    """Weights of 8 MiB, larger than a phone's caches, at each of 200 steps."""
    (warning,) = warned(tagger(200, 1024), "kirin990")

    assert re.match(r"layer #0\S* .* moves 1\.5", warning)
    assert "at dram" in warning
    assert "its 200 steps follow each other, and each reads its operands" in warning


def test_layers_that_take_long_to_start_are_counted_in_one_sentence() -> None:
    """Products of one row: weights of some KB take nanoseconds of an H100, whose launches take microseconds."""
    outcome = simulate("dlrm", "h100", "fixed-pattern")

    warning, *_ = warnings_of(outcome, layers_of(outcome), load_hardware("h100"))
    assert "more than 50 times the roofline to start, 3.216 us each" in warning
    assert "limited by launch" in warning


def test_the_warning_of_a_network_says_what_launches_and_start_ups_take() -> None:
    """35 kernels of 30.8 us and little else: an STCP920 takes longer to launch bert-tiny than to compute it."""
    outcome = simulate("bert-tiny", "stcp920", "fixed-pattern")

    (warning,) = warnings_of(outcome, layers_of(outcome), load_hardware("stcp920"))
    share = outcome.result.trace.critical_start_ps() / outcome.result.makespan_ps
    assert f"{outcome.record.critical['launch']:.0%} of it waits for launch" in warning
    assert f"{share:.0%} is launches and start-ups" in warning
    assert "longest is the launching of kernels" in warning


@pytest.mark.parametrize("machine", ["kirin990", "stcp920"])
def test_a_network_near_its_roofline_has_no_warning(machine: str) -> None:
    outcome = simulate("resnet18", machine, "fixed-pattern")

    assert outcome.record.latency_s < MOST_TIMES_ROOFLINE * roofline_s(outcome, load_hardware(machine))
    assert warnings_of(outcome, layers_of(outcome), load_hardware(machine)) == ()


def test_the_roofline_counts_rows_of_a_table_that_are_read() -> None:
    """8 rows of 16 numbers, of a table of a million; 8 whole numbers that choose them; the result."""
    entry = helper.make_tensor_value_info("i", TensorProto.INT64, [8])
    table = helper.make_tensor_value_info("t", TensorProto.FLOAT, [1_000_000, 16])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    body = helper.make_graph([helper.make_node("Gather", ["t", "i"], ["y"])], "rows", [entry, table], [result])
    built = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
    outcome = simulate(read(built), "h100", "fixed-pattern", dtype="fp16")

    assert roofline_s(outcome, load_hardware("h100")) == (2 * 8 * 16 * 2 + 8 * 8) / outcome.record.off_chip_bytes_per_s


def test_the_bound_of_a_layer_is_that_of_its_arithmetic_or_of_its_bytes() -> None:
    """A product of 1024 x 2048 by 2048 x 4096 on an A100, and the largest of each of its rows by 1024 columns."""
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1024, 2048])
    weights = numpy_helper.from_array(np.zeros((2048, 4096), np.float32), "w")
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("ReduceMax", ["p"], ["y"], axes=[1], keepdims=0),
    ]
    built = helper.make_model(
        helper.make_graph(nodes, "rows", [entry], [result], [weights]), opset_imports=[helper.make_opsetid("", 13)]
    )
    spec = load_hardware("a100", Gpu)
    outcome = simulate(read(built), spec, "unfused", dtype="fp16")
    product, largest = bounds_of_layers(outcome, layers_of(outcome), spec).values()

    assert product.roofline_s == pytest.approx(1024 * 2048 * 4096 / (108 * 1024 * spec.clock_hz))
    assert product.least_bytes == 2 * (1024 * 2048 + 2048 * 4096 + 1024 * 4096)
    assert largest.roofline_s == pytest.approx(2 * (1024 * 4096 + 1024) / 1.555e12)
    assert product.starting_s == pytest.approx(2.6e-6 + 2 * 0.408e-6)


def test_a_layer_that_reads_rows_of_a_table_has_their_bytes() -> None:
    """4 rows of 256 numbers, of a table of a thousand; 4 whole numbers that choose them; their sums with the input."""
    entries = [
        helper.make_tensor_value_info("i", TensorProto.INT64, [4]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 256]),
    ]
    table = numpy_helper.from_array(np.zeros((1000, 256), np.float32), "t")
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node("Gather", ["t", "i"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])]
    built = helper.make_model(
        helper.make_graph(nodes, "rows", entries, [result], [table]), opset_imports=[helper.make_opsetid("", 13)]
    )
    outcome = simulate(read(built), "h100", "fixed-pattern", dtype="fp16")
    (bound,) = bounds_of_layers(outcome, layers_of(outcome), load_hardware("h100")).values()

    assert bound.least_bytes == 3 * 4 * 256 * 2 + 4 * 8


def test_pooling_is_bound_by_the_lanes_of_vector_units() -> None:
    """The largest of 13 x 13 of each of 512 x 10 x 10 results, 16 comparisons at a time, on an NVDLA at 1 GHz."""
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 512, 10, 10])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[13, 13], pads=[6] * 4)
    built = helper.make_model(
        helper.make_graph([node], "pool", [entry], [result]), opset_imports=[helper.make_opsetid("", 13)]
    )
    outcome = simulate(read(built), "nvdla_large", "fixed-pattern")
    layers = layers_of(outcome)
    (bound,) = bounds_of_layers(outcome, layers, load_hardware("nvdla_large")).values()

    inside = sum([min(row + 6, 9) - max(row - 6, 0) + 1 for row in range(10)])
    assert 512 * inside**2 / 16e9 <= bound.roofline_s <= 512 * 10 * 10 * 13 * 13 / 16e9
    assert max(layers, key=lambda each: each.critical_s).critical_s < 2 * bound.roofline_s


def test_simulate_says_so_as_text_and_as_json(terminal: Terminal, tmp_path: Path) -> None:
    place = tmp_path / "tagger.onnx"
    onnx.save(tagger(50, 64), place)
    arguments = ["simulate", str(place), "--hardware", "h100", "--policy", "fixed-pattern"]

    (said,) = json.loads(json.dumps(terminal.json(*arguments)))["warnings"]
    assert main(arguments) == 0
    assert said.startswith("the latency is")
