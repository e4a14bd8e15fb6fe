"""What code is generated for: the names that a user gives, as TVM's targets."""

import platform
import re
from typing import Any

from dsascape.tuner.measure.cuda import CudaDevice, CudaError

_AARCH64 = "aarch64"
_GENERIC_ARM = "cortex-a76"
_CUDA = "cuda"
_OPENCL = "opencl"
_ARCHITECTURE = re.compile(r"sm_\d+[a-z]?")
_GENERIC_CUDA = "sm_80"


class TargetError(ValueError):
    """A target that is not known, or that this machine cannot run."""


def target_description(name: str, threads: int, own_processor: str) -> dict[str, Any]:
    """Return the target ``name`` as TVM takes it: ``llvm`` for this machine, or ``aarch64`` with a core behind a dash.

    ``own_processor`` is what LLVM calls this machine's. Raises ``TargetError`` for any other name.
    """
    if name == "llvm":
        return {"kind": "llvm", "mcpu": own_processor, "num-cores": threads}
    if is_gpu_target(name):
        raise TargetError(f"target has {name!r}, which is for GPUs; code with the loops of a CPU does not run there")
    runs_here(name)
    core = name.removeprefix(_AARCH64).removeprefix("-") or _GENERIC_ARM
    return {
        "kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": core, "mattr": ["+neon"], "num-cores": threads,
    }  # fmt: skip


def is_gpu_target(name: str) -> bool:
    """Return whether code for the target runs on a GPU."""
    return name in (_CUDA, _OPENCL) or name.startswith(f"{_CUDA}-")


def cuda_architecture(name: str) -> str | None:
    """Return the architecture that a target's code is for, such as sm_90; None for OpenCL.

    Raises ``TargetError`` for a text that names none.
    """
    if name == _OPENCL:
        return None
    found = name.removeprefix(_CUDA).removeprefix("-") or _GENERIC_CUDA
    if not _ARCHITECTURE.fullmatch(found):
        raise TargetError(f"target has {name!r}; needs cuda with an architecture such as cuda-sm_90")
    return found


def gpu_target_description(name: str) -> dict[str, Any]:
    """Return the target ``name``, one for GPUs, as TVM takes it."""
    architecture = cuda_architecture(name)
    return {"kind": _OPENCL} if architecture is None else {"kind": _CUDA, "arch": architecture}


def gpu_here(name: str) -> str | None:
    """Return what the GPU of this machine is called that code for a target for GPUs can be measured on, if any."""
    if cuda_architecture(name) is None:
        return None
    try:
        return CudaDevice().name
    except CudaError:
        return None


def runs_here(name: str) -> bool:
    """Return whether code for the target runs on this machine; raise ``TargetError`` for one that is not known."""
    if name == "llvm":
        return True
    if is_gpu_target(name):
        cuda_architecture(name)
        return False
    if name != _AARCH64 and not name.startswith(f"{_AARCH64}-"):
        raise TargetError(
            f"target has {name!r}; needs llvm, aarch64 with a core such as aarch64-cortex-a76, cuda with an"
            " architecture such as cuda-sm_90, or opencl"
        )
    return platform.machine() == _AARCH64


def check_cpu_target(name: str) -> None:
    """Raise ``TargetError`` for a target that is not known, or is for GPUs."""
    runs_here(name)
    if is_gpu_target(name):
        raise TargetError(f"target has {name!r}; needs one for CPUs: llvm, or aarch64 with a core behind a dash")


def check_target(name: str) -> None:
    """Raise ``TargetError`` for a target that is not known, or whose code does not run on this machine."""
    if is_gpu_target(name):
        if gpu_here(name) is None:
            device = "OpenCL" if cuda_architecture(name) is None else "CUDA"
            raise TargetError(
                f"target has {name!r}, and no {device} device is here that code could be measured on; --out DIR writes"
                " it"
            )
        return
    if not runs_here(name):
        raise TargetError(
            f"target has {name!r}, whose code does not run on this {platform.machine()}; --out DIR writes it as an"
            " object file"
        )
