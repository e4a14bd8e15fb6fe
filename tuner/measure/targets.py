"""What code is generated for: the names that a user gives, as TVM's targets and the shape of a core."""

import platform
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tuner.codegen.default_tiles import CoreShape

_AARCH64 = "aarch64"
_GENERIC_ARM = "cortex-a76"


class TargetError(ValueError):
    """A target that is not known, or that this machine cannot run."""


@dataclass(frozen=True)
class CodeTarget:
    """A target with what the choice of tiles needs to know of it."""

    name: str
    description: dict[str, Any]
    """As TVM takes it."""
    core: CoreShape


def code_target(name: str, threads: int, flags: Collection[str] = ()) -> CodeTarget:
    """Return the target ``name``: ``llvm`` for this machine, or ``aarch64`` with a core's name behind a dash.

    ``flags`` are the instruction sets of this machine. Raises ``TargetError`` for any other name.
    """
    if name == "llvm":
        return CodeTarget(name, {"kind": "llvm", "mcpu": _own_processor(), "num-cores": threads}, _core(flags))
    runs_here(name)
    core = name.removeprefix(_AARCH64).removeprefix("-") or _GENERIC_ARM
    description = {
        "kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": core, "mattr": ["+neon"], "num-cores": threads,
    }  # fmt: skip
    return CodeTarget(name, description, CoreShape(lanes=4, registers=32))


def runs_here(name: str) -> bool:
    """Return whether code for the target runs on this machine; raise ``TargetError`` for one that is not known."""
    if name == "llvm":
        return True
    if name != _AARCH64 and not name.startswith(f"{_AARCH64}-"):
        raise TargetError(f"target has {name!r}; needs llvm, or aarch64 with a core such as aarch64-cortex-a76")
    return platform.machine() == _AARCH64


def check_target(name: str) -> None:
    """Raise ``TargetError`` for a target that is not known, or whose code does not run on this machine."""
    if not runs_here(name):
        raise TargetError(
            f"target has {name!r}, whose code does not run on this {platform.machine()}; --out DIR writes it as an"
            " object file"
        )


def _own_processor() -> str:
    import tvm  # noqa: PLC0415 - heavy

    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


def _core(flags: Collection[str]) -> CoreShape:
    if "avx512f" in flags:
        return CoreShape(lanes=16, registers=32)
    if "avx2" in flags or "avx" in flags:
        return CoreShape(lanes=8, registers=16)
    if "asimd" in flags:
        return CoreShape(lanes=4, registers=32)
    return CoreShape(lanes=4, registers=16)
