"""An answer far beyond the roofline, or a layer that moves its operands many times, has a warning with the cause."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dsascape import load_hardware, simulate
from dsascape.experiments.point.far_beyond import MOST_TIMES_ROOFLINE, roofline_s, warnings_of
from dsascape.experiments.point.layers import layers_of
from dsascape.experiments.shell.cli import main
from dsascape.scheduler import kind_of
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
    return warnings_of(outcome, layers_of(outcome), kind_of(load_hardware(machine)))


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


@pytest.mark.parametrize("machine", ["kirin990", "stcp920"])
def test_a_network_near_its_roofline_has_no_warning(machine: str) -> None:
    outcome = simulate("resnet18", machine, "fixed-pattern")

    assert outcome.record.latency_s < MOST_TIMES_ROOFLINE * roofline_s(outcome)
    assert warnings_of(outcome, layers_of(outcome), kind_of(load_hardware(machine))) == ()


def test_the_roofline_counts_rows_of_a_table_that_are_read() -> None:
    """8 rows of 16 numbers, of a table of a million; 8 whole numbers that choose them; the result."""
    entry = helper.make_tensor_value_info("i", TensorProto.INT64, [8])
    table = helper.make_tensor_value_info("t", TensorProto.FLOAT, [1_000_000, 16])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    body = helper.make_graph([helper.make_node("Gather", ["t", "i"], ["y"])], "rows", [entry, table], [result])
    built = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)])
    outcome = simulate(read(built), "h100", "fixed-pattern", dtype="fp16")

    assert roofline_s(outcome) == (2 * 8 * 16 * 2 + 8 * 8) / outcome.record.off_chip_bytes_per_s


def test_simulate_says_so_as_text_and_as_json(terminal: Terminal, tmp_path: Path) -> None:
    place = tmp_path / "tagger.onnx"
    onnx.save(tagger(50, 64), place)
    arguments = ["simulate", str(place), "--hardware", "h100", "--policy", "fixed-pattern"]

    (said,) = json.loads(json.dumps(terminal.json(*arguments)))["warnings"]
    assert main(arguments) == 0
    assert said.startswith("the latency is")
