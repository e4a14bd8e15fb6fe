"""Capacity that slices may take of the local buffers: total less the space of weights and streamed tiles."""

import pytest

from dsascape.scheduler import make_policy
from dsascape.workloads import Graph
from tests.graphs import Net, machine
from tests.scheduler.runs import schedule_of


def chain() -> Graph:
    """Return two products of 128 KiB each: 32 KiB on each of four cores, of 51 KiB that are not for weights."""
    net = Net("chain")
    x = net.input(1, 64, 32, 32)
    return net.graph(net.unary("Relu", net.conv(net.conv(x, 64, 1), 64, 1)))


@pytest.mark.parametrize(
    ("startup", "memory"),
    [
        ("10 ns", "local_buffer"),  # at 16 GB/s room for a tile of 160 bytes
        ("1 us", "local_buffer"),  # 16 kB: 36 KiB remain
        ("1.3 us", "global_buffer"),  # 20.8 kB: 31.6 kB remain
        ("1 ms", "global_buffer"),  # never more than half: 26.2 kB remain
    ],
)
def test_space_is_kept_for_tiles_that_load_as_long_as_their_start_up(startup: str, memory: str) -> None:
    spec = machine(on_chip_path={"bandwidth": "16 GB/s", "startup": startup, "broadcast": True})

    schedule = schedule_of(make_policy("graphturbo", {"instances": False}), chain(), spec)

    read = {number for run in schedule.runs for held in run.reads.values() for number in held}
    assert {schedule.slices[number].memory for number in read} == {memory}


def test_however_long_the_start_up_half_of_the_room_is_for_what_stays() -> None:
    net = Net("small")
    small = net.graph(net.conv(net.conv(net.input(1, 32, 32, 32), 32, 1), 32, 1))
    spec = machine(on_chip_path={"bandwidth": "16 GB/s", "startup": "1 ms", "broadcast": True})

    schedule = schedule_of(make_policy("graphturbo", {"instances": False}), small, spec)

    assert "local_buffer" in {each.memory for each in schedule.slices}


@pytest.mark.parametrize(("shared", "memory"), [("1 MiB", "global_buffer"), (None, "local_buffer")])
def test_cores_exchange_directly_without_a_global_buffer(shared: str | None, memory: str) -> None:
    """Columns of a product are on the cores, each of which needs all rows of what comes before."""
    net = Net("columns")
    x = net.relu(net.dense(net.relu(net.input(64, 64)), 64))
    graph = net.graph(net.softmax(net.transpose(x, 1, 0)))
    further = None if shared is None else {"capacity": shared, "bandwidth": "64 GB/s"}
    spec = machine(cores_per_cluster=8, global_buffer=further)

    schedule = schedule_of(make_policy("graphturbo"), graph, spec)

    assert {each.tensor: each.memory for each in schedule.slices}["relu1"] == memory
