"""One network on one machine under one policy, at one batch per cluster: schedule, program, trace, record."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.points import RunRecord
from hw_models import AnyHardware, HardwareError, Program, SimulationResult, simulate
from hw_models.quantities import PS_PER_S
from scheduler import Policy, Schedule, ScheduleError, TilingCache, lower, policy_label
from workloads import Graph, WorkloadError


@dataclass(frozen=True)
class Outcome:
    """A design point with everything that was made on the way."""

    record: RunRecord
    schedule: Schedule
    program: Program
    result: SimulationResult
    """Of one iteration."""
    iterations: int = 1
    batch_per_cluster: int = 0
    """What a cluster takes at once; 0 stands for its whole share."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is run where: names and sizes that the record states."""

    label: str
    batch: int
    clusters: int
    dtype: str
    iterations: int = 1
    """How often each cluster runs its graph, one after the other."""


def run_graph(
    graph: Graph, hardware: AnyHardware, policy: Policy, job: Job, tilings: TilingCache | None = None
) -> Outcome:
    """Return the outcome of one cluster's ``graph`` on ``job.clusters`` clusters."""
    started = time.perf_counter()
    schedule = scheduled(graph, hardware, policy, job.dtype)
    program = lower(schedule, hardware, job.clusters, tilings)
    result = simulate(program, hardware)
    latency_s = result.makespan_ps / PS_PER_S * job.iterations
    if not latency_s:
        raise WorkloadError(f"{graph.name}: there is nothing to compute")
    record = RunRecord(
        model=job.label,
        hardware=hardware.name,
        policy=policy_label(policy),
        batch=job.batch,
        dtype=job.dtype,
        latency_s=latency_s,
        throughput_per_s=job.batch / latency_s,
        energy_j=result.energy_j * job.iterations,
        kernels=schedule.kernels * job.iterations,
        traffic_bytes={name: size * job.iterations for name, size in result.traffic_bytes.items()},
        utilisation=_rounded(result.utilisation),
        peak_occupancy_bytes=dict(result.peak_occupancy_bytes),
        tensor_scopes=dict(schedule.tensor_scopes),
        bottleneck=result.bottleneck,
        simulated_events=result.simulated_events,
        wall_s=time.perf_counter() - started,
    )
    return Outcome(record, schedule, program, result)


def scheduled(graph: Graph, hardware: AnyHardware, policy: Policy, dtype: str) -> Schedule:
    """Return the policy's schedule; whatever goes wrong in somebody else's policy is a ``ScheduleError``."""
    try:
        return policy.schedule(graph, hardware, dtype)
    except (WorkloadError, HardwareError, ScheduleError):
        raise
    except Exception as error:
        if type(policy).__module__.startswith("scheduler."):
            raise
        raise ScheduleError(f"policy {policy.name} fails: {type(error).__name__}: {error}") from error


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 9) for name, share in shares.items()}
