"""Code for GPUs computes what onnxruntime computes, with the threads and the shared memory of its schedule.

No GPU is needed: the same blocks and threads run as loops on this machine.
"""

from typing import get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.checked import gpu_limits
from dsascape.scheduler.gpu.code import block_needs
from dsascape.scheduler.gpu.steps import program_of
from dsascape.scheduler.gpu.tiles import GpuTiles
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
from tests.scheduler.kernels.drawn import GRIDS, any_tiles, varied
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


def test_a_product_that_is_stored_in_two_orders_has_no_code() -> None:
    """Each block has its tile of the product, and would need another one."""
    net = Net()
    product = net.dense(net.input(1, 24, 32), 40)
    graph = net.graph(net.transpose(product, 0, 2, 1), product, dtype="fp32")
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    tiles = GpuTiles((1, 8, 8), (0, 1, 2), (1, 1, 1), 1, None, 1, "lanes")

    with pytest.raises(ValueError, match=r"is computed inside of .transpose1.; .matmul1. reads it, too"):
        gpu_function(layer, varied(graph), program_of(layer, tiles, 32), 32, "kernel")


TILES = {
    "one element a thread": GpuTiles((1, 4, 4, 4), (0, 2, 3, 1), (1, 1, 1, 1), 1, 3, 1, "lanes"),
    "parts that do not divide a tile": GpuTiles((1, 7, 5, 5), (0, 1, 2, 3), (1, 2, 1, 3), 1, 4, 2, "lanes"),
    "more stages than steps": GpuTiles((1, 10, 3, 7), (0, 2, 3, 1), (1, 5, 1, 7), 1, 6, 3, "lanes"),
    "sums shared by three": GpuTiles((1, 10, 2, 7), (0, 2, 3, 1), (1, 2, 1, 7), 3, 4, 2, "lanes"),
    "sums shared by three, nothing staged": GpuTiles((1, 4, 2, 3), (0, 1, 3, 2), (1, 3, 1, 2), 3, None, 1, "lanes"),
    "rows with one element behind them": GpuTiles(
        (1, 10, 3, 7), (0, 2, 3, 1), (1, 5, 1, 7), 1, 3, 3, "lanes", rows=(RowPadding(1), None)
    ),
    "rows of several dimensions with more behind them": GpuTiles(
        (1, 4, 4, 4), (0, 2, 3, 1), (1, 1, 1, 1), 1, 2, 2, "lanes", rows=(RowPadding(5, 2), RowPadding(3, 3))
    ),
    "all in one block": GpuTiles((1, 10, 9, 7), (0, 2, 3, 1), (1, 4, 3, 2), 1, 2, 2, "lanes"),
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
    code = gpu_function(layer, network, program_of(layer, TILES[name], 32), 32, "kernel", as_loops=order)
    needs = block_needs(layer, TILES[name], VIEW)

    assert difference(code, layer.outputs, graph, values_of(network)) <= KERNEL_TOLERANCE
    assert (code.threads, code.shared_bytes) == (needs.threads, needs.shared_bytes)


@settings(max_examples=examples(30, few=4), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=any_tiles(), order=st.sampled_from(get_args(Loops)))
def test_a_legal_program_of_any_tiles_computes_the_same(drawn: tuple[str, GpuTiles], order: Loops) -> None:
    name, tiles = drawn
    net = Net()
    graph = net.graph(GRIDS[name](net), dtype="fp32")
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    program, network = program_of(layer, tiles, 32), varied(graph)
    assume(not illegal(program, gpu_limits(VIEW)))

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
