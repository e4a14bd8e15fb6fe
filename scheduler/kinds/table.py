"""Table of the machine kinds that networks are scheduled for.

A built-in kind has a folder in `hw_models`, one in `scheduler`, a line in ``KINDS`` and one in
`hw_models.machine_files.kinds`; a package registers its own by an entry point. Kinds are imported on first use.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name

import pydantic

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import AnyHardware, HardwareError
from dsascape.hw_models.machine_files.kinds import MACHINE_KINDS, installed_kind
from dsascape.hw_models.text.messages import nearest, option_mistake
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.loops.sources import KernelSource
from dsascape.scheduler.kinds.any_kind import AnyKind, OpaqueKind
from dsascape.scheduler.kinds.kind import MachineCosts, MachineKind, Tuning, TuningT
from dsascape.scheduler.kinds.schedule import MachineSchedule
from dsascape.scheduler.pins.pins import Pins
from dsascape.workloads.analysis import Analysis

KINDS: Mapping[str, str] = {
    "clustered_dsa": "dsascape.scheduler.dsa.kind:CLUSTERED_DSA",
    "cpu": "dsascape.scheduler.cpu.kind:CPU",
    "gpu": "dsascape.scheduler.gpu.kind:GPU",
}


@dataclass(frozen=True, kw_only=True)
class Placing:
    """Target of a network: the machine, how many of its parts are in use, the dtype, the scheduler's tuning."""

    hardware: AnyHardware
    parts: int
    dtype: str
    tuning: Tuning | None = None
    """Tuning record of the machine's kind; None: its defaults."""
    cache: object = None
    """Cache made by `MachineKind.new_cache`, shared between runs on this machine; None: nothing is cached."""
    kernels: KernelSource | None = None
    """Source of kernels' steps, of a kind whose kernels are loop programs; None: the built-in choice for all."""
    pins: Pins | None = None
    """Decisions that are fixed for some layers before the schedule is made; None: all are searched."""

    @property
    def kind(self) -> AnyKind:
        """Kind of the machine."""
        return kind_of(self.hardware)

    def costs(self, analysis: Analysis) -> MachineCosts:
        """Return the cost model of this machine for a network.

        Raises ``ScheduleError`` for kernels of a machine whose kind has no loop programs.
        """
        kind = self.kind
        costs = kind.costs(self.hardware, self.parts, self.dtype, self.tuning, self.cache, analysis)
        return costs if self.kernels is None else kind.with_kernels(costs, self.kernels)

    def pinned(
        self, costs: MachineCosts, plan: FusionPlan, schedule: Callable[[], MachineSchedule]
    ) -> MachineCosts:
        """Return the cost model with which schedules of ``plan`` have the pins; the same one if there are none.

        ``schedule`` makes the schedule without pins, which numbers of layers refer to.
        Raises ``PinError`` for a pin that stands for nothing in the plan.
        """
        if self.pins is None:
            return costs
        return self.kind.pinned(costs, self.pins, plan, lambda: schedule().placed_layers)


def kind_of(hardware: AnyHardware) -> AnyKind:
    """Return the kind of a machine."""
    return kind_named(hardware.kind)


@cache
def kind_named(name: str) -> AnyKind:
    """Return the machine kind called ``name``.

    Raises ``HardwareError`` for one of an installed package that cannot be used.
    """
    kind = resolve_name(KINDS[name]) if name in KINDS else installed_kind(name)
    if not isinstance(kind, MachineKind):
        entry = MACHINE_KINDS.described(MACHINE_KINDS.entries()[name])
        raise HardwareError(f"{entry} is a {type(kind).__name__}; needs a scheduler.MachineKind")
    return OpaqueKind(kind)


def make_tuning(hardware: AnyHardware, values: Mapping[str, object]) -> Tuning:
    """Return the tuning of a machine's kind with ``values`` in place of its defaults.

    Raises ``ScheduleError`` for an unknown name or a wrong value.
    """
    return tuning_with(kind_of(hardware).tuning, values)


def tuning_with(chosen: type[TuningT], values: Mapping[str, object]) -> TuningT:
    """Return the tuning of class ``chosen`` with ``values`` in place of its defaults.

    Raises ``ScheduleError`` for an unknown name or a wrong value.
    """
    names = [field.name for field in dataclasses.fields(chosen)]
    for name in values:
        if name not in names:
            raise ScheduleError(f"tuning.{name} is unknown{nearest(name, names)}; known: {', '.join(names)}")
    try:
        return pydantic.TypeAdapter(chosen).validate_python(dict(values))
    except pydantic.ValidationError as error:
        raise ScheduleError(f"tuning.{option_mistake(error)}") from error
