"""The record of a machine kind: what it offers between a plan and a simulated run."""

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Protocol

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import EnergyModel, Machine, MachineSummary, Program, SimulationResult, simulate
from dsascape.workloads.analysis import Analysis


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


def _one_part(spec: Any) -> int:
    del spec
    return 1


def _all_parts(spec: Any) -> tuple[int, ...]:
    del spec
    return ()


@dataclass(frozen=True, kw_only=True)
class MachineKind:
    """What a kind of machine offers between a plan and a simulated run; ``costs`` is what its other functions take."""

    tuning: type[Any]
    """The tuned numbers of its scheduler: a frozen dataclass with a default for each."""
    preferred_dtypes: tuple[str, ...]
    """What networks are computed in unless told otherwise: the first of these that a machine has."""
    parts: Callable[[Any], int] = _one_part
    """Parts of the machine that share out the batch and run the same, such as clusters."""
    fewer_parts: Callable[[Any], tuple[int, ...]] = _all_parts
    """Smaller numbers of parts that are worth trying, the largest first; empty where fewer parts are never faster."""
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
    machine: Callable[[Any], Machine]
    energy: Callable[[Any], EnergyModel]
    judged: Callable[[Any, Any], MachineRun] | None = None
    """From a schedule and the costs to its run, where schedules are chosen by runs and so have one already."""
    json: str
    """The module that has ``schedule_json`` and ``read_schedule``: imported when a schedule is written or read."""

    def write(self, schedule: Any) -> dict[str, Any]:
        """Return what is written of a schedule as JSON."""
        found: dict[str, Any] = resolve_name(f"{self.json}:schedule_json")(schedule)
        return found

    def read(self, found: object, costs: Any) -> Any:
        """Return the schedule that JSON says; raise ``ScheduleError`` for one that cannot run."""
        return resolve_name(f"{self.json}:read_schedule")(found, costs)

    def run(self, schedule: Any, costs: Any) -> MachineRun:
        """Return the program of ``schedule`` and what comes of simulating it."""
        if self.judged is not None:
            return self.judged(schedule, costs)
        program, spec = self.lower(schedule, costs), costs.view.spec
        return Simulated(program, simulate(program, self.machine(spec), self.energy(spec)))
