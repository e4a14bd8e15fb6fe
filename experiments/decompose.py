"""Batches per cluster (GraphTurbo, section 5.1): how much of its share a cluster takes at once, by trying it out.

A cluster that takes n of its share runs the kernels of batch n several times over. The iterations follow each other
like kernels do, so that times, bytes and energy of one iteration count as often as it runs.
"""

from dataclasses import replace

from experiments.job import Job, Outcome, run_graph
from hw_models import AnyHardware, SimulationError
from scheduler import Policy, ScheduleError, TilingCache
from workloads import Graph


def run_decomposed(
    graph: Graph, hardware: AnyHardware, policy: Policy, job: Job, tilings: TilingCache | None = None
) -> Outcome:
    """Return the outcome of a cluster's ``graph`` with the policy's option ``batches_per_cluster``.

    A number is taken at once (at most the share); ``best`` tries the powers of two and the whole share, and takes what
    is fastest. Policies without the option, and those that leave it open, take the share at once.
    """
    wanted = getattr(policy, "batches_per_cluster", None)
    share = graph.batch
    if wanted is None:
        return run_graph(graph, hardware, policy, job, tilings)
    if wanted != "best":
        return _iterated(graph, hardware, policy, job, min(int(wanted), share), tilings)
    tried: list[Outcome] = []
    refusal: ScheduleError | SimulationError | None = None
    for batch in sorted({share, *(2**k for k in range(share.bit_length()) if 2**k <= share)}):
        try:
            tried.append(_iterated(graph, hardware, policy, job, batch, tilings))
        except (ScheduleError, SimulationError) as error:
            refusal = error
    if not tried:
        assert refusal is not None
        raise refusal
    return min(tried, key=lambda outcome: (outcome.record.latency_s, outcome.iterations))


def _iterated(
    graph: Graph, hardware: AnyHardware, policy: Policy, job: Job, batch: int, tilings: TilingCache | None
) -> Outcome:
    iterations = -(-graph.batch // batch)
    outcome = run_graph(graph.with_batch(batch), hardware, policy, replace(job, iterations=iterations), tilings)
    return replace(outcome, iterations=iterations, batch_per_cluster=batch)
