"""Work of a tile is one for all: what grouping counts of an instance is what a layer's tile has."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.fusion import fixed_pattern_plan
from dsascape.scheduler.graphturbo.splitting import tile_flops
from dsascape.scheduler.kernels.cut import layers_by_pattern
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.subgraph import Subgraph
from tests.graphs import networks
from tests.tiers import examples


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), graph=networks())
def test_grouping_counts_the_operations_and_needs_of_a_layers_tile(data: st.DataObject, graph: Graph) -> None:
    analysis = Analysis(graph)
    group = data.draw(st.sampled_from(fixed_pattern_plan(graph).groups))
    for layer in layers_by_pattern(analysis, group.ops):
        if layer.reads_apart or layer.is_ordered:
            continue  # there the layer knows pieces, and results of earlier iterations
        tile = tuple([data.draw(st.integers(1, size)) for size in layer.sink.shape])

        once, of_tile, needs = tile_flops(Subgraph(graph, layer.ops), tile)
        work, whole = layer.tile_work(tile), layer.tile_work(layer.sink.shape)

        assert of_tile == sum([each.operations.flops for each in work.nests])
        assert once == sum([each.operations.flops for each in whole.nests])
        assert {name: needs[name] for name in layer.inputs if name in needs} == dict(work.operand_extents)
