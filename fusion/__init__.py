"""Fusion plans: which operators share a kernel, the cost model that planners use, and fixed-pattern fusion."""

from dsascape.fusion.costs import KernelCosts, OnChipMemory
from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.fusion.plan import (
    FusionError,
    FusionPlan,
    Group,
    Split,
    plan_from_groups,
    unfused_intermediate_bytes,
    violations,
)
from dsascape.fusion.unfused import unfused_plan

__all__ = [
    "FusionError",
    "FusionPlan",
    "Group",
    "KernelCosts",
    "OnChipMemory",
    "Split",
    "fixed_pattern_plan",
    "plan_from_groups",
    "unfused_intermediate_bytes",
    "unfused_plan",
    "violations",
]
