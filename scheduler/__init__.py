"""Policies, schedules, and their lowering: when and where kernels run."""

from scheduler.dsa.schedule import Instance, LayerRun, Layout, Schedule, TensorSlice
from scheduler.dsa.tuning import DsaTuning
from scheduler.errors import ScheduleError
from scheduler.machine_kind import MachineKind
from scheduler.machine_kinds import Placing, kind_of, make_tuning
from scheduler.policy import (
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
from scheduler.stages import make_network, make_plan, make_schedule, network_of

__all__ = [
    "DsaTuning",
    "Instance",
    "LayerRun",
    "Layout",
    "MachineKind",
    "Placing",
    "Policy",
    "RewritingPolicy",
    "Schedule",
    "ScheduleError",
    "SchedulingPolicy",
    "TensorSlice",
    "broken_policies",
    "changed_options",
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
]
