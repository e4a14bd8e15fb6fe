"""Code for a GPU, compiled where none is: kernels by nvcc or as source, and what launches them as an object file.

For CUDA, ``PATH.cu`` holds the kernels and ``PATH.fatbin`` what nvcc makes of them: machine code for the architecture,
and PTX for later ones. For OpenCL, ``PATH.cl`` holds them. ``PATH.o`` has the functions that launch them through TVM's
runtime.
"""

import subprocess
from pathlib import Path

import tvm

from scheduler.gpu.schedule import GpuSchedule
from tuner.codegen.gpu.kernels import generate_gpu
from tuner.codegen.gpu.phases import Language
from tuner.measure.device import local_device
from tuner.measure.records import KernelMeasurement, Measurement
from tuner.measure.targets import cuda_architecture, gpu_target_description
from tuner.measure.worker import NETWORK
from workloads.executable import executable

PIPELINE = "tirx"
"""TVM's passes for functions that say all about threads and memories themselves."""
_LONGEST_S = 900


def compile_schedule(schedule: GpuSchedule, warp: int, target: str, path: Path) -> Measurement:
    """Write the kernels of ``schedule`` to files named ``path`` and a suffix; return them without times.

    Raises ``RuntimeError`` with what nvcc says of the code.
    """
    architecture = cuda_architecture(target)
    language: Language = "opencl" if architecture is None else "cuda"
    code = generate_gpu(schedule, executable(schedule.graph), warp, language=language)
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
        _compiled(written, path.with_name(f"{path.name}.fatbin"), architecture)
    kernels = [KernelMeasurement(kernel.name, kernel.operators) for kernel in code.kernels]
    kernels += [
        KernelMeasurement(lack.name, lack.operators, error=f"no code: {lack.reason}") for lack in code.missing
    ]
    network = KernelMeasurement(NETWORK, tuple(op.name for op in schedule.graph.ops))
    warnings = (f"compiled, not run: {path}.o launches the kernels in {written}", "no code uses tensor units")
    return Measurement(
        schedule.graph.name, schedule.policy, target, local_device(), 1, tuple(kernels), network, warnings
    )  # fmt: skip


def _compiled(source: Path, binary: Path, architecture: str) -> None:
    """Compile CUDA source to machine code for ``architecture``, and to PTX."""
    virtual = architecture.replace("sm_", "compute_")
    command = [
        "nvcc", "-fatbin", "-O3", "-gencode", f"arch={virtual},code=[{architecture},{virtual}]", "-o", str(binary),
        str(source),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise RuntimeError(f"nvcc refuses the code: {lines[-1] if lines else 'no reason given'}")
