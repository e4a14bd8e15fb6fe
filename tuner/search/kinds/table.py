"""Table of the kinds of machines that programs are searched for: the one place where the search asks for a kind.

A kind has a file in this folder and a line in ``KINDS``, and is imported on first use.
"""

from collections.abc import Mapping
from functools import cache
from pkgutil import resolve_name

from dsascape.hw_models import HardwareError, MachineSpec
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.kinds.kind import KernelSpace, TunedKind
from dsascape.tuner.search.options import SpaceOptions

KINDS: Mapping[str, str] = {
    "cpu": "dsascape.tuner.search.kinds.cpu:PROCESSORS",
    "gpu": "dsascape.tuner.search.kinds.gpu:GPUS",
}


@cache
def tuned_kind(name: str) -> TunedKind:
    """Return the kind of machine called ``name``; raise ``KeyError`` for one that no programs are searched for."""
    found: TunedKind = resolve_name(KINDS[name])
    return found


def kind_to_tune(machine: MachineSpec) -> TunedKind:
    """Return the kind of a machine; raise ``HardwareError`` for one whose kernels have no sketches."""
    if machine.kind not in KINDS:
        raise HardwareError(f"{machine.name}: is no CPU and no GPU; kernels are tuned for these")
    return tuned_kind(machine.kind)


def space_of(naive: NaiveProgram, machine: SearchMachine, options: SpaceOptions | None = None) -> KernelSpace:
    """Return all programs of a kernel on a machine; raise ``KeyError`` for a kind of machine that has none."""
    return tuned_kind(machine.kind).space(naive, machine, options)
