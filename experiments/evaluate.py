"""From a design point to its figures: the one flow, graph to plan to schedule to program to trace."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import get_args

from experiments.job import Job, Outcome
from experiments.points import DesignPoint, Workload
from experiments.shared_out import run_shared_out, share_of_cluster
from hw_models import AnyHardware, HardwareError
from hw_models.spec_types import DType
from scheduler import Placing, kind_of, make_tuning
from workloads import Graph, load_network
from workloads.analysis import Analysis
from workloads.graph import Batch

__all__ = [
    "Outcome",
    "check_dtype",
    "default_dtype",
    "evaluate",
    "job_of",
    "load",
    "network",
    "own_batch",
    "share_of_cluster",
]

def default_dtype(hardware: AnyHardware) -> str:
    """Return what networks are computed in on this machine unless told otherwise: fp16, on CPUs fp32."""
    kind = kind_of(hardware)
    return next((dtype for dtype in kind.preferred_dtypes if dtype in kind.dtypes(hardware)), "fp32")


def check_dtype(dtype: str, hardware: AnyHardware) -> str:
    """Return ``dtype`` if the machine computes it, else raise ``HardwareError``."""
    if dtype not in get_args(DType):
        raise HardwareError(f"dtype has {dtype!r}; needs one of: {', '.join(get_args(DType))}")
    if dtype not in kind_of(hardware).dtypes(hardware):
        known = ", ".join(sorted(kind_of(hardware).dtypes(hardware)))
        raise HardwareError(f"{hardware.name} does not compute {dtype}; it computes: {known}")
    return dtype


@lru_cache(maxsize=32)
def network(workload: Workload, batch: int, dtype: str) -> Analysis:
    """Return the network at the batch of one cluster, cast, with what has been derived from it."""
    return Analysis(load(workload, batch).with_dtype(dtype))


@lru_cache(maxsize=256)
def own_batch(workload: Workload) -> Batch:
    """Return the batch that a network has unless told otherwise."""
    graph = load(workload, None)
    return Batch(graph.batch, graph.batch_dims, graph.no_batch)


def load(workload: Workload, batch: int | None) -> Graph:
    """Return the network at the sizes that the workload asks for, the batch aside."""
    return load_network(
        workload.model,
        batch=batch,
        sequence=workload.sequence,
        simplify=workload.simplify,
        dims=dict(workload.dims),
        image=workload.image,
        batch_dims=None if workload.batch_dims is None else dict(workload.batch_dims),
    )


def job_of(
    workload: Workload,
    hardware: AnyHardware,
    tuning: Mapping[str, object],
    known: object = None,
    at_work: int | None = None,
) -> tuple[Analysis, Job]:
    """Return the network of one cluster and the job that it is; ``known`` is kept between points of one machine.

    ``at_work``: how many parts share out the batch, if that is a number that is tried on this machine; else all do.

    The batch is split over the clusters, which then do the same; where it does not divide, the last share is
    padded. Raises ``WorkloadError``, ``HardwareError``, ``ScheduleError`` or ``SimulationError`` for what the
    user has to mend.
    """
    dtype = check_dtype(workload.dtype or default_dtype(hardware), hardware)
    own = own_batch(replace(workload, batch=None, dtype=None))
    batch = own.size if workload.batch is None else workload.batch
    kind = kind_of(hardware)
    counts = kind.parts(hardware), *kind.fewer_parts(hardware)
    tried = [share_of_cluster(batch, parts, own.missing) for parts in counts]
    clusters, share = next((each for each in tried if each[0] == at_work), tried[0])
    placing = Placing(
        hardware=hardware, parts=clusters, dtype=dtype, tuning=make_tuning(hardware, tuning), known=known
    )
    return network(workload, share, dtype), Job(workload.label, batch, placing)


def evaluate(point: DesignPoint, known: object = None) -> Outcome:
    """Return the outcome of ``point``; raise what `job_of` raises."""
    analysis, job = job_of(point.workload, point.hardware, point.tuning, known)
    return run_shared_out(analysis, point.policy, job)
