"""From a design point to its figures: the one flow, graph to plan to schedule to program to trace."""

from functools import lru_cache
from typing import get_args

from experiments.decompose import run_decomposed
from experiments.job import Job, Outcome
from experiments.points import DesignPoint, Workload
from hw_models import AnyHardware, HardwareError, MatrixUnit
from hw_models.clustered_dsa import DType
from scheduler import TilingCache
from workloads import Graph, WorkloadError, load_network

__all__ = [
    "Outcome",
    "check_dtype",
    "default_dtype",
    "evaluate",
    "machine_dtypes",
    "own_batch",
    "share_of_cluster",
]

_PREFERRED: tuple[DType, ...] = ("fp16", "bf16", "fp32", "int8")


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
    job = Job(workload.label, batch, clusters, dtype)
    return run_decomposed(graph, hardware, point.policy, job, tilings)
