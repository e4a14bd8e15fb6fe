"""Neighbouring plans: two groups joined, one group divided, a group split into more or fewer instances."""

from collections.abc import Iterator
from dataclasses import replace

from dsascape.fusion.plan import FusionError, FusionPlan, Group, plan_from_groups
from dsascape.wording import count


def neighbours(plan: FusionPlan) -> Iterator[FusionPlan]:
    """Yield the plans that differ from ``plan`` in one step, those that join groups first.

    Joined groups take the split into instances of the later of the two; instances stay of equal size.
    """
    groups = plan.groups
    for first, second in _pairs(plan):
        ops = tuple(sorted(groups[first].ops + groups[second].ops))
        reason = "joined with its reader: the simulated machine is faster so"
        later = max(groups[first], groups[second], key=lambda group: group.ops[-1])
        yield from _checked(plan, {first, second}, [Group(ops, reason, later.split)])
    for position, group in enumerate(groups):
        if group.split is None:
            continue
        extent = plan.subgraphs[position].sink.shape[group.split.dim]
        for factor in (group.split.factor * 2, group.split.factor // 2):
            if not factor or extent % factor:
                continue
            split = replace(group.split, factor=factor) if factor > 1 else None
            reason = f"cut into {count(factor, 'instance')}: the simulated machine is faster so"
            yield from _checked(plan, {position}, [Group(group.ops, reason, split)])
    for position, group in enumerate(groups):
        middle = len(group.ops) // 2
        if middle:
            reason = "cut in two: the simulated machine is faster so"
            halves = (group.ops[:middle], group.ops[middle:])
            yield from _checked(plan, {position}, [Group(ops, reason) for ops in halves])


def _pairs(plan: FusionPlan) -> Iterator[tuple[int, int]]:
    """Yield pairs of group positions, producer and consumer."""
    for second, group in enumerate(plan.groups):
        names = [name for op in group.ops for name in plan.graph.ops[op].inputs]
        sources = {plan.group_of[plan.graph.producer[name]] for name in names if name in plan.graph.producer}
        yield from ((first, second) for first in sorted(sources - {second}))


def _checked(plan: FusionPlan, gone: set[int], new: list[Group]) -> Iterator[FusionPlan]:
    """Yield the plan with groups ``gone`` replaced by ``new``, unless groups would depend on each other cyclically."""
    kept = [group for position, group in enumerate(plan.groups) if position not in gone]
    try:
        yield plan_from_groups(plan.graph, [*kept, *new])
    except FusionError:
        return
