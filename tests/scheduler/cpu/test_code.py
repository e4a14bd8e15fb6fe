"""The instructions of tiled loops, counted by hand."""

import pytest

from dsascape.hw_models.cpu.core_kinds import Simd
from dsascape.scheduler.cpu.schedule.steps import program_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.anchors import vector_lanes
from dsascape.scheduler.cpu.structure.partial_sums import partial_sums
from dsascape.scheduler.cpu.view import CodeView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.scheduler.kernels.structure.row_parts import lengths_of_parts
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.scheduler.cpu.running import codes_of

SIXTEEN = Simd.model_validate(
    {"lanes": {"fp32": 16}, "register": "64 B", "registers": 32, "multiplies_by_lane": False}
)


@pytest.mark.parametrize(("groups", "lanes"), [(1, 16), (2, 16), (4, 8), (8, 4)])
def test_vectors_do_not_reach_over_groups(groups: int, lanes: int) -> None:
    net = Net("groups")
    x = net.conv(net.input(1, 3, 8, 8), 32, 1)
    graph = net.graph(net.conv(x, 32, 1, groups=groups), dtype="fp32")
    layer = layer_of(Analysis(graph), (1,))
    assert layer is not None
    register = (1, 32, 1, 2)
    tiles = LoopTiles(register, (0, 2, 3, 1), 0, register, 1, None)
    anchor = anchored_nest(layer)
    assert anchor is not None

    issued = codes_of(layer, tiles, "fp32", CodeView(SIXTEEN))[-1].issued

    assert vector_lanes(anchor, tiles, 16) == lanes
    assert issued.fma == 64 * (32 // groups) * 32 / lanes
    assert issued.store == 64 * 32 / lanes


def test_rows_of_a_concatenation_are_cut_at_its_parts_borders() -> None:
    net = Net("joined")
    x = net.input(1, 8, 6, 6)
    graph = net.graph(net.relu(net.concat(net.conv(x, 20, 1), net.conv(x, 12, 1))), dtype="fp32")
    layer = layer_of(Analysis(graph), (2, 3))
    assert layer is not None
    tiles = LoopTiles((1, 32, 6, 6), (0, 2, 3, 1), 0, (1, 16, 1, 1), 1, None)

    issued = codes_of(layer, tiles, "fp32", CodeView(SIXTEEN))[-1].issued
    loops = [loop.extent for loop in program_of(layer, tiles, 16).loops.values() if loop.kind == "vector"]

    assert layer.sink.order[-1] == 1  # channels lie together: 20 are 16 and 4, 12 are 8 and 4
    assert loops == [16, 4, 8, 4]
    assert issued.store == 36 * 4
    assert lengths_of_parts(layer, layer.sink.shape, 1) == (20, 12)
    assert lengths_of_parts(layer, layer.sink.shape, 2) == (6,)


def test_a_row_of_many_small_parts_is_one() -> None:
    net = Net("scalars")
    x = net.input(1, 1, 4, 4)
    graph = net.graph(net.concat(*[net.relu(x) for _ in range(40)]), dtype="fp32")
    layer = layer_of(Analysis(graph), (40,))
    assert layer is not None

    assert lengths_of_parts(layer, layer.sink.shape, 1) == (40,)


def test_a_row_is_added_up_in_as_many_partial_sums_as_make_the_shortest_chain() -> None:
    assert partial_sums(384, 16) == 64  # 6 additions each, 6 foldings
    assert partial_sums(80, 16) == 16  # 5 and 4; with 32 it would be 2, 5, and 16 that are left over
    assert partial_sums(197, 16) == 64  # 3, 6, and 5 that are left over
    assert partial_sums(1, 16) == 1
