"""The stages of a simulated run, in order: rewrite, plan, schedule, lower, simulate."""

from collections.abc import Mapping
from contextlib import suppress

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler import (
    Evaluated,
    EvaluatingPolicy,
    MachineCosts,
    MachineSchedule,
    Placing,
    Policy,
    ScheduleError,
    SchedulingPolicy,
    costs_of_plan,
    evaluate_network,
    make_network,
    make_plan,
    make_schedule,
    schedule_network,
    simulated_network,
)
from dsascape.scheduler.layer_names import layers_of_kernels, layers_of_plan
from dsascape.scheduler.power import Lasting
from dsascape.workloads.analysis import Analysis


def plan_of(analysis: Analysis, policy: Policy, placing: Placing) -> FusionPlan:
    """Return the policy's fusion plan of a network on a machine, its caches changed in place."""
    return make_plan(policy, placing, _simulated_costs(analysis, policy, placing))


def plan_and_layers(analysis: Analysis, policy: Policy, placing: Placing) -> tuple[FusionPlan, list[list[str]]]:
    """Return the policy's fusion plan of a network on a machine, and the names of the layers of each of its groups.

    Caches are changed in place. Groups of views have no layers. A policy that also schedules the machine does so.
    """
    costs = _simulated_costs(analysis, policy, placing)
    if isinstance(policy, EvaluatingPolicy):
        with suppress(ScheduleError):  # of a plan that does not fit; a plan may be made all the same
            evaluated = evaluate_network(policy, placing, costs)
            return evaluated.plan, names_by_group(evaluated.schedule)
    plan = make_plan(policy, placing, costs)
    own = costs_of_plan(plan, costs)
    layers = layers_of_plan(plan, own)
    if isinstance(policy, SchedulingPolicy):
        with suppress(ScheduleError):  # of a plan that does not fit; kernels have names anyway
            return plan, names_by_group(make_schedule(policy, plan, placing, own))
    return plan, _by_group(plan, layers)


def names_by_group(schedule: MachineSchedule) -> list[list[str]]:
    """Return the names of the layers of each group of a schedule's plan."""
    return _by_group(schedule.plan, layers_of_plan(schedule.plan) | layers_of_kernels(schedule))


def _by_group(plan: FusionPlan, layers: Mapping[int, Mapping[str, str]]) -> list[list[str]]:
    """Return the names of layers by group; groups of views have none."""
    return [list(layers.get(group, {}).values()) for group in range(len(plan.groups))]


def schedule_of(analysis: Analysis, policy: Policy, placing: Placing) -> MachineSchedule:
    """Return the policy's schedule of a network on a machine."""
    schedule: MachineSchedule = schedule_network(policy, placing, placing.costs(make_network(policy, analysis)))
    return schedule


def run_stages(analysis: Analysis, policy: Policy, placing: Placing) -> Evaluated[MachineSchedule]:
    """Schedule a network under a policy and simulate it, its caches changed in place, at the clock that power allows.

    Policies decide at the sustained clock.
    """
    costs = _simulated_costs(analysis, policy, placing)
    return placing.kind.within_power(evaluate_network(policy, placing, costs), costs.view.spec)


def run_schedule(schedule: MachineSchedule, analysis: Analysis, placing: Placing) -> Evaluated[MachineSchedule]:
    """Lower a schedule and simulate it, at the clock that power allows."""
    costs = placing.costs(analysis)
    return placing.kind.within_power(placing.kind.run(schedule, costs), costs.view.spec)


def run_within_power(
    evaluated: Evaluated[MachineSchedule], analysis: Analysis, placing: Placing, lasting: Lasting
) -> Evaluated[MachineSchedule]:
    """Return a run that lasts longer than simulated, at the clock that power allows then."""
    return placing.kind.within_power(evaluated, placing.costs(analysis).view.spec, lasting)


def _simulated_costs(analysis: Analysis, policy: Policy, placing: Placing) -> MachineCosts:
    """Return the cost model of the network that a policy plans, its caches changed in place."""
    return placing.costs(make_network(policy, simulated_network(policy, analysis, placing)))
