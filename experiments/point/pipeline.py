"""The stages of a simulated run, in order: rewrite, plan, schedule, lower, simulate."""

from dataclasses import dataclass
from functools import partial

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import Program, SimulationResult
from dsascape.scheduler import (
    Placing,
    Policy,
    Schedule,
    make_network,
    make_plan,
    make_schedule,
    network_of,
    simulated_network,
)
from dsascape.workloads.analysis import Analysis


@dataclass(frozen=True)
class Stages:
    """Results of the stages: plan, schedule, program and simulation."""

    plan: FusionPlan
    schedule: Schedule
    program: Program
    result: SimulationResult


def plan_of(analysis: Analysis, policy: Policy, placing: Placing) -> FusionPlan:
    """Return the policy's fusion plan of a network on a machine, its caches changed in place."""
    return make_plan(policy, placing, placing.costs(make_network(policy, simulated_network(policy, analysis, placing))))


def schedule_of(analysis: Analysis, policy: Policy, placing: Placing) -> Schedule:
    """Return the policy's schedule of a network on a machine."""
    return _scheduled(analysis, policy, placing)[0]


def run_stages(analysis: Analysis, policy: Policy, placing: Placing) -> Stages:
    """Schedule a network under a policy and simulate it, its caches changed in place."""
    schedule, costs = _scheduled(simulated_network(policy, analysis, placing), policy, placing)
    return _run(schedule, costs, placing)


def _scheduled(analysis: Analysis, policy: Policy, placing: Placing) -> tuple[Schedule, KernelCosts]:
    """Return the policy's schedule and the cost model of the scheduled network."""
    costs = placing.costs(make_network(policy, analysis))
    plan = make_plan(policy, placing, costs)
    network = network_of(plan, costs.analysis)
    costs = costs if network is costs.analysis else costs.with_network(network)
    pinned = placing.pinned(costs, plan, partial(make_schedule, policy, plan, placing, costs))
    return make_schedule(policy, plan, placing, pinned), pinned


def run_schedule(schedule: Schedule, analysis: Analysis, placing: Placing) -> Stages:
    """Lower a schedule and simulate it."""
    return _run(schedule, placing.costs(analysis), placing)


def _run(schedule: Schedule, costs: KernelCosts, placing: Placing) -> Stages:
    run = placing.kind.run(schedule, costs)
    return Stages(schedule.plan, schedule, run.program, run.result)
