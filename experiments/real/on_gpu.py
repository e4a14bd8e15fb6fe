"""A design point on a real GPU: the schedule that is simulated, as a bundle for a device with such a GPU.

A GPU of this machine, or of one behind TVM's RPC, runs the same bundle in a folder of its own.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.replay import simulated
from dsascape.experiments.question.points import DesignPoint
from dsascape.experiments.real.compared import Comparison
from dsascape.experiments.real.on_processor import MEASURED_DTYPE, check_whole_batch
from dsascape.hw_models import Gpu, HardwareError, load_hardware
from dsascape.scheduler import network_of
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.repeated import repeated_kernels
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.kernels.repeated import RepeatedKernel
from dsascape.tuner.bundle import Manifest, build_gpu_bundle, read_results, run_sent, run_unpacked, unpacked
from dsascape.tuner.codegen.names import launch_names
from dsascape.tuner.measure import (
    LOCAL,
    Budget,
    MeasureError,
    Measurement,
    check_installed,
    compile_for_gpu,
    cuda_architecture,
    is_gpu_target,
)

_RESULTS = "results.json"
_MACHINES = {"sm_60": "p100", "sm_70": "v100", "sm_80": "a100", "sm_90": "h100"}
"""Whose tiles code for an architecture has, unless a machine is given."""
_OTHER_MACHINE = "a100"
_OPENCL_MACHINE = "adreno640"


def gpu_asked_for(hardware: str | None, target: str) -> Gpu:
    """Return the GPU that tiles are chosen for; raise ``HardwareError`` for a machine that is none."""
    architecture = cuda_architecture(target)
    usual = _OPENCL_MACHINE if architecture is None else _MACHINES.get(architecture.rstrip("a"), _OTHER_MACHINE)
    spec = load_hardware(hardware or usual)
    if not isinstance(spec, Gpu):
        raise HardwareError(f"{spec.name}: is no GPU; target has {target!r}, whose tiles are chosen for one")
    return spec


@dataclass(frozen=True)
class PreparedGpu:
    """A point that is simulated as generated code runs it, and what is predicted of each kernel by itself, by name."""

    point: DesignPoint
    outcome: Outcome
    schedule: GpuSchedule
    kernels: dict[str, RepeatedKernel]

    @property
    def device(self) -> str:
        """Where it is measured."""
        return LOCAL if self.point.measured_on is None else self.point.measured_on.device


def prepared_for_gpu(point: DesignPoint) -> PreparedGpu:
    """Return the simulated run of ``point`` as code runs it: on lanes, in fp32, with an L2 that the last run left warm.

    Raises ``MeasureError`` for another dtype, and for a policy whose schedule is no row of kernels, ``HardwareError``
    for a target of other machines, and what `simulated` raises.
    """
    check_installed()
    workload, on = point.workload, point.measured_on
    if on is not None and not is_gpu_target(on.target):
        raise HardwareError(f"{point.hardware.name}: is a GPU; target has {on.target!r}, whose code processors run")
    if workload.dtype not in (None, MEASURED_DTYPE):
        raise MeasureError(f"dtype has {workload.dtype!r}; code is measured in {MEASURED_DTYPE}")
    tuning = {**point.tuning, "tensor_units": False, "shared_reductions": False, "warm_l2": True}
    point = replace(point, workload=replace(workload, dtype=MEASURED_DTYPE), tuning=tuning)
    outcome = simulated(point)
    check_whole_batch(outcome)
    schedule = outcome.schedule
    if not isinstance(schedule, GpuSchedule):
        raise MeasureError(f"{outcome.record.policy}: its schedule is not one of a GPU's grids")
    analysis, job = job_of(point.workload, point.hardware, point.tuning)
    costs = job.placing.costs(network_of(schedule.plan, analysis))
    assert isinstance(costs, GpuCosts)
    names = launch_names(schedule.plan, [kernel.group for kernel in schedule.runs])
    return PreparedGpu(point, outcome, schedule, dict(zip(names, repeated_kernels(schedule, costs), strict=True)))


def compiled_point(point: DesignPoint, target: str, path: Path) -> Comparison:
    """Write the code of ``point`` to files named ``path``; return what is predicted of it.

    Raises what `prepared_for_gpu` and `compile_for_gpu` raise.
    """
    ready = prepared_for_gpu(point)
    assert isinstance(point.hardware, Gpu)
    found = compile_for_gpu(ready.schedule, point.hardware.sms.warp, target, path)
    return _beside(ready, found)


def gpu_bundle(ready: PreparedGpu, path: Path, origin: str = "") -> Manifest:
    """Write the bundle of a point for a GPU; ``origin`` is brought back with results.

    Raises what `build_gpu_bundle` raises.
    """
    point = ready.point
    assert point.measured_on is not None
    assert isinstance(point.hardware, Gpu)
    names = point.workload.label, point.decided_by
    return build_gpu_bundle(ready.schedule, point.hardware.sms.warp, point.measured_on.target, names, path, origin)


def measured_on_gpu(point: DesignPoint, budget: Budget) -> tuple[Outcome, Comparison]:
    """Return the simulated run of ``point`` and its measurement on a GPU beside it: this machine's, or behind RPC.

    Raises what `prepared_for_gpu`, `gpu_bundle` and `bundle_run` raise.
    """
    ready = prepared_for_gpu(point)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gpu_bundle(ready, folder / "bundle.tar.xz")
        limits = "--kernel-seconds", budget.kernel_s, "--network-seconds", budget.network_s
        options = [*map(str, limits), "--kernel-timeout", str(budget.limit_s)]
        found = read_results(bundle_run(folder / "bundle.tar.xz", ready.device, *options)).measurement
    return ready.outcome, _beside(ready, replace(found, device=replace(found.device, name=ready.device)))


def _beside(ready: PreparedGpu, found: Measurement) -> Comparison:
    return Comparison(found, ready.point.hardware.name, ready.outcome.record.latency_s, ready.kernels)


def bundle_run(bundle: Path, device: str, *options: str) -> Path:
    """Run ``bundle`` on ``device``; return the file of results, beside the bundle.

    Raises ``RunnerError`` with what the runner complains of where there are none, and what `run_sent` raises.
    """
    results = bundle.with_name(_RESULTS)
    if device == LOCAL:
        unpacked(bundle, bundle.parent)
        run_unpacked(bundle.parent, results, *options)
    else:
        run_sent(device, bundle, results, *options)
    return results
