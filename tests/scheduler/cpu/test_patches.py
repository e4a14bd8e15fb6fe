"""Convolutions as products over patches: chosen where they are faster by a margin, and recorded with the kernel."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import works
from dsascape.scheduler.cpu.schedule.json import read_schedule, schedule_json
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule, kernel_by_kernel
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, UpstreamTiles
from dsascape.scheduler.cpu.structure.chains import made_in_front
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layers_in_order
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nest_by_nest import PATCHES
from tests.graphs import Net
from tests.scheduler.cpu.running import codes_of
from tests.tiers import examples

SERVER = load_hardware("epyc", Cpu)


def network(
    side: int = 26, channels: int = 64, results: int = 64, kernel: int = 3, stride: int = 2, batch: int = 1
) -> Graph:
    """Return a pointwise convolution, and one behind it with an activation: of 13 x 13 pixels."""
    net = Net()
    before = net.relu(net.conv(net.input(batch, 8, side, side), channels, 1))
    return net.graph(net.relu(net.conv(before, results, kernel, stride)), dtype="fp32")


def costs_of(graph: Graph, **tuning: Any) -> CpuCosts:
    return CpuCosts(CpuView(SERVER, CpuTuning(**{"threads": 1, **tuning})), Analysis(graph), "fp32")


def schedule_of(graph: Graph, **tuning: Any) -> CpuSchedule:
    return kernel_by_kernel(fixed_pattern_plan(graph), costs_of(graph, **tuning))


def over_patches(graph: Graph) -> Layer:
    """Return the kernel of the last convolution over patches."""
    (layer,) = layers_in_order(Analysis(graph), (2, 3), frozenset(), frozenset({(2, PATCHES)}))
    return layer


def test_rows_that_registers_do_not_divide_are_computed_over_patches() -> None:
    kernel = schedule_of(network()).runs[1]
    assert kernel.algorithm == PATCHES
    tiles = costs_of(network()).tiling_of(kernel.layer).tiles
    assert "patches" in str(kernel)
    copied, stored = parts_of(kernel.layer)
    assert [graph_op.rpartition(":")[2] for graph_op in (copied.sink.name, stored.sink.name)] == ["products", "relu2"]
    (made,) = made_in_front(kernel.layer, tiles)
    assert made.extents[1] - 13 * 13 < tiles.upstream[0].register[1]


def test_those_that_they_divide_are_direct_and_so_is_all_with_the_option() -> None:
    assert [kernel.algorithm for kernel in schedule_of(network(side=24)).runs] == [0, 0]
    assert [kernel.algorithm for kernel in schedule_of(network(), winograd=0).runs] == [0, 0]
    assert [kernel.algorithm for kernel in schedule_of(network(), winograd=1).runs] == [0, PATCHES]


@settings(
    max_examples=examples(12), deadline=None, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
@given(
    side=st.integers(5, 30), channels=st.sampled_from([3, 16, 40]), results=st.sampled_from([8, 24, 96]),
    kernel=st.sampled_from([1, 3, 5]), stride=st.sampled_from([1, 2]), threads=st.sampled_from([1, 2]),
)  # fmt: skip
def test_it_is_never_chosen_where_it_is_slower(
    side: int, channels: int, results: int, kernel: int, stride: int, threads: int
) -> None:
    graph = network(side, channels, results, kernel, stride)
    best, direct = costs_of(graph, winograd=1, threads=threads), costs_of(graph, winograd=0, threads=threads)
    chosen = best.convolved([2])
    margin = 0.97 if chosen else 1.0
    assert chosen is None or chosen.algorithm == PATCHES
    assert best.kernel_s([2]) <= direct.kernel_s([2]) * margin


def test_products_are_as_many_as_whole_register_tiles_of_pixels_have() -> None:
    layer = over_patches(network(side=5, channels=8, results=16, kernel=3, stride=1))
    front = UpstreamTiles((0, 1, 2, 3), (1, 4, 1, 16), 3)
    tiles = LoopTiles((1, 16, 5, 5), (0, 2, 3, 1), 0, (1, 16, 1, 1), 1, None, (front,))
    code = costs_of(network()).view.code
    copied, multiplied, stored = codes_of(layer, tiles, "fp32", code)
    pixels, vectors, iterations = 28, 2, 9 * 8  # 25 pixels in tiles of 4; 16 results in vectors of 8
    assert multiplied.issued.fma == pixels * vectors * iterations
    of_register_tile = iterations * (4 + vectors)  # an element of each pixel, and vectors of weights
    assert multiplied.issued.load == pixels // 4 * of_register_tile
    assert multiplied.issued.store == pixels * vectors
    assert copied.issued.store == 28 * 9  # vectors of 8 channels, for whole tiles of pixels
    assert 25 <= copied.issued.load <= 25 * 9  # neighbouring patches share what registers hold
    assert stored.issued.fma == 0
    assert stored.issued.store == 25 * vectors


def test_patches_are_made_for_each_tile_again() -> None:
    layer = over_patches(network(side=6, channels=8, results=16, kernel=3, stride=1))
    front = UpstreamTiles((0, 1, 2, 3), (1, 4, 1, 16), 3)
    tiles = LoopTiles((1, 16, 2, 6), (0, 2, 3, 1), 0, (1, 16, 1, 1), 1, None, (front,))
    (made,) = made_in_front(layer, tiles)
    assert (made.extents, made.times, made.loops) == ((1, 12, 1, 16), 3, 2)


def test_a_schedule_with_it_is_read_back_as_it_was() -> None:
    graph = network()
    schedule = schedule_of(graph)
    data = json.loads(json.dumps(schedule_json(schedule)))
    assert [kernel["patches"] for kernel in data["kernels"]] == [False, True]
    again = read_schedule(data, costs_of(graph))
    assert str(again) == str(schedule)
    assert works(again, costs_of(graph).view) == works(schedule, costs_of(graph).view)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"winograd": 4}, r"kernels.1 .*winograd: has 4; needs 0, as patches has true"),
        ({"group": 7}, r"kernels.1 .*patches: group 7: there are 2"),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, Any], says: str) -> None:
    graph = network()
    data = schedule_json(schedule_of(graph))
    data["kernels"][1].update(changed)
    with pytest.raises(ScheduleError, match=says):
        read_schedule(data, costs_of(graph))


def test_kernels_without_a_dense_convolution_have_none() -> None:
    net = Net()
    graph = net.graph(net.depthwise(net.relu(net.conv(net.input(1, 8, 9, 9), 16, 1))), dtype="fp32")
    data = schedule_json(schedule_of(graph))
    data["kernels"][-1]["patches"] = True
    with pytest.raises(ScheduleError, match="patches: has true; needs false: its group has no convolution in two"):
        read_schedule(data, costs_of(graph))
