"""A layer's tiles cost what the access maps say, whoever has asked before; layers cover a kernel's computation."""

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion.fixed_pattern import fixed_pattern_layers
from dsascape.scheduler.kernels.cut import layer_of, layers_by_pattern, single_layer
from dsascape.scheduler.kernels.layer import Layer, layer_needs
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import full_box
from dsascape.workloads.regions import required_regions
from tests.graphs import Net, networks
from tests.tiers import examples
from tests.workloads.test_regions import boxes


def flattened() -> Graph:
    """Return relu1, its view flatten1, softmax1 of the view, reshape1 of that."""
    net = Net()
    return net.graph(net.reshape(net.softmax(net.flatten(net.relu(net.input(2, 4, 3, 3)))), 8, 9))


def drawn_layer(data: st.DataObject, analysis: Analysis) -> Layer:
    ops = data.draw(st.sampled_from(fixed_pattern_layers(analysis.graph, list(range(len(analysis.graph.ops))))))
    layer = layer_of(analysis, ops)
    if layer is None:
        layer = layer_of(analysis, range(len(analysis.graph.ops)))
    assert layer is not None
    return layer


class TestLayersOfAKernel:
    def test_views_in_front_become_part_of_a_layer_and_views_behind_do_not(self) -> None:
        layer = layer_of(Analysis(flattened()), (2, 3))

        assert layer is not None
        assert (layer.ops, layer.sink.name, layer.inputs) == ((1, 2), "softmax1", ("relu1",))

    def test_views_alone_are_no_layer(self) -> None:
        analysis = Analysis(flattened())

        assert layer_of(analysis, (1,)) is None
        assert single_layer(analysis, (1,)) == layers_by_pattern(analysis, (1,)) == ()

    def test_the_same_operators_are_the_same_layer(self) -> None:
        analysis = Analysis(flattened())

        assert layer_of(analysis, (1, 2)) is layer_of(analysis, [2, 3])

    @settings(max_examples=examples(60))
    @given(graph=networks())
    def test_layers_are_those_of_the_pattern_and_compute_every_operator_once(self, graph: Graph) -> None:
        ops = [op for op in range(len(graph.ops)) if not graph.ops[op].is_view]
        layers = layers_by_pattern(Analysis(graph), range(len(graph.ops)))
        computed = [[op for op in layer.ops if op in ops] for layer in layers]

        by_pattern = fixed_pattern_layers(graph, list(range(len(graph.ops))))
        assert computed == [core for members in by_pattern if (core := [op for op in members if op in ops])]
        assert sorted(op for layer in computed for op in layer) == ops


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks(), most=st.integers(1, 4))
def test_a_layer_that_has_been_asked_much_answers_as_a_new_one(data: st.DataObject, graph: Graph, most: int) -> None:
    layer = drawn_layer(data, Analysis(graph, most))
    for _ in range(3):
        tile = tuple(data.draw(st.integers(1, size)) for size in layer.sink.shape)
        depth = None if layer.depth_loop is None else data.draw(st.none() | st.integers(1, 4))
        new = Layer(graph, layer.ops, Analysis(graph))

        found, expected = layer.tile_work(tile, depth), new.tile_work(tile, depth)
        assert (found.operand_bytes, found.output_bytes) == (expected.operand_bytes, expected.output_bytes)
        assert (found.between_bytes, found.nests) == (expected.between_bytes, expected.nests)
        assert layer.dependencies == new.dependencies
        assert layer.signature == new.signature


@settings(max_examples=examples(60))
@given(data=st.data(), graph=networks())
def test_a_layer_needs_the_regions_that_its_operators_need(data: st.DataObject, graph: Graph) -> None:
    layer = drawn_layer(data, Analysis(graph))
    for _ in range(3):
        box = data.draw(boxes(full_box(layer.sink.shape)))

        assert layer_needs(layer, box) == required_regions(graph, layer.ops, {layer.sink.name: box})


@settings(max_examples=examples(60))
@given(graph=networks())
def test_the_whole_of_a_layer_reads_no_more_than_its_operands_and_computes_all_of_its_operators(graph: Graph) -> None:
    for layer in layers_by_pattern(Analysis(graph), range(len(graph.ops))):
        work = layer.tile_work(layer.sink.shape)

        assert all(size <= graph.tensors[name].size_bytes for name, size in work.operand_bytes.items())
        assert work.output_bytes == sum(graph.tensors[name].size_bytes for name in layer.outputs)
        done = sum(nest.operations.flops for nest in work.nests)
        assert done <= sum(graph.ops[op].operations.flops for op in layer.ops)


def test_equal_layers_under_other_names_have_one_signature() -> None:
    net = Net()
    x = net.conv(net.conv(net.conv(net.input(1, 4, 8, 8), 4), 4), 4)
    analysis = Analysis(net.graph(net.conv(x, 8)))
    first, second, wider = (Layer(analysis.graph, (op,), analysis) for op in (1, 2, 3))

    assert first.signature is second.signature
    assert first.signature != wider.signature


def test_layers_whose_operands_lie_otherwise_in_memory_are_not_equal() -> None:
    net = Net()
    graph = net.graph(net.relu(net.relu(net.input(1, 4, 8, 8))))
    channels_last = replace(graph.tensors["in1"], order=(0, 2, 3, 1))
    graph = replace(graph, tensors={**graph.tensors, "in1": channels_last})
    analysis = Analysis(graph)

    assert Layer(graph, (0,), analysis).signature != Layer(graph, (1,), analysis).signature


def test_a_part_along_the_depth_reads_its_share_of_both_factors() -> None:
    net = Net()
    graph = net.graph(net.dense(net.input(4, 64), 8))
    layer = Layer(graph, (0,), Analysis(graph))

    work = layer.tile_work((4, 8), 16)
    assert work.operand_bytes == {"in1": 4 * 16 * 2, "w1": 16 * 8 * 2}
    assert [nest.matrix_shape for nest in work.nests] == [(4, 8, 16, 1, 16, 4)]
    assert [math.prod(nest.extents) for nest in work.nests] == [4 * 8 * 16]


def test_a_result_whose_halo_is_computed_again_is_stored_once_and_its_halo_is_only_held() -> None:
    net = Net()
    x = net.conv(net.input(1, 4, 8, 8), 4)
    graph = net.graph(net.conv(x, 4), x)
    layer = layer_of(Analysis(graph), (0, 1))
    assert layer is not None
    rows = layer.tile_work((1, 4, 2, 8))

    assert rows.output_bytes == 2 * (4 * 2 * 8) * 2  # two rows of both results
    assert rows.internal_bytes == (4 * 2 * 8) * 2  # and of the first one those above and below


def test_what_an_operator_hands_to_one_with_windows_lies_in_a_buffer() -> None:
    net = Net()
    graph = net.graph(net.relu(net.conv(net.relu(net.conv(net.input(1, 4, 8, 8), 4)), 4)))
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None

    assert layer.handed == {"relu1"}  # element by element, activations are done where the products are
    assert layer.tile_work((1, 4, 2, 8)).handed_bytes == (4 * 4 * 8) * 2  # with the rows above and below


def test_what_is_read_through_views_from_outside_is_not_handed_over() -> None:
    """Of two views in a row, a part of a kernel may have the second only."""
    net = Net()
    graph = net.graph(net.dense(net.flatten(net.reshape(net.relu(net.input(2, 4, 3, 3)), 2, 6, 6)), 8))
    part = Layer(graph, (2, 3), Analysis(graph))

    assert part.handed == frozenset()
    assert part.signature == Layer(graph, (2, 3), Analysis(graph)).signature
