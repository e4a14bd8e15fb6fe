"""Every byte that a core computes with has come to it: streamed, held where it was written, or exchanged."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw_models import ClusteredDsa, InstructionTable
from scheduler import make_policy
from tests.graphs import Net, machine, machines, networks
from tests.scheduler.dsa.delivery import Needs, check_delivery
from tests.scheduler.runs import EVERY_POLICY, Run, policies, run_of
from workloads import Graph


def check(run: Run) -> None:
    needs = Needs()
    check_delivery(run.schedule, run.program, needs, all_cores=True)
    assert not needs.skipped


@EVERY_POLICY
@settings(max_examples=15)
@given(data=st.data(), graph=networks(most_blocks=2), spec=machines())
def test_on_random_networks_and_machines(name: str, data: st.DataObject, graph: Graph, spec: ClusteredDsa) -> None:
    check(run_of(data.draw(policies(name)), graph, spec))


def heads_of(batch: int, heads: int, length: int, width: int) -> Graph:
    """Heads taken apart as exporters write it: batch and heads are one dimension on the way only.

    The follower, fused with the movement, has them apart again: both choose together what a tile reads.
    """
    net = Net("heads")
    merged = net.reshape(net.input(length, batch, heads * width), length, batch * heads, width)
    apart = net.reshape(net.transpose(merged, 1, 0, 2), batch, heads, length, width)
    return net.graph(net.relu(apart))


@EVERY_POLICY
@pytest.mark.parametrize("size_bytes", [256, 512, 1024])
@pytest.mark.parametrize("cores", [1, 2])
def test_where_batch_and_heads_are_merged(name: str, size_bytes: int, cores: int) -> None:
    buffer = {"capacity": f"{size_bytes} B", "bandwidth": "128 GB/s", "weight_window": 0.2}
    small = machine(cores_per_cluster=cores, local_buffer=buffer)

    check(run_of(make_policy(name), heads_of(2, 16, 2, 8), small))


@EVERY_POLICY
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_where_convolutions_slide_and_transpose(name: str, stride: int) -> None:
    net = Net("down and up")
    x = net.relu(net.conv(net.input(2, 6, 12, 12), 8, 3, stride))
    size = net.shape[x][2] * stride
    weight = net.weight(8, 4, stride, stride)
    y = net.op("ConvTranspose", [x, weight], (2, 4, size, size), strides=[stride] * 2)
    check(run_of(make_policy(name), net.graph(net.relu(y)), machine()))


def test_the_check_notices_what_is_missing() -> None:
    """A schedule whose tiles load an operand once, though every tile needs another part of it."""
    net = Net("product")
    graph = net.graph(net.matmul(net.input(64, 32), net.input(32, 64)))
    buffer = {"capacity": "3 KiB", "bandwidth": "1 GB/s", "weight_window": 0.2}
    small = machine(cores_per_cluster=1, local_buffer=buffer)
    run = run_of(make_policy("unfused"), graph, small)
    check(run)
    loads = run.schedule.executions[0].tiling.loads
    assert max(loads.values()) > 1
    seen: set[str] = set()
    kept = []
    for instruction in run.program.instructions:
        labels = {run.program.buffers[b].label for b in instruction.allocates}
        again = labels & seen & set(loads)
        seen |= labels
        kept.append(replace(instruction, allocates=(), frees=()) if again else replace(instruction, frees=()))
    with pytest.raises(AssertionError, match="lacks"):
        check(replace(run, program=replace(run.program, instructions=InstructionTable.of(kept))))
