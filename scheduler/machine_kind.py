"""The record of a machine kind: what it offers between a plan and a simulated run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fusion.plan import FusionPlan
from hw_models import EnergyModel, Machine, MachineSummary, Program, SimulationResult
from workloads.analysis import Analysis


class MachineRun(Protocol):
    """A program and its run."""

    @property
    def program(self) -> Program: ...

    @property
    def result(self) -> SimulationResult: ...


@dataclass(frozen=True, slots=True)
class Simulated:
    """A program and its run, where nothing else comes of it."""

    program: Program
    result: SimulationResult


@dataclass(frozen=True, kw_only=True)
class MachineKind:
    """What a kind of machine offers between a plan and a simulated run; ``costs`` is what its other functions take."""

    tuning: type[Any]
    """The tuned numbers of its scheduler: a frozen dataclass with a default for each."""
    preferred_dtypes: tuple[str, ...]
    """What networks are computed in unless told otherwise: the first of these that a machine has."""
    parts: Callable[[Any], int]
    """Parts of the machine that share out the batch and run the same: clusters, or one."""
    dtypes: Callable[[Any], frozenset[str]]
    """What it computes in."""
    summary: Callable[[Any], MachineSummary]
    known: Callable[[], Any]
    """What is worth keeping between runs on one machine, whatever the network and the policy; bounded."""
    costs: Callable[[Any, int, str, Any, Any, Analysis], Any]
    """From machine, parts in use, dtype, tuning, what is known and a network to the costs of the network's kernels:
    `KernelCosts`, and all else that the kind's scheduler needs. Tuning and what is known may be None."""
    schedule: Callable[[FusionPlan, Any, str], Any]
    """The schedule of any plan, kernel by kernel; the text is the policy's name."""
    schedule_type: type[Any]
    """What a schedule is, also one that a policy makes."""
    lower: Callable[[Any, Any], Program]
    """From a schedule and the costs to the program."""
    run: Callable[[Any, Any], MachineRun]
    """From a schedule and the costs to its program and what comes of simulating it; worked out once."""
    machine: Callable[[Any], Machine]
    energy: Callable[[Any], EnergyModel]
    write: Callable[[Any], dict[str, Any]]
    """From a schedule to what is written as JSON."""
    read: Callable[[object, Any], Any]
    """From JSON and the costs to a schedule; raises ``ScheduleError`` for one that cannot run."""
