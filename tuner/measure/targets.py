"""What code is generated for: the names that a user gives, as TVM's targets."""

import platform
from typing import Any

_AARCH64 = "aarch64"
_GENERIC_ARM = "cortex-a76"


class TargetError(ValueError):
    """A target that is not known, or that this machine cannot run."""


def target_description(name: str, threads: int, own_processor: str) -> dict[str, Any]:
    """Return the target ``name`` as TVM takes it: ``llvm`` for this machine, or ``aarch64`` with a core behind a dash.

    ``own_processor`` is what LLVM calls this machine's. Raises ``TargetError`` for any other name.
    """
    if name == "llvm":
        return {"kind": "llvm", "mcpu": own_processor, "num-cores": threads}
    runs_here(name)
    core = name.removeprefix(_AARCH64).removeprefix("-") or _GENERIC_ARM
    return {
        "kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": core, "mattr": ["+neon"], "num-cores": threads,
    }  # fmt: skip


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
