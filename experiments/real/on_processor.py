"""Measurement of a design point on a real processor: the simulated schedule as code, run and timed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.replay import simulated
from dsascape.experiments.question.points import DesignPoint, MeasuredOn
from dsascape.experiments.real.compared import Comparison
from dsascape.hw_models import Cpu, HardwareError
from dsascape.scheduler import network_of
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.repeated import repeated_kernels
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.kernels.repeated import RepeatedKernel
from dsascape.tuner.codegen.names import kernel_name, layers_of_functions
from dsascape.tuner.measure import (
    Budget,
    Job,
    MeasureError,
    check_installed,
    is_gpu_target,
    job_of_schedule,
    measure_plan,
)
from dsascape.workloads.executable import check_single_precision

MEASURED_DTYPE = "fp32"


def as_measured(point: DesignPoint) -> DesignPoint:
    """Return ``point`` as it is measured: in fp32, with caches left warm by the run before, or flushed.

    Raises ``MeasureError`` for another dtype, and ``HardwareError`` for a machine that code is not generated for.
    """
    workload = point.workload
    if workload.dtype not in (None, MEASURED_DTYPE):
        raise MeasureError(f"dtype has {workload.dtype!r}; code is measured in fp32")
    if not isinstance(point.hardware, Cpu):
        raise HardwareError(f"{point.hardware.name}: is not a CPU; code is generated and measured for CPUs and GPUs")
    if is_gpu_target(_measured_on(point).target):
        raise HardwareError(f"{point.hardware.name}: is not a GPU; target {_measured_on(point).target!r} needs one")
    tuning = {**point.tuning, "folds_dequantisation": False, "warm_caches": not _measured_on(point).flush_caches}
    return replace(point, workload=replace(workload, dtype=MEASURED_DTYPE), tuning=tuning)


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

    @property
    def layers(self) -> dict[str, str]:
        """Name of each kernel's layer, by kernel name."""
        return layers_of_functions(self.outcome.schedule)


def prepared(point: DesignPoint, budget: Budget) -> Prepared:
    """Simulate ``point`` as it is measured; return the outcome and the job that measures its schedule.

    Raises what `simulated` raises, and ``MeasureError`` where TVM is not installed or the batch is computed in several
    iterations.
    """
    check_installed()
    point, on = as_measured(point), _measured_on(point)
    outcome = simulated(point)
    check_whole_batch(outcome)
    check_single_precision(outcome.schedule.plan.graph)
    analysis, simulated_job = job_of(point.workload, point.hardware, point.tuning, kernels=point.kernels)
    costs = simulated_job.placing.costs(network_of(outcome.schedule.plan, analysis))
    assert isinstance(costs, CpuCosts)
    assert isinstance(outcome.schedule, CpuSchedule)
    job = job_of_schedule(
        outcome.schedule, costs.view, on.target, budget, on.device, flush_caches=on.flush_caches
    )
    repeated = repeated_kernels(outcome.schedule, costs, flushed=on.flush_caches)
    plan = outcome.schedule.plan
    return Prepared(outcome, job, {kernel_name(plan, group): kernel for group, kernel in repeated.items()})


def check_whole_batch(outcome: Outcome) -> None:
    """Raise ``MeasureError`` for a schedule that takes several iterations: code is measured for the whole batch."""
    record = outcome.record
    if record.iterations > 1:
        raise MeasureError(
            f"the schedule takes {record.batch_at_once} of batch {record.batch} at once; code is measured for the whole"
            f" batch: --batch {record.batch_at_once}"
        )


def measured_on_processor(point: DesignPoint, budget: Budget) -> tuple[Outcome, Comparison]:
    """Simulate ``point`` and measure it on its device; return both results.

    Raises what `prepared` and `measure_plan` raise.
    """
    ready = prepared(point, budget)
    measurement = measure_plan(ready.job, point.decided_by)
    latency_s = ready.outcome.record.latency_s
    return ready.outcome, Comparison(measurement, point.hardware.name, latency_s, ready.kernels, ready.layers)
