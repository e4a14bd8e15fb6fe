"""The loops of one kernel of a schedule, as text."""

from collections.abc import Sequence

from dsascape.hw_models import AnyHardware, Cpu
from dsascape.scheduler import Schedule, ScheduleError
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, CpuSchedule


def loops_text(schedule: Schedule, hardware: AnyHardware, name: str) -> str:
    """Return the loop program of the kernel ``name``, or of that number, as text.

    Raises ``ScheduleError`` for a machine whose kernels are no loop programs, and for a kernel that is not there.
    """
    if not isinstance(schedule, CpuSchedule) or not isinstance(hardware, Cpu):
        raise ScheduleError(f"--loops prints kernels of a CPU; {hardware.name} is none")
    kernel = _kernel(schedule.runs, name)
    return f"# {kernel}\n{kernel.program(hardware.simd.lanes_of(schedule.dtype))}"


def _kernel(kernels: Sequence[CpuKernel], name: str) -> CpuKernel:
    found = [kernel for kernel in kernels if kernel.name == name]
    if not found and name.isdecimal() and int(name) < len(kernels):
        return kernels[int(name)]
    if not found:
        raise ScheduleError(f"--loops: no kernel is called {name!r}; there are {len(kernels)}, numbered from 0")
    return found[0]
