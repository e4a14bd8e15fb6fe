"""A GPU schedule as JSON: written, edited by hand perhaps, and read back, each part checked."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.checked import checked_steps
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuKernel, GpuSchedule
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.files import read_steps, steps_json
from dsascape.scheduler.kernels.schedule_file import (
    KernelRecord,
    MachineRecord,
    ScheduleFile,
    parsed,
    read_kernels,
    written,
)


class _Machine(MachineRecord):
    kind: Literal["gpu"]


class _Kernel(KernelRecord):
    steps: list[dict[str, Any]]


class _File(ScheduleFile[_Kernel]):
    format: Literal["dsascape gpu schedule 2"]
    machine: _Machine


_BEFORE = "dsascape gpu schedule 1"


def schedule_json(schedule: GpuSchedule) -> dict[str, Any]:
    """Return what is written of a schedule."""
    return written(_File, "gpu", schedule, _kernel_record)


def _kernel_record(kernel: GpuKernel) -> _Kernel:
    return _Kernel(
        output=kernel.name, group=kernel.group, operators=kernel.layer.ops, steps=steps_json(kernel.steps)
    )  # fmt: skip


def read_schedule(data: object, costs: GpuCosts) -> GpuSchedule:
    """Return the schedule that `schedule_json` has written about the network of ``costs``.

    Raises ``ScheduleError`` for what is no schedule, is one of another network or machine, or cannot run.
    """
    if isinstance(data, Mapping) and data.get("format") == _BEFORE:
        raise ScheduleError(
            f"schedule: format: has {_BEFORE!r}, whose kernels have tiles in place of steps; write it anew with"
            " `dsascape simulate --schedule-out`, and put other sizes into its Tile steps"
        )
    file = parsed(_File, data)
    plan, kernels = read_kernels(file, costs.analysis, costs.dtype, partial(_kernel, costs))
    return GpuSchedule(plan, kernels, costs.dtype, file.policy, file.pins)


def _kernel(costs: GpuCosts, where: str, record: _Kernel, layer: Layer) -> GpuKernel:
    steps = read_steps(record.steps, f"{where}: steps")
    steps = checked_steps(f"{where}: steps", layer, steps, costs.view.of(layer))
    return GpuKernel(record.output, record.group, layer, steps)
