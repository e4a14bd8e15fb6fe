"""Sizes of NVDLA are the preset with another array, buffer and memory."""

from dsascape.experiments.papers.nvdla_sizes import sizes
from dsascape.hw_models import load_hardware


def test_the_largest_size_is_the_preset() -> None:
    every = list(sizes())

    assert [size.macs for size in every] == [2048, 1024, 512, 256, 64]
    assert every[0].machine == load_hardware("nvdla_large")


def test_a_smaller_size_shows_fewer_frames_between_half_and_twice_the_estimate() -> None:
    medium, smallest = [size for size in sizes() if size.macs in (512, 64)]

    # 3.9e9 multiply-accumulates of ResNet-50 by 64 a cycle
    assert smallest.predicted_frames_per_s() < 64e9 / 3.8e9 < medium.predicted_frames_per_s()
    for size in (medium, smallest):
        assert 0.5 <= size.predicted_frames_per_s() / size.frames_per_s <= 2
