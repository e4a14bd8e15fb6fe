"""Tuned kernels of a folder, as a source of steps for one machine."""

from pathlib import Path

from dsascape.experiments.question.points import WrittenKernels
from dsascape.hw_models import AnyHardware
from dsascape.scheduler.kernels.loops.sources import KernelFile
from dsascape.tuner.search.identity import code_digest, machine_digest
from dsascape.wording import count


def kernel_file(kernels: WrittenKernels, hardware: AnyHardware) -> KernelFile:
    """Return the kernels that were found for ``hardware`` by this code."""
    return KernelFile(Path(kernels.path), machine_digest(hardware), code_digest())


def kernels_said(kernels: WrittenKernels, hardware: AnyHardware) -> tuple[str, ...]:
    """Return what of a folder is not used, in a line for each reason; raise ``ScheduleError`` for a damaged file."""
    ignored = kernel_file(kernels, hardware).ignored
    reasons = {"machine": f"are of another machine than {hardware.name}", "code": "were found with other code"}
    return tuple([
        f"{count(number, 'kernel')} of {kernels.path} {reasons[why]}, and ignored" for why, number in ignored.items()
    ])  # fmt: skip
