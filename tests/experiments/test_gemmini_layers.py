"""Layers that ran on Gemmini's RTL are read whole, and run on the preset with each machine's memories."""

from collections import Counter

import pytest

from dsascape.experiments.papers.gemmini_layers import layers, machine_of
from dsascape.hw_models import MatrixUnit, load_hardware


def test_all_layers_are_read_with_their_shapes_and_cycles() -> None:
    found = list(layers())

    counts = Counter(layer.network for layer in found)
    assert counts == {"bert-base": 5, "resnet50": 24, "retinanet-head": 22, "unet": 23}
    first = next(layer for layer in found if layer.described.name == "7 x 7, 3 to 64, 112 x 112 by 2")
    assert first.described.inputs == ((1, 3, 229, 229),)  # 111 steps of two, and a window of seven
    assert (first.auto_cycles, first.mapped_cycles) == (2577642, 2510892)


def test_only_memories_differ_from_the_preset() -> None:
    machine, preset = machine_of(144, 32), load_hardware("gemmini")

    assert machine.local_buffer.capacity_bytes == 144 * 1024
    unit = machine.units["matrix"]
    assert isinstance(unit, MatrixUnit)
    assert unit.operand_reuse == (90, 90)  # 8192 accumulators: 90 x 90 is the largest square
    kept = machine_of(256, 64)
    assert kept == preset


def test_a_convolution_of_three_channels_takes_a_step_per_tap_and_position() -> None:
    layer = next(layer for layer in layers() if layer.described.name == "7 x 7, 3 to 64, 112 x 112 by 2")

    # 49 taps, 112 x 112 positions and 4 times 16 of the 64 results, however few of the 16 rows have a channel
    assert 49 * 112 * 112 * 4 <= layer.predicted_cycles() == pytest.approx(layer.mapped_cycles, rel=0.05)


def test_a_product_is_predicted_close_to_its_rtl() -> None:
    layer = next(iter(layers()))

    # 128 x 768 by 768 x 768 takes at least 128/16 x 768/16 x 768 cycles on the array
    assert 294912 <= layer.predicted_cycles() == pytest.approx(layer.mapped_cycles, rel=0.05)
