"""Measurement of a design point on a real GPU: the simulated schedule is built into a bundle and run.

A GPU of this machine, or one behind TVM's RPC, runs the bundle in a temporary folder.
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
from dsascape.tuner.codegen.names import launch_names, layers_of_functions
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
"""Default machines to tile for, by GPU architecture."""
_OTHER_MACHINE = "a100"
_OPENCL_MACHINE = "adreno640"
_LEFT_OUT = "tensor_units", "shared_reductions", "streams", "skips_masked", "folds_dequantisation"
"""Tuned numbers (`GpuTuning`) of what generated code does not do."""
_OF_CODE = {"vector_bytes": 4, "address_instructions": 5}
"""Tuned numbers of what it does otherwise: loads and copies move one element, and 8 to 13 integer instructions go with
each copy, counted in the machine code of three networks for sm_90."""


def requested_gpu(hardware: str | None, target: str) -> Gpu:
    """Return the GPU to tile for; raise ``HardwareError`` if ``hardware`` is not a GPU."""
    architecture = cuda_architecture(target)
    usual = _OPENCL_MACHINE if architecture is None else _MACHINES.get(architecture.rstrip("a"), _OTHER_MACHINE)
    spec = load_hardware(hardware or usual)
    if not isinstance(spec, Gpu):
        raise HardwareError(f"{spec.name}: is not a GPU; target {target!r} needs one")
    return spec


@dataclass(frozen=True)
class PreparedGpu:
    """A point simulated as its generated code runs, with the predicted time of each kernel by itself, by name."""

    point: DesignPoint
    outcome: Outcome
    schedule: GpuSchedule
    warp: int
    """Threads of a warp."""
    kernels: dict[str, RepeatedKernel]

    @property
    def device(self) -> str:
        """Address of the device that measures it."""
        return LOCAL if self.point.measured_on is None else self.point.measured_on.device


def prepared_for_gpu(point: DesignPoint) -> PreparedGpu:
    """Simulate ``point`` as its generated code runs: on lanes, in fp32, with the L2 warm from the run before.

    Launches are those of a CUDA graph, where the machine's file states what they cost.

    Raises ``MeasureError`` for another dtype and for a schedule that is not a sequence of kernels, ``HardwareError``
    for a target of other machines, and what `simulated` raises.
    """
    check_installed()
    workload, on = point.workload, point.measured_on
    if on is not None and not is_gpu_target(on.target):
        raise HardwareError(f"{point.hardware.name}: is a GPU; target {on.target!r} is for processors")
    if workload.dtype not in (None, MEASURED_DTYPE):
        raise MeasureError(f"dtype has {workload.dtype!r}; code is measured in {MEASURED_DTYPE}")
    spec = point.hardware
    in_graph = isinstance(spec, Gpu) and spec.graph_launch_ps is not None
    tuning = {**point.tuning, **dict.fromkeys(_LEFT_OUT, False), **_OF_CODE, "warm_l2": True, "graphs": in_graph}
    point = replace(point, workload=replace(workload, dtype=MEASURED_DTYPE), tuning=tuning)
    outcome = simulated(point)
    check_whole_batch(outcome)
    schedule = outcome.schedule
    if not isinstance(schedule, GpuSchedule):
        raise MeasureError(f"{outcome.record.policy}: its schedule is not a sequence of GPU kernels")
    analysis, job = job_of(point.workload, point.hardware, point.tuning, kernels=point.kernels)
    costs = job.placing.costs(network_of(schedule.plan, analysis))
    assert isinstance(costs, GpuCosts)
    names = launch_names(schedule.plan, [kernel.group for kernel in schedule.runs])
    kernels = dict(zip(names, repeated_kernels(schedule, costs), strict=True))
    return PreparedGpu(point, outcome, schedule, costs.view.spec.sms.warp, kernels)


def compiled_point(point: DesignPoint, target: str, path: Path) -> Comparison:
    """Write the code of ``point`` to files named ``path``; return its prediction.

    Raises what `prepared_for_gpu` and `compile_for_gpu` raise.
    """
    ready = prepared_for_gpu(point)
    measurement = compile_for_gpu(ready.schedule, ready.warp, target, path)
    return _beside(ready, measurement)


def gpu_bundle(ready: PreparedGpu, path: Path, origin: str = "") -> Manifest:
    """Write the bundle of a point for a GPU; ``origin`` is returned with the results.

    Raises what `build_gpu_bundle` raises.
    """
    point = ready.point
    assert point.measured_on is not None
    names = point.workload.label, point.decided_by
    return build_gpu_bundle(ready.schedule, ready.warp, point.measured_on.target, names, path, origin)


def measured_on_gpu(point: DesignPoint, budget: Budget) -> tuple[Outcome, Comparison]:
    """Simulate ``point`` and measure it on a GPU of this machine or behind RPC; return both results.

    Raises what `prepared_for_gpu`, `gpu_bundle` and `bundle_run` raise.
    """
    ready = prepared_for_gpu(point)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gpu_bundle(ready, folder / "bundle.tar.xz")
        limits = "--kernel-seconds", budget.kernel_s, "--network-seconds", budget.network_s
        options = [*map(str, limits), "--kernel-timeout", str(budget.limit_s)]
        measurement = read_results(bundle_run(folder / "bundle.tar.xz", ready.device, *options)).measurement
    return ready.outcome, _beside(ready, replace(measurement, device=replace(measurement.device, name=ready.device)))


def _beside(ready: PreparedGpu, measurement: Measurement) -> Comparison:
    layers = layers_of_functions(ready.schedule)
    return Comparison(measurement, ready.point.hardware.name, ready.outcome.record.latency_s, ready.kernels, layers)


def bundle_run(bundle: Path, device: str, *options: str) -> Path:
    """Run ``bundle`` on ``device``; return the path of the results file, beside the bundle.

    Raises ``RunnerError`` with the runner's message if there are no results, and what `run_sent` raises.
    """
    results = bundle.with_name(_RESULTS)
    if device == LOCAL:
        unpacked(bundle, bundle.parent)
        run_unpacked(bundle.parent, results, *options)
    else:
        run_sent(device, bundle, results, *options)
    return results
