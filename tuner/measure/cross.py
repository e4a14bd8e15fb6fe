"""Code for a machine that is not this one: compiled, and written as an object file to be linked there."""

from pathlib import Path

from fusion.plan import FusionPlan
from tuner.measure.device import local_device
from tuner.measure.records import KernelMeasurement, Measurement
from tuner.measure.targets import code_target
from tuner.measure.worker import NETWORK
from workloads.executable import executable


def compile_plan(plan: FusionPlan, policy: str, target: str, threads: int, path: Path) -> Measurement:
    """Write the kernels of ``plan`` to the object file ``path``, a symbol each; return them without times."""
    import tvm  # noqa: PLC0415 - heavy

    from tuner.codegen.kernels import generate  # noqa: PLC0415 - imports tvm

    described = code_target(target, threads)
    code = generate(plan, executable(plan.graph), described.core)
    module = tvm.tirx.build(code.module, target=tvm.target.Target(described.description))
    module.write_to_file(str(path), "o")
    compiled = {kernel.group: KernelMeasurement(kernel.name, kernel.operators) for kernel in code.kernels}
    failed = {
        missing.group: KernelMeasurement(missing.name, missing.operators, error=f"no code: {missing.reason}")
        for missing in code.missing
    }
    kernels = tuple(kernel for _, kernel in sorted((compiled | failed).items()))
    network = KernelMeasurement(NETWORK, tuple(op.name for op in plan.graph.ops))
    warnings = (f"compiled, not run: {path} holds the code",)
    return Measurement(plan.graph.name, policy, target, local_device(), threads, kernels, network, warnings)
