"""The stages of a design point: rewriting of the network (optional), fusion plan, schedule, program, simulation."""

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from dsascape.fusion.plan import FusionError, FusionPlan, violations
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.raised import where_raised
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.kinds.kind import MachineCosts
from dsascape.scheduler.kinds.schedule import MachineSchedule
from dsascape.scheduler.kinds.table import Placing
from dsascape.scheduler.kinds.ways import check_kind
from dsascape.scheduler.policy import (
    EvaluatingPolicy,
    Policy,
    RewritingPolicy,
    SchedulingPolicy,
    fuses,
    policy_label,
)
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.bounded import with_bounded_nests
from dsascape.workloads.folded_dequantisation import with_dequantisation_folded
from dsascape.workloads.graph import WorkloadError
from dsascape.workloads.state import with_state_in_place

_T = TypeVar("_T")


def simulated_network(policy: Policy | None, analysis: Analysis, placing: Placing) -> Analysis:
    """Return the network as simulated machines run it: caches changed in place, masked scores left out.

    For a policy that fuses, dequantisation is folded into products (`workloads.folded_dequantisation`). Generated code
    dequantises apart, and on GPUs it computes masked scores: runs that are compared with it have
    ``folds_dequantisation=false`` and ``skips_masked=false`` in their tuning.
    """
    found = analysis.of(with_state_in_place)
    if getattr(placing.tuning, "skips_masked", True):
        found = found.of(with_bounded_nests)
    folds = getattr(placing.tuning, "folds_dequantisation", True) and fuses(policy)
    return found.of(with_dequantisation_folded) if folds else found


def make_network(policy: Policy, analysis: Analysis) -> Analysis:
    """Return the network that the policy plans: ``analysis`` itself, or the policy's rewritten version of it.

    Raises ``ScheduleError`` if the policy fails or returns something else.
    """
    if not isinstance(policy, RewritingPolicy):
        return analysis
    network = _guarded(policy, lambda: policy.rewritten(analysis))
    if not isinstance(network, Analysis):
        raise ScheduleError(f"policy {policy.name}: rewritten returns {_shown(network)}; needs an Analysis")
    return network


def network_of(plan: FusionPlan, analysis: Analysis) -> Analysis:
    """Return the network of ``plan``: ``analysis`` itself, or that of the rewritten graph."""
    return analysis if plan.graph is analysis.graph else Analysis(plan.graph, made_of=analysis)


def make_plan(policy: Policy, placing: Placing, costs: MachineCosts) -> FusionPlan:
    """Return the policy's fusion plan for the network of ``costs``, which is the one that `make_network` returns.

    Raises ``ScheduleError`` if the policy does not schedule this kind of machine, or if its plan is invalid.
    """
    _check_kind(policy, placing)
    plan = _guarded(policy, lambda: policy.plan(costs.analysis.graph, costs))
    return _checked_plan(policy, plan)


def _check_kind(policy: Policy, placing: Placing) -> None:
    """Raise ``ScheduleError`` if a policy that schedules does not say which kinds, or not this machine's."""
    if isinstance(policy, SchedulingPolicy | EvaluatingPolicy):
        check_kind(policy.name, policy.kinds, placing.hardware)
        return
    for method in ("schedule", "evaluate"):
        if hasattr(policy, method):
            raise ScheduleError(
                f"policy {policy.name} has a method {method} but no kinds: say which machines it schedules"
            )


def _checked_plan(policy: Policy, plan: Any) -> FusionPlan:
    if not isinstance(plan, FusionPlan):
        raise ScheduleError(
            f"policy {policy.name}: plan returns {_shown(plan)}; needs a FusionPlan, such as"
            " fusion.plan_from_groups(graph, groups) makes of groups of operator positions"
        )
    broken = _guarded(policy, lambda: violations(plan)) if _is_foreign(policy) else []
    if broken:
        raise ScheduleError(f"policy {policy.name}: its plan is broken: {'; '.join(broken[:3])}")
    return plan


def make_schedule(policy: Policy, plan: FusionPlan, placing: Placing, costs: MachineCosts) -> MachineSchedule:
    """Return the policy's own schedule of its plan, or the machine kind's kernel-by-kernel one if it only plans.

    Raises ``ScheduleError`` if the policy fails or returns something that is not a schedule of this machine kind.
    """
    if isinstance(policy, EvaluatingPolicy):
        return _evaluated(policy, placing, costs, plan).schedule
    if isinstance(policy, SchedulingPolicy):
        own: object = _guarded(policy, lambda: policy.schedule(plan, costs))
        return _checked_schedule(policy, "schedule returns", own, placing)
    return placing.kind.schedule(plan, costs, policy_label(_settled(policy, plan)))


def schedule_network(policy: Policy, placing: Placing, costs: MachineCosts) -> MachineSchedule:
    """Return the schedule of a policy for the network of ``costs``, which is the one that `make_network` returns.

    Raises what `make_plan` and `make_schedule` raise, and ``PinError``.
    """
    if isinstance(policy, EvaluatingPolicy):
        return evaluate_network(policy, placing, costs).schedule
    return _scheduled(policy, placing, costs)[0]


def evaluate_network(policy: Policy, placing: Placing, costs: MachineCosts) -> Evaluated[MachineSchedule]:
    """Return the plan, schedule, program and simulated run of a policy for the network of ``costs``.

    That network is the one that `make_network` returns. Pinned decisions change the schedule, not the plan. Raises what
    `make_plan` and `make_schedule` raise, and ``PinError``.
    """
    if isinstance(policy, EvaluatingPolicy):
        _check_kind(policy, placing)
        evaluated = _evaluated(policy, placing, costs, None)
        if placing.pins is None:
            return evaluated
        plan = evaluated.plan
        pinned = placing.pinned(costs_of_plan(plan, costs), plan, lambda: evaluated.schedule)
        return _evaluated(policy, placing, pinned, plan)
    schedule, own = _scheduled(policy, placing, costs)
    return placing.kind.run(schedule, own)


def _scheduled(policy: Policy, placing: Placing, costs: MachineCosts) -> tuple[MachineSchedule, MachineCosts]:
    """Return the schedule of a policy that does not evaluate, and the cost model with which it was made."""
    plan = make_plan(policy, placing, costs)
    own = costs_of_plan(plan, costs)
    pinned = placing.pinned(own, plan, lambda: make_schedule(policy, plan, placing, own))
    return make_schedule(policy, plan, placing, pinned), pinned


def costs_of_plan(plan: FusionPlan, costs: MachineCosts) -> MachineCosts:
    """Return the cost model of the plan's network: ``costs``, or one of the network that the policy rewrote."""
    network = network_of(plan, costs.analysis)
    return costs if network is costs.analysis else costs.with_network(network)


def _evaluated(
    policy: EvaluatingPolicy, placing: Placing, costs: MachineCosts, plan: FusionPlan | None
) -> Evaluated[MachineSchedule]:
    """Return what a policy evaluates to; raise ``ScheduleError`` if that is no run of a schedule of this kind."""
    evaluated = _guarded(policy, lambda: policy.evaluate(costs, plan))
    if not isinstance(evaluated, Evaluated):
        raise ScheduleError(f"policy {policy.name}: evaluate returns {_shown(evaluated)}; needs a scheduler.Evaluated")
    _checked_schedule(policy, "evaluate returns a run of", evaluated.schedule, placing)
    _checked_plan(policy, evaluated.plan)
    return evaluated


def _checked_schedule(policy: Policy, said: str, schedule: object, placing: Placing) -> MachineSchedule:
    needed = placing.kind.schedule_type
    if not isinstance(schedule, needed):
        raise ScheduleError(
            f"policy {policy.name}: {said} {_shown(schedule)}; needs a {needed.__module__}.{needed.__name__},"
            f" which is what runs on {placing.hardware.name}"
        )
    return schedule


def _settled(policy: Any, plan: FusionPlan) -> Policy:
    """Return the policy with ``rewriting=True`` where it decided to rewrite while planning, else unchanged."""
    decides = plan.rewritten and hasattr(policy, "rewriting")
    settled: Policy = dataclasses.replace(policy, rewriting=True) if decides else policy
    return settled


def _shown(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _is_foreign(policy: Policy) -> bool:
    return not type(policy).__module__.startswith("dsascape.scheduler.")


def _guarded(policy: Policy, stage: Callable[[], _T]) -> _T:
    """Return the result of a stage; turn any exception in a foreign policy into a ``ScheduleError``."""
    try:
        return stage()
    except (WorkloadError, HardwareError, ScheduleError, FusionError, MemoryError):
        raise
    except Exception as error:
        if not _is_foreign(policy):
            raise
        place = where_raised(error, sys.modules[type(policy).__module__].__file__ or "")
        raise ScheduleError(f"policy {policy.name} fails: {type(error).__name__}: {error} ({place})") from error
