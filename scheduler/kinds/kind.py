"""The record of a machine kind: its cost model, scheduler, lowering and machine, from a plan to a simulated run."""

from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import EnergyModel, Machine, MachineSpec, MachineSummary, Program
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.sources import KernelSource
from dsascape.scheduler.kinds.schedule import MachineSchedule
from dsascape.scheduler.pins.pins import LayerPin, Pins, PinsOfPlan
from dsascape.scheduler.pins.selectors import PlacedLayers
from dsascape.workloads.analysis import Analysis


class Tuning(Protocol):
    """Numbers of a kind's scheduler: a frozen dataclass with a default for each."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class MachineView(Protocol):
    """What a scheduler sees of a machine."""

    @property
    def spec(self) -> MachineSpec:
        """The machine that is simulated."""


class MachineCosts(KernelCosts, Protocol):
    """Cost model of one network's kernels, which also has the machine for its scheduler."""

    def with_network(self, analysis: Analysis) -> "MachineCosts":
        """Return the costs of another network on the same machine."""

    @property
    def view(self) -> MachineView:
        """Machine, tuning and what else costs depend on."""


SpecT = TypeVar("SpecT", bound=MachineSpec)
TuningT = TypeVar("TuningT", bound=Tuning)
CacheT = TypeVar("CacheT")
CostsT = TypeVar("CostsT", bound=MachineCosts)
ScheduleT = TypeVar("ScheduleT", bound=MachineSchedule)
TuningT_co = TypeVar("TuningT_co", bound=Tuning, covariant=True)
CostsT_contra = TypeVar("CostsT_contra", bound=MachineCosts, contravariant=True)
PinT_co = TypeVar("PinT_co", bound=LayerPin, covariant=True)


class WaysToShare(NamedTuple, Generic[TuningT_co]):
    """Tunings with which the parts of a machine share the batch, or every kernel where it has too few images."""

    batch: TuningT_co | None
    """Tuning with which every part has images of its own; None: the kind's defaults."""
    kernels: TuningT_co | None = None
    """Tuning with which every part computes a part of every kernel; None where that is not wanted, or not possible."""
    is_forced: bool = False
    """Whether kernels are shared wherever the batch has fewer images than there are parts, even if that is slower."""
    most_parts: int = 64
    """Parts that share kernels, at most."""


@dataclass(frozen=True)
class Pinning(Generic[CostsT, PinT_co]):
    """How decisions about layers are fixed on machines of a kind, before a schedule is made."""

    pin: type[PinT_co]
    """Decisions about a layer that can be fixed."""
    with_pins: Callable[[CostsT, PinsOfPlan[PinT_co]], CostsT]
    """Returns the cost model with which schedules have these decisions."""

    def pinned(self, costs: CostsT, pins: Pins, plan: FusionPlan, layers: PlacedLayers) -> CostsT:
        """Return the cost model with which schedules of ``plan`` have the pins.

        ``layers`` gives the layers of the schedule without pins. Raises ``PinError`` for a pin that stands for nothing
        in the plan.
        """
        return self.with_pins(costs, pins.on(plan, layers))


@dataclass(frozen=True, kw_only=True)
class LoopKernels(Generic[SpecT, CostsT, ScheduleT]):
    """Kernels of a kind that are loop programs (`scheduler.kernels.loops`): taken from a source, and printed."""

    with_source: Callable[[CostsT, KernelSource], CostsT]
    """Returns the cost model that takes steps of kernels from a source."""
    text: Callable[[ScheduleT, SpecT, int], str]
    """Returns a kernel of a schedule for a machine as text, given its number in the order of runs."""


@dataclass(frozen=True, kw_only=True)
class PowerLimit(Generic[SpecT]):
    """Power that machines of a kind may draw, and what they are at lower clocks."""

    limit_w: Callable[[SpecT], float | None]
    """Returns the most power in watts, in the mean over a run; None: there is no limit."""
    slowed: Callable[[SpecT, float], SpecT]
    """Returns the machine at a share of its sustained clock."""


class ScheduleFiles(Protocol[CostsT_contra, ScheduleT]):
    """Module that writes and reads the schedules of a kind."""

    def schedule_json(self, schedule: ScheduleT, /) -> dict[str, Any]:
        """Return the JSON document of a schedule."""

    def read_schedule(self, document: object, costs: CostsT_contra, /) -> ScheduleT:
        """Return the schedule of a JSON document; raise ``ScheduleError`` for one that cannot run."""


def _no_library(spec: MachineSpec, tuning: Tuning | None, schedule: MachineSchedule) -> Sequence[float]:
    del spec, tuning, schedule
    return ()


def _one_part(spec: MachineSpec) -> int:
    del spec
    return 1


def _all_parts(spec: MachineSpec) -> tuple[int, ...]:
    del spec
    return ()


def _no_reason(layer: Layer) -> str:
    del layer
    return ""


@dataclass(frozen=True, kw_only=True)
class MachineKind(Generic[SpecT, TuningT, CacheT, CostsT, ScheduleT]):
    """Machine kind: the functions that lead from a fusion plan to a simulated run.

    Generic in the classes of its machines, tunings, caches, cost models and schedules, so that a type checker pairs
    them. Callers that know no kind have an `AnyKind`. Packages register kinds by entry points in the group
    ``dsascape.machine_kinds``, under the ``kind`` of their machine files.
    """

    spec: type[SpecT]
    """Spec of the kind's machines, which validates their files."""
    tuning: type[TuningT]
    """Tuning record of the kind's scheduler: a frozen dataclass with a default for each number."""
    costs_type: type[CostsT]
    """Class of the kind's cost models."""
    schedule_type: type[ScheduleT]
    """Class of the kind's schedules, including those that policies make."""
    new_cache: type[CacheT]
    """Bounded cache for one machine, shared by all networks and policies; made without arguments."""
    preferred_dtypes: tuple[str, ...]
    """Default data types in order of preference: the first one that a machine supports is used."""
    parts: Callable[[SpecT], int] = _one_part
    """Number of identical parts of a machine, such as clusters, that split the batch and run the same program."""
    fewer_parts: Callable[[SpecT], tuple[int, ...]] = _all_parts
    """Smaller numbers of parts worth trying, the largest first; empty where fewer parts are never faster."""
    ways_to_share: Callable[[TuningT | None], WaysToShare[TuningT]] = WaysToShare
    """Returns the ways in which parts may share a network, given the tuning (or None)."""
    dtypes: Callable[[SpecT], frozenset[str]]
    """Data types that a machine can compute in."""
    summary: Callable[[SpecT], MachineSummary]
    costs: Callable[[SpecT, int, str, TuningT | None, CacheT | None, Analysis], CostsT]
    """Makes the cost model of a network's kernels: `KernelCosts`, and what else the kind's scheduler needs. Arguments:
    machine, parts in use, dtype, tuning (or None), cache of class ``new_cache`` (or None), network."""
    schedule: Callable[[FusionPlan, CostsT, str], ScheduleT]
    """Makes the kernel-by-kernel schedule of any plan; the text argument is the policy's name."""
    lower: Callable[[ScheduleT, CostsT], Program]
    """Lowers a schedule, given its cost model, to a program of instructions."""
    machine: Callable[[SpecT], Machine]
    energy: Callable[[SpecT], EnergyModel]
    power: PowerLimit[SpecT] | None = None
    """How clocks fall where a run would draw more power than the machine may; None: they do not."""
    loops: LoopKernels[SpecT, CostsT, ScheduleT] | None = None
    """Kernels as loop programs; None where they are none."""
    why_slow: Callable[[Layer], str] = _no_reason
    """Returns what in the loops of a layer makes these machines compute it slowly, as a clause; empty if nothing does.
    Warnings have it."""
    library: Callable[[SpecT, TuningT | None, ScheduleT], Sequence[float]] = _no_library
    """Returns picoseconds that a library's kernel takes for each layer run of a schedule, launches included, 0 where
    nothing is known of it; empty if nothing is known at all. Expected latencies have them."""
    pins: Pinning[CostsT, LayerPin] | None = None
    """How decisions about layers are pinned; None: schedules of this kind have none to pin."""
    json: str
    """Name of the module with ``schedule_json`` and ``read_schedule`` (`ScheduleFiles`), imported when a schedule is
    written or read."""
