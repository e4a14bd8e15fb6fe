"""A convolution as a product over patches: what is copied, multiplied and stored, counted by hand."""

from typing import Any

import pytest

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.nest_by_nest import PATCHES, algorithms_of, written_out
from tests.graphs import Net


def network(side: int = 5, channels: int = 4, results: int = 6, batch: int = 1, **convolution: Any) -> Graph:
    net = Net()
    before = net.relu(net.conv(net.input(batch, 3, side, side), channels, 1))
    return net.graph(net.relu(net.conv(before, results, **convolution)), dtype="fp32")


def parts(graph: Graph) -> tuple[Op, ...]:
    """Return the operators that the convolution at position 2 becomes."""
    out = written_out(Analysis(graph), algorithms=frozenset({(2, PATCHES)}))
    return tuple([out.analysis.graph.ops[op] for op in out.ops_of[2]])


def test_a_patch_has_a_window_of_all_channels_for_each_pixel_and_is_copied_once() -> None:
    graph = network(kernel=3)
    copied, multiplied, stored = parts(graph)
    assert copied.nests[0].write.shape == (1, 25, 3, 3, 4)
    assert copied.operations.flops == 0
    assert multiplied.operations.macs == 25 * 6 * 9 * 4 == graph.ops[2].operations.macs
    assert stored.operations.macs == 0
    assert stored.operations.simple == 25 * 6


def test_pixels_follow_each_other_from_row_to_row() -> None:
    copied, _, stored = parts(network(kernel=3, stride=2))
    pixel = copied.nests[0].write.indices[1]
    assert pixel.terms == stored.nests[0].reads[0].indices[1].terms == ((1, 3), (2, 1))
    row, column = copied.nests[0].reads[0].indices[2:]
    assert (row.terms, row.offset) == (((1, 2), (3, 1)), -1)
    assert (column.terms, column.offset) == (((2, 2), (4, 1)), -1)


def test_patches_of_pointwise_convolutions_are_the_data() -> None:
    copied, multiplied, _ = parts(network(kernel=1, batch=2))
    assert copied.nests[0].write.shape == (2, 25, 1, 1, 4)
    assert multiplied.operations.macs == 2 * 25 * 6 * 4


@pytest.mark.parametrize(
    ("convolution", "algorithms"),
    [({"kernel": 3}, (1, 2, 4)), ({"kernel": 3, "stride": 2}, (1,)), ({"kernel": 5}, (1,)), ({"groups": 2}, ())],
    ids=str,
)
def test_convolutions_of_one_group_have_patches(convolution: dict[str, Any], algorithms: tuple[int, ...]) -> None:
    graph = network(**convolution)
    assert algorithms_of(graph.ops[2], graph.tensors, "fp32", 4) == algorithms
    assert algorithms_of(graph.ops[2], graph.tensors, "fp32", 0) == ()
    assert algorithms_of(graph.ops[3], graph.tensors, "fp32", 4) == ()


def test_integers_and_short_floats_have_none() -> None:
    graph = network().with_dtype("bf16")
    assert algorithms_of(graph.ops[2], graph.tensors, "bf16", 4) == ()
