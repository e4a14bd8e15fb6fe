"""A GPU schedule as JSON: written, edited by hand perhaps, and read back, each part checked."""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from fusion.plan import FusionPlan, Group
from hw_models.gpu.occupancy import occupancy
from scheduler.errors import ScheduleError
from scheduler.gpu.code import block_needs
from scheduler.gpu.costs import GpuCosts
from scheduler.gpu.nests import nests_of
from scheduler.gpu.schedule import GpuKernel, GpuSchedule
from scheduler.gpu.tiles import ComputeUnit, GpuTiles
from scheduler.kernels.layer import Layer

FORMAT = "dsascape gpu schedule 1"
_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)
_Number = Annotated[int, Field(ge=0, lt=2**53)]
_Size = Annotated[int, Field(ge=1, lt=2**53)]
_Few = Annotated[int, Field(ge=1, le=1024)]
_Numbers = Annotated[tuple[_Number, ...], Field(strict=False)]
_Sizes = Annotated[tuple[_Size, ...], Field(strict=False)]


class _Record(BaseModel):
    model_config = _STRICT


class _Network(_Record):
    name: str
    batch: _Size
    operators: _Number
    dtype: str


class _Machine(_Record):
    kind: Literal["gpu"]


class _Group(_Record):
    operators: _Numbers
    reason: str


class _Kernel(_Record):
    output: str
    group: _Number
    operators: _Numbers
    tile: _Sizes
    order: _Numbers
    part: _Sizes
    split: _Few
    depth_step: _Size | None
    stages: _Few
    unit: ComputeUnit


class _File(_Record):
    format: Literal["dsascape gpu schedule 1"]
    network: _Network
    machine: _Machine
    policy: str
    groups: Annotated[tuple[_Group, ...], Field(strict=False)]
    kernels: Annotated[tuple[_Kernel, ...], Field(strict=False)]


def schedule_json(schedule: GpuSchedule) -> dict[str, Any]:
    """Return what is written of a schedule."""
    graph = schedule.graph
    found = _File(
        format=FORMAT,
        network=_Network(name=graph.name, batch=graph.batch, operators=len(graph.ops), dtype=schedule.dtype),
        machine=_Machine(kind="gpu"),
        policy=schedule.policy,
        groups=tuple([_Group(operators=group.ops, reason=group.boundary_reason) for group in schedule.plan.groups]),
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
    try:
        file = _File.model_validate(data)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ScheduleError(f"schedule: {where}: {first['msg']}") from error
    graph = costs.analysis.graph
    for what, has, needs in (
        ("network.name", file.network.name, graph.name), ("network.batch", file.network.batch, graph.batch),
        ("network.operators", file.network.operators, len(graph.ops)),
        ("network.dtype", file.network.dtype, costs.dtype),
    ):  # fmt: skip
        if has != needs:
            raise ScheduleError(f"schedule: {what} is {has}; the run has {needs}")
    every = [position for group in file.groups for position in group.operators]
    if sorted(every) != list(range(len(graph.ops))):
        raise ScheduleError("schedule: groups: needs every operator of the network once")
    plan = FusionPlan(graph, tuple([Group(group.operators, group.reason) for group in file.groups]))
    kernels = tuple([_kernel(record, number, file, costs) for number, record in enumerate(file.kernels)])
    _check_order(kernels, costs)
    return GpuSchedule(plan, kernels, costs.dtype, file.policy)


def _kernel(record: _Kernel, number: int, file: _File, costs: GpuCosts) -> GpuKernel:
    where = f"schedule: kernels.{number} ({record.output})"
    graph = costs.analysis.graph
    known = all(position < len(graph.ops) for position in record.operators)
    if not record.operators or not known or list(record.operators) != sorted(set(record.operators)):
        raise ScheduleError(f"{where}: operators: needs some of the network's {len(graph.ops)}, ascending")
    if record.group >= len(file.groups):
        raise ScheduleError(f"{where}: group {record.group}: there are {len(file.groups)}")
    layer = Layer(graph, record.operators, costs.analysis)
    shape = layer.sink.shape
    if record.output != layer.sink.name:
        raise ScheduleError(f"{where}: its operators end with {layer.sink.name!r}")
    if len(record.tile) != len(shape) or any(part > size for part, size in zip(record.tile, shape, strict=False)):
        raise ScheduleError(f"{where}: tile {list(record.tile)} is no part of {list(shape)}")
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


def _check_order(kernels: tuple[GpuKernel, ...], costs: GpuCosts) -> None:
    """Refuse kernels that read what no kernel before them has written, or that leave something out."""
    graph = costs.analysis.graph
    there: set[str] = set()
    for number, kernel in enumerate(kernels):
        for name in kernel.layer.inputs:
            stored = graph.storage.get(name, name)
            if graph.tensors[stored].role == "activation" and stored not in there:
                where = f"schedule: kernels.{number} ({kernel.name})"
                raise ScheduleError(f"{where}: reads {stored!r} before it is written")
        there.update(kernel.layer.outputs)
    results = [name for name in sorted(graph.stored_outputs) if graph.tensors[name].role == "activation"]
    missing = [name for name in results if name not in there]
    if missing:
        raise ScheduleError(f"schedule: kernels: no kernel writes the network's result {missing[0]!r}")
