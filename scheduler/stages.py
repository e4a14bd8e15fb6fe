"""The two stages that a policy decides: plan, then schedule."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from fusion.costs import KernelCosts
from fusion.plan import FusionError, FusionPlan, violations
from hw_models.machine import HardwareError
from scheduler.errors import ScheduleError, where_raised
from scheduler.machine_kinds import Placing
from scheduler.policy import Policy, SchedulingPolicy
from workloads.graph import WorkloadError

_T = TypeVar("_T")


def make_plan(policy: Policy, placing: Placing, costs: KernelCosts) -> FusionPlan:
    """Return the policy's plan for the network of ``costs``.

    Raises ``ScheduleError`` if the policy schedules other kinds of machine only, or if its plan is broken.
    """
    if isinstance(policy, SchedulingPolicy) and placing.hardware.kind not in policy.kinds:
        raise ScheduleError(
            f"policy {policy.name} schedules {', '.join(policy.kinds)}; {placing.hardware.name} is a"
            f" {placing.hardware.kind}"
        )
    if hasattr(policy, "schedule") and not isinstance(policy, SchedulingPolicy):
        raise ScheduleError(f"policy {policy.name} has a method schedule but no kinds: say which machines it schedules")
    plan = _guarded(policy, lambda: policy.plan(costs.analysis.graph, costs))
    if not isinstance(plan, FusionPlan):
        raise ScheduleError(f"policy {policy.name}: plan returns {type(plan).__name__}; needs a FusionPlan")
    broken = violations(plan) if _is_foreign(policy) else []
    if broken:
        raise ScheduleError(f"policy {policy.name}: its plan is broken: {'; '.join(broken[:3])}")
    return plan


def make_schedule(policy: Policy, plan: FusionPlan, placing: Placing, costs: KernelCosts) -> Any:
    """Return the policy's own schedule of its plan, or that of the machine's kind where it only plans."""
    if isinstance(policy, SchedulingPolicy):
        return _guarded(policy, lambda: policy.schedule(plan, costs))
    return placing.kind.schedule(plan, costs, policy.name)


def _is_foreign(policy: Policy) -> bool:
    return not type(policy).__module__.startswith("scheduler.")


def _guarded(policy: Policy, stage: Callable[[], _T]) -> _T:
    """Return what a stage makes; whatever goes wrong in somebody else's policy is a ``ScheduleError``."""
    try:
        return stage()
    except (WorkloadError, HardwareError, ScheduleError, FusionError, MemoryError):
        raise
    except Exception as error:
        if not _is_foreign(policy):
            raise
        place = where_raised(error, sys.modules[type(policy).__module__].__file__ or "")
        raise ScheduleError(f"policy {policy.name} fails: {type(error).__name__}: {error} ({place})") from error
