"""The kinds of machine that networks are scheduled for.

A kind is its folders in `hw_models` and `scheduler`, and its line in ``KINDS``. It is imported when it is asked for.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any

import pydantic

from dsascape.fusion.costs import KernelCosts
from dsascape.hw_models import AnyHardware
from dsascape.hw_models.text.messages import option_mistake
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kinds.kind import MachineKind
from dsascape.workloads.analysis import Analysis

KINDS: Mapping[str, str] = {
    "clustered_dsa": "dsascape.scheduler.dsa.kind:CLUSTERED_DSA",
    "cpu": "dsascape.scheduler.cpu.kind:CPU",
    "gpu": "dsascape.scheduler.gpu.kind:GPU",
}


@dataclass(frozen=True, kw_only=True)
class Placing:
    """Where a network is placed: the machine, how many of its parts are in use, the dtype, the scheduler's tuning."""

    hardware: AnyHardware
    parts: int
    dtype: str
    tuning: Any = None
    """None: the kind's defaults."""
    known: Any = None
    """None: nothing is kept."""

    @property
    def kind(self) -> MachineKind:
        return kind_of(self.hardware)

    def costs(self, analysis: Analysis) -> KernelCosts:
        """Return the machine's view of a network."""
        found: KernelCosts = self.kind.costs(
            self.hardware, self.parts, self.dtype, self.tuning, self.known, analysis
        )
        return found


def kind_of(hardware: AnyHardware) -> MachineKind:
    """Return what the kind of a machine offers."""
    return kind_named(hardware.kind)


@cache
def kind_named(name: str) -> MachineKind:
    """Return what the machines offer whose ``kind`` is ``name``."""
    found: MachineKind = resolve_name(KINDS[name])
    return found


def make_tuning(hardware: AnyHardware, values: Mapping[str, object]) -> Any:
    """Return the tuning of a machine's kind with ``values`` in place of its defaults; raise ``ScheduleError``."""
    chosen = kind_of(hardware).tuning
    known = [field.name for field in dataclasses.fields(chosen)]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; nearest: tuning.{near[0]}" if near else ""
            raise ScheduleError(f"tuning.{name} is unknown{hint}; known: {', '.join(known)}")
    try:
        return pydantic.TypeAdapter(chosen).validate_python(dict(values))
    except pydantic.ValidationError as error:
        raise ScheduleError(f"tuning.{option_mistake(error)}") from error
