"""The stages of a simulated run, in order: rewrite, plan, schedule, lower, simulate."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import Program, SimulationResult
from dsascape.scheduler import (
    MachineCosts,
    MachineSchedule,
    Placing,
    Policy,
    ScheduleError,
    SchedulingPolicy,
    make_network,
    make_plan,
    make_schedule,
    network_of,
    simulated_network,
)
from dsascape.scheduler.layer_names import layers_of_kernels, layers_of_plan
from dsascape.workloads.analysis import Analysis


@dataclass(frozen=True)
class Stages:
    """Results of the stages: plan, schedule, program and simulation."""

    plan: FusionPlan
    schedule: MachineSchedule
    program: Program
    result: SimulationResult


def plan_of(analysis: Analysis, policy: Policy, placing: Placing) -> FusionPlan:
    """Return the policy's fusion plan of a network on a machine, its caches changed in place."""
    return make_plan(policy, placing, placing.costs(make_network(policy, simulated_network(policy, analysis, placing))))


def plan_and_layers(analysis: Analysis, policy: Policy, placing: Placing) -> tuple[FusionPlan, list[list[str]]]:
    """Return the policy's fusion plan of a network on a machine, and the names of the layers of each of its groups.

    Caches are changed in place. Groups of views have no layers. A policy that also schedules the machine does so.
    """
    costs = placing.costs(make_network(policy, simulated_network(policy, analysis, placing)))
    plan = make_plan(policy, placing, costs)
    layers = layers_of_plan(plan, _of_plan(plan, costs))
    if isinstance(policy, SchedulingPolicy):
        with suppress(ScheduleError):  # of a plan that does not fit; kernels have names anyway
            return plan, names_by_group(_schedule(policy, plan, placing, costs)[0])
    return plan, _by_group(plan, layers)


def names_by_group(schedule: MachineSchedule) -> list[list[str]]:
    """Return the names of the layers of each group of a schedule's plan."""
    return _by_group(schedule.plan, layers_of_plan(schedule.plan) | layers_of_kernels(schedule))


def _by_group(plan: FusionPlan, layers: Mapping[int, Mapping[str, str]]) -> list[list[str]]:
    """Return the names of layers by group; groups of views have none."""
    return [list(layers.get(group, {}).values()) for group in range(len(plan.groups))]


def schedule_of(analysis: Analysis, policy: Policy, placing: Placing) -> MachineSchedule:
    """Return the policy's schedule of a network on a machine."""
    return _scheduled(analysis, policy, placing)[0]


def run_stages(analysis: Analysis, policy: Policy, placing: Placing) -> Stages:
    """Schedule a network under a policy and simulate it, its caches changed in place."""
    schedule, costs = _scheduled(simulated_network(policy, analysis, placing), policy, placing)
    return _run(schedule, costs, placing)


def _scheduled(analysis: Analysis, policy: Policy, placing: Placing) -> tuple[MachineSchedule, MachineCosts]:
    """Return the policy's schedule and the cost model of the scheduled network."""
    costs = placing.costs(make_network(policy, analysis))
    return _schedule(policy, make_plan(policy, placing, costs), placing, costs)


def _schedule(
    policy: Policy, plan: FusionPlan, placing: Placing, costs: MachineCosts
) -> tuple[MachineSchedule, MachineCosts]:
    """Return the policy's schedule of its plan, and the cost model of the plan's network."""
    costs = _of_plan(plan, costs)
    pinned = placing.pinned(costs, plan, partial(make_schedule, policy, plan, placing, costs))
    return make_schedule(policy, plan, placing, pinned), pinned


def _of_plan(plan: FusionPlan, costs: MachineCosts) -> MachineCosts:
    """Return the cost model of the plan's network: ``costs``, or one of the network that the policy rewrote."""
    network = network_of(plan, costs.analysis)
    return costs if network is costs.analysis else costs.with_network(network)


def run_schedule(schedule: MachineSchedule, analysis: Analysis, placing: Placing) -> Stages:
    """Lower a schedule and simulate it."""
    return _run(schedule, placing.costs(analysis), placing)


def _run(schedule: MachineSchedule, costs: MachineCosts, placing: Placing) -> Stages:
    run = placing.kind.run(schedule, costs)
    return Stages(schedule.plan, schedule, run.program, run.result)
