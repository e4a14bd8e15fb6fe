"""When and where kernels run: policies, schedules, and their lowering to a machine's program."""

from scheduler.device import ScheduleError
from scheduler.lower import lower
from scheduler.policy import Policy, make_policy, policy_label, policy_types
from scheduler.schedule import Instance, LayerRun, Piece, Schedule, violations
from scheduler.tile_choice import TilingCache

__all__ = [
    "Instance",
    "LayerRun",
    "Piece",
    "Policy",
    "Schedule",
    "ScheduleError",
    "TilingCache",
    "lower",
    "make_policy",
    "policy_label",
    "policy_types",
    "violations",
]
