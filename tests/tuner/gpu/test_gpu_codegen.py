"""Code for GPUs computes what onnxruntime computes, with the threads and the shared memory of its schedule.

No GPU is needed: the same blocks and threads run as loops on this machine, and nvcc compiles them for one.
"""

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

import tvm
import tvm_ffi

from dsascape.fusion import fixed_pattern_plan, plan_from_groups
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler import make_policy
from dsascape.scheduler.gpu.checked import gpu_limits
from dsascape.scheduler.gpu.code import block_needs
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.steps import program_of
from dsascape.scheduler.gpu.tiles import FrontTiles, GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.steps import RowPadding
from dsascape.tuner.codegen.gpu.blocks import GpuFunction, gpu_function
from dsascape.tuner.codegen.gpu.kernels import GpuCode, generate_gpu
from dsascape.tuner.codegen.gpu.phases import Language, Loops
from dsascape.tuner.codegen.kernels import network_array, stored_array
from dsascape.tuner.measure.arrays import Arena
from dsascape.tuner.on_device.cross_gpu import PIPELINE
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE, deviation, largest, reference
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import Executable, drawn_inputs, executable
from dsascape.workloads.operators.registry import Array
from tests.graphs import Net, networks
from tests.tiers import examples
from tests.tuner.runs import varied

pytestmark = pytest.mark.tvm

NVCC = shutil.which("nvcc")


def view(hardware: str) -> GpuView:
    return GpuView(load_hardware(hardware, Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))


VIEW = view("h100")
V100 = load_hardware("v100", Gpu)


def scheduled(plan: FusionPlan) -> GpuSchedule:
    return kernel_by_kernel(plan, GpuCosts(VIEW, Analysis(plan.graph)))


def schedule_on(hardware: str, policy: str, graph: Graph) -> GpuSchedule:
    costs = GpuCosts(view(hardware), Analysis(graph))
    return kernel_by_kernel(make_policy(policy).plan(graph, costs), costs)


def whole(graph: Graph) -> FusionPlan:
    return plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])


def values_of(network: Executable) -> dict[str, Array]:
    inputs = drawn_inputs(network.graph)
    return {**network.values, **inputs, **reference(network, inputs, list(network.graph.producer))}


def difference(code: GpuFunction, outputs: tuple[str, ...], graph: Graph, values: dict[str, Array]) -> float:
    """Return by how much code whose blocks and threads are loops differs from onnxruntime."""
    built = tvm.tirx.build(
        tvm.IRModule({"main": code.function.with_attr("global_symbol", "main")}),
        target=tvm.target.Target({"kind": "llvm"}), pipeline=PIPELINE,
    )  # fmt: skip
    arena = Arena(2**16)
    given_ = [arena.copy(stored_array(graph, name, values[name])) for name in code.inputs]
    results = [arena.copy(np.full_like(stored_array(graph, name, values[name]), 7)) for name in outputs]
    built["main"](*[tvm_ffi.from_dlpack(array) for array in (*given_, *results)])
    made_of = largest(values[name] for name in code.inputs)
    return max(
        deviation(network_array(graph, name, found), values[name], made_of)
        for name, found in zip(outputs, results, strict=True)
    )


def check(plan: FusionPlan, order: Loops = "first") -> None:
    network = varied(plan.graph)
    code = generate_gpu(scheduled(plan), network, VIEW.spec.sms.warp, as_loops=order)
    assert [(lack.name, lack.reason) for lack in code.missing] == []
    values = values_of(network)
    wrong = {
        kernel.name: found
        for kernel in code.kernels
        if (found := difference(kernel.code, kernel.outputs, plan.graph, values)) > KERNEL_TOLERANCE
    }
    assert wrong == {}


def block(net: Net) -> str:
    x = net.input(1, 24, 17, 15)
    return net.relu(net.add(net.conv(x, 24), x))


def attention(net: Net) -> str:
    query, key, value = (net.input(2, 24, 16) for _ in range(3))
    return net.matmul(net.softmax(net.matmul(query, net.transpose(key, 0, 2, 1))), value)


def heads(net: Net) -> str:
    return net.transpose(net.reshape(net.dense(net.input(1, 20, 32), 48), 1, 20, 4, 12), 0, 2, 1, 3)


def twice(net: Net, x: str) -> str:
    for _ in range(3):
        x = net.binary("Mul", x, net.unary("Sigmoid", x))
    return x


FUSED: dict[str, Callable[[Net], str]] = {
    "convolution and activation, odd sizes": lambda net: net.relu(net.conv(net.input(1, 13, 29, 31), 37)),
    "convolution, residual, activation": block,
    "an activation where an operand is staged": lambda net: net.conv(net.relu(net.input(1, 24, 17, 15)), 24),
    "pointwise convolution with stride": lambda net: net.conv(net.input(1, 32, 29, 29), 64, 1, 2),
    "transposed convolution": lambda net: net.op(
        "ConvTranspose", [net.input(1, 24, 11, 9), net.weight(24, 20, 3, 3)], (1, 20, 22, 18),
        strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1],
    ),
    "depthwise convolution": lambda net: net.relu(net.depthwise(net.input(1, 33, 29, 27))),
    "product": lambda net: net.relu(net.dense(net.input(1, 65, 128), 130)),
    "product whose sums threads share": lambda net: net.dense(net.input(1, 24, 1000), 40),
    "product with heads apart": heads,
    "values that are read twice, behind a product": lambda net: twice(net, net.dense(net.input(1, 24, 40), 48)),
    "values that are read twice, where padding is": lambda net: net.conv(twice(net, net.input(1, 5, 17, 15)), 24),
    "values that are read twice, in a softmax": lambda net: twice(net, net.softmax(twice(net, net.input(2, 4, 83)))),
    "softmax of long rows": lambda net: net.softmax(net.input(2, 4, 383)),
    "softmax of columns": lambda net: net.softmax(net.input(2, 7, 12), 1),
    "layer normalisation": lambda net: net.layer_norm(net.input(2, 5, 257)),
    "largest of a window": lambda net: net.pool(net.input(1, 6, 19, 17), 3, 2),
    "mean of an image": lambda net: net.global_pool(net.input(1, 6, 9, 7)),
    "channels joined": lambda net: net.concat(*(net.input(1, size, 9, 7) for size in (3, 5))),
    "two convolutions": lambda net: net.relu(net.conv(net.relu(net.conv(net.input(1, 8, 12, 12), 8)), 9)),
    "attention": attention,
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("order", get_args(Loops))
@pytest.mark.parametrize("name", FUSED)
def test_a_kernel_computes_what_onnxruntime_computes_whichever_thread_comes_first(name: str, order: Loops) -> None:
    net = Net()
    check(whole(net.graph(FUSED[name](net), dtype="fp32")), order)


def mask(net: Net) -> Graph:
    small = net.unary("Tanh", net.input(1, 1, 1, 13))
    return net.graph(net.add(net.input(1, 3, 10, 13), small), small, dtype="fp32")


def gate(net: Net) -> Graph:
    """Return an activation and the mean of its images, behind it, which is the sink."""
    x = net.unary("Sigmoid", net.input(2, 6, 9, 7))
    return net.graph(net.global_pool(x), x, dtype="fp32")


def statistics(net: Net) -> Graph:
    """Return images less their mean, and the mean, which each block has for its channels only."""
    x = net.input(2, 6, 9, 7)
    mean = net.global_pool(x)
    return net.graph(net.binary("Sub", x, mean), mean, dtype="fp32")


def turned(net: Net) -> Graph:
    x = net.relu(net.concat(net.input(1, 5, 12), net.input(1, 6, 12)))
    return net.graph(net.transpose(x, 0, 2, 1), x, dtype="fp32")


SEVERAL_SHAPES = {
    "smaller along some dimensions": (mask, GpuTiles((1, 2, 3, 5), (0, 1, 2, 3), (1, 1, 3, 2), 1, None, 1, "lanes")),
    "larger than the sink": (gate, GpuTiles((1, 4, 1, 1), (0, 1, 2, 3), (1, 1, 1, 1), 4, None, 1, "lanes")),
    "a reduction for all tiles of an image": (
        statistics, GpuTiles((1, 4, 5, 7), (0, 1, 2, 3), (1, 1, 1, 2), 1, None, 1, "lanes"),
    ),
    "the same elements in another order": (turned, GpuTiles((1, 5, 4), (0, 1, 2), (1, 2, 1), 1, None, 1, "lanes")),
}  # fmt: skip


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


@st.composite
def any_tiles(draw: st.DrawFn) -> tuple[str, GpuTiles]:
    """Draw a kernel and tiles for it that nobody would choose."""
    name = draw(st.sampled_from(sorted(DRAWN)))
    net = Net()
    graph = net.graph(DRAWN[name](net), dtype="fp32")
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    shape = layer.sink.shape
    tile = tuple(draw(st.integers(1, size)) for size in shape)
    part = tuple(draw(st.integers(1, size)) for size in tile)
    order = tuple(draw(st.permutations(range(len(shape)))))
    nests = nests_of(layer)
    depth_step = draw(st.one_of(st.none(), st.integers(1, 9))) if nests.anchor_ends_last else None
    fronts = tuple(
        FrontTiles(
            tuple(draw(st.integers(1, 3)) for _ in nests.nests[number].compiled.nest.write.shape),
            draw(st.one_of(st.none(), st.integers(1, 5))), "lanes",
        )
        for number in nests.fronts
    )  # fmt: skip
    split, stages = draw(st.sampled_from([1, 1, 2, 3, 7])), draw(st.integers(1, 4))
    padded = depth_step is not None and draw(st.booleans())
    rows = tuple([draw(any_rows(len(read.order))) for read in nests.nests[nests.anchor].reads[:2]]) if padded else ()
    return name, GpuTiles(tile, order, part, split, depth_step, stages, "lanes", 1, fronts, rows=rows)


def any_rows(rank: int) -> st.SearchStrategy[RowPadding | None]:
    return st.one_of(st.none(), st.builds(RowPadding, st.integers(1, 5), st.integers(1, rank)))


DRAWN: dict[str, Callable[[Net], str]] = {
    "convolution": lambda net: net.relu(net.conv(net.input(1, 5, 9, 7), 6)),
    "product": lambda net: net.relu(net.dense(net.input(1, 9, 20), 12)),
    "softmax": lambda net: net.softmax(net.input(2, 3, 29)),
    "normalisation": lambda net: net.layer_norm(net.input(2, 3, 17)),
    "two convolutions": lambda net: net.conv(net.relu(net.conv(net.input(1, 4, 8, 6), 5)), 6, 1),
    "pointwise, then depthwise": lambda net: net.depthwise(net.relu(net.conv(net.input(1, 4, 8, 6), 5, 1))),
}


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=any_tiles(), order=st.sampled_from(get_args(Loops)))
def test_a_legal_program_of_any_tiles_computes_the_same(drawn: tuple[str, GpuTiles], order: Loops) -> None:
    name, tiles = drawn
    net = Net()
    graph = net.graph(DRAWN[name](net), dtype="fp32")
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    program, network = program_of(layer, tiles, 32), varied(graph)
    assume(not illegal(program, gpu_limits(VIEW)))

    code = gpu_function(layer, network, program, 32, "kernel", as_loops=order)
    assert difference(code, layer.outputs, graph, values_of(network)) <= KERNEL_TOLERANCE


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"))
def test_random_networks_compute_what_onnxruntime_computes(graph: Graph) -> None:
    check(fixed_pattern_plan(graph))


def generated(*outputs: Callable[[Net], str], language: Language = "cuda") -> tuple[GpuSchedule, GpuCode]:
    net = Net()
    schedule = scheduled(fixed_pattern_plan(net.graph(*(each(net) for each in outputs), dtype="fp32")))
    return schedule, generate_gpu(schedule, varied(schedule.graph), VIEW.spec.sms.warp, language=language)


def cuda(code: GpuCode) -> Any:
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    return tvm.tirx.build(code.module, target=target, pipeline=PIPELINE).imports[0].inspect_source()


def test_every_launch_is_one_function_with_the_blocks_and_threads_of_the_schedule() -> None:
    schedule, code = generated(block, FUSED["product"], FUSED["layer normalisation"])
    source = cuda(code)

    assert len(code.kernels) == schedule.kernels == len(code.module.functions)
    for kernel in code.kernels:
        threads = kernel.scheduled.tiles.threads(VIEW.spec.sms.warp)
        assert f"__launch_bounds__({threads}) {kernel.name}_kernel" in source


def test_shared_memory_in_the_source_is_what_the_schedule_says() -> None:
    _, code = generated(block, FUSED["product"], FUSED["depthwise convolution"])
    wanted = [block_needs(kernel.scheduled.layer, kernel.scheduled.tiles, VIEW).shared_bytes for kernel in code.kernels]
    stated = [4 * int(elements) for elements in re.findall(r"__shared__ .*? shared_ptr\w*\[(\d+)\]", cuda(code))]

    assert [kernel.code.shared_bytes for kernel in code.kernels] == wanted
    assert sorted(stated) == sorted(size for size in wanted if size)


def test_shared_memory_that_cuda_gives_on_demand_only_is_local_memory_in_opencl() -> None:
    net = Net()
    graph = net.graph(net.dense(net.input(1, 128, 512), 256), dtype="fp32")
    tiles = GpuTiles((1, 128, 128), (0, 1, 2), (1, 8, 8), 1, 32, 3, "lanes")
    layer = layer_of(Analysis(graph), (0,))
    assert layer is not None
    code = gpu_function(layer, varied(graph), program_of(layer, tiles, 32), 32, "kernel", language="opencl")
    built = tvm.tirx.build(tvm.IRModule({"kernel": code.function}), target={"kind": "opencl"}, pipeline=PIPELINE)

    assert code.shared_bytes == 3 * 2 * 128 * 32 * 4
    assert f"__local float shared_ptr[{code.shared_bytes // 4}]" in built.imports[0].inspect_source()


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

    with pytest.raises(ValueError, match="tensor units"):
        gpu_function(layer, varied(graph), program_of(layer, schedule, 32, V100.tensor("fp16")), 32, "kernel")


@pytest.mark.skipif(NVCC is None, reason="nvcc of the CUDA toolkit is not on the path")
def test_nvcc_compiles_every_kernel(tmp_path: Path) -> None:
    large = partial(Net.conv, channels=96)
    _, code = generated(*FUSED.values(), lambda net: large(net, net.input(1, 128, 28, 28)))
    source = tmp_path / "kernels.cu"
    source.write_text(cuda(code))
    command = [str(NVCC), "-cubin", "-arch=sm_90", "-O1", "-o", str(tmp_path / "kernels.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_opencl_has_the_same_kernels() -> None:
    _, code = generated(block, language="opencl")
    source = tvm.tirx.build(code.module, target=tvm.target.Target({"kind": "opencl"}), pipeline=PIPELINE)
    text = source.imports[0].inspect_source()

    assert all(f"__kernel void {kernel.name}_kernel" in text for kernel in code.kernels)
    assert "barrier(CLK_LOCAL_MEM_FENCE)" in text
