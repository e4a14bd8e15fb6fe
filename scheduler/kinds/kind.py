"""The record of a machine kind: its cost model, scheduler, lowering and machine, from a plan to a simulated run."""

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, NamedTuple

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import EnergyModel, Machine, MachineSpec, MachineSummary, Program, simulate
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.pins.pins import LayerPin
from dsascape.workloads.analysis import Analysis


class WaysToShare(NamedTuple):
    """Tunings with which the parts of a machine share the batch, or every kernel where it has too few images."""

    batch: Any
    """Tuning with which every part has images of its own."""
    kernels: Any = None
    """Tuning with which every part computes a part of every kernel; None where that is not wanted, or not possible."""
    is_forced: bool = False
    """Whether kernels are shared wherever the batch has fewer images than there are parts, even if that is slower."""
    most_parts: int = 64
    """Parts that share kernels, at most."""


def _one_part(spec: Any) -> int:
    del spec
    return 1


def _all_parts(spec: Any) -> tuple[int, ...]:
    del spec
    return ()


@dataclass(frozen=True, kw_only=True)
class MachineKind:
    """Machine kind: the functions that lead from a fusion plan to a simulated run.

    ``costs`` builds the kind's cost model, which ``schedule`` and ``lower`` then take; its ``view.spec`` is the
    machine. Packages register kinds by entry points in the group ``dsascape.machine_kinds``,
    under the ``kind`` of their machine files.
    """

    spec: type[MachineSpec]
    """Spec of the kind's machines, which validates their files."""
    tuning: type[Any]
    """Tuning record of the kind's scheduler: a frozen dataclass with a default for each number."""
    preferred_dtypes: tuple[str, ...]
    """Default data types in order of preference: the first one that a machine supports is used."""
    parts: Callable[[Any], int] = _one_part
    """Number of identical parts of a machine, such as clusters, that split the batch and run the same program."""
    fewer_parts: Callable[[Any], tuple[int, ...]] = _all_parts
    """Smaller numbers of parts worth trying, the largest first; empty where fewer parts are never faster."""
    ways_to_share: Callable[[Any], WaysToShare] = WaysToShare
    """Returns the ways in which parts may share a network, given the tuning (or None)."""
    dtypes: Callable[[Any], frozenset[str]]
    """Data types that a machine can compute in."""
    summary: Callable[[Any], MachineSummary]
    new_cache: Callable[[], Any]
    """Makes a bounded cache for one machine, shared by all networks and policies."""
    costs: Callable[[Any, int, str, Any, Any, Analysis], Any]
    """Makes the cost model of a network's kernels: `KernelCosts`, and what else the kind's scheduler needs. Arguments:
    machine, parts in use, dtype, tuning (or None), cache from ``new_cache`` (or None), network."""
    schedule: Callable[[FusionPlan, Any, str], Any]
    """Makes the kernel-by-kernel schedule of any plan; the text argument is the policy's name."""
    schedule_type: type[Any]
    """Class of this kind's schedules, including those that policies make."""
    lower: Callable[[Any, Any], Program]
    """Lowers a schedule, given its cost model, to a program of instructions."""
    machine: Callable[[Any], Machine]
    energy: Callable[[Any], EnergyModel]
    pin: type[LayerPin] | None = None
    """Decisions about a layer that can be pinned; None: schedules of this kind have none, or its cost model has no
    ``with_pins``."""
    json: str
    """Name of the module with ``schedule_json`` and ``read_schedule``, imported when a schedule is written or read."""

    def write(self, schedule: Any) -> dict[str, Any]:
        """Return the JSON document of a schedule."""
        document: dict[str, Any] = resolve_name(f"{self.json}:schedule_json")(schedule)
        return document

    def read(self, document: object, costs: Any) -> Any:
        """Return the schedule of a JSON document; raise ``ScheduleError`` for one that cannot run."""
        return resolve_name(f"{self.json}:read_schedule")(document, costs)

    def run(self, schedule: Any, costs: Any) -> Evaluated[Any]:
        """Return ``schedule`` with its program and the result of simulating that."""
        program, spec = self.lower(schedule, costs), costs.view.spec
        return Evaluated(schedule, program, simulate(program, self.machine(spec), self.energy(spec)))
