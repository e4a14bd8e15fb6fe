"""Regions of every tensor that a tile needs: halos accumulate backwards, and nothing needed is left out."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dsascape.workloads import Box, Graph
from dsascape.workloads.loopnest import full_box, hull
from dsascape.workloads.regions import required_regions
from tests.graphs import Net, networks
from tests.tiers import examples


def stacked() -> Graph:
    """Return two convolutions of 3 x 3 over 12 x 12 pixels."""
    net = Net("stacked")
    return net.graph(net.conv(net.conv(net.input(1, 2, 12, 12), 2), 2))


def rows(box: Box) -> tuple[int, int]:
    return box[2]


@pytest.mark.parametrize(
    ("wanted", "between", "read"),
    [
        ((4, 6), (3, 7), (2, 8)),
        ((0, 1), (0, 2), (0, 3)),
        ((10, 12), (9, 12), (8, 12)),
        ((0, 12), (0, 12), (0, 12)),
    ],
)
def test_two_convolutions_need_two_rows_more_on_each_side(
    wanted: tuple[int, int], between: tuple[int, int], read: tuple[int, int]
) -> None:
    regions = required_regions(stacked(), (0, 1), {"conv2": ((0, 1), (0, 2), wanted, (0, 12))})

    assert rows(regions["conv1"]) == between
    assert rows(regions["in1"]) == read


def test_a_tile_of_channels_needs_all_channels_before() -> None:
    regions = required_regions(stacked(), (0, 1), {"conv2": ((0, 1), (0, 1), (0, 12), (0, 12))})

    assert regions["conv1"][1] == (0, 2)
    assert regions["w2"][0] == (0, 1)
    assert regions["w1"] == full_box((2, 2, 3, 3))


def test_a_stride_doubles_what_is_read() -> None:
    net = Net()
    graph = net.graph(net.conv(net.input(1, 2, 12, 12), 2, 3, 2))

    assert rows(required_regions(graph, (0,), {"conv1": ((0, 1), (0, 2), (2, 4), (0, 6))})["in1"]) == (3, 8)


def test_a_tensor_that_is_needed_twice_gets_the_box_around_both_needs() -> None:
    net = Net()
    x = net.relu(net.input(1, 2, 12, 12))
    graph = net.graph(net.add(net.conv(x, 2), x))

    assert rows(required_regions(graph, (0, 1, 2), {"add1": ((0, 1), (0, 2), (4, 6), (0, 12))})["relu1"]) == (
        3,
        7,
    )


def test_operators_that_nothing_is_wanted_of_need_nothing() -> None:
    net = Net()
    x = net.input(2, 4)
    graph = net.graph(net.relu(x), net.unary("Tanh", net.input(2, 4)))

    assert required_regions(graph, (0, 1), {"relu1": ((0, 1), (0, 4))}).keys() == {"relu1", "in1"}


def test_a_transpose_turns_the_box() -> None:
    net = Net()
    graph = net.graph(net.transpose(net.input(2, 3, 4), 2, 0, 1))

    assert required_regions(graph, (0,), {"transpose1": ((1, 3), (0, 2), (2, 3))})["in1"] == (
        (0, 2),
        (2, 3),
        (1, 3),
    )


def inside(inner: Box, outer: Box) -> bool:
    return all(lo >= least and hi <= most for (lo, hi), (least, most) in zip(inner, outer, strict=True))


@st.composite
def boxes(draw: st.DrawFn, outer: Box) -> Box:
    box = []
    for least, most in outer:
        lo = draw(st.integers(least, most - 1))
        box.append((lo, draw(st.integers(lo + 1, most))))
    return tuple(box)


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks())
def test_a_smaller_tile_needs_no_more(data: st.DataObject, graph: Graph) -> None:
    output, ops = graph.outputs[0], range(len(graph.ops))
    tile = data.draw(boxes(full_box(graph.tensors[output].shape)))
    large = required_regions(graph, ops, {output: tile})
    small = required_regions(graph, ops, {output: data.draw(boxes(tile))})

    for name, box in small.items():
        assert inside(box, large[name]), name


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks())
def test_the_parts_of_an_output_together_need_what_the_whole_needs(data: st.DataObject, graph: Graph) -> None:
    output, ops = graph.outputs[0], range(len(graph.ops))
    whole = full_box(graph.tensors[output].shape)
    dims = [dim for dim, (_, size) in enumerate(whole) if size > 1]
    assume(dims)
    dim = data.draw(st.sampled_from(dims))
    cut = data.draw(st.integers(1, whole[dim][1] - 1))
    together: dict[str, Box] = {}
    for interval in ((0, cut), (cut, whole[dim][1])):
        part = (*whole[:dim], interval, *whole[dim + 1 :])
        for name, box in required_regions(graph, ops, {output: part}).items():
            together[name] = hull(together.get(name), box)

    assert together == required_regions(graph, ops, {output: whole})
