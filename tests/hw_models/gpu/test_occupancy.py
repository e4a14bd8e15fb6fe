"""Blocks per SM on small numbers, computed as in CUDA's occupancy calculator."""

import pytest

from dsascape.hw_models import Gpu, load_hardware
from dsascape.hw_models.gpu.occupancy import BlockNeeds, Occupancy, occupancy


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared_bytes", "blocks", "limited_by"),
    [
        ("a100", 256, 32, 0, 8, "threads"),  # 2048 threads
        ("a100", 32, 16, 0, 32, "blocks"),
        ("v100", 256, 64, 0, 4, "registers"),  # a warp takes 2048: 32 warps, 8 a block
        ("a100", 128, 166, 0, 3, "registers"),  # 166 x 32 = 5312, given out as 5376: 12 warps, 4 a block
        ("a100", 128, 32, 48 * 1024, 3, "shared memory"),  # 49 KiB with what is reserved: 3 in 164
        ("v100", 128, 32, 48 * 1024, 2, "shared memory"),  # 2 in 96
        ("p100", 128, 32, 33 * 1024, 1, "shared memory"),
        ("a100", 100, 32, 0, 16, "threads"),  # four warps, the last one not full
        ("v100", 1024, 64, 0, 1, "registers"),  # all 65536
        ("v100", 1024, 65, 0, 0, "registers"),  # 2304 a warp: 28 of the 32 that a block has
        ("v100", 1025, 8, 0, 0, "threads"),
        ("v100", 32, 256, 0, 0, "registers"),  # one thread has 255 at most
        ("p100", 32, 32, 49 * 1024, 0, "shared memory"),  # one block has 48 KiB at most
        ("h100", 32, 32, 227 * 1024, 1, "shared memory"),
    ],
)
def test_blocks_of_an_sm(
    name: str, threads: int, registers: int, shared_bytes: int, blocks: int, limited_by: str
) -> None:
    found = occupancy(load_hardware(name, Gpu).sms, BlockNeeds(threads, registers, shared_bytes))

    assert found.blocks == blocks
    assert found.limited_by == limited_by


def test_of_equal_limits_the_first_is_named() -> None:
    assert occupancy(load_hardware("a100", Gpu).sms, BlockNeeds(64, 32, 0)) == Occupancy(32, "blocks")
