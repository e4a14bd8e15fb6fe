"""Evaluation of a design point: graph, plan, schedule, program, trace, figures."""

from collections.abc import Mapping
from dataclasses import replace

from dsascape.experiments.point.clusters_in_use import run_on_best_clusters, share_of_cluster, sharing_kernels
from dsascape.experiments.point.job import Job, Outcome
from dsascape.experiments.point.language import pass_of
from dsascape.experiments.question.network import check_dtype, default_dtype, network, own_batch
from dsascape.experiments.question.pinned import pins_on
from dsascape.experiments.question.points import DesignPoint, Workload, WrittenKernels
from dsascape.experiments.question.tuned_kernels import kernel_file
from dsascape.hw_models import AnyHardware
from dsascape.scheduler import Placing, kind_of, make_tuning
from dsascape.workloads.analysis import Analysis


def job_of(
    workload: Workload,
    hardware: AnyHardware,
    tuning: Mapping[str, object],
    cache: object = None,
    at_work: int | None = None,
    kernels: WrittenKernels | None = None,
    *,
    shares_kernels: bool = False,
) -> tuple[Analysis, Job]:
    """Return the network of one cluster and its job; ``cache`` is a cache shared by the points of one machine.

    ``at_work`` is the number of parts in use, where the machine supports it; by default all are. With
    ``shares_kernels`` they share every kernel of the whole batch, else the images.

    The batch is split evenly over the clusters; where it does not divide, the last share is padded. Raises
    ``WorkloadError``, ``HardwareError``, ``ScheduleError`` or ``SimulationError`` for mistakes of the user.
    """
    dtype = check_dtype(default_dtype(hardware) if workload.dtype is None else workload.dtype, hardware)
    requested = workload.batch if workload.model.endswith(".onnx") else None
    own = own_batch(replace(workload, batch=requested, dtype=None))
    batch = own.size if workload.batch is None else workload.batch
    kind = kind_of(hardware)
    counts = kind.parts(hardware), *kind.fewer_parts(hardware)
    tried = [share_of_cluster(batch, parts, own) for parts in counts]
    clusters, share = next((each for each in tried if each[0] == at_work), tried[0])
    placing = Placing(
        hardware=hardware, parts=clusters, dtype=dtype, tuning=make_tuning(hardware, tuning), cache=cache,
        kernels=None if kernels is None else kernel_file(kernels, hardware),
    )  # fmt: skip
    job = Job(workload.label, batch, placing, passed=pass_of(workload))
    if shares_kernels and kind.ways_to_share(placing.tuning).kernels is not None:
        share, job = batch, sharing_kernels(job, at_work if at_work in counts else counts[0])
    return network(workload, share, dtype), job


def evaluate(point: DesignPoint, cache: object = None) -> Outcome:
    """Simulate ``point`` and return the outcome; raises what `job_of` raises."""
    analysis, job = job_of(point.workload, point.hardware, point.tuning, cache, kernels=point.kernels)
    if point.pins is not None:
        job = replace(job, placing=replace(job.placing, pins=pins_on(point.pins, point.hardware)))
    return run_on_best_clusters(analysis, point.policy, job)
