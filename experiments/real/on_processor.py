"""Measurement of a design point on a real processor: the simulated schedule as code, run and timed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name

from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.replay import simulated
from dsascape.experiments.question.points import DesignPoint, MeasuredOn
from dsascape.experiments.question.processor import processor_of
from dsascape.experiments.real.bundled_point import bundled
from dsascape.experiments.real.compared import Comparison, with_layers
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
from dsascape.hw_models import AnyHardware, Cpu
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import network_of
from dsascape.scheduler.cpu.kind import CPU
from dsascape.scheduler.cpu.repeated import repeated_kernels
from dsascape.scheduler.cpu.schedule.schedule import as_it_runs
from dsascape.scheduler.kernels.repeated import RepeatedKernel
from dsascape.scheduler.kinds.any_kind import OpaqueKind
from dsascape.tuner.bundle import Manifest, build_bundle, build_probes
from dsascape.tuner.calibrate import CalibratedHost, ProbeShape, calibrate, host_spec, local_facts
from dsascape.tuner.codegen.names import kernel_name, layers_of_kernels
from dsascape.tuner.measure import (
    LOCAL,
    Budget,
    Job,
    MeasureError,
    Measurement,
    check_installed,
    compile_for,
    job_of_schedule,
    measure_plan,
    remote_address,
    runs_here,
    usable_cores,
)
from dsascape.wording import count
from dsascape.workloads.executable import check_single_precision

_SCHEDULED = OpaqueKind(CPU)
_OTHER_MACHINE = "kirin990"
"""Machine to tile for when code is for another architecture and no machine is given."""


def requested_cpu(hardware: str | None, target: str, threads: int = 0) -> Cpu:
    """Return the CPU to tile for: ``hardware``, or the machine that the target describes.

    A remote device that runs this machine's code is assumed to be like this machine, with one core per thread if
    ``threads`` is not 0. Raises ``HardwareError`` if ``hardware`` is not a CPU.
    """
    if hardware is None and runs_here(target):
        facts = local_facts()
        return host_spec(replace(facts, cores=threads) if threads else facts)
    return requested(hardware or _OTHER_MACHINE, Cpu, "is not a CPU; code is generated and measured for CPUs")


def threads_on(spec: Cpu, threads: int | None, device: str, named: str) -> int:
    """Return the number of threads: those asked for, or one per core, of those that this process may use.

    Raises ``MeasureError``, which begins with ``named``, for more than the machine has cores.
    """
    own = usable_cores() if device == LOCAL else spec.core_count
    chosen = threads or min(own, spec.core_count)
    if chosen > spec.core_count:
        raise MeasureError(f"{named} {chosen}; {spec.name} has {count(spec.core_count, 'core')}")
    return chosen


ELSEWHERE = "its cores lie elsewhere than when it was described"
"""Part of the warning that lines pass from core to core at another cost."""
_OTHER_PLACE = 2.0
"""Ratio of two costs of a line that passes from core to core from which on the cores lie elsewhere."""


def with_places_of_cores(measurement: Measurement, machine: Cpu) -> Measurement:
    """Return ``measurement``, with a warning where lines passed from core to core at another cost than on ``machine``.

    Virtual cores move: from one core complex to two, for instance, which share no cache.
    """
    handed_s = measurement.network.handed_line_s
    if handed_s is None or not machine.claimed_line_ps:
        return measurement
    stated_s = machine.claimed_line_ps / PS_PER_S
    if 1 / _OTHER_PLACE <= handed_s / stated_s <= _OTHER_PLACE:
        return measurement
    warning = (
        f"lines pass from core to core in {handed_s * 1e9:.1f} ns, {machine.name} has {stated_s * 1e9:.1f}:"
        f" {ELSEWHERE}, on which the time of a network on several threads depends"
    )
    return replace(measurement, warnings=(*measurement.warnings, warning))


def _measured_on(point: DesignPoint) -> MeasuredOn:
    assert point.measured_on is not None
    return point.measured_on


@dataclass(frozen=True)
class Prepared:
    """A simulated point with the job that measures it."""

    outcome: Outcome
    job: Job
    kernels: Mapping[str, RepeatedKernel]
    """Predicted time of each kernel run repeatedly by itself, by kernel name."""
    machine: Cpu
    """Processor that the schedule is for."""

    @property
    def layers(self) -> dict[str, str]:
        """Name of each kernel's layer, by kernel name."""
        return layers_of_kernels(self.outcome.schedule.plan)


def prepared(point: DesignPoint, budget: Budget) -> Prepared:
    """Simulate ``point`` as it is measured; return the outcome and the job that measures its schedule.

    Caches are left warm by the run before, or flushed. Raises what `simulated` and `as_measured` raise, and
    ``MeasureError`` where TVM is not installed or the batch is computed in several iterations.
    """
    check_installed()
    on = _measured_on(point)
    tuning = {**PROCESSORS.of_code(point.hardware), "warm_caches": not on.flush_caches}
    point = as_measured(point, tuning, on_gpu=False)
    outcome = simulated(point)
    check_whole_batch(outcome)
    check_single_precision(outcome.schedule.plan.graph)
    schedule = as_it_runs(_SCHEDULED.own_schedule(outcome.schedule))
    analysis, simulated_job = job_of(point.workload, point.hardware, point.tuning, kernels=point.kernels)
    costs = _SCHEDULED.own_costs(simulated_job.placing.costs(network_of(outcome.schedule.plan, analysis)))
    job = job_of_schedule(
        schedule, costs.view, on.target, budget, on.device, flush_caches=on.flush_caches
    )
    repeated = repeated_kernels(schedule, costs, flushed=on.flush_caches)
    plan = schedule.plan
    predicted = {kernel_name(plan, group): kernel for group, kernel in repeated.items()}
    return Prepared(outcome, job, predicted, costs.view.spec)


class _Processors:
    """CPUs: a process of this machine runs the code, or one behind RPC."""

    has_libraries = True

    def setting(self, asked: Asked) -> Setting:
        """Return the machine, the threads and the device that a user asks for."""
        spec = requested_cpu(asked.hardware, asked.target, 0 if asked.device == LOCAL else asked.threads or 0)
        tuning = self.tuning(spec, asked.threads, asked.device, "threads has")
        processor = processor_of(asked.target, asked.device)
        return Setting(spec, MeasuredOn(asked.target, asked.device, processor, asked.flush_caches), tuning)

    def tuning(self, machine: AnyHardware, threads: int | None, device: str, named: str) -> dict[str, object]:
        """Return the scheduler tuning for ``threads`` on ``device``; None: one per core."""
        return {"threads": threads_on(_SCHEDULED.own_spec(machine), threads, device, named)}

    def of_code(self, machine: AnyHardware) -> dict[str, object]:
        """Return a tuning in which a product does not dequantise its weights."""
        del machine  # the same for all
        return {"folds_dequantisation": False}

    def is_only_written(self, point: DesignPoint, target: str, device: str, out: Path | None) -> bool:
        """Return whether the target's code does not run on this machine, no other is given, and files are wanted."""
        return out is not None and remote_address(device) is None and not runs_here(target)

    def written(self, point: DesignPoint, target: str, path: Path) -> Written:
        """Write the code of a point to an object file; raise ``MeasureError`` for caches that are to be flushed."""
        if _measured_on(point).flush_caches:
            raise MeasureError(f"--flush-caches is for code that is timed; code for {target} is only written")
        ready = prepared(point, Budget())
        measurement = compile_for(ready.job, point.decided_by, Path(f"{path}.o"))
        return Written(measurement, with_layers(measurement.as_json(), ready.layers))

    def bundle(self, point: DesignPoint, out: Path, runtime: Path | None) -> Manifest:
        """Write the bundle of a point: what `prepared` and `build_bundle` raise, it raises."""
        ready = prepared(point, Budget())
        origin = bundled(point, ready.outcome, ready.kernels, ready.layers, ready.job.threads).to_text()
        return build_bundle(ready.job, point.workload.label, point.decided_by, out, runtime, origin)

    def measured(self, point: DesignPoint, budget: Budget) -> tuple[Outcome, Comparison]:
        """Simulate a point and measure it on its device: what `prepared` and `measure_plan` raise, it raises."""
        ready = prepared(point, budget)
        measurement = with_places_of_cores(measure_plan(ready.job, point.decided_by), ready.machine)
        latency_s = ready.outcome.record.latency_s
        return ready.outcome, Comparison(measurement, point.hardware.name, latency_s, ready.kernels, ready.layers)

    def probes(self, hardware: str | None, target: str, out: Path, runtime: Path | None) -> ProbesBundle:
        """Write a bundle of probes, whose shape is that of the vectors of the machine to tile for."""
        simd = requested_cpu(hardware, target).simd
        shape = ProbeShape.of(simd.register_bytes, simd.registers)
        manifest = build_probes(target, shape, out, runtime)
        made_for = {"lanes": shape.lanes, "registers": shape.registers}
        text = f"{manifest.architecture} with {count(shape.registers, 'vector')} of {shape.lanes}"
        return ProbesBundle(manifest, manifest.architecture, made_for, text)

    def calibrated(self, device: str, target: str, *, libraries: bool) -> CalibratedHost:
        """Return the facts and figures of a processor; ``libraries``: with what onnxruntime reaches there."""
        found = CalibratedHost(*calibrate(device, target))
        if not libraries:
            return found
        with_libraries = resolve_name("dsascape.experiments.real.library_efficiency:with_libraries")
        measured: CalibratedHost = with_libraries(found)  # only then is onnxruntime imported
        return measured


PROCESSORS: MeasuredKind = _Processors()
