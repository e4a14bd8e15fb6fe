"""Batches per cluster (GraphTurbo, section 5.1): the part of its share that a cluster processes per iteration.

A cluster that takes n images at once runs the kernels of batch n several times in sequence, so times, bytes and energy
of one iteration are multiplied by the number of iterations.
"""

from dataclasses import replace

from dsascape.experiments.point.job import Job, Outcome, run_graph
from dsascape.hw_models import SimulationError
from dsascape.scheduler import Policy, ScheduleError
from dsascape.workloads.analysis import Analysis

_OPTION = "batches_per_cluster"


def leaves_batches_open(policy: Policy) -> bool:
    """Return whether the policy has the option ``batches_per_cluster`` and leaves it unset."""
    return getattr(policy, _OPTION, _OPTION) is None


def prescribes_batches(policy: Policy) -> bool:
    """Return whether the policy sets ``batches_per_cluster`` to a number of images."""
    return getattr(policy, _OPTION, None) not in (None, "best")


def run_decomposed(analysis: Analysis, policy: Policy, job: Job) -> Outcome:
    """Simulate one cluster's graph with the policy's option ``batches_per_cluster``; return the outcome.

    A number is the batch per iteration, at most the share; ``best`` tries the powers of two and the whole share and
    keeps the fastest. Without the option, or where it is unset, the whole share runs at once.
    """
    wanted = getattr(policy, _OPTION, None)
    share = analysis.graph.batch
    if wanted is None or analysis.graph.no_batch:
        return run_graph(analysis, policy, job)
    if wanted != "best":
        return _iterated(analysis, policy, job, min(int(wanted), share))
    tried: list[Outcome] = []
    refusal: ScheduleError | SimulationError | None = None
    for batch in sorted({share, *(2**k for k in range(share.bit_length()) if 2**k <= share)}):
        try:
            tried.append(_iterated(analysis, policy, job, batch))
        except (ScheduleError, SimulationError) as error:
            refusal = error
    if not tried:
        assert refusal is not None
        raise refusal
    return min(tried, key=lambda outcome: (outcome.record.latency_s, outcome.record.iterations))


def _iterated(analysis: Analysis, policy: Policy, job: Job, batch: int) -> Outcome:
    graph = analysis.graph
    at_once = analysis if batch == graph.batch else Analysis(graph.with_batch(batch), made_of=analysis)
    return run_graph(at_once, policy, replace(job, iterations=-(-graph.batch // batch)))
