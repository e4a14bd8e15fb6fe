"""A CPU schedule as JSON: written, edited by hand perhaps, and read back, each part checked."""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from fusion.plan import FusionPlan, Group
from scheduler.cpu.chains import parts_of
from scheduler.cpu.costs import CpuCosts
from scheduler.cpu.schedule import CpuKernel, CpuSchedule
from scheduler.cpu.tiles import LoopTiles, UpstreamTiles
from scheduler.cpu.tiling import vector_dim_of
from scheduler.errors import ScheduleError
from scheduler.kernels.layer import Layer

FORMAT = "dsascape cpu schedule 1"
_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)
_Number = Annotated[int, Field(ge=0, lt=2**53)]
_Size = Annotated[int, Field(ge=1, lt=2**53)]
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
    kind: Literal["cpu"]


class _Group(_Record):
    operators: _Numbers
    reason: str
    whole_dims: _Numbers = ()


class _Upstream(_Record):
    order: _Numbers
    register_tile: _Sizes
    vector_dim: _Number


class _Kernel(_Record):
    output: str
    group: _Number
    operators: _Numbers
    tile: _Sizes
    order: _Numbers
    parallel: _Number
    register_tile: _Sizes
    vector_dim: Annotated[int, Field(ge=-1, lt=64)]
    depth_step: _Size | None
    upstream: Annotated[tuple[_Upstream, ...], Field(strict=False)] = ()
    threads: _Size


class _File(_Record):
    format: Literal["dsascape cpu schedule 1"]
    network: _Network
    machine: _Machine
    policy: str
    groups: Annotated[tuple[_Group, ...], Field(strict=False)]
    kernels: Annotated[tuple[_Kernel, ...], Field(strict=False)]


def schedule_json(schedule: CpuSchedule) -> dict[str, Any]:
    """Return what is written of a schedule."""
    graph = schedule.graph
    found = _File(
        format=FORMAT,
        network=_Network(name=graph.name, batch=graph.batch, operators=len(graph.ops), dtype=schedule.dtype),
        machine=_Machine(kind="cpu"),
        policy=schedule.policy,
        groups=tuple(
            [
                _Group(operators=group.ops, reason=group.boundary_reason, whole_dims=group.whole_dims)
                for group in schedule.plan.groups
            ]
        ),
        kernels=tuple([_kernel_record(kernel) for kernel in schedule.runs]),
    )
    return found.model_dump(mode="json")


def _kernel_record(kernel: CpuKernel) -> _Kernel:
    tiles = kernel.tiles
    return _Kernel(
        output=kernel.name, group=kernel.group, operators=kernel.layer.ops, tile=tiles.tile, order=tiles.order,
        parallel=tiles.parallel, register_tile=tiles.register, vector_dim=tiles.vector_dim,
        depth_step=tiles.depth_step, threads=kernel.threads,
        upstream=tuple([
            _Upstream(order=each.order, register_tile=each.register, vector_dim=each.vector_dim)
            for each in tiles.upstream
        ]),
    )  # fmt: skip


def read_schedule(data: object, costs: CpuCosts) -> CpuSchedule:
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
    plan = FusionPlan(graph, tuple([Group(g.operators, g.reason, whole_dims=g.whole_dims) for g in file.groups]))
    kernels = tuple([_kernel(record, number, file, costs) for number, record in enumerate(file.kernels)])
    _check_order(kernels, costs)
    return CpuSchedule(plan, kernels, costs.dtype, file.policy)


def _kernel(record: _Kernel, number: int, file: _File, costs: CpuCosts) -> CpuKernel:
    where = f"schedule: kernels.{number} ({record.output})"
    graph, spec = costs.analysis.graph, costs.view.spec
    known = all(position < len(graph.ops) for position in record.operators)
    if not record.operators or not known or list(record.operators) != sorted(set(record.operators)):
        raise ScheduleError(f"{where}: operators: needs some of the network's {len(graph.ops)}, ascending")
    if record.group >= len(file.groups):
        raise ScheduleError(f"{where}: group {record.group}: there are {len(file.groups)}")
    layer = Layer(graph, record.operators, costs.analysis)
    shape = layer.sink.shape
    if record.output != layer.sink.name:
        raise ScheduleError(f"{where}: its operators end with {layer.sink.name!r}")
    if len(record.tile) != len(shape):
        raise ScheduleError(f"{where}: tile {list(record.tile)} is no part of {list(shape)}")
    if record.threads > spec.core_count:
        raise ScheduleError(f"{where}: threads: has {record.threads}; {spec.name} has {spec.core_count} cores")
    if record.vector_dim not in (-1, vector_dim_of(layer)):
        raise ScheduleError(
            f"{where}: vector_dim: has {record.vector_dim}; needs {vector_dim_of(layer)}, which lies innermost, or -1"
        )
    try:
        tiles = LoopTiles(
            record.tile, record.order, record.parallel, record.register_tile, record.vector_dim, record.depth_step,
            tuple([UpstreamTiles(each.order, each.register_tile, each.vector_dim) for each in record.upstream]),
        )  # fmt: skip
    except ValueError as error:
        raise ScheduleError(f"{where}: {error}") from error
    _check_upstream(layer, tiles, where)
    if any(part > size for part, size in zip(tiles.tile, tiles.padded(shape), strict=True)):
        raise ScheduleError(f"{where}: tile {list(record.tile)} is no part of {list(shape)}")
    return CpuKernel(record.output, record.group, layer, tiles, record.threads)


def _check_upstream(layer: Layer, tiles: LoopTiles, where: str) -> None:
    """Refuse tiles of anchors in front of the last that are not those of the layer."""
    in_front = tuple(reversed(parts_of(layer)[:-1]))
    if tiles.upstream and len(tiles.upstream) != len(in_front):
        raise ScheduleError(
            f"{where}: upstream: has tiles of {len(tiles.upstream)} anchors in front of the last; there are"
            f" {len(in_front)}"
        )
    for number, (part, each) in enumerate(zip(in_front, tiles.upstream, strict=False)):
        if len(each.register) != len(part.sink.shape) or each.vector_dim != vector_dim_of(part):
            raise ScheduleError(
                f"{where}: upstream.{number}: needs a register tile of {part.sink.name!r}, which has"
                f" {len(part.sink.shape)} dimensions, vectors along {vector_dim_of(part)}"
            )


def _check_order(kernels: tuple[CpuKernel, ...], costs: CpuCosts) -> None:
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
