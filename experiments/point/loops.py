"""The loops of one kernel of a schedule, as text."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dsascape.hw_models import AnyHardware, Cpu, Gpu
from dsascape.scheduler import Schedule, ScheduleError
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.schedule import Kernel
from dsascape.scheduler.layer_names import layer_names

_KernelT = TypeVar("_KernelT", bound=Kernel)


def loops_text(schedule: Schedule, hardware: AnyHardware, name: str) -> str:
    """Return the loop program of the kernel ``name`` as text.

    The name is that of its tensor or of its layer, its number in the order of runs, or ``#41``, its number in the plan.

    Raises ``ScheduleError`` for a machine whose kernels are no loop programs, and for a kernel that is not there.
    """
    if isinstance(schedule, CpuSchedule) and isinstance(hardware, Cpu):
        of_cpu = _kernel(schedule.runs, name, layer_names(schedule))
        dtype = CpuView(hardware).dtype_of(of_cpu.layer, schedule.dtype)
        return f"# {of_cpu}\n{of_cpu.program(hardware.simd.lanes_of(dtype))}"
    if isinstance(schedule, GpuSchedule) and isinstance(hardware, Gpu):
        of_gpu = _kernel(schedule.runs, name, layer_names(schedule))
        view = GpuView(hardware, schedule.dtype).of(of_gpu.layer)
        return f"# {of_gpu}\n{of_gpu.program(hardware.sms.warp, view.tensor)}"
    raise ScheduleError(f"--loops prints kernels of a CPU or a GPU; {hardware.name} is neither")


def _kernel(kernels: Sequence[_KernelT], name: str, layers: Mapping[str, str]) -> _KernelT:
    found = [kernel for kernel in kernels if kernel.name == name]
    if name.startswith("#"):
        called = [(layers.get(kernel.layer.sink.name, ""), kernel) for kernel in kernels]
        found = [kernel for layer, kernel in called if name in (layer, layer.partition(" ")[0])]
    if not found and name.isdecimal() and int(name) < len(kernels):
        return kernels[int(name)]
    if not found:
        raise ScheduleError(
            f"--loops: no kernel is called {name!r}; there are {len(kernels)}, numbered from 0; or named as in the"
            f" plan, as {next(iter(layers.values()), '#0')!r}"
        )
    return found[0]
