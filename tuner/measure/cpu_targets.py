"""Processors that code is generated for, beside those that are built in: installed packages describe them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from dsascape.hw_models.common.extensions import ExtensionError, Extensions

CPU_TARGETS = Extensions("dsascape.cpu_targets", "target")


@dataclass(frozen=True)
class CpuTarget:
    """A processor that code is generated for.

    Packages register it by entry points in the group ``dsascape.cpu_targets``, under the name that ``--target`` takes.
    """

    description: Mapping[str, Any]
    """TVM's description of the target, such as ``{"kind": "llvm", "mtriple": ..., "mcpu": ...}``; the number of threads
    is added."""
    architecture: str
    """Architecture as ``platform.machine()`` names it there."""


@cache
def installed_target(name: str) -> CpuTarget:
    """Return the target that a package registers as ``name``.

    Raises ``ExtensionError`` for one that cannot be used, and ``KeyError`` for an unknown name.
    """
    entry = CPU_TARGETS.entries()[name]
    target = CPU_TARGETS.load(entry)
    if not isinstance(target, CpuTarget):
        raise ExtensionError(
            f"{CPU_TARGETS.described(entry)} is a {type(target).__name__}; needs a {__name__}.{CpuTarget.__name__}"
        )
    return target
