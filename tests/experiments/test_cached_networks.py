"""Commands treat a network with caches as a run does: no copy of a cache is counted, schedules are read back."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.experiments.terminal import Terminal

LENGTH, HEADS, WIDTH = 512, 8, 64


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    """One token behind 511 others."""
    past, one = [1, HEADS, LENGTH - 1, WIDTH], [1, HEADS, 1, WIDTH]
    sizes = {"q": one, "k": one, "v": one, "pk": past, "pv": past}
    entries = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "nk", "nv")]
    node = helper.make_node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"])
    built = helper.make_model(
        helper.make_graph([node], "decoder", entries, results), opset_imports=[helper.make_opsetid("", 23)]
    )
    place = tmp_path / "decoder.onnx"
    onnx.save(built, place)
    return place


def test_no_copy_of_a_cache_is_an_intermediate(decoder: Path, terminal: Terminal) -> None:
    """Scores, scaled scores and weights of 8 heads in FP16, three times 8 KiB, and the result."""
    fused = terminal.json("fuse", str(decoder), "--hardware", "h100", "--policy", "unfused")

    assert fused["intermediate_bytes_before"] == (3 * LENGTH + WIDTH) * HEADS * 2
    assert fused["intermediate_bytes_after"] == fused["intermediate_bytes_before"]


@pytest.mark.parametrize("machine", ["kirin990", "h100", "stcp920"])
def test_a_schedule_of_a_cache_is_read_back(decoder: Path, terminal: Terminal, machine: str, tmp_path: Path) -> None:
    place = tmp_path / "schedule.json"
    common = ("simulate", str(decoder), "--hardware", machine)
    made = terminal.json(*common, "--policy", "fixed-pattern", "--schedule-out", str(place))
    again = terminal.json(*common, "--schedule", str(place))

    assert again["latency_s"] == made["latency_s"]
    assert again["traffic_bytes"] == made["traffic_bytes"]
