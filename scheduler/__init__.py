"""Policies, schedules, and their lowering: when and where kernels run."""

from dsascape.scheduler.dsa.schedule.schedule import Instance, LayerRun, Layout, Schedule, TensorSlice
from dsascape.scheduler.dsa.tuning import DsaTuning
from dsascape.scheduler.errors import PinError, ScheduleError
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.kinds.any_kind import AnyKind
from dsascape.scheduler.kinds.kind import MachineCosts, MachineKind, Pinning
from dsascape.scheduler.kinds.schedule import MachineSchedule
from dsascape.scheduler.kinds.table import Placing, kind_of, make_tuning
from dsascape.scheduler.pins import Pins, read_pins
from dsascape.scheduler.policy import (
    EvaluatingPolicy,
    Policy,
    RewritingPolicy,
    SchedulingPolicy,
    broken_policies,
    changed_options,
    labelled_policy,
    make_policy,
    policy_label,
    policy_types,
)
from dsascape.scheduler.stages import (
    costs_of_plan,
    evaluate_network,
    make_network,
    make_plan,
    make_schedule,
    network_of,
    schedule_network,
    simulated_network,
)

__all__ = [
    "AnyKind",
    "DsaTuning",
    "Evaluated",
    "EvaluatingPolicy",
    "Instance",
    "LayerRun",
    "Layout",
    "MachineCosts",
    "MachineKind",
    "MachineSchedule",
    "PinError",
    "Pinning",
    "Pins",
    "Placing",
    "Policy",
    "RewritingPolicy",
    "Schedule",
    "ScheduleError",
    "SchedulingPolicy",
    "TensorSlice",
    "broken_policies",
    "changed_options",
    "costs_of_plan",
    "evaluate_network",
    "kind_of",
    "labelled_policy",
    "make_network",
    "make_plan",
    "make_policy",
    "make_schedule",
    "make_tuning",
    "network_of",
    "policy_label",
    "policy_types",
    "read_pins",
    "schedule_network",
    "simulated_network",
]
