"""DMA moves what is not contiguous in requests, of which so many are outstanding."""

import pytest

from dsascape.hw_models import ClusteredDsa, HardwareError, Pieces, Transfer, load_hardware, with_values
from dsascape.hw_models.dsa.machine import dsa_machine


def moving_ps(pieces: Pieces, size_bytes: int, **channel: object) -> int:
    """Return the time in which Gemmini's DMA loads so many bytes in these pieces, at 16 GB/s, without the start-up."""
    spec = with_values(load_hardware("gemmini", ClusteredDsa), {f"dma.load.{key}": of for key, of in channel.items()})
    move = Transfer(source="ddr", destination="local_buffer", size_bytes=size_bytes, pieces=pieces)
    (members,) = dsa_machine(spec).units["dma_load"].members
    return members.serve(move, 1).duration_ps


def test_a_request_ends_every_latency_by_those_outstanding() -> None:
    assert moving_ps(((1000, 16),), 16_000) == 1000 * 100_000 // 16  # 6.25 ns each, not 1 ns for 16 bytes


def test_a_piece_takes_as_many_requests_as_it_needs() -> None:
    assert moving_ps(((10, 100), (5, 64)), 1320) == (10 * 2 + 5) * 100_000 // 16
    assert moving_ps((), 6400) == 100 * 100_000 // 16  # contiguous


def test_many_outstanding_requests_leave_the_time_of_the_bytes() -> None:
    assert moving_ps(((1000, 16),), 16_000, requests_in_flight=256) == 1_000_000


def test_without_a_request_size_pieces_take_no_time() -> None:
    assert moving_ps(((16_000, 1),), 16_000, request=None) == 1_000_000


def test_requests_divide_what_moves_between_ddr_and_local_buffers() -> None:
    with pytest.raises(HardwareError, match=r"dma\.load\.request .* needs global_buffer: null"):
        with_values(load_hardware("stcp920", ClusteredDsa), {"dma.load.request": "64 B"})
