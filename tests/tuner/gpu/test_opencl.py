"""Code for OpenCL, run by PoCL on this machine's processor: its work-items and barriers are real ones."""

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

import tvm

from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.tuner.codegen.gpu.kernels import CodedKernel, generate_gpu
from dsascape.tuner.codegen.kernels import network_array, stored_array
from dsascape.tuner.measure.targets import gpu_target_description
from dsascape.tuner.on_device.cross_gpu import PIPELINE
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE, deviation, largest
from dsascape.workloads import load_network
from dsascape.workloads.executable import Executable, executable
from dsascape.workloads.operators.registry import Array
from tests.graphs import Net
from tests.scheduler.kernels.drawn import varied
from tests.tuner.gpu.looped import FUSED, SEVERAL_SHAPES, schedule_on, scheduled, values_of, whole
from tests.tuner.gpu.pocl import OpenClLaunch, knows_processor, run_on_pocl

pytestmark = [
    pytest.mark.tvm,
    pytest.mark.skipif(find_spec("pyopencl") is None, reason="PoCL is not installed: pip install 'pyopencl[pocl]'"),
]

WARP = 32


@pytest.fixture(scope="module", autouse=True)
def known_processor(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip the tests on a processor that is newer than PoCL's compiler."""
    if not knows_processor(tmp_path_factory.mktemp("pocl")):
        pytest.skip("PoCL's compiler does not know this processor")


def differences(schedule: GpuSchedule, network: Executable, folder: Path) -> dict[str, float]:
    """Return by kernel how much it differs from onnxruntime, given onnxruntime's inputs."""
    graph, values = schedule.graph, values_of(network)
    code = generate_gpu(schedule, network, WARP, language="opencl")
    assert [(lack.name, lack.reason) for lack in code.missing] == []
    target = tvm.target.Target(gpu_target_description("opencl"))
    source = tvm.tirx.build(code.module, target=target, pipeline=PIPELINE).imports[0].inspect_source()
    arrays: list[Array] = []
    launches = []
    for kernel in code.kernels:
        first = len(arrays)
        arrays += [stored_array(graph, name, values[name]) for name in kernel.inputs]
        arrays += [np.full_like(stored_array(graph, name, values[name]), 7) for name in kernel.outputs]
        launches.append(_launch(kernel, source, first))
    left: list[Array] = run_on_pocl(source, launches, arrays, folder)
    found: dict[str, float] = {}
    for kernel in code.kernels:
        given, left = left[: len(kernel.inputs)], left[len(kernel.inputs) :]
        assert len(given) == len(kernel.inputs)
        made_of = largest(values[name] for name in kernel.inputs)
        got = {name: network_array(graph, name, array) for name, array in zip(kernel.outputs, left, strict=False)}
        found[kernel.name] = max(deviation(array, values[name], made_of) for name, array in got.items())
        left = left[len(kernel.outputs) :]
    return found


def _launch(kernel: CodedKernel, source: str, first: int) -> OpenClLaunch:
    """Return a kernel's launch; its arrays begin at ``first``, inputs before outputs."""
    entry = f"{kernel.name}_kernel"
    declared = re.search(rf"__kernel void {entry}\(([^)]*)\)", source)
    assert declared is not None
    places = {parameter.name: first + place for place, parameter in enumerate(kernel.code.function.params)}
    arguments = [argument.split()[-1].removesuffix("_ptr") for argument in declared[1].split(",")]
    return OpenClLaunch(entry, kernel.code.blocks, kernel.code.threads, tuple(places[name] for name in arguments))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FUSED)
def test_a_kernel_computes_what_onnxruntime_computes(name: str, tmp_path: Path) -> None:
    net = Net()
    plan = whole(net.graph(FUSED[name](net), dtype="fp32"))
    found = differences(scheduled(plan), varied(plan.graph), tmp_path)

    assert max(found.values()) <= KERNEL_TOLERANCE


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SEVERAL_SHAPES)
def test_a_kernel_stores_results_of_several_shapes(name: str, tmp_path: Path) -> None:
    build, _ = SEVERAL_SHAPES[name]
    plan = whole(build(Net()))
    found = differences(scheduled(plan), varied(plan.graph), tmp_path)

    assert max(found.values()) <= KERNEL_TOLERANCE


@pytest.mark.night
@pytest.mark.parametrize("policy", ["fixed-pattern", "dnnfusion"])
def test_every_kernel_of_a_network_computes_what_onnxruntime_computes(policy: str, tmp_path: Path) -> None:
    schedule = schedule_on("h100", policy, load_network("bert-tiny").with_dtype("fp32"))
    found = differences(schedule, executable(schedule.graph), tmp_path)

    assert {kernel: by for kernel, by in found.items() if by > KERNEL_TOLERANCE} == {}
