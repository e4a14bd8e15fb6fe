"""AStitch on a DSA: one instance a sub-graph, every tensor in the local buffers if it fits there, else in DDR.

The global buffer only stages; what the local buffers do not hold goes to the further levels that a machine may have,
before DDR. Layouts for the machine's local buffers, for smaller ones and for none are simulated, and
the fastest schedule is taken; the papers say nothing of that.
"""

from collections.abc import Iterator
from functools import partial

from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.candidates import with_smaller_buffers
from dsascape.scheduler.dsa.deciding.evaluation import Evaluator, with_fewer_cores
from dsascape.scheduler.dsa.deciding.with_levels import fastest_with_levels
from dsascape.scheduler.dsa.graphturbo.layouts import AttentionLayers, placed
from dsascape.scheduler.dsa.graphturbo.placement import Capacity
from dsascape.scheduler.dsa.schedule.limits import check_can_be_scheduled
from dsascape.scheduler.dsa.schedule.schedule import Schedule
from dsascape.scheduler.dsa.view import GLOBAL
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.graphturbo.attention import holds_attention
from dsascape.scheduler.graphturbo.grouping import group_subgraphs

_UNBOUNDED = 2**62
"""Local buffer size in bytes given to grouping: so large that everything fits and everything is stitched."""


def plan_of(costs: DsaCosts) -> FusionPlan:
    """Return the plan whose layers are joined along straight and branch patterns, with no regard to what fits."""
    with collector_paused():
        grouping = group_subgraphs(costs.analysis, _UNBOUNDED, 0.0)
    ops = [grouped.sub.ops for grouped in grouping.subgraphs]
    return plan_from_groups(costs.analysis.graph, [Group(each, "no pattern joins it to another") for each in ops])


def evaluate_plan(policy: str, costs: DsaCosts, plan: FusionPlan) -> Evaluated[Schedule]:
    """Return the fastest schedule of ``plan`` with its simulated run.

    Tried in order: all tensors that fit kept local; without those that cores would mostly exchange; fewer cores.
    Raises ``ScheduleError`` where clusters share every kernel, or if nothing can be scheduled.
    """
    if costs.view.divides_kernels:
        raise ScheduleError(f"policy {policy}: keeps tensors on chip, and so divides no kernel among clusters")
    check_can_be_scheduled(costs)
    return fastest_with_levels(costs, partial(_fastest, policy, plan))


def _fastest(policy: str, plan: FusionPlan, costs: DsaCosts) -> Evaluated[Schedule]:
    evaluator = Evaluator(costs, policy)
    few = costs.view.tuning.most_exchanged

    def tried() -> Iterator[tuple[DsaCosts, bool, float, AttentionLayers]]:
        yield costs, True, 1.0, "parts"
        if holds_attention(costs.analysis, plan):
            yield costs, True, 1.0, "whole"
        yield from ((at, True, few, "parts") for at in with_smaller_buffers(costs))
        yield costs, False, few, "parts"
        yield from ((at, True, 1.0, "parts") for at in with_fewer_cores(costs, evaluator))

    for at, uses_local, most_exchanged, attention in tried():
        local, *others = at.on_chip
        further = tuple([(memory.name, memory.outputs_bytes) for memory in others if memory.name != GLOBAL])
        capacity = Capacity(
            local.outputs_bytes, further, uses_local, spills_longest=False, most_exchanged=most_exchanged
        )
        shown = evaluator.laid_out(partial(placed, at.binding, plan, "planned", (), capacity, attention))
        if shown is not None:
            evaluator.consider(shown, at)
        if evaluator.is_near_bound():
            break
    return evaluator.chosen()
