"""Compilation for a machine other than this one, to an object file for linking there."""

from pathlib import Path

import tvm

from dsascape.tuner.codegen.building import cpu_module
from dsascape.tuner.codegen.kernels import generate
from dsascape.tuner.measure.device import local_device
from dsascape.tuner.measure.job import Job
from dsascape.tuner.measure.records import KernelMeasurement, Measurement
from dsascape.tuner.measure.targets import target_description
from dsascape.tuner.measure.worker import NETWORK
from dsascape.tuner.on_device.places import own_processor
from dsascape.workloads.executable import executable


def compile_job(job: Job, policy: str, path: Path) -> Measurement:
    """Compile the kernels of ``job`` to the object file ``path``, one symbol each; return them without times."""
    plan = job.plan
    code = generate(plan, executable(plan.graph), job.chosen)
    target = target_description(job.target, job.threads, own_processor())
    module = cpu_module(code.module, tvm.target.Target(target))
    module.write_to_file(str(path), "o")
    compiled = {kernel.group: KernelMeasurement(kernel.name, kernel.operators) for kernel in code.kernels}
    failed = {
        missing.group: KernelMeasurement(missing.name, missing.operators, error=f"no code: {missing.reason}")
        for missing in code.missing
    }
    kernels = tuple(kernel for _, kernel in sorted((compiled | failed).items()))
    network = KernelMeasurement(NETWORK, tuple(op.name for op in plan.graph.ops))
    warnings = (f"compiled, not run: {path} holds the code",)
    return Measurement(plan.graph.name, policy, job.target, local_device(), job.threads, kernels, network, warnings)
