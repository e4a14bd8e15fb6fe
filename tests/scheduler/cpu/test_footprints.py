"""Lines that candidates share are those that each of them touches."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cpu.footprints import footprints_of, touched_lines
from scheduler.kernels.cut import layer_of
from tests.graphs import Net, networks
from workloads import Graph
from workloads.analysis import Analysis

LINE_BYTES = 64


@given(graph=networks(), data=st.data())
@settings(deadline=None, max_examples=25)
def test_tiles_that_share_lines_touch_the_same(graph: Graph, data: st.DataObject) -> None:
    analysis = Analysis(graph)
    for op in range(len(graph.ops)):
        layer = layer_of(analysis, (op,))
        if layer is None:
            continue
        found, shared = footprints_of(layer), touched_lines(layer, LINE_BYTES)
        for _ in range(3):
            extents = [data.draw(st.integers(1, size)) for size in (*layer.sink.shape, found.depth)]
            tile = tuple(extents)
            assert shared.of_operands(tile) == tuple(each.lines(tile, LINE_BYTES) for each in found.operands)


def test_what_a_tile_does_not_depend_on_does_not_matter() -> None:
    net = Net("dense")
    analysis = Analysis(net.graph(net.matmul(net.input(8, 32), net.weight(32, 64)), dtype="fp32"))
    layer = layer_of(analysis, (0,))
    assert layer is not None

    data, weights, result = footprints_of(layer).operands
    assert [set(each.varies_with) for each in (data, weights, result)] == [{0, -1}, {1, -1}, {0, 1}]
