"""Every byte that a core computes with has been delivered: streamed, kept where written, or exchanged."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import ClusteredDsa, InstructionTable
from dsascape.scheduler import make_policy
from dsascape.workloads import Graph
from tests.graphs import Net, machine, machines, networks
from tests.scheduler.dsa.delivery import Needs, check_delivery
from tests.scheduler.runs import EVERY_POLICY, Run, policies, run_of
from tests.tiers import examples


def check(run: Run) -> None:
    needs = Needs()
    check_delivery(run.schedule, run.program, needs, all_cores=True)
    assert not needs.skipped


@EVERY_POLICY
@settings(max_examples=examples(15))
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


def gated(channels: int, length: int) -> Graph:
    """Return a gated linear unit: one half of the channels times what the other half lets through."""
    net = Net("gated")
    x = net.relu(net.input(1, 2 * channels, length))
    halves = [net.part(x, 1, begin, begin + channels) for begin in (0, channels)]
    return net.graph(net.binary("Mul", halves[0], net.unary("Sigmoid", halves[1])))


def neighbours(length: int, width: int) -> Graph:
    """Return every token beside the one before and the one behind it, as MobileBERT puts its embeddings together."""
    net = Net("neighbours")
    x = net.relu(net.input(1, length, width))
    before, here, behind = (net.part(x, 1, begin, begin + length - 2) for begin in range(3))
    return net.graph(net.concat(before, here, behind, axis=2))


def columns(rows: int, count: int) -> Graph:
    """Return columns of one operand that are taken out one by one and put together the other way round."""
    net = Net("columns")
    x = net.relu(net.input(rows, count))
    return net.graph(net.concat(*(net.part(x, 1, begin, begin + 1) for begin in reversed(range(count)))))


@EVERY_POLICY
@pytest.mark.parametrize("graph", [gated(8, 24), neighbours(26, 8), columns(16, 5)], ids=lambda graph: graph.name)
def test_where_one_operand_is_read_at_several_places(name: str, graph: Graph) -> None:
    for spec in (machine(), machine(local_buffer={"capacity": "1 KiB", "bandwidth": "1 GB/s", "weight_window": 0.2})):
        check(run_of(make_policy(name), graph, spec))


@EVERY_POLICY
@pytest.mark.parametrize("channels", [(24, 24, 8, 8), (8, 56)])
def test_where_cores_hold_parts_of_one_operand_of_a_concatenation_each(name: str, channels: tuple[int, ...]) -> None:
    """Eight cores have eight channels each: some core alone may need an operand that lies spread over all of them."""
    net = Net("branches")
    x = net.input(1, 8, 1, 1)
    graph = net.graph(net.concat(*(net.relu(net.conv(x, count, 1)) for count in channels)))
    check(run_of(make_policy(name), graph, machine(cores_per_cluster=8)))
