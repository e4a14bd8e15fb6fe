"""Kernels with several anchors compute what onnxruntime computes, each anchor inside the tiles of the last one."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

import tvm

from dsascape.fusion import plan_from_groups
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, UpstreamTiles
from dsascape.tuner.codegen.building import cpu_module
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph
from tests.graphs import Net
from tests.tiers import examples
from tests.tuner.loops import loops_around
from tests.tuner.runs import deviations, generated, tiles_of

pytestmark = pytest.mark.tvm


def in_one_kernel(graph: Graph) -> FusionPlan:
    return plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])


def correct(graph: Graph, tiles: LoopTiles | None = None) -> None:
    found = deviations(in_one_kernel(graph), None if tiles is None else {0: tiles})
    assert {name: each for name, each in found.items() if each > KERNEL_TOLERANCE} == {}


def image(net: Net) -> str:
    return net.input(1, 8, 9, 7)


def tokens(net: Net) -> str:
    return net.input(2, 7, 12)


CHAINS: dict[str, Callable[[Net], str]] = {
    "pointwise before depthwise": lambda net: net.relu(net.depthwise(net.relu(net.conv(image(net), 16, 1)))),
    "pointwise before depthwise with stride": lambda net: net.depthwise(net.relu(net.conv(image(net), 12, 1)), 3, 2),
    "depthwise before pointwise": lambda net: net.relu(net.conv(net.relu(net.depthwise(image(net))), 12, 1)),
    "convolution before pointwise": lambda net: net.conv(net.relu(net.conv(image(net), 12)), 10, 1),
    "convolution before convolution": lambda net: net.relu(net.conv(net.relu(net.conv(image(net), 6)), 10)),
    "convolution with stride before one": lambda net: net.conv(net.conv(image(net), 6, 3, 2), 10, 3, 2),
    "with a bias and something before": lambda net: net.conv(
        net.relu(net.bias(net.conv(net.relu(image(net)), 12))), 4, 1
    ),
    "product before product": lambda net: net.dense(net.relu(net.dense(tokens(net), 20)), 12),
    "product before product of activations": lambda net: net.matmul(net.dense(tokens(net), 7), tokens(net)),
    "three of them": lambda net: net.conv(net.relu(net.depthwise(net.relu(net.conv(image(net), 12, 1)))), 8, 1),
}


def residual(net: Net) -> str:
    x = image(net)
    return net.conv(net.relu(net.add(net.conv(net.relu(net.conv(x, 16, 1)), 8), x)), 12, 1)


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_anchors_computes_what_onnxruntime_computes(name: str) -> None:
    net = Net()
    graph = net.graph(CHAINS[name](net), dtype="fp32")

    assert len(tiles_of(in_one_kernel(graph))[0].upstream) == (2 if name == "three of them" else 1)
    correct(graph)


def test_something_added_between_two_anchors_is_added() -> None:
    net = Net()
    graph = net.graph(residual(net), dtype="fp32")
    correct(graph)


def test_a_middle_that_is_a_result_too_is_written() -> None:
    net = Net()
    middle = net.relu(net.conv(net.input(1, 8, 9, 7), 12, 1))
    correct(net.graph(net.conv(middle, 8), middle, dtype="fp32"))


IN_FRONT = (UpstreamTiles((0, 1, 2, 3), (1, 8, 1, 4), 1),)
TILES = {
    "whole": LoopTiles((1, 12, 9, 7), (0, 1, 2, 3), 1, (1, 4, 1, 7), 1, None, IN_FRONT),
    "rows, computed again at their borders": LoopTiles((1, 12, 3, 7), (0, 2, 1, 3), 2, (1, 4, 1, 7), 1, None, IN_FRONT),
    "computed again for every tile of channels": LoopTiles(
        (1, 4, 3, 7), (1, 0, 2, 3), 0, (1, 4, 1, 7), 1, None, IN_FRONT
    ),
    "tiles that stick out": LoopTiles((1, 8, 4, 4), (0, 2, 3, 1), 3, (1, 4, 1, 4), 1, None, IN_FRONT),
    "sums continued": LoopTiles((1, 4, 9, 7), (0, 2, 3, 1), 0, (1, 4, 1, 7), 1, 2, IN_FRONT),
    "another order in front": LoopTiles(
        (1, 12, 9, 7), (0, 1, 2, 3), 0, (1, 4, 1, 7), 1, None, (UpstreamTiles((1, 0, 3, 2), (1, 4, 3, 2), 1),)
    ),
    "panels that tiles do not begin with": LoopTiles(
        (1, 4, 9, 7), (1, 0, 2, 3), 0, (1, 4, 1, 7), 1, None, (UpstreamTiles((0, 1, 2, 3), (1, 16, 1, 2), 1),)
    ),
}


@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize("behind", ["convolution", "depthwise"])
def test_results_do_not_depend_on_the_tiles(name: str, behind: str) -> None:
    net = Net()
    middle = net.relu(net.conv(image(net), 12, 1))
    after = net.conv(middle, 12) if behind == "convolution" else net.depthwise(middle)
    tiles = TILES[name]
    if behind == "depthwise" and tiles.depth_step is not None:
        pytest.skip("a depthwise convolution sums up nothing that could be continued in steps of two")
    correct(net.graph(net.relu(after), dtype="fp32"), tiles)


def test_the_intermediate_of_two_anchors_is_kept_for_one_tile() -> None:
    net = Net()
    graph = net.graph(net.conv(net.relu(net.conv(net.input(1, 8, 12, 8), 16, 1)), 8, 1), dtype="fp32")
    in_front = UpstreamTiles((0, 2, 3, 1), (1, 8, 1, 4), 1)
    tiles = LoopTiles((1, 8, 4, 8), (0, 2, 1, 3), 2, (1, 8, 1, 4), 1, None, (in_front,))
    (kernel,) = generated(in_one_kernel(graph), {0: tiles}).kernels

    # 3 tiles of 4 rows: a box of 4 rows x 8 pixels x 16 channels for each, in 4 x 2 x 2 register tiles of 4 pixels
    assert loops_around(kernel.programs[0], "relu1", "store")[:4] == ["parallel 3", "serial 4", "serial 2", "serial 2"]
    assert kernel.programs[0].buffer("relu1").shape == (1, 4, 8, 16)
    assert len(kernel.packings) == 2


def test_parts_in_front_are_computed_in_whole_register_tiles_without_conditions() -> None:
    net = Net()
    graph = net.graph(net.conv(net.relu(net.depthwise(net.input(1, 6, 8, 8))), 4, 1), dtype="fp32")
    in_front = UpstreamTiles((0, 2, 3, 1), (1, 4, 1, 3), 1)
    tiles = LoopTiles((1, 4, 2, 8), (0, 2, 1, 3), 2, (1, 4, 1, 4), 1, None, (in_front,))
    (kernel,) = generated(in_one_kernel(graph), {0: tiles}).kernels

    # 6 channels in vectors of 4, 8 pixels in threes: of neither the last is needed whole
    assert kernel.programs[0].buffer("relu1").shape == (1, 2, 9, 8)
    assert "if" not in str(kernel.programs[0])
    correct(graph, tiles)


def test_every_part_in_front_is_a_function_of_its_own() -> None:
    net = Net()
    graph = net.graph(CHAINS["three of them"](net), dtype="fp32")
    code = generated(in_one_kernel(graph))
    module = cpu_module(code.module, tvm.target.Target({"kind": "llvm", "num-cores": 2}))

    defined = [line for line in module.inspect_source("ll").splitlines() if line.startswith("define internal")]
    parts = [f"@layer0_part{number}(" for number in range(3)]
    assert [part for part in parts if any(part in line for line in defined)] == parts[:2]


@st.composite
def pairs(draw: st.DrawFn) -> Graph:
    net = Net()
    x = net.input(1, draw(st.sampled_from([4, 6, 8])), draw(st.integers(6, 10)), draw(st.integers(6, 10)))
    for stride in (draw(st.sampled_from([1, 2])), 1):
        kernel = draw(st.sampled_from([1, 3]))
        if draw(st.booleans()):
            x = net.depthwise(x, kernel, stride)
        else:
            pad = draw(st.sampled_from([0, kernel // 2]))
            x = net.conv(x, draw(st.integers(1, 20)), kernel, stride, pad=pad)
        x = net.relu(x) if draw(st.booleans()) else x
    return net.graph(x, dtype="fp32")


@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(graph=pairs())
def test_any_two_convolutions_in_one_kernel_compute_what_onnxruntime_computes(graph: Graph) -> None:
    correct(graph)
