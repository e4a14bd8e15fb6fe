"""Targets of code generation: names that a user gives, and their descriptions for TVM."""

import platform
import re
from collections.abc import Mapping
from typing import Any

from dsascape.hw_models.common.extensions import ExtensionError
from dsascape.hw_models.text.messages import nearest
from dsascape.tuner.measure.cpu_targets import CPU_TARGETS, CpuTarget, installed_target
from dsascape.tuner.measure.cuda import CudaDevice, CudaError

_AARCH64, _X86_64 = "aarch64", "x86_64"
_GENERIC = {_AARCH64: "cortex-a76", _X86_64: "x86-64-v3"}
"""LLVM's processor of a target that names an architecture alone."""
_FEATURES: Mapping[str, tuple[str, ...]] = {_AARCH64: ("+neon",), _X86_64: ()}
_CUDA = "cuda"
_OPENCL = "opencl"
_ARCHITECTURE = re.compile(r"sm_\d+[a-z]?")
_GENERIC_CUDA = "sm_80"
_WRITTEN = "dsascape measure --out DIR writes it to a file"
_PACKED = ", and dsascape bundle build packs it for a machine that runs it"


class TargetError(ValueError):
    """A target that is unknown, or whose code this machine cannot run."""


def target_description(name: str, threads: int, own_processor: str) -> dict[str, Any]:
    """Return TVM's description of a CPU target: ``llvm`` for this machine, an architecture and a core, or a package's.

    Architectures are ``aarch64`` and ``x86_64``, cores those of LLVM, such as ``x86_64-sapphirerapids``.
    ``own_processor`` is LLVM's name of this machine's processor. Raises ``TargetError`` for any other name.
    """
    if name == "llvm":
        return {"kind": "llvm", "mcpu": own_processor, "num-cores": threads}
    if is_gpu_target(name):
        raise TargetError(f"target has {name!r}, which is for GPUs; needs one for CPUs")
    architecture = _built_in(name)
    if architecture is None:
        return {**_installed(name).description, "num-cores": threads}
    core = name.removeprefix(architecture).removeprefix("-") or _GENERIC[architecture]
    features = {"mattr": list(_FEATURES[architecture])} if _FEATURES[architecture] else {}
    return {
        "kind": "llvm", "mtriple": f"{architecture}-linux-gnu", "mcpu": core, **features, "num-cores": threads,
    }  # fmt: skip


def is_gpu_target(name: str) -> bool:
    """Return whether the target's code runs on a GPU."""
    return name in (_CUDA, _OPENCL) or name.startswith(f"{_CUDA}-")


def cuda_architecture(name: str) -> str | None:
    """Return the target's CUDA architecture, such as sm_90; None for OpenCL.

    Raises ``TargetError`` for a malformed name.
    """
    if name == _OPENCL:
        return None
    architecture = name.removeprefix(_CUDA).removeprefix("-") or _GENERIC_CUDA
    if not _ARCHITECTURE.fullmatch(architecture):
        raise TargetError(f"target has {name!r}; needs cuda with an architecture such as cuda-sm_90")
    return architecture


def gpu_target_description(name: str) -> dict[str, Any]:
    """Return TVM's description of the GPU target ``name``."""
    architecture = cuda_architecture(name)
    return {"kind": _OPENCL} if architecture is None else {"kind": _CUDA, "arch": architecture}


def gpu_here(name: str) -> str | None:
    """Return the name of this machine's GPU on which the target's code can be measured; None without one."""
    if cuda_architecture(name) is None:
        return None
    try:
        return CudaDevice().name
    except CudaError:
        return None


def runs_here(name: str) -> bool:
    """Return whether the target's code runs on this machine; raise ``TargetError`` for an unknown target."""
    if is_gpu_target(name):
        cuda_architecture(name)
        return False
    return target_architecture(name) == platform.machine()


def target_architecture(name: str) -> str:
    """Return the architecture of a CPU target, as Python names it; raise ``TargetError`` for an unknown target."""
    if name == "llvm":
        return platform.machine()
    return _built_in(name) or _installed(name).architecture


def _built_in(name: str) -> str | None:
    """Return the architecture that a target's name begins with; None for one of a package."""
    return next((each for each in _GENERIC if name == each or name.startswith(f"{each}-")), None)


def _installed(name: str) -> CpuTarget:
    """Return the target of an installed package; raise ``TargetError`` for an unknown or broken one."""
    others = tuple(CPU_TARGETS.entries())
    if name not in others:
        also = f"; installed packages have {', '.join(sorted(others))}" if others else ""
        meant = nearest(name, (*_GENERIC, "llvm", "cuda", "opencl", *others))
        raise TargetError(
            f"target has {name!r}{meant}; needs llvm, aarch64 or x86_64 with a core such as aarch64-cortex-a76 or"
            f" x86_64-sapphirerapids, cuda with an architecture such as cuda-sm_90, or opencl{also}"
        )
    try:
        return installed_target(name)
    except ExtensionError as error:
        raise TargetError(f"target has {name!r}: {error}") from error


def check_cpu_target(name: str) -> None:
    """Raise ``TargetError`` for an unknown target, or one for GPUs."""
    runs_here(name)
    if is_gpu_target(name):
        raise TargetError(
            f"target has {name!r}; needs one for CPUs: llvm, or aarch64 or x86_64 with a core behind a dash"
        )


def check_target(name: str) -> None:
    """Raise ``TargetError`` for an unknown target, or one whose code does not run on this machine."""
    if is_gpu_target(name):
        if gpu_here(name) is None:
            device = "OpenCL" if cuda_architecture(name) is None else "CUDA"
            raise TargetError(
                f"target has {name!r}, and no {device} device is here to measure on; {_WRITTEN}"
                f"{_PACKED if device == 'CUDA' else ''}"
            )
        return
    if not runs_here(name):
        raise TargetError(
            f"target has {name!r}, whose code does not run on this {platform.machine()}; {_WRITTEN}{_PACKED}"
        )
