"""Measurement of a design point on a real GPU: the simulated schedule is built into a bundle and run.

A GPU of this machine, or one behind TVM's RPC, runs the bundle in a temporary folder.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.replay import simulated
from dsascape.experiments.question.points import DesignPoint, MeasuredOn
from dsascape.experiments.question.processor import processor_of
from dsascape.experiments.real.bundled_point import bundled
from dsascape.experiments.real.compared import Comparison
from dsascape.experiments.real.measured_kind import (
    Asked,
    MeasuredKind,
    ProbesBundle,
    Setting,
    Written,
    as_measured,
    check_whole_batch,
    requested,
)
from dsascape.hw_models import AnyHardware, Gpu
from dsascape.scheduler import network_of
from dsascape.scheduler.gpu.kind import GPU
from dsascape.scheduler.gpu.repeated import repeated_kernels
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.kernels.repeated import RepeatedKernel
from dsascape.scheduler.kinds.any_kind import OpaqueKind
from dsascape.tuner.bundle import (
    BundleError,
    Manifest,
    build_gpu_bundle,
    build_gpu_probes,
    read_calibration,
    read_results,
    run_sent,
    run_unpacked,
    unpacked,
)
from dsascape.tuner.calibrate import Calibrated
from dsascape.tuner.codegen.names import launch_names, layers_of_launches
from dsascape.tuner.measure import (
    LOCAL,
    Budget,
    MeasureError,
    Measurement,
    check_installed,
    check_target,
    compile_for_gpu,
    cuda_architecture,
    remote_address,
)

_SCHEDULED = OpaqueKind(GPU)
_RESULTS = "results.json"
_MACHINES = {"sm_60": "p100", "sm_70": "v100", "sm_80": "a100", "sm_90": "h100"}
"""Default machines to tile for, by GPU architecture."""
_OTHER_MACHINE = "a100"
_OPENCL_MACHINE = "adreno640"
_LEFT_OUT = "tensor_units", "shared_reductions", "skips_masked", "folds_dequantisation"
"""Tuned numbers (`GpuTuning`) of what generated code does not do."""
_OF_CODE = {"as_generated": True, "vector_bytes": 4, "address_instructions": 5, "issue_cycles": 3.0}
"""Tuned numbers of what it does otherwise: loads move one element, and 8 to 13 integer instructions go with each copy,
counted in the machine code of three networks for sm_90. The 3 cycles between instructions of a warp were calibrated on
SqueezeNet's kernels on H100, with code that did more: of 0 to 5, their mean error was least with 2 and 3 (25 and 26 %).
Other networks were looked at with 0 and 3 before that was kept."""


def requested_gpu(hardware: str | None, target: str) -> Gpu:
    """Return the GPU to tile for; raise ``HardwareError`` if ``hardware`` is not a GPU."""
    architecture = cuda_architecture(target)
    usual = _OPENCL_MACHINE if architecture is None else _MACHINES.get(architecture.rstrip("a"), _OTHER_MACHINE)
    return requested(hardware or usual, Gpu, f"is not a GPU; target {target!r} needs one")


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

    @property
    def layers(self) -> dict[str, str]:
        """Name of each kernel's layer, by kernel name."""
        return layers_of_launches(self.schedule)


def prepared_for_gpu(point: DesignPoint) -> PreparedGpu:
    """Simulate ``point`` as its generated code runs: on lanes, in fp32, with the L2 warm from the run before.

    Launches are those of a CUDA graph, where the machine's file states what they cost.

    Raises ``MeasureError`` for another dtype, ``HardwareError`` for a target of other machines, and what `simulated`
    raises.
    """
    check_installed()
    point = as_measured(point, GPUS.of_code(point.hardware), on_gpu=True)
    outcome = simulated(point)
    check_whole_batch(outcome)
    schedule = _SCHEDULED.own_schedule(outcome.schedule)
    analysis, job = job_of(point.workload, point.hardware, point.tuning, kernels=point.kernels)
    costs = _SCHEDULED.own_costs(job.placing.costs(network_of(schedule.plan, analysis)))
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
    latency_s = ready.outcome.record.latency_s
    return Comparison(measurement, ready.point.hardware.name, latency_s, ready.kernels, ready.layers)


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


class _Gpus:
    """GPUs: a bundle is run in a folder of its own, on this machine or behind RPC."""

    has_libraries = False

    def setting(self, asked: Asked) -> Setting:
        """Return the machine and the device that a user asks for; none where this machine has no such GPU.

        Raises ``MeasureError`` for threads, whose number the schedule sets, and for an L2 that is to be flushed.
        """
        if asked.threads:
            raise MeasureError(f"threads has {asked.threads}; on a GPU the schedule sets their number")
        if asked.flush_caches:
            raise MeasureError("--flush-caches is for CPUs; a GPU's L2 is not flushed between runs")
        spec, name = requested_gpu(asked.hardware, asked.target), processor_of(asked.target, asked.device)
        is_there = bool(name) or asked.device != LOCAL
        return Setting(spec, MeasuredOn(asked.target, asked.device, name) if is_there else None)

    def tuning(self, machine: AnyHardware, threads: int | None, device: str, named: str) -> dict[str, object]:
        """Return nothing: the schedule sets the number of threads."""
        del machine, threads, device, named
        return {}

    def of_code(self, machine: AnyHardware) -> dict[str, object]:
        """Return a tuning of lanes alone, a warm L2, and launches of a graph where the machine states their cost."""
        in_graph = _SCHEDULED.own_spec(machine).graph_launch_ps is not None
        return {**dict.fromkeys(_LEFT_OUT, False), **_OF_CODE, "warm_l2": True, "graphs": in_graph}

    def is_only_written(self, point: DesignPoint, target: str, device: str, out: Path | None) -> bool:
        """Return whether no device measures; raise ``TargetError`` where there is no folder for files either."""
        if point.measured_on is not None:
            return False
        if out is None:
            check_target(target)
        return True

    def written(self, point: DesignPoint, target: str, path: Path) -> Written:
        """Write the code of a point to files: what `compiled_point` raises, it raises."""
        compared = compiled_point(point, target, path)
        return Written(compared.measurement, compared.as_json())

    def bundle(self, point: DesignPoint, out: Path, runtime: Path | None) -> Manifest:
        """Write the bundle of a point; raise ``BundleError`` for a runtime, and what `gpu_bundle` raises."""
        if runtime is not None:
            raise BundleError("--runtime is for processors; code for a GPU needs only its driver")
        ready = prepared_for_gpu(point)
        return gpu_bundle(ready, out, bundled(point, ready.outcome, ready.kernels, ready.layers, threads=1).to_text())

    def measured(self, point: DesignPoint, budget: Budget) -> tuple[Outcome, Comparison]:
        """Simulate a point and measure it on its device: what `measured_on_gpu` raises, it raises."""
        return measured_on_gpu(point, budget)

    def probes(self, hardware: str | None, target: str, out: Path, runtime: Path | None) -> ProbesBundle:
        """Write a bundle of probes; raise ``BundleError`` for a machine or a runtime, which they do not need."""
        given = [name for name, value in (("--hardware", hardware), ("--runtime", runtime)) if value]
        if given:
            raise BundleError(f"{given[0]} does not go with --calibrate for a GPU")
        manifest = build_gpu_probes(target, out)
        return ProbesBundle(manifest, manifest.gpu, {}, str(manifest.gpu))

    def calibrated(self, device: str, target: str, *, libraries: bool) -> Calibrated:
        """Return the facts and figures of a GPU, from the bundle of probes that another machine would run."""
        assert not libraries
        check_installed()
        if remote_address(device) is None:
            check_target(target)
        with tempfile.TemporaryDirectory() as folder:
            bundle = Path(folder) / "bundle.tar.xz"
            build_gpu_probes(target, bundle)
            return read_calibration(bundle_run(bundle, device)).machine


GPUS: MeasuredKind = _Gpus()
