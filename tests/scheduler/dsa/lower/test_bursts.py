"""DMA burst sizes are recorded only as far as a layer's instructions depend on them."""

import pytest

from dsascape.scheduler import make_policy
from dsascape.scheduler.dsa.lower.bursts import Ahead, Bursts, bursts_of, staged_burst_bytes
from dsascape.scheduler.dsa.lower.code import RunCode
from dsascape.scheduler.dsa.schedule.schedule import Execution, LayerRun
from tests.graphs import Net, machine
from tests.scheduler.runs import schedule_of

KIB = 1024
WEIGHTS_BYTES = 64 * 32 * 9 * 2
"""Weights of the convolution, in 16 versions of 4 channels each, tile by tile."""
IMAGE_BYTES = 32 * 32 * 32 * 2
"""Staged in the global buffer."""


def convolution() -> tuple[LayerRun, Execution]:
    """Return a convolution whose image is staged and whose weights are fetched ahead."""
    net = Net("three")
    values = net.input(1, 32, 32, 32)
    for _ in range(3):
        values = net.conv(values, 64)
    schedule = schedule_of(make_policy("graphturbo"), net.graph(values), machine(cores_per_cluster=4))
    run, execution = schedule.instances[0].runs[0], schedule.executions[0]
    assert list(execution.tiling.prefetched.values()) == [(16, WEIGHTS_BYTES)]
    assert list(execution.tiling.staged.values()) == [IMAGE_BYTES]
    return run, execution


def bursts(burst_bytes: int, prefetch_bytes: int = 256 * KIB) -> Bursts:
    run, execution = convolution()
    return bursts_of(run.layer, RunCode.of(run, execution), burst_bytes, prefetch_bytes, KIB)


@pytest.mark.parametrize(("burst_bytes", "versions"), [(1, 1), (2 * 2304, 2), (3 * 2304 - 1, 2), (WEIGHTS_BYTES, 16)])
def test_a_burst_brings_the_versions_that_it_has_room_for_but_one_at_least(burst_bytes: int, versions: int) -> None:
    assert bursts(burst_bytes).ahead == (Ahead(2304, versions, 0),)


def test_a_burst_takes_half_of_the_prefetch_buffer_at_most() -> None:
    assert bursts(WEIGHTS_BYTES, prefetch_bytes=7 * 2304).ahead == (Ahead(2304, 3, 0),)


def test_a_version_that_half_of_the_prefetch_buffer_does_not_hold_comes_in_parts() -> None:
    assert bursts(WEIGHTS_BYTES, prefetch_bytes=2 * 2303).ahead == (Ahead(2304, 0, 2303),)


def test_staged_operands_come_in_bursts_until_one_is_enough() -> None:
    _, execution = convolution()

    assert [staged_burst_bytes(execution, size) for size in (KIB, 2 * IMAGE_BYTES)] == [KIB, IMAGE_BYTES]


def test_burst_sizes_above_all_operands_are_equivalent() -> None:
    """Layer runs are written once for all of them, however fast DDR is."""
    assert bursts(WEIGHTS_BYTES) == bursts(100 * WEIGHTS_BYTES)
