"""The stages from a network to a simulated run, in order: rewrite, plan, schedule, lower, simulate."""

from dataclasses import dataclass

from fusion.costs import KernelCosts
from fusion.plan import FusionPlan
from hw_models import Program, SimulationResult
from scheduler import Placing, Policy, Schedule, make_network, make_plan, make_schedule
from workloads.analysis import Analysis


@dataclass(frozen=True)
class Stages:
    """What every stage made."""

    plan: FusionPlan
    schedule: Schedule
    program: Program
    result: SimulationResult


def plan_of(analysis: Analysis, policy: Policy, placing: Placing) -> FusionPlan:
    """Return the policy's plan of a network on a machine."""
    return make_plan(policy, placing, placing.costs(make_network(policy, analysis)))


def schedule_of(analysis: Analysis, policy: Policy, placing: Placing) -> Schedule:
    """Return the policy's schedule of a network on a machine."""
    costs = placing.costs(make_network(policy, analysis))
    schedule: Schedule = make_schedule(policy, make_plan(policy, placing, costs), placing, costs)
    return schedule


def run_stages(analysis: Analysis, policy: Policy, placing: Placing) -> Stages:
    """Return the run of a network under a policy, simulated."""
    costs = placing.costs(make_network(policy, analysis))
    schedule = make_schedule(policy, make_plan(policy, placing, costs), placing, costs)
    return _run(schedule, costs, placing)


def run_schedule(schedule: Schedule, analysis: Analysis, placing: Placing) -> Stages:
    """Return the run of a schedule: lowered and simulated."""
    return _run(schedule, placing.costs(analysis), placing)


def _run(schedule: Schedule, costs: KernelCosts, placing: Placing) -> Stages:
    run = placing.kind.run(schedule, costs)
    return Stages(schedule.plan, schedule, run.program, run.result)
