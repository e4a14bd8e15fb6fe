"""Work of a tile is one for all: what grouping counts of an instance is what a layer's tile has."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion import fixed_pattern_plan
from dsascape.scheduler.graphturbo.splitting import instance_work
from dsascape.scheduler.kernels.cut import layers_by_pattern
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.tiers import examples


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), graph=networks())
def test_grouping_counts_the_operations_and_needs_of_a_layers_tile(data: st.DataObject, graph: Graph) -> None:
    analysis = Analysis(graph)
    group = data.draw(st.sampled_from(fixed_pattern_plan(graph).groups))
    for layer in layers_by_pattern(analysis, group.ops):
        tile = tuple([data.draw(st.integers(1, size)) for size in layer.sink.shape])
        if len(layer.outputs) > 1:
            continue  # a tile of a layer has its share of each; an instance is asked for the last operator's alone

        found = instance_work(analysis, layer.ops, tile)
        work, whole = layer.tile_work(tile), layer.tile_work(layer.sink.shape)

        assert found.tile_flops == work.flops
        assert found.once_flops == whole.flops
        assert found.needs == work.operand_extents


def test_a_view_behind_the_last_layer_is_a_part_of_the_sub_graph() -> None:
    """A product of 4 x 8 by 8 x 6, transposed: a tile of two of its six rows needs two columns of the product."""
    net = Net()
    x = net.input(4, 8)
    graph = net.graph(net.transpose(net.matmul(x, net.weight(8, 6)), 1, 0))
    analysis = Analysis(graph)

    found = instance_work(analysis, tuple(range(len(graph.ops))), (2, 4))

    assert found.once_flops == 2 * 4 * 8 * 6
    assert found.tile_flops == 2 * 4 * 8 * 2
    assert found.needs[x] == (4, 8)
