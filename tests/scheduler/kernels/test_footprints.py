"""Lines that candidates share are those that each of them touches."""


from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.schedule.steps import program_of
from dsascape.scheduler.cpu.search.tiling import KnownTiles, choose_tiling
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.footprints import footprints_of, touched_lines
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.tiers import examples

LINE_BYTES = 64


@given(graph=networks(), data=st.data())
@settings(deadline=None, max_examples=examples(25))
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


def relu_then(kind: str) -> Layer:
    """Return a kernel behind two convolutions: ReLUs, joined in front of a pool, or in front of a third one."""
    net = Net(kind)
    x, y = (net.conv(net.input(1, 3, 20, 20), 64, 1) for _ in range(2))
    x, y = net.relu(x), net.relu(y)
    result = net.pool(net.concat(x, y), 3, 2) if kind == "pool" else net.add(net.conv(x, 64, 1), y)
    graph = net.graph(result, dtype="fp32")
    layer = layer_of(Analysis(graph), tuple(range(2, len(graph.ops))))
    assert layer is not None
    return layer


def test_a_pool_behind_a_concatenation_has_tiles_whose_part_of_it_stays_in_the_first_cache() -> None:
    layer, spec = relu_then("pool"), load_hardware("kirin990", Cpu)
    tiles = choose_tiling(layer, "fp32", CpuView(spec), KnownTiles()).tiles
    program = program_of(layer, tiles, CpuView(spec).lanes("fp32"))

    assert sum([each.size_bytes for each in program.buffers]) < spec.kinds[0].l1.capacity_bytes
    assert 128 % tiles.register[tiles.vector_dim] == 0
