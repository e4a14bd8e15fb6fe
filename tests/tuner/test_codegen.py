"""Generated code computes what onnxruntime computes, with exactly one function for each kernel of the plan."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan, plan_from_groups, unfused_plan
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.kernels.buffers import share_buffers
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph, load_network
from tests.graphs import Net, networks
from tests.scheduler.kernels.drawn import LANES
from tests.tiers import examples
from tests.tuner.loops import loops_around
from tests.tuner.runs import deviations, generated

pytestmark = pytest.mark.tvm


def correct(plan: FusionPlan, tiles: Mapping[int, LoopTiles] | None = None) -> None:
    wrong = {name: found for name, found in deviations(plan, tiles).items() if found > KERNEL_TOLERANCE}
    assert wrong == {}


def image(net: Net) -> str:
    return net.input(1, 6, 9, 7)


def tokens(net: Net) -> str:
    return net.input(2, 7, 12)


def unary(kind: str, net: Net, x: str) -> str:
    return net.unary(kind, x)


def with_exponential(kind: str, net: Net, x: str) -> str:
    return net.binary(kind, x, net.unary("Exp", x))


IMAGE_OPERATORS: dict[str, Callable[[Net, str], str]] = {
    "convolution": lambda net, x: net.conv(x, 10),
    "convolution with stride": lambda net, x: net.conv(x, 10, 3, 2),
    "pointwise convolution": lambda net, x: net.conv(x, 12, 1),
    "convolution without padding": lambda net, x: net.conv(x, 5, 3, pad=0),
    "depthwise convolution": lambda net, x: net.depthwise(x),
    "grouped convolution": lambda net, x: net.conv(x, 8, groups=2),
    "groups narrower than a vector": lambda net, x: net.conv(x, 12, groups=6),
    "groups that vectors straddle": lambda net, x: net.conv(x, 9, groups=3),
    "wide groups that vectors straddle": lambda net, x: net.conv(net.conv(x, 12, 1), 12, groups=2),
    "transposed convolution": lambda net, x: net.op(
        "ConvTranspose", [x, net.weight(6, 4, 2, 2)], (1, 4, 18, 14), strides=[2, 2]
    ),
    "largest of a window": lambda net, x: net.pool(x, 3, 2),
    "largest of a padded window": lambda net, x: net.op(
        "MaxPool", [x], (1, 6, 5, 4), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    "mean of a window": lambda net, x: net.pool(x, 3, 1, "AveragePool"),
    "mean of a window, padding not counted": lambda net, x: net.op(
        "AveragePool", [x], (1, 6, 9, 7), kernel_shape=[3, 3], pads=[1, 1, 1, 1]
    ),
    "mean of an image": lambda net, x: net.global_pool(x),
    "batch normalisation": lambda net, x: net.batch_norm(x),
    "instance normalisation": lambda net, x: net.op(
        "InstanceNormalization", [x, net.weight(6), net.weight(6)], (1, 6, 9, 7)
    ),
    "softmax of rows that vectors do not divide": lambda net, x: net.softmax(x),
    "softmax of channels": lambda net, x: net.softmax(x, 1),
    "mean of rows": lambda net, x: net.reduce_mean(x, 3),
    "rearranged for tokens": lambda net, x: net.transpose(net.reshape(x, 1, 6, 63), 0, 2, 1),
    "channels joined": lambda net, x: net.concat(x, net.relu(x), net.conv(x, 3, 1)),
    "channels of odd parts joined": lambda net, x: net.relu(net.concat(net.conv(x, 21, 1), net.conv(x, 9, 1))),
    "channels shuffled": lambda net, x: net.reshape(
        net.transpose(net.reshape(x, 1, 2, 3, 9, 7), 0, 2, 1, 3, 4), 1, 6, 9, 7
    ),
}
TOKEN_OPERATORS: dict[str, Callable[[Net, str], str]] = {
    "product with a weight": lambda net, x: net.dense(x, 10),
    "product of activations": lambda net, x: net.matmul(x, net.transpose(x, 0, 2, 1)),
    "softmax of rows": lambda net, x: net.softmax(x),
    "softmax of columns": lambda net, x: net.softmax(x, 1),
    "layer normalisation": lambda net, x: net.layer_norm(x),
    "mean of rows": lambda net, x: net.reduce_mean(x, 2),
    "mean of columns": lambda net, x: net.reduce_mean(x, 1),
    "permutation": lambda net, x: net.transpose(x, 2, 0, 1),
    **{
        kind: partial(unary, kind)
        for kind in ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "HardSwish", "Softplus", "Mish")
    },
    **{kind: partial(with_exponential, kind) for kind in ("Add", "Sub", "Mul", "Div", "Max")},
}


@pytest.mark.parametrize("name", IMAGE_OPERATORS)
def test_an_operator_on_images_computes_what_onnxruntime_computes(name: str) -> None:
    net = Net()
    correct(unfused_plan(net.graph(IMAGE_OPERATORS[name](net, image(net)), dtype="fp32")))


@pytest.mark.parametrize("name", TOKEN_OPERATORS)
def test_an_operator_on_tokens_computes_what_onnxruntime_computes(name: str) -> None:
    net = Net()
    correct(unfused_plan(net.graph(TOKEN_OPERATORS[name](net, tokens(net)), dtype="fp32")))


def two_layers() -> Graph:
    net = Net()
    x = image(net)
    return net.graph(net.relu(net.add(net.conv(net.relu(net.conv(x, 10)), 6), x)), dtype="fp32")


def test_every_kernel_of_the_plan_is_one_function() -> None:
    plan = fixed_pattern_plan(two_layers())
    code = generated(plan)

    assert len(code.module.functions) == plan.kernels == len(code.kernels)
    assert [kernel.group for kernel in code.kernels] == list(range(len(plan.groups)))


def test_a_pool_in_one_kernel_with_what_leads_to_it_computes_what_onnxruntime_computes() -> None:
    net = Net()
    x = image(net)
    one, other = net.conv(x, 8, 1), net.conv(x, 12, 1)
    pooled = net.pool(net.concat(net.relu(one), net.relu(other)), 3, 2)
    graph = net.graph(pooled, dtype="fp32")
    first, *rest = range(len(graph.ops))

    correct(plan_from_groups(graph, [Group((first,)), Group((rest[0],)), Group(tuple(rest[1:]))]))


def test_special_functions_in_front_of_a_normalisation_are_computed_once_and_correctly() -> None:
    net = Net()
    graph = net.graph(net.layer_norm(net.unary("Tanh", tokens(net))), dtype="fp32")

    correct(plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))]))


def test_two_convolutions_in_one_kernel_are_one_function() -> None:
    graph = two_layers()
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])

    assert len(generated(plan).module.functions) == 1
    correct(plan)


@pytest.mark.parametrize("kernel", [1, 3])
def test_what_a_convolution_reads_may_be_added_to_its_result(kernel: int) -> None:
    net = Net()
    x = image(net)
    y = net.conv(x, 6, kernel, groups=2)
    z = net.relu(net.add(net.relu(y), net.unary("Softplus", x)))
    correct(fixed_pattern_plan(net.graph(net.add(net.depthwise(z), z), dtype="fp32")))


def test_nor_need_it_be_stored_before() -> None:
    net = Net()
    x = net.unary("Tanh", image(net))
    graph = net.graph(net.add(net.conv(x, 6), x), dtype="fp32")
    correct(plan_from_groups(graph, [Group((0, 1, 2))]))


def squeezed(net: Net, y: str) -> str:
    return net.binary("Mul", y, net.unary("Sigmoid", net.conv(net.global_pool(y), net.shape[y][1], 1)))


def shuffled(net: Net, y: str) -> str:
    batch, channels, *image_size = net.shape[y]
    parts = net.reshape(net.relu(y), batch, 2, channels // 2, *image_size)
    return net.reshape(net.transpose(parts, 0, 2, 1, 3, 4), batch, channels, *image_size)


FOLLOWERS: dict[str, Callable[[Net, str, str], str]] = {
    "nothing": lambda net, y, x: y,
    "a bias and a function": lambda net, y, x: net.unary("Sigmoid", net.bias(y)),
    "a number for each channel": lambda net, y, x: squeezed(net, y),
    "a tensor": lambda net, y, x: net.relu(net.add(y, x)),
    "a tensor that is computed there": lambda net, y, x: net.relu(net.add(net.relu(net.bias(x)), y)),
    "a tensor that is stored in another order": lambda net, y, x: net.relu(net.add(y, shuffled(net, x))),
}


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("name", FOLLOWERS)
def test_vectors_stick_out_of_a_result_whatever_follows_the_sums(name: str, depthwise: bool) -> None:
    net = Net()
    x = net.relu(net.conv(image(net), 10, 1))
    y = net.depthwise(x) if depthwise else net.conv(x, 10, 1)
    result = FOLLOWERS[name](net, y, net.relu(net.conv(image(net), 10, 1)))
    graph = net.graph(net.conv(result, 3, 1), dtype="fp32")

    correct(fixed_pattern_plan(graph))


def test_what_sticks_out_is_computed_in_whole_vectors_and_what_lies_inside_is_copied() -> None:
    net = Net()
    graph = net.graph(net.conv(net.unary("Sigmoid", net.conv(image(net), 6, 1)), 3, 1), dtype="fp32")
    tiles = LoopTiles((1, 8, 1, 4), (0, 2, 3, 1), 0, (1, 8, 1, 4), 1, None)
    kernel = generated(fixed_pattern_plan(graph), {0: tiles, 1: tiles}).kernels[0]

    # 4 pixels x 2 vectors of 4 channels, of which 6 of 8 lie inside
    assert loops_around(kernel.programs[0], "sigmoid1.whole", "store")[-3:] == ["unrolled 4", "unrolled 2", "vector 4"]
    assert loops_around(kernel.programs[0], "sigmoid1", "store")[-2:] == ["serial 4", "serial 8"]
    assert "if d10 < 6 and 4*d30+d31 < 7:" in str(kernel.programs[0])


def test_a_tensor_that_others_read_is_stored_by_the_kernel_that_goes_on_with_it() -> None:
    net = Net()
    middle = net.relu(net.conv(image(net), 6))
    graph = net.graph(middle, net.unary("Tanh", middle), dtype="fp32")
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])

    assert set(generated(plan).kernels[0].outputs) == set(graph.outputs)
    correct(plan)


TILES = {
    "whole": LoopTiles((1, 12, 9, 7), (0, 1, 2, 3), 1, (1, 12, 1, 7), 1, None),
    "channels outermost": LoopTiles((1, 4, 9, 7), (1, 0, 2, 3), 2, (1, 4, 1, 7), 1, None),
    "rows outermost": LoopTiles((1, 12, 3, 7), (2, 0, 1, 3), 1, (1, 4, 1, 7), 1, None),
    "pixels of two rows in registers": LoopTiles((1, 12, 9, 8), (0, 2, 3, 1), 2, (1, 4, 3, 2), 1, None),
    "tiles that do not divide": LoopTiles((1, 8, 4, 4), (0, 1, 2, 3), 4, (1, 4, 1, 4), 1, None),
    "sums continued in steps of the depth": LoopTiles((1, 4, 9, 7), (1, 0, 2, 3), 2, (1, 4, 1, 7), 1, 2),
    "one thread": LoopTiles((1, 4, 3, 7), (1, 0, 2, 3), 0, (1, 4, 1, 7), 1, None),
}


@pytest.mark.parametrize("name", TILES)
def test_results_do_not_depend_on_the_tiles(name: str) -> None:
    net = Net()
    graph = net.graph(net.relu(net.conv(image(net), 12)), dtype="fp32")
    correct(fixed_pattern_plan(graph), {0: TILES[name]})


def test_code_has_the_loops_of_its_tiles() -> None:
    net = Net()
    graph = net.graph(net.relu(net.conv(net.input(1, 8, 12, 8), 16)), dtype="fp32")
    tiles = LoopTiles((1, 8, 4, 8), (1, 0, 2, 3), 3, (1, 8, 1, 4), 1, None)
    (kernel,) = generated(fixed_pattern_plan(graph), {0: tiles}).kernels

    # 2 tiles of channels x 3 of rows go to threads; in a tile, 4 rows x 2 register tiles of 4 pixels x 2 vectors of 4
    assert loops_around(kernel.programs[0], "conv1.sum", "update") == [
        *("parallel 6", "serial 4", "serial 2", "serial 3", "serial 3", "serial 8"),
        *("unrolled 4", "unrolled 2", "vector 4"),
    ]


def test_vectors_do_not_reach_over_groups_so_that_all_lanes_use_one_element_of_the_data() -> None:
    net = Net()
    graph = net.graph(net.conv(net.input(1, 8, 8, 8), 8, groups=4), dtype="fp32")
    (kernel,) = generated(fixed_pattern_plan(graph)).kernels

    (layout,) = kernel.programs[0].layouts
    assert (LANES, layout.panel % LANES) == (4, 0)  # whole vectors would fit, but a group is of two
    assert loops_around(kernel.programs[0], "conv1.sum", "update")[-1] == "vector 2"


def test_weights_lie_in_panels_as_wide_as_the_register_tile() -> None:
    net = Net()
    graph = net.graph(net.conv(image(net), 10), dtype="fp32")
    (kernel,) = generated(fixed_pattern_plan(graph)).kernels
    (packing,) = kernel.packings.values()

    assert packing.shape((10, 6, 3, 3)) == (-(-10 // packing.block), 3, 3, 6, packing.block)
    assert packing.block == kernel.programs[0].layouts[0].panel


def test_an_operator_without_code_is_named_and_the_rest_has_code() -> None:
    net = Net()
    x = net.relu(image(net))
    chosen = net.unary("Hardmax", x)
    code = generated(unfused_plan(net.graph(net.unary("Tanh", chosen), dtype="fp32")))

    assert [(missing.operators, "Hardmax" in missing.reason) for missing in code.missing] == [(("hardmax1",), True)]
    assert [kernel.operators for kernel in code.kernels] == [("relu1",), ("tanh1",)]


@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"), fused=st.booleans())
def test_any_plan_of_any_network_computes_what_onnxruntime_computes(graph: Graph, fused: bool) -> None:
    correct(fixed_pattern_plan(graph) if fused else unfused_plan(graph))


def test_tensors_share_a_buffer_only_if_nobody_reads_the_first_any_more() -> None:
    code = generated(fixed_pattern_plan(load_network("mobilenet-v2")))
    shared = share_buffers(code.plan.graph, code.stored)
    graph = code.plan.graph
    holds: dict[int, str] = {}
    for kernel in code.kernels:
        activations = [name for name in kernel.inputs if graph.tensors[name].role != "weight"]
        assert all(holds.get(shared.buffer_of[name], name) == name for name in activations)
        for name in kernel.outputs:
            holds[shared.buffer_of[name]] = name
            assert shared.sizes_bytes[shared.buffer_of[name]] >= graph.tensors[name].size_bytes
    assert len(shared.sizes_bytes) < len(shared.buffer_of)
