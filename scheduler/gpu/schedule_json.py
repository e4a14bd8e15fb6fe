"""A GPU schedule as JSON: written, edited by hand perhaps, and read back, each part checked."""

from typing import Annotated, Any, Literal

from pydantic import Field

from hw_models.gpu.occupancy import occupancy
from scheduler.errors import ScheduleError
from scheduler.gpu.code import block_needs
from scheduler.gpu.costs import GpuCosts
from scheduler.gpu.nests import nests_of
from scheduler.gpu.schedule import GpuKernel, GpuSchedule
from scheduler.gpu.tiles import ComputeUnit, GpuTiles
from scheduler.kernels.layer import Layer
from scheduler.kernels.schedule_file import (
    Few,
    GroupRecord,
    KernelRecord,
    NetworkRecord,
    Numbers,
    Record,
    Size,
    Sizes,
    check_order,
    check_tile,
    group_records,
    network_record,
    parsed,
    read_layer,
    read_plan,
)

FORMAT: Literal["dsascape gpu schedule 1"] = "dsascape gpu schedule 1"


class _Machine(Record):
    kind: Literal["gpu"]


class _Kernel(KernelRecord):
    order: Numbers
    part: Sizes
    split: Few
    depth_step: Size | None
    stages: Few
    unit: ComputeUnit


class _File(Record):
    format: Literal["dsascape gpu schedule 1"]
    network: NetworkRecord
    machine: _Machine
    policy: str
    groups: Annotated[tuple[GroupRecord, ...], Field(strict=False)]
    kernels: Annotated[tuple[_Kernel, ...], Field(strict=False)]


def schedule_json(schedule: GpuSchedule) -> dict[str, Any]:
    """Return what is written of a schedule."""
    found = _File(
        format=FORMAT,
        network=network_record(schedule.graph, schedule.dtype),
        machine=_Machine(kind="gpu"),
        policy=schedule.policy,
        groups=group_records(schedule.plan),
        kernels=tuple([_kernel_record(kernel) for kernel in schedule.runs]),
    )
    return found.model_dump(mode="json")


def _kernel_record(kernel: GpuKernel) -> _Kernel:
    tiles = kernel.tiles
    return _Kernel(
        output=kernel.name, group=kernel.group, operators=kernel.layer.ops, tile=tiles.tile, order=tiles.order,
        part=tiles.part, split=tiles.split, depth_step=tiles.depth_step, stages=tiles.stages, unit=tiles.unit,
    )  # fmt: skip


def read_schedule(data: object, costs: GpuCosts) -> GpuSchedule:
    """Return the schedule that `schedule_json` has written about the network of ``costs``.

    Raises ``ScheduleError`` for what is no schedule, is one of another network or machine, or cannot run.
    """
    file, graph = parsed(_File, data), costs.analysis.graph
    plan = read_plan(file.network, file.groups, graph, costs.dtype)
    kernels = tuple([_kernel(record, number, len(file.groups), costs) for number, record in enumerate(file.kernels)])
    check_order(kernels, graph)
    return GpuSchedule(plan, kernels, costs.dtype, file.policy)


def _kernel(record: _Kernel, number: int, groups: int, costs: GpuCosts) -> GpuKernel:
    where = f"schedule: kernels.{number} ({record.output})"
    layer = read_layer(where, record, groups, costs.analysis)
    check_tile(where, record.tile, layer.sink.shape)
    try:
        tiles = GpuTiles(
            record.tile, record.order, record.part, record.split, record.depth_step, record.stages, record.unit
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
    needs = block_needs(layer, tiles, view)
    held = occupancy(view.spec.sms, needs)
    if not held.blocks:
        raise ScheduleError(
            f"{where}: its block takes {needs.threads} threads of {needs.registers_per_thread} registers and"
            f" {needs.shared_bytes} B of shared memory: more {held.limited_by} than an SM of {view.spec.name} gives"
        )
