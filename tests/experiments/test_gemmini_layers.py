"""Layers that ran on Gemmini's RTL are read whole, and run on the preset with each machine's memories."""

from collections import Counter

import pytest

from dsascape.experiments.papers.gemmini_layers import layers, machine_of
from dsascape.hw_models import ClusteredDsa, load_hardware, with_values


def test_all_layers_are_read_with_their_shapes_and_cycles() -> None:
    found = list(layers())

    counts = Counter(layer.network for layer in found)
    assert counts == {"bert-base": 5, "resnet50": 24, "retinanet-head": 22, "unet": 23}
    first = next(layer for layer in found if layer.described.name == "7 x 7, 3 to 64, 112 x 112 by 2")
    assert first.described.inputs == ((1, 3, 229, 229),)  # 111 steps of two, and a window of seven
    assert (first.auto_cycles, first.mapped_cycles) == (2577642, 2510892)


def test_tiles_are_those_of_the_rows() -> None:
    by_name = {layer.described.name: layer for layer in layers() if layer.network in ("bert-base", "resnet50")}

    assert by_name["128 x 3072 by 3072 x 768"].mapped_tile == {"m": 64, "n": 64, "k": 1024}  # loops P2 C3 K12
    assert by_name["1 x 1, 128 to 512, 28 x 28"].mapped_tile == {"c": 512, "h": 7, "w": 4, "k": 128}  # loops P7 Q4
    assert by_name["1 x 1, 512 to 128, 28 x 28"].auto_tile == {"c": 16, "h": 22, "w": 23, "k": 240}
    # loops K2 S3: 16 blocks of channels at 3 of 9 taps are 16 x 3 / 9 blocks at all of them, rounded up to 6
    assert by_name["3 x 3, 256 to 256, 14 x 14"].mapped_tile == {"c": 128, "h": 14, "w": 14, "k": 96}


def test_only_memories_differ_from_the_preset() -> None:
    machine, preset = machine_of(144, 32), load_hardware("gemmini", ClusteredDsa)

    assert machine.local_buffer.capacity_bytes == 2 * (144 + 8) * 1024  # two tiles, results of one byte
    assert with_values(machine, {"local_buffer.capacity": "256 KiB"}) == preset


def test_a_convolution_of_three_channels_takes_a_step_per_tap_and_position() -> None:
    layer = next(layer for layer in layers() if layer.described.name == "7 x 7, 3 to 64, 112 x 112 by 2")

    # 49 taps, 112 x 112 positions and 4 times 16 of the 64 results, however few of the 16 rows have a channel
    cycles = layer.predicted_cycles(layer.mapped_tile)
    assert 49 * 112 * 112 * 4 <= cycles == pytest.approx(layer.mapped_cycles, rel=0.05)


def test_a_product_is_predicted_close_to_its_rtl() -> None:
    layer = next(iter(layers()))

    # 128 x 768 by 768 x 768 takes at least 128/16 x 768/16 x 768 cycles on the array
    assert 294912 <= layer.predicted_cycles(layer.mapped_tile) == pytest.approx(layer.mapped_cycles, rel=0.06)


def test_a_large_result_of_few_pixels_a_row_takes_the_stores_or_the_commands_of_its_rows() -> None:
    by_name = {layer.described.name: layer for layer in layers()}
    stored, issued = by_name["1 x 1, 64 to 256, 56 x 56"], by_name["1 x 1, 512 to 256, 28 x 28"]

    # 56 x 56 x 256 / 16 stores of 16 bytes, 16 of 100 cycles in flight
    assert stored.predicted_cycles(stored.mapped_tile) >= 56 * 56 * 16 * 100 / 16
    # tiles of 28 rows of 4 pixels: 8 cycles a row, 7 tiles, 32 x 16 blocks of weights, and 16 - 8 to load each
    assert issued.predicted_cycles(issued.mapped_tile) >= 7 * 32 * 16 * (28 * 8 + 8)
    for layer in (stored, issued):
        assert layer.predicted_cycles(layer.mapped_tile) == pytest.approx(layer.mapped_cycles, rel=0.12)
