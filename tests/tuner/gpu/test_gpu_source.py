"""CUDA and OpenCL of a schedule have its blocks, threads and shared memory, and nvcc compiles them for a GPU."""

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

import tvm

from dsascape.fusion import fixed_pattern_plan
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.steps import program_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.work import grid_of
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.tuner.codegen.gpu.blocks import gpu_function
from dsascape.tuner.codegen.gpu.kernels import GpuCode, generate_gpu
from dsascape.tuner.codegen.gpu.phases import Language
from dsascape.tuner.on_device.cross_gpu import PIPELINE
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.scheduler.kernels.drawn import varied
from tests.tuner.gpu.looped import FUSED, VIEW, block, scheduled

pytestmark = pytest.mark.tvm

NVCC = shutil.which("nvcc")


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
        threads = grid_of(kernel.scheduled.layer, kernel.scheduled.steps, VIEW).needs.threads
        assert f"__launch_bounds__({threads}) {kernel.name}_kernel" in source


def test_shared_memory_in_the_source_is_what_the_schedule_says() -> None:
    _, code = generated(block, FUSED["product"], FUSED["depthwise convolution"])
    scheduled = [kernel.scheduled for kernel in code.kernels]
    wanted = [grid_of(kernel.layer, kernel.steps, VIEW).needs.shared_bytes for kernel in scheduled]
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


def source_of(graph: Graph, tiles: GpuTiles, *ops: int) -> str:
    layer = layer_of(Analysis(graph), ops)
    assert layer is not None
    code = gpu_function(layer, varied(graph), program_of(layer, tiles, 32), 32, "kernel")
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    module = tvm.tirx.build(tvm.IRModule({"kernel": code.function}), target=target, pipeline=PIPELINE)
    return str(module.imports[0].inspect_source())


def test_copies_run_behind_the_threads_and_are_waited_for_before_they_are_read() -> None:
    net = Net()
    graph = net.graph(net.dense(net.input(1, 32, 128), 32), dtype="fp32")
    source = source_of(graph, GpuTiles((1, 32, 32), (0, 1, 2), (1, 1, 4), 1, 16, 3, "lanes"), 0)
    body = source[source.rindex("kernel_kernel(") :]
    event = r"copy_\d_behind|close_copies|wait_for_all_but_\d|__syncthreads|held0_ptr\[0\] = \(|for \(int k"

    begun = ["copy_4_behind", "copy_4_behind", "close_copies"]
    assert re.findall(event, body) == [
        "__syncthreads", *begun, "__syncthreads", *begun, "wait_for_all_but_1", "__syncthreads", "for (int k",
        *begun, "for (int k", "held0_ptr[0] = (", "wait_for_all_but_1", "__syncthreads",
    ]  # fmt: skip


def test_neighbours_are_stored_several_at_a_time_where_they_divide() -> None:
    net = Net()
    graph = net.graph(net.dense(net.input(1, 32, 64), 96), dtype="fp32")

    def stores(columns: int) -> list[str]:
        source = source_of(graph, GpuTiles((1, 32, 8 * columns), (0, 1, 2), (1, 2, columns), 1, 16, 1, "lanes"), 0)
        return re.findall(r" (store_\d)\(\(", source)

    assert stores(12) == ["store_4"] * 6
    assert stores(6) == ["store_2"] * 6
    assert stores(3) == []
