"""From a design point to its figures: the one flow, graph to plan to schedule to program to trace."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from experiments.points import DesignPoint, RunRecord, Workload
from hw_models import AnyHardware, HardwareError, MatrixUnit, Program, SimulationResult, simulate
from hw_models.clustered_dsa import DType
from hw_models.quantities import PS_PER_S
from scheduler import Policy, Schedule, ScheduleError, TilingCache, lower, policy_label
from workloads import Graph, WorkloadError, load_network

_PREFERRED: tuple[DType, ...] = ("fp16", "bf16", "fp32", "int8")


@dataclass(frozen=True)
class Outcome:
    """A design point with everything that was made on the way."""

    record: RunRecord
    schedule: Schedule
    program: Program
    result: SimulationResult


def default_dtype(hardware: AnyHardware) -> str:
    """Return what networks are computed in on this machine unless told otherwise: fp16 where it has it."""
    return next((dtype for dtype in _PREFERRED if dtype in machine_dtypes(hardware)), "fp32")


def machine_dtypes(hardware: AnyHardware) -> frozenset[str]:
    """Return the dtypes that some vector unit and, if there are any, some matrix unit computes."""
    matrix = [set(u.macs_per_cycle) for u in hardware.units.values() if isinstance(u, MatrixUnit)]
    vector = [set(u.lanes) for u in hardware.units.values() if not isinstance(u, MatrixUnit)]
    every = set().union(*vector)
    return frozenset(every & set().union(*matrix) if matrix else every)


def check_dtype(dtype: str, hardware: AnyHardware) -> str:
    """Return ``dtype`` if the machine computes it, else raise ``HardwareError``."""
    if dtype not in get_args(DType):
        raise HardwareError(f"dtype has {dtype!r}; needs one of: {', '.join(get_args(DType))}")
    if dtype not in machine_dtypes(hardware):
        known = ", ".join(sorted(machine_dtypes(hardware)))
        raise HardwareError(f"{hardware.name} does not compute {dtype}; it computes: {known}")
    return dtype


@lru_cache(maxsize=32)
def _network(workload: Workload, batch: int, dtype: str) -> Graph:
    """Return the network at the batch of one cluster, cast."""
    graph = load_network(workload.model, batch=batch, sequence=workload.sequence, simplify=workload.simplify)
    return graph.with_dtype(dtype)


@lru_cache(maxsize=256)
def own_batch(model: str) -> int:
    """Return the batch that a network has unless told otherwise."""
    return load_network(model).batch


def share_of_cluster(batch: int, clusters: int) -> tuple[int, int]:
    """Return (clusters in use, batch of each): as even as can be; a share that is not full is padded."""
    if batch < 1:
        raise WorkloadError(f"batch has {batch}; needs at least 1")
    share = -(-batch // min(batch, clusters))
    return -(-batch // share), share


def evaluate(point: DesignPoint, tilings: TilingCache | None = None) -> Outcome:
    """Return the outcome of ``point``.

    The batch is split over the clusters, which then do the same; where it does not divide, the last share is
    padded. Raises ``WorkloadError``, ``HardwareError``, ``ScheduleError`` or ``SimulationError`` for what the
    user has to mend.
    """
    workload, hardware = point.workload, point.hardware
    dtype = check_dtype(workload.dtype or default_dtype(hardware), hardware)
    batch = workload.batch if workload.batch is not None else own_batch(workload.model)
    clusters, share = share_of_cluster(batch, hardware.clusters)
    graph = _network(workload, share, dtype)
    return run_graph(graph, hardware, point.policy, Job(workload.label, batch, clusters, dtype), tilings)


@dataclass(frozen=True, slots=True)
class Job:
    """What is run where: names and sizes that the record states."""

    label: str
    batch: int
    clusters: int
    dtype: str


def run_graph(
    graph: Graph, hardware: AnyHardware, policy: Policy, job: Job, tilings: TilingCache | None = None
) -> Outcome:
    """Return the outcome of one cluster's ``graph`` on ``job.clusters`` clusters."""
    started = time.perf_counter()
    schedule = _scheduled(graph, hardware, policy, job.dtype)
    program = lower(schedule, hardware, job.clusters, tilings)
    result = simulate(program, hardware)
    latency_s = result.makespan_ps / PS_PER_S
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
        energy_j=result.energy_j,
        kernels=schedule.kernels,
        traffic_bytes=dict(result.traffic_bytes),
        utilisation=_rounded(result.utilisation),
        peak_occupancy_bytes=dict(result.peak_occupancy_bytes),
        tensor_scopes=dict(schedule.tensor_scopes),
        bottleneck=result.bottleneck,
        simulated_events=result.simulated_events,
        wall_s=time.perf_counter() - started,
    )
    return Outcome(record, schedule, program, result)


def _scheduled(graph: Graph, hardware: AnyHardware, policy: Policy, dtype: str) -> Schedule:
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
