"""Table of the machine kinds that files can describe: the spec of each, built in or of an installed package."""

from functools import cache
from typing import Any

from dsascape.hw_models.common.extensions import ExtensionError, Extensions
from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.cpu.spec import Cpu
from dsascape.hw_models.dsa.spec import ClusteredDsa
from dsascape.hw_models.gpu.spec import Gpu
from dsascape.hw_models.simulation.machine import HardwareError

SPECS: dict[str, type[MachineSpec]] = {
    "clustered_dsa": ClusteredDsa,
    "cpu": Cpu,
    "gpu": Gpu,
}
"""Specs of the built-in kinds, by the value of ``kind``."""
MACHINE_KINDS = Extensions(
    "dsascape.machine_kinds",
    "machine kind",
    {kind: f"{spec.__module__}:{spec.__qualname__}" for kind, spec in SPECS.items()},
)
"""Packages name a `scheduler.kinds.kind.MachineKind`, whose ``spec`` is read here."""


def hardware_kinds() -> tuple[str, ...]:
    """Return the names of all machine kinds, built-in ones first; those that cannot be loaded are included."""
    return tuple(MACHINE_KINDS.entries())


@cache
def installed_kind(name: str) -> Any:
    """Return the ``MachineKind`` that an installed package registers as ``name``.

    Raises ``HardwareError`` if its import fails, or if it is no machine kind.
    """
    entry = MACHINE_KINDS.entries()[name]
    try:
        kind = MACHINE_KINDS.load(entry)
    except ExtensionError as error:
        raise HardwareError(str(error)) from error
    spec = getattr(kind, "spec", None)
    if not (isinstance(spec, type) and issubclass(spec, MachineSpec)):
        raise HardwareError(
            f"{MACHINE_KINDS.described(entry)} is no machine kind; needs a scheduler.MachineKind whose spec derives"
            " from hw_models.MachineSpec"
        )
    return kind


def spec_of(kind: str) -> type[MachineSpec]:
    """Return the spec class of a machine kind, one of `hardware_kinds`; raises what `installed_kind` raises."""
    if kind in SPECS:
        return SPECS[kind]
    spec: type[MachineSpec] = installed_kind(kind).spec
    return spec


def broken_kinds() -> tuple[str, ...]:
    """Return one message per machine kind of an installed package that cannot be used."""
    broken = []
    for kind in hardware_kinds():
        try:
            spec_of(kind)
        except HardwareError as error:
            broken.append(str(error))
    return (*broken, *MACHINE_KINDS.duplicates())
