"""Table of the kinds of machines that code is measured for: the one place that asks for a machine's or target's kind.

A kind has a module in this folder and a line in ``KINDS``, and is imported on first use.
"""

from collections.abc import Mapping
from functools import cache
from pkgutil import resolve_name

from dsascape.experiments.real.measured_kind import MeasuredKind
from dsascape.hw_models import AnyHardware, HardwareError
from dsascape.tuner.measure import is_gpu_target

KINDS: Mapping[str, str] = {
    "cpu": "dsascape.experiments.real.on_processor:PROCESSORS",
    "gpu": "dsascape.experiments.real.on_gpu:GPUS",
}


@cache
def _named(name: str) -> MeasuredKind:
    found: MeasuredKind = resolve_name(KINDS[name])
    return found


def measured_kind(machine: AnyHardware) -> MeasuredKind:
    """Return the kind of a machine; raise ``HardwareError`` for one that code is not generated for."""
    if machine.kind not in KINDS:
        raise HardwareError(f"{machine.name}: is not a CPU or GPU; code is generated and measured for these")
    return _named(machine.kind)


def kind_of_target(target: str) -> MeasuredKind:
    """Return the kind of machine that code for ``target`` runs on."""
    return _named("gpu" if is_gpu_target(target) else "cpu")
