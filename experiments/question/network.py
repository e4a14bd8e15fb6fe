"""The network that a workload names, at its sizes and in its dtype, kept for the next point that asks for it."""

from functools import lru_cache
from typing import get_args

from dsascape.experiments.question.points import Workload
from dsascape.hw_models import AnyHardware, HardwareError
from dsascape.hw_models.common.spec_types import DType
from dsascape.scheduler import kind_of
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Batch


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
