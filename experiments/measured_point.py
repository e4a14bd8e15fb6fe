"""A design point on a real device: the schedule that is simulated is also generated as code, run, and timed."""

from dataclasses import replace

from experiments.compared import Comparison, compared
from experiments.evaluate import evaluate, job_of
from experiments.job import Outcome
from experiments.points import DesignPoint
from hw_models import Cpu, HardwareError
from scheduler import network_of, policy_label
from scheduler.cpu.costs import CpuCosts
from scheduler.cpu.repeated import repeated_kernels
from scheduler.cpu.schedule import CpuSchedule
from tuner.measure import LOCAL, Budget, Job, MeasureError, check_installed, job_of_schedule, measure_plan

MEASURED_DTYPE = "fp32"


def as_measured(point: DesignPoint) -> DesignPoint:
    """Return ``point`` as it is measured: in single precision, with caches that the run before has left warm.

    Raises ``MeasureError`` for another dtype, and ``HardwareError`` for a machine that no code is generated for.
    """
    workload = point.workload
    if workload.dtype not in (None, MEASURED_DTYPE):
        raise MeasureError(f"dtype has {workload.dtype!r}; code is measured in fp32")
    if not isinstance(point.hardware, Cpu):
        raise HardwareError(f"{point.hardware.name}: is no CPU; code is generated and measured for CPUs")
    tuning = {**point.tuning, "warm_caches": True}
    return replace(point, workload=replace(workload, dtype=MEASURED_DTYPE), tuning=tuning)


def job_for(point: DesignPoint, target: str, budget: Budget, device: str = LOCAL) -> tuple[Outcome, CpuCosts, Job]:
    """Return the simulated run of ``point`` as measured, what its kernels cost, and the job of measuring them."""
    point = as_measured(point)
    outcome = evaluate(point)
    analysis, simulated = job_of(point.workload, point.hardware, point.tuning)
    costs = simulated.placing.costs(network_of(outcome.schedule.plan, analysis))
    assert isinstance(costs, CpuCosts)
    assert isinstance(outcome.schedule, CpuSchedule)
    return outcome, costs, job_of_schedule(outcome.schedule, costs.view, target, budget, device)


def measured(point: DesignPoint, target: str, budget: Budget, device: str = LOCAL) -> tuple[Outcome, Comparison]:
    """Return the simulated run of ``point`` and its measurement on a device beside it.

    Raises what `evaluate` and `measure_plan` raise.
    """
    check_installed()
    outcome, costs, job = job_for(point, target, budget, device)
    found = measure_plan(job, policy_label(point.policy))
    assert isinstance(outcome.schedule, CpuSchedule)
    simulated = repeated_kernels(outcome.schedule, costs)
    return outcome, compared(found, point.hardware.name, outcome.record.latency_s, outcome.schedule, simulated)
