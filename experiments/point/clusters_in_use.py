"""Number of clusters at work, and what they share: the batch or, where it has too few images, every kernel.

Clusters that share off-chip memory each load the weights from it, so with few images each they may take longer than
half as many clusters with twice the images. All clusters are tried first; fewer only where the time saved on off-chip
memory could pay. A batch with fewer images than there are clusters leaves clusters idle, and a branch that depends on
no image is repeated by every cluster; then clusters are also simulated sharing every kernel, and the faster way is
taken. The record (``parts_at_work``, ``parts_share``) and the schedule state the outcome.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from dsascape.experiments.point.decompose import prescribes_batches, run_decomposed
from dsascape.experiments.point.job import Job, Outcome
from dsascape.hw_models import SimulationError
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import Policy, ScheduleError
from dsascape.workloads import Graph, WorkloadError
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.batch.counting import operations_at
from dsascape.workloads.graph import Batch

_WORTHWHILE = 0.99
"""Fewer parts are tried only where their lower bound is below this fraction of the best latency."""
_MOST_REPEATED = 0.05
"""Share of the arithmetic that parts may repeat, each for its own images, without trying shared kernels."""
_WEIGHTS_READ = 2
"""Assumed number of times that weights are loaded: instances of a sub-graph load them anew."""


def share_of_cluster(batch: int, clusters: int, own: Batch | None = None) -> tuple[int, int]:
    """Return (clusters in use, batch of each), as even as possible; a share that is not full is padded.

    ``own`` is the network's batch, None for one that takes any. Where it cannot change, one cluster takes it whole.
    Raises ``WorkloadError`` for a batch that the network cannot have.
    """
    if batch < 1:
        raise WorkloadError(f"batch has {batch}; needs at least 1")
    if own is not None and own.missing:
        if batch != own.size:
            reason = f"{own.missing}; name its dimension with --batch-dim"
            raise WorkloadError(f"has no batch that can become {batch}: {reason}")
        return 1, batch
    share = -(-batch // min(batch, clusters))
    return -(-batch // share), share


def run_on_best_clusters(analysis: Analysis, policy: Policy, job: Job) -> Outcome:
    """Simulate the batch of ``job`` in each way that parts may share the network; return the fastest.

    ``analysis`` is the network at one part's batch with all parts at work. Parts do not share kernels, and fewer parts
    are not tried, where the policy sets ``batches_per_cluster`` to a number. Raises what `run_decomposed` raises.
    """
    placing, kind = job.placing, job.placing.kind
    ways = kind.ways_to_share(placing.tuning)
    lack_images = job.batch < kind.parts(placing.hardware) or bool(analysis.graph.no_batch)
    repeat_work = _repeated_share(analysis.graph, placing.parts) > _MOST_REPEATED
    by_batch = replace(job, placing=replace(placing, tuning=ways.batch))
    if not (lack_images or repeat_work) or prescribes_batches(policy) or ways.kernels is None:
        return _sharing_batch(analysis, policy, by_batch)
    network = analysis if analysis.graph.batch == job.batch else analysis.of(_with_batch, job.batch)
    counts = kind.parts(placing.hardware), *kind.fewer_parts(placing.hardware)
    several = [parts for parts in counts if 1 < parts <= ways.most_parts]
    tries = [partial(run_decomposed, network, policy, sharing_kernels(job, parts)) for parts in several]
    if not (ways.is_forced and lack_images) or not several:
        tries.insert(0, partial(_sharing_batch, analysis, policy, by_batch))
    tried: list[Outcome] = []
    refusals: list[Exception] = []
    for attempt in tries:
        try:
            tried.append(attempt())
        except (ScheduleError, SimulationError) as error:
            refusals.append(error)
    if not tried:  # sharing every kernel, all parts together need the least memory
        raise refusals[min(1, len(refusals) - 1)]
    return min(tried, key=lambda outcome: outcome.record.latency_s)


def sharing_kernels(job: Job, parts: int) -> Job:
    """Return ``job`` with ``parts`` of its machine, which share every kernel."""
    tuning = job.placing.kind.ways_to_share(job.placing.tuning).kernels
    return replace(job, placing=replace(job.placing, parts=parts, tuning=tuning), shares_kernels=True)


def _sharing_batch(analysis: Analysis, policy: Policy, job: Job) -> Outcome:
    """Simulate the batch of ``job``, shared by all parts of the machine, and by fewer where that may pay."""
    best = run_decomposed(analysis, policy, job)
    if prescribes_batches(policy):
        return best
    tried = [best]
    for parts, share in _fewer(job):
        if max(_least_s(each, parts) for each in tried) >= best.record.latency_s * _WORTHWHILE:
            continue
        fewer = replace(job, placing=replace(job.placing, parts=parts))
        try:
            outcome = run_decomposed(analysis.of(_with_batch, share), policy, fewer)
        except (ScheduleError, SimulationError, WorkloadError):
            continue
        tried.append(outcome)
        best = min(best, outcome, key=lambda outcome: outcome.record.latency_s)
    return best


def _repeated_share(graph: Graph, parts: int) -> float:
    """Return the share of the multiply-accumulates of ``parts`` that repeat those of a branch without the batch."""
    once = operations_at(graph, graph.batch * parts).macs
    return 1 - once / (graph.operations.macs * parts) if graph.operations.macs else 0.0


def _fewer(job: Job) -> Iterator[tuple[int, int]]:
    """Yield (parts, share of each) for the smaller numbers of parts that the machine supports, largest first."""
    before, kind = job.placing.parts, job.placing.kind
    for parts in kind.fewer_parts(job.placing.hardware):
        used, share = share_of_cluster(job.batch, parts)
        if used < before:
            yield used, share
            before = used


def _least_s(outcome: Outcome, parts: int) -> float:
    """Return an estimated lower bound in seconds for fewer ``parts``, from a run on more of them.

    Each part has more images, so the only time saved is that of loading weights for the parts no longer used, as far as
    shared memory was critical.
    """
    record, result, graph = outcome.record, outcome.result, outcome.schedule.graph
    shared, *_ = outcome.program.shared_memories  # the outermost, where the weights are
    computing_s = record.macs / record.peak_macs_per_s * record.parts / parts if record.peak_macs_per_s else 0.0
    weights = sum([tensor.size_bytes for tensor in graph.tensors.values() if tensor.role == "weight"])
    moved = max(result.traffic_bytes.get(shared, 0), 1)
    share = min(1.0, _WEIGHTS_READ * weights * record.parts_at_work / moved) * (1 - parts / record.parts_at_work)
    saved_s = result.critical_ps.get(shared, 0) * share / PS_PER_S * record.iterations
    return max(computing_s, record.latency_s - saved_s)


def _with_batch(analysis: Analysis, batch: int) -> Analysis:
    return Analysis(analysis.graph.with_batch(batch), made_of=analysis)
