"""Which operators share a kernel: plans, their checks, and the fixed patterns."""

from fusion.fixed_pattern import fixed_pattern_plan
from fusion.plan import FusionError, FusionPlan, Group, plan_from_groups, unfused_intermediate_bytes, violations
from fusion.regions import required_regions
from fusion.unfused import unfused_plan

__all__ = [
    "FusionError",
    "FusionPlan",
    "Group",
    "fixed_pattern_plan",
    "plan_from_groups",
    "required_regions",
    "unfused_intermediate_bytes",
    "unfused_plan",
    "violations",
]
