"""Tiles that differ only in position need the same regions, translated: exactly those of each tile itself."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import full_box
from dsascape.workloads.regions import moving_dims, placed_regions, required_regions
from tests.graphs import Net, networks
from tests.tiers import examples
from tests.workloads.test_regions import boxes


def convolved() -> Graph:
    net = Net()
    return net.graph(net.relu(net.conv(net.input(4, 8, 12, 12), 16)))


def test_along_the_batch_images_move_and_weights_stay() -> None:
    graph = convolved()

    assert moving_dims(graph, (0, 1), ("relu1",), 0) == {"relu1": 0, "conv1": 0, "in1": 0}


def test_along_output_channels_weights_move_and_the_input_stays() -> None:
    graph = convolved()

    assert moving_dims(graph, (0, 1), ("relu1",), 1) == {"relu1": 1, "conv1": 1, "w1": 0}


def test_along_the_channels_of_a_depthwise_convolution_all_move() -> None:
    net = Net()
    graph = net.graph(net.relu(net.depthwise(net.input(4, 8, 12, 12))))

    assert moving_dims(graph, (0, 1), ("relu1",), 1) == {"relu1": 1, "conv1": 1, "in1": 1, "w1": 0}


def test_rows_have_halos_and_borders_so_that_nothing_just_moves() -> None:
    assert moving_dims(convolved(), (0, 1), ("relu1",), 2) is None


def test_a_product_with_its_own_transpose_does_not_just_move() -> None:
    net = Net()
    x = net.input(6, 6)
    graph = net.graph(net.matmul(x, net.transpose(x, 1, 0)))

    assert moving_dims(graph, (0, 1), graph.outputs, 0) is None


@settings(max_examples=examples(300))
@given(data=st.data(), graph=networks())
def test_regions_are_those_of_each_tile_by_itself(data: st.DataObject, graph: Graph) -> None:
    output, ops, analysis = graph.outputs[0], range(len(graph.ops)), Analysis(graph)
    for _ in range(3):  # the later ones find what the first has left
        tile = {output: data.draw(boxes(full_box(graph.tensors[output].shape)))}

        found = placed_regions(analysis, ops, tile, once=data.draw(st.booleans()))
        assert found == required_regions(graph, ops, tile)


@settings(max_examples=examples(100))
@given(data=st.data(), graph=networks())
def test_so_are_those_of_several_outputs(data: st.DataObject, graph: Graph) -> None:
    ops, analysis = range(len(graph.ops)), Analysis(graph)
    names = data.draw(st.lists(st.sampled_from([op.outputs[0] for op in graph.ops]), min_size=1, unique=True))
    for _ in range(2):
        tiles = {name: data.draw(boxes(full_box(graph.tensors[name].shape))) for name in names}

        assert placed_regions(analysis, ops, tiles) == required_regions(graph, ops, tiles)
