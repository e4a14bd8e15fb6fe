"""Compilation for a GPU that need not be present: kernels by nvcc or as source, and an object file that launches them.

For CUDA, ``PATH.cu`` holds the kernels and ``PATH.fatbin`` their machine code for the architecture, with PTX for later
ones. For OpenCL, ``PATH.cl`` holds the kernels. ``PATH.o`` has the functions that launch them through TVM's runtime.
"""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.tirx.build import codegen_build, split_host_device_mods

from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.tuner.codegen.gpu.kernels import CodedKernel, GpuCode, generate_gpu
from dsascape.tuner.codegen.gpu.phases import Language
from dsascape.tuner.measure.device import local_device
from dsascape.tuner.measure.records import KernelMeasurement, Measurement
from dsascape.tuner.measure.targets import cuda_architecture, gpu_target_description
from dsascape.tuner.measure.worker import NETWORK
from dsascape.workloads.executable import Executable, executable

PIPELINE = "tirx"
"""Name of TVM's pipeline for functions that fix all threads and memories themselves."""
_BEHIND_NAME = "_ptr"
"""Suffix of TVM's name of a buffer's address."""
_LONGEST_S = 900


@dataclass(frozen=True)
class GpuSource:
    """Source text of a schedule's kernels for a GPU compiler."""

    text: str
    parameters: Mapping[str, tuple[int, ...]]
    """Per function of the text, the position of each parameter among its kernel's inputs and outputs."""


def entry(kernel: str) -> str:
    """Return the name of a kernel's function in GPU code."""
    return f"{kernel}_kernel"


def gpu_code(schedule: GpuSchedule, network: Executable, warp: int, target: str) -> GpuCode:
    """Generate the kernels of ``schedule`` for a GPU with warps of ``warp`` threads, in the target's language."""
    language: Language = "opencl" if cuda_architecture(target) is None else "cuda"
    return generate_gpu(schedule, network, warp, language=language)


def gpu_source(code: GpuCode, target: str) -> GpuSource:
    """Return the source text of all kernels; raise ``RuntimeError`` where a parameter is no tensor of its kernel."""
    description = tvm.target.Target(gpu_target_description(target))
    passes, _, last_passes = tvm.tirx.get_tir_pipeline(PIPELINE)
    bound = tvm.tirx.transform.BindTarget(description.with_host(tvm.target.Target("llvm")))(code.module)
    (on_gpu,) = split_host_device_mods(passes(bound))[1].values()
    functions = {variable.name_hint: function for variable, function in on_gpu.functions.items()}
    parameters = {entry(each.name): tuple(_places(each, functions[entry(each.name)])) for each in code.kernels}
    return GpuSource(codegen_build(last_passes()(on_gpu), description).inspect_source(), parameters)


def _places(kernel: CodedKernel, function: Any) -> Iterator[int]:
    """Yield the position of each GPU function parameter among the kernel's arguments; TVM sorts them by name."""
    places = {parameter.name: place for place, parameter in enumerate(kernel.code.function.params)}
    for parameter in function.params:
        name = parameter.name.removesuffix(_BEHIND_NAME)
        if name not in places:
            raise RuntimeError(f"{kernel.name} has the parameter {parameter.name}, which is none of its tensors")
        yield places[name]


def compile_schedule(schedule: GpuSchedule, warp: int, target: str, path: Path) -> Measurement:
    """Compile the kernels of ``schedule`` to files named ``path`` with suffixes; return them without times.

    Raises ``RuntimeError`` with nvcc's message.
    """
    architecture = cuda_architecture(target)
    code = gpu_code(schedule, executable(schedule.graph), warp, target)
    description = tvm.target.Target(gpu_target_description(target))
    module = tvm.tirx.build(code.module, target=description, pipeline=PIPELINE)
    module.write_to_file(str(path.with_name(f"{path.name}.o")), "o")
    source = module.imports[0].inspect_source()
    if architecture is None:
        written = path.with_name(f"{path.name}.cl")
        written.write_text(source)
    else:
        written = path.with_name(f"{path.name}.cu")
        written.write_text(source)
        compile_cuda(written, path.with_name(f"{path.name}.fatbin"), architecture)
    kernels = [KernelMeasurement(kernel.name, kernel.operators) for kernel in code.kernels]
    kernels += [
        KernelMeasurement(lack.name, lack.operators, error=f"no code: {lack.reason}") for lack in code.missing
    ]
    network = KernelMeasurement(NETWORK, tuple(op.name for op in schedule.graph.ops))
    warnings = (f"compiled, not run: {path}.o launches the kernels in {written}", "no code uses tensor units")
    return Measurement(
        schedule.graph.name, schedule.policy, target, local_device(), 1, tuple(kernels), network, warnings
    )  # fmt: skip


def compile_cuda(source: Path, binary: Path, architecture: str) -> None:
    """Compile CUDA source to machine code for ``architecture``, with PTX for later ones.

    Raises ``RuntimeError`` with nvcc's message.
    """
    virtual = architecture.replace("sm_", "compute_")
    command = [
        "nvcc", "-fatbin", "-O3", "-gencode", f"arch={virtual},code=[{architecture},{virtual}]", "-o", str(binary),
        str(source),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise RuntimeError(f"nvcc refuses the code: {lines[-1] if lines else 'no reason given'}")
