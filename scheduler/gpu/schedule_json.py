"""A GPU schedule as JSON: written, edited by hand perhaps, and read back, each part checked."""

from functools import partial
from typing import Any, Literal

from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.code import block_needs
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.schedule import GpuKernel, GpuSchedule
from dsascape.scheduler.gpu.tiles import ComputeUnit, GpuTiles
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.schedule_file import (
    Few,
    KernelRecord,
    MachineRecord,
    Numbers,
    ScheduleFile,
    Size,
    Sizes,
    check_tile,
    parsed,
    read_kernels,
    written,
)
from dsascape.wording import count


class _Machine(MachineRecord):
    kind: Literal["gpu"]


class _Kernel(KernelRecord):
    order: Numbers
    part: Sizes
    split: Few
    depth_step: Size | None
    stages: Few
    unit: ComputeUnit
    shares: Size = 1


class _File(ScheduleFile[_Kernel]):
    format: Literal["dsascape gpu schedule 1"]
    machine: _Machine


def schedule_json(schedule: GpuSchedule) -> dict[str, Any]:
    """Return what is written of a schedule."""
    return written(_File, "gpu", schedule, _kernel_record)


def _kernel_record(kernel: GpuKernel) -> _Kernel:
    tiles = kernel.tiles
    return _Kernel(
        output=kernel.name, group=kernel.group, operators=kernel.layer.ops, tile=tiles.tile, order=tiles.order,
        part=tiles.part, split=tiles.split, depth_step=tiles.depth_step, stages=tiles.stages, unit=tiles.unit,
        shares=tiles.shares,
    )  # fmt: skip


def read_schedule(data: object, costs: GpuCosts) -> GpuSchedule:
    """Return the schedule that `schedule_json` has written about the network of ``costs``.

    Raises ``ScheduleError`` for what is no schedule, is one of another network or machine, or cannot run.
    """
    file = parsed(_File, data)
    plan, kernels = read_kernels(file, costs.analysis, costs.dtype, partial(_kernel, costs))
    return GpuSchedule(plan, kernels, costs.dtype, file.policy)


def _kernel(costs: GpuCosts, where: str, record: _Kernel, layer: Layer) -> GpuKernel:
    check_tile(where, record.tile, layer.sink.shape)
    try:
        tiles = GpuTiles(
            record.tile, record.order, record.part, record.split, record.depth_step, record.stages, record.unit,
            record.shares,
        )
    except ValueError as error:
        raise ScheduleError(f"{where}: {error}") from error
    _check_block(where, layer, tiles, costs)
    return GpuKernel(record.output, record.group, layer, tiles)


def _check_block(where: str, layer: Layer, tiles: GpuTiles, costs: GpuCosts) -> None:
    """Refuse a block that no SM holds, or that asks tensor units for what they do not do."""
    view = costs.view
    if tiles.unit == "tensor":
        if view.tensor is None:
            raise ScheduleError(f"{where}: unit: {view.spec.name} has no tensor units for {view.dtype} in use")
        if nests_of(layer).product(layer, tiles.part) is None:
            raise ScheduleError(f"{where}: unit: tensor units compute products of two operands only")
    if tiles.shares > nests_of(layer).shared_iterations:
        raise ScheduleError(f"{where}: shares: {count(tiles.shares, 'block')} cannot share a reduction of this kernel")
    needs = block_needs(layer, tiles, view)
    held = occupancy(view.spec.sms, needs)
    if not held.blocks:
        raise ScheduleError(
            f"{where}: its block takes {count(needs.threads, 'thread')} of"
            f" {count(needs.registers_per_thread, 'register')} and"
            f" {needs.shared_bytes} B of shared memory: more {held.limited_by} than an SM of {view.spec.name} gives"
        )
