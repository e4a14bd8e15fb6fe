"""Code for GPUs computes what onnxruntime computes, with the threads and the shared memory of its schedule.

No GPU is needed: the same blocks and threads run as loops on this machine.
"""

from collections.abc import Callable, Mapping
from typing import get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")


from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.checked import gpu_limits
from dsascape.scheduler.gpu.steps import program_of
from dsascape.scheduler.gpu.tiles import FrontTiles, GpuTiles
from dsascape.scheduler.gpu.work import program_grid
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.steps import RowPadding
from dsascape.tuner.codegen.gpu.blocks import gpu_function
from dsascape.tuner.codegen.gpu.kernels import generate_gpu
from dsascape.tuner.codegen.gpu.phases import Loops
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import executable
from tests.graphs import Net, networks
from tests.scheduler.kernels.drawn import GRIDS, Rows, any_tiles, grid_program, varied
from tests.tiers import examples
from tests.tuner.gpu.looped import FUSED, SEVERAL_SHAPES, VIEW, check, difference, schedule_on, values_of, whole

pytestmark = pytest.mark.tvm


@pytest.mark.sampled(16)
@pytest.mark.parametrize("order", get_args(Loops))
@pytest.mark.parametrize("name", FUSED)
def test_a_kernel_computes_what_onnxruntime_computes_whichever_thread_comes_first(name: str, order: Loops) -> None:
    net = Net()
    check(whole(net.graph(FUSED[name](net), dtype="fp32")), order)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("order", get_args(Loops))
@pytest.mark.parametrize("name", SEVERAL_SHAPES)
def test_a_kernel_stores_results_of_several_shapes(name: str, order: Loops) -> None:
    build, tiles = SEVERAL_SHAPES[name]
    graph = build(Net())
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    network = varied(graph)

    assert len({graph.tensors[name].shape for name in layer.outputs}) == len(layer.outputs) == 2
    check(whole(graph), order)
    code = gpu_function(layer, network, program_of(layer, tiles, 32), 32, "kernel", as_loops=order)
    assert difference(code, layer.outputs, graph, values_of(network)) <= KERNEL_TOLERANCE


def _transposed_beside(net: Net) -> Graph:
    product = net.dense(net.input(1, 24, 32), 40)
    return net.graph(net.transpose(product, 0, 2, 1), product, dtype="fp32")


def _normalised(net: Net, total: str) -> Graph:
    return net.graph(net.layer_norm(total), total, dtype="fp32")


def _both(net: Net, first: str, channels: int, kernel: int, stride: int = 1) -> Graph:
    return net.graph(net.conv(net.relu(first), channels, kernel, stride=stride), first, dtype="fp32")


BESIDE: Mapping[str, Callable[[Net], Graph]] = {
    "a product in two orders": _transposed_beside,
    "a product and a convolution of it": lambda net: _both(net, net.conv(net.input(1, 5, 6, 5), 4, 1), 7, 3),
    "a sum and its normalisation": lambda net: _normalised(net, net.add(net.input(1, 9, 24), net.input(1, 9, 24))),
    "and one with strides": lambda net: _both(net, net.conv(net.input(1, 5, 8, 8), 4, 1), 6, 3, stride=2),
}  # fmt: skip
"""Kernels that store results which blocks compute for others of other shapes."""


@pytest.mark.parametrize("order", get_args(Loops))
@pytest.mark.parametrize("name", BESIDE)
def test_results_that_blocks_compute_for_others_are_stored_where_they_are_computed(name: str, order: Loops) -> None:
    graph = BESIDE[name](Net())
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    assert len(layer.outputs) == 2
    check(whole(graph), order)


def test_a_result_that_is_read_with_gaps_has_no_program_beside_its_reader() -> None:
    """Blocks need every second row of it: nobody would compute the others."""
    net = Net()
    first = net.conv(net.input(1, 5, 9, 9), 4, 1)
    graph = net.graph(net.conv(net.relu(first), 6, 1, stride=2), first, dtype="fp32")
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None

    front = FrontTiles((1, 1, 1, 1), None, "lanes")
    tiles = GpuTiles((1, 6, 2, 2), (0, 1, 2, 3), (1, 1, 1, 1), 1, None, 1, "lanes", fronts=(front,))
    with pytest.raises(ValueError, match=r"reads it, too|is no result along with"):
        program_of(layer, tiles, 32)


TILES: dict[str, tuple[GpuTiles, Rows]] = {
    "one element a thread": (GpuTiles((1, 4, 4, 4), (0, 2, 3, 1), (1, 1, 1, 1), 1, 3, 1, "lanes"), ()),
    "parts that do not divide a tile": (GpuTiles((1, 7, 5, 5), (0, 1, 2, 3), (1, 2, 1, 3), 1, 4, 2, "lanes"), ()),
    "more stages than steps": (GpuTiles((1, 10, 3, 7), (0, 2, 3, 1), (1, 5, 1, 7), 1, 6, 3, "lanes"), ()),
    "sums shared by three": (GpuTiles((1, 10, 2, 7), (0, 2, 3, 1), (1, 2, 1, 7), 3, 4, 2, "lanes"), ()),
    "sums shared by three, nothing staged": (
        GpuTiles((1, 4, 2, 3), (0, 1, 3, 2), (1, 3, 1, 2), 3, None, 1, "lanes"), (),
    ),
    "rows with one element behind them": (
        GpuTiles((1, 10, 3, 7), (0, 2, 3, 1), (1, 5, 1, 7), 1, 3, 3, "lanes"), (RowPadding(1), None),
    ),
    "rows of several dimensions with more behind them": (
        GpuTiles((1, 4, 4, 4), (0, 2, 3, 1), (1, 1, 1, 1), 1, 2, 2, "lanes"), (RowPadding(5, 2), RowPadding(3, 3)),
    ),
    "all in one block": (GpuTiles((1, 10, 9, 7), (0, 2, 3, 1), (1, 4, 3, 2), 1, 2, 2, "lanes"), ()),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("order", get_args(Loops))
@pytest.mark.parametrize("name", TILES)
def test_any_tiles_give_the_same_results_and_take_what_the_schedule_says(name: str, order: Loops) -> None:
    net = Net()
    graph = net.graph(net.relu(net.conv(net.input(1, 6, 9, 7), 10)), dtype="fp32")
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    network = varied(graph)
    tiles, rows = TILES[name]
    program = grid_program(layer, tiles, 32, rows)
    code = gpu_function(layer, network, program, 32, "kernel", as_loops=order)
    needs = program_grid(layer, program, VIEW).needs

    assert difference(code, layer.outputs, graph, values_of(network)) <= KERNEL_TOLERANCE
    assert (code.threads, code.shared_bytes) == (needs.threads, needs.shared_bytes)


@settings(max_examples=examples(30, few=4), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=any_tiles(), order=st.sampled_from(get_args(Loops)))
def test_a_legal_program_of_any_tiles_computes_the_same(drawn: tuple[str, GpuTiles, Rows], order: Loops) -> None:
    name, tiles, rows = drawn
    net = Net()
    graph = net.graph(GRIDS[name](net), dtype="fp32")
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    program, network = grid_program(layer, tiles, 32, rows), varied(graph)
    assume(not illegal(program, gpu_limits(VIEW)) and tiles.shares == 1)

    code = gpu_function(layer, network, program, 32, "kernel", as_loops=order)
    assert difference(code, layer.outputs, graph, values_of(network)) <= KERNEL_TOLERANCE


@settings(max_examples=examples(12, few=4), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"))
def test_random_networks_compute_what_onnxruntime_computes(graph: Graph) -> None:
    check(fixed_pattern_plan(graph))


@pytest.mark.parametrize(
    ("name", "hardware"),
    [
        pytest.param("squeezenet", "h100", marks=pytest.mark.night),
        pytest.param("mobilenet-v2", "h100", marks=pytest.mark.night),
        ("mobilenet-v2", "adreno640"),
    ],
)  # fmt: skip
def test_every_kernel_of_a_plan_with_intensive_fusion_has_code(name: str, hardware: str) -> None:
    schedule = schedule_on(hardware, "ago", load_network(name).with_dtype("fp32"))
    several = [kernel for kernel in schedule.runs if sum(nest.contraction for nest in kernel.layer.nests) > 1]

    assert several
    assert generate_gpu(schedule, executable(schedule.graph), VIEW.spec.sms.warp).missing == ()


def test_a_product_that_is_scheduled_for_tensor_units_has_no_code() -> None:
    net = Net()
    graph = net.graph(net.matmul(net.input(64, 64), net.weight(64, 64)), dtype="fp32")
    schedule = GpuTiles((32, 32), (0, 1), (32, 16), 1, 16, 2, "tensor")
    layer = layer_of(Analysis(graph), (0,))
    assert layer is not None

    program = program_of(layer, schedule, 32, load_hardware("v100", Gpu).tensor("fp16"))
    with pytest.raises(ValueError, match="tensor units"):
        gpu_function(layer, varied(graph), program, 32, "kernel")
