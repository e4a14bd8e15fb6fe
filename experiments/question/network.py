"""Networks of workloads, loaded at their sizes and dtype and cached."""


from dsascape.experiments.question.points import Workload
from dsascape.hw_models import AnyHardware, HardwareError
from dsascape.hw_models.common.spec_types import NETWORK_DTYPES
from dsascape.hw_models.text.messages import nearest
from dsascape.scheduler import kind_of
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Batch
from dsascape.workloads.memo import memoized_in_process


def default_dtype(hardware: AnyHardware) -> str:
    """Return the default dtype on this machine: fp16, on CPUs fp32, or the next that it supports."""
    kind = kind_of(hardware)
    return next((dtype for dtype in kind.preferred_dtypes if dtype in kind.dtypes(hardware)), "fp32")


def check_dtype(dtype: str, hardware: AnyHardware) -> str:
    """Return ``dtype`` if the machine supports it; raise ``HardwareError`` otherwise."""
    if dtype not in NETWORK_DTYPES:
        meant = nearest(dtype.lower().replace("float", "fp").replace("bfp", "bf"), NETWORK_DTYPES)
        raise HardwareError(f"dtype has {dtype!r}{meant}; needs one of: {', '.join(NETWORK_DTYPES)}")
    if dtype not in kind_of(hardware).dtypes(hardware):
        supported = ", ".join(sorted(kind_of(hardware).dtypes(hardware)))
        raise HardwareError(f"{hardware.name} does not compute {dtype}; it computes: {supported}")
    return dtype


@memoized_in_process(32)
def network(workload: Workload, batch: int, dtype: str) -> Analysis:
    """Return the analysis of the network at one cluster's batch, in ``dtype``; cached."""
    if workload.dims and workload.model.endswith(".onnx"):  # sizes that are stated may be the whole batch's
        return Analysis(load(workload, workload.batch).with_batch(batch).with_dtype(dtype))
    return Analysis(load(workload, batch).with_dtype(dtype))


@memoized_in_process(256)
def own_batch(workload: Workload) -> Batch:
    """Return the batch of the network, its own where the workload states none, with its dimensions; cached."""
    graph = load(workload, workload.batch)
    return Batch(graph.batch, graph.batch_dims, graph.no_batch)


def load(workload: Workload, batch: int | None) -> Graph:
    """Load the workload's network at its sizes and at ``batch`` (None: the network's own)."""
    return load_network(
        workload.model,
        batch=batch,
        sequence=workload.sequence,
        simplify=workload.simplify,
        dims=workload.dimensions,
        image=workload.image,
        batch_dims=None if workload.batch_dims is None else dict(workload.batch_dims),
    )
