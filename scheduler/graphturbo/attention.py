"""Attention as one layer of a plan on scratchpads: of its scores only a tile is there. Not in GraphTurbo's paper."""

from dataclasses import replace

from dsascape.fusion.plan import FusionError, FusionPlan, Group, plan_from_groups
from dsascape.scheduler.kernels.cut import layers_by_pattern, layers_with_attention
from dsascape.workloads.analysis import Analysis


def holds_attention(analysis: Analysis, plan: FusionPlan) -> bool:
    """Whether some group of a plan holds all of an attention that can be one layer."""
    return any(
        len(layers_with_attention(analysis, group.ops)) < len(layers_by_pattern(analysis, group.ops))
        for group in plan.groups
    )


def with_attention_apart(analysis: Analysis, plan: FusionPlan) -> FusionPlan | None:
    """Return the plan with each attention as a group of its own; None without any, or where groups form a cycle."""
    every = tuple(range(len(analysis.graph.ops)))
    attentions = [layer for layer in layers_with_attention(analysis, every)
                  if layer not in layers_by_pattern(analysis, every)]  # fmt: skip
    taken = {op for layer in attentions for op in layer.ops}
    rest = [replace(group, ops=tuple([op for op in group.ops if op not in taken])) for group in plan.groups]
    own = [Group(layer.ops, "attention is one layer") for layer in attentions]
    try:
        return plan_from_groups(plan.graph, [*[group for group in rest if group.ops], *own]) if own else None
    except FusionError:
        return None
