"""AStitch on a DSA: one instance a sub-graph, every tensor in the local buffers if it fits there, else in DDR.

The global buffer only stages. Layouts for the machine's local buffers, for smaller ones and for none are simulated, and
the fastest schedule is taken; the papers say nothing of that.
"""

from collections.abc import Iterator
from functools import partial

from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.hw_models.simulation.pause import collector_paused
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.candidates import candidate, with_smaller_buffers
from dsascape.scheduler.dsa.deciding.evaluation import Evaluator, with_fewer_cores
from dsascape.scheduler.dsa.graphturbo.instance_binding import bind_instances
from dsascape.scheduler.dsa.graphturbo.placement import Capacity
from dsascape.scheduler.dsa.graphturbo.plan_cost import Reads
from dsascape.scheduler.dsa.schedule.limits import check_can_be_scheduled
from dsascape.scheduler.dsa.schedule.schedule import Layout, Schedule
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.graphturbo.attention import holds_attention
from dsascape.scheduler.graphturbo.grouping import group_subgraphs
from dsascape.scheduler.graphturbo.instances import split_into_instances

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
    evaluator = Evaluator(costs, policy)
    few = costs.view.tuning.most_exchanged

    def tried() -> Iterator[tuple[DsaCosts, bool, float, bool]]:
        yield costs, True, 1.0, False
        if holds_attention(costs.analysis, plan):
            yield costs, True, 1.0, True
        yield from ((at, True, few, False) for at in with_smaller_buffers(costs))
        yield costs, False, few, False
        yield from ((at, True, 1.0, False) for at in with_fewer_cores(costs, evaluator))

    for at, uses_local, most_exchanged, has_whole_attention in tried():
        capacity = Capacity(
            at.on_chip[0].outputs_bytes, (), uses_local, spills_longest=False, most_exchanged=most_exchanged
        )
        layout_key = policy, plan.groups, capacity, at.cores, costs.view.tuning.most_padding, has_whole_attention
        layout = partial(_layout, plan, at, capacity, has_whole_attention=has_whole_attention)
        make = partial(candidate, costs.analysis, layout_key, layout)
        shown = evaluator.laid_out(make)
        if shown is not None:
            evaluator.consider(shown, at)
        if evaluator.is_near_bound():
            break
    return evaluator.chosen()


def _layout(
    plan: FusionPlan, costs: DsaCosts, capacity: Capacity, *, has_whole_attention: bool
) -> tuple[Layout, Reads]:
    parts = split_into_instances(costs.analysis, plan, has_whole_attention=has_whole_attention)
    bound = bind_instances(parts, range(len(parts.instances)), costs)
    return Layout(plan, bound.instances, bound.placement.within(capacity)), bound.reads
