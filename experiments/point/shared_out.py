"""How many parts of a machine share out the batch: all of them, or fewer where the simulation finds that faster.

Clusters that share one memory outside the chip each load the weights from it, so that at a few images each they may
take longer than half as many clusters do with twice the images. All are tried first; fewer are where the time that
they can save, what the memory outside sets the pace of, leaves them a chance. How many are at work is in the record
(``parts_at_work``) and in the schedule.
"""

from collections.abc import Iterator
from dataclasses import replace

from dsascape.experiments.point.decompose import prescribes_batches, run_decomposed
from dsascape.experiments.point.job import Job, Outcome
from dsascape.hw_models import SimulationError
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import Policy, ScheduleError
from dsascape.workloads import WorkloadError
from dsascape.workloads.analysis import Analysis

_WORTHWHILE = 0.99
"""Fewer parts are tried where they may take less than this share of the time."""
_SHARED = "ddr"
"""The memory that clusters share."""
_WEIGHTS_READ = 2
"""Weights are taken to be loaded so many times: instances of a sub-graph load them anew."""


def share_of_cluster(batch: int, clusters: int, missing: str = "") -> tuple[int, int]:
    """Return (clusters in use, batch of each): as even as can be; a share that is not full is padded.

    ``missing``: why the network has no batch, if it has none. Raises ``WorkloadError`` for a batch that it cannot have.
    """
    if batch < 1:
        raise WorkloadError(f"batch has {batch}; needs at least 1")
    if missing and batch != 1:
        raise WorkloadError(f"has no batch that can become {batch}: {missing}; name its dimension with --batch-dim")
    share = -(-batch // min(batch, clusters))
    return -(-batch // share), share


def run_shared_out(analysis: Analysis, policy: Policy, job: Job) -> Outcome:
    """Return the fastest outcome of the batch of ``job`` on all parts of the machine, and on fewer where that may pay.

    ``analysis``: the network at the batch of one of all parts. Where the policy's ``batches_per_cluster`` is a number,
    all parts are at work. Raises what `run_decomposed` raises.
    """
    best = run_decomposed(analysis, policy, job)
    if prescribes_batches(policy):
        return best
    tried = [best]
    for parts, share in _fewer(job):
        if max(_least_s(each, parts) for each in tried) >= best.record.latency_s * _WORTHWHILE:
            continue
        fewer = replace(job, placing=replace(job.placing, parts=parts))
        try:
            found = run_decomposed(analysis.of(_with_batch, share), policy, fewer)
        except (ScheduleError, SimulationError, WorkloadError):
            continue
        tried.append(found)
        best = min(best, found, key=lambda outcome: outcome.record.latency_s)
    return best


def _fewer(job: Job) -> Iterator[tuple[int, int]]:
    """Yield the smaller numbers of parts that may share out the batch, the largest first, and the share of each."""
    before, kind = job.placing.parts, job.placing.kind
    for parts in kind.fewer_parts(job.placing.hardware):
        used, share = share_of_cluster(job.batch, parts)
        if used < before:
            yield used, share
            before = used


def _least_s(outcome: Outcome, parts: int) -> float:
    """Return about what fewer ``parts`` take at least, from a run on more of them.

    Each has more images, so no time is saved but that of weights for parts which are no longer there, as far as the
    memory outside the chip set the pace.
    """
    record, result, graph = outcome.record, outcome.result, outcome.schedule.graph
    computing_s = record.macs / record.peak_macs_per_s * record.parts / parts if record.peak_macs_per_s else 0.0
    weights = sum([tensor.size_bytes for tensor in graph.tensors.values() if tensor.role == "weight"])
    moved = max(result.traffic_bytes.get(_SHARED, 0), 1)
    share = min(1.0, _WEIGHTS_READ * weights * record.parts_at_work / moved) * (1 - parts / record.parts_at_work)
    saved_s = result.critical_ps.get(_SHARED, 0) * share / PS_PER_S * record.iterations
    return max(computing_s, record.latency_s - saved_s)


def _with_batch(analysis: Analysis, batch: int) -> Analysis:
    return Analysis(analysis.graph.with_batch(batch))
