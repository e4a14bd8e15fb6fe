"""A GPU schedule as JSON: written, edited by hand perhaps, and read back, each part checked."""

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.gpu.checked import checked_steps
from dsascape.scheduler.gpu.clusters import check_cluster
from dsascape.scheduler.gpu.code import block_needs
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.nests import BlockNest, Product, nests_of
from dsascape.scheduler.gpu.schedule import GpuKernel, GpuSchedule
from dsascape.scheduler.gpu.streams import softmax_in_front
from dsascape.scheduler.gpu.tiles import ComputeUnit, FrontTiles, GpuTiles, Rows
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.files import read_steps, steps_json
from dsascape.scheduler.kernels.loops.steps import RowPadding
from dsascape.scheduler.kernels.schedule import shown
from dsascape.scheduler.kernels.schedule_file import (
    Few,
    KernelRecord,
    MachineRecord,
    Numbers,
    Record,
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


class _Padding(Record):
    elements: Few
    dims: Few = 1


def _padding(rows: Rows) -> tuple[_Padding | None, ...]:
    return tuple([None if each is None else _Padding(elements=each.elements, dims=each.dims) for each in rows])


def _rows(records: tuple[_Padding | None, ...]) -> Rows:
    return tuple([None if each is None else RowPadding(each.elements, each.dims) for each in records])


_Paddings = Annotated[tuple[_Padding | None, ...], Field(strict=False, max_length=2)]


class _Front(Record):
    part: Sizes
    depth_step: Size | None
    unit: ComputeUnit
    at_once: Sizes | None = None
    rows: _Paddings = ()


class _Kernel(KernelRecord):
    tile: Sizes
    order: Numbers
    part: Sizes
    split: Few
    depth_step: Size | None
    stages: Few
    unit: ComputeUnit
    shares: Size = 1
    fronts: Annotated[tuple[_Front, ...], Field(strict=False)] = ()
    stream: Size | None = None
    rows: _Paddings = ()
    cluster: Sizes = ()
    steps: list[dict[str, Any]] | None = None


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
        shares=tiles.shares, stream=tiles.stream, rows=_padding(tiles.rows), cluster=tiles.cluster,
        fronts=tuple([
            _Front(
                part=front.part, depth_step=front.depth_step, unit=front.unit, at_once=front.at_once,
                rows=_padding(front.rows),
            )
            for front in tiles.fronts
        ]),
        steps=steps_json(kernel.steps) if kernel.steps else None,
    )  # fmt: skip


def read_schedule(data: object, costs: GpuCosts) -> GpuSchedule:
    """Return the schedule that `schedule_json` has written about the network of ``costs``.

    Raises ``ScheduleError`` for what is no schedule, is one of another network or machine, or cannot run.
    """
    file = parsed(_File, data)
    plan, kernels = read_kernels(file, costs.analysis, costs.dtype, partial(_kernel, costs))
    return GpuSchedule(plan, kernels, costs.dtype, file.policy, file.pins)


def _kernel(costs: GpuCosts, where: str, record: _Kernel, layer: Layer) -> GpuKernel:
    if record.steps is not None:
        steps = read_steps(record.steps, f"{where}: steps")
        checked = checked_steps(f"{where}: steps", layer, steps, costs.view.of(layer))
        return GpuKernel(record.output, record.group, layer, checked.tiles, checked.steps)
    check_tile(where, record.tile, layer.sink.shape)
    try:
        tiles = GpuTiles(
            record.tile,
            record.order,
            record.part,
            record.split,
            record.depth_step,
            record.stages,
            record.unit,
            record.shares,
            tuple([
                FrontTiles(front.part, front.depth_step, front.unit, front.at_once, _rows(front.rows))
                for front in record.fronts
            ]),
            stream=record.stream,
            rows=_rows(record.rows),
            cluster=record.cluster,
        )
    except ValueError as error:
        raise ScheduleError(f"{where}: {error}") from error
    _check_fronts(where, layer, tiles, costs)
    _check_block(where, layer, tiles, costs)
    return GpuKernel(record.output, record.group, layer, tiles)


def _check_block(where: str, layer: Layer, tiles: GpuTiles, costs: GpuCosts) -> None:
    """Refuse a block that no SM holds, or that asks tensor units for what they do not do."""
    view, nests = costs.view.of(layer), nests_of(layer)
    if any(tiles.rows):
        if nests.anchor < 0:
            raise ScheduleError(f"{where}: rows: this kernel has no product whose operands are staged")
        _check_rows(where, nests.nests[nests.anchor], tiles.rows)
    if tiles.unit == "tensor":
        _check_tensor(where, nests.product(layer, tiles.part), view)
    if tiles.shares > nests.shared_iterations:
        raise ScheduleError(f"{where}: shares: {count(tiles.shares, 'block')} cannot share a reduction of this kernel")
    check_cluster(where, layer, tiles, view)
    if tiles.stream is not None and softmax_in_front(layer) is None:
        raise ScheduleError(f"{where}: stream: this kernel has no softmax in front of a product, done piece by piece")
    needs = block_needs(layer, tiles, view)
    held = occupancy(view.spec.sms, needs)
    if not held.blocks:
        raise ScheduleError(
            f"{where}: its block takes {count(needs.threads, 'thread')} of"
            f" {count(needs.registers_per_thread, 'register')} and"
            f" {needs.shared_bytes} B of shared memory: more {held.limited_by} than an SM of {view.spec.name} gives"
        )


def _check_rows(where: str, nest: BlockNest, rows: Rows) -> None:
    """Refuse padded rows of operands that are not copied, or that have fewer dimensions than a row."""
    for operand, each in enumerate(rows):
        if each is None:
            continue
        if operand >= len(nest.reads[:2]) or not nest.is_copied(operand):
            raise ScheduleError(f"{where}: rows: {operand}: this operand is not copied to shared memory")
        rank = len(nest.reads[operand].order)
        if each.dims > rank:
            raise ScheduleError(
                f"{where}: rows: {operand}: has rows of {count(each.dims, 'dimension')}; the operand has {rank}"
            )


def _check_fronts(where: str, layer: Layer, tiles: GpuTiles, costs: GpuCosts) -> None:
    """Refuse tiles that are not those of the contractions in front of the last, or do not fit what the tile needs."""
    nests = nests_of(layer)
    if len(tiles.fronts) != len(nests.fronts):
        names = ", ".join([nests.nests[number].compiled.target for number in nests.fronts]) or "none"
        raise ScheduleError(
            f"{where}: fronts: tiles of {count(len(tiles.fronts), 'contraction')} are given, in front of its last one"
            f" are {len(nests.fronts)} ({names})"
        )
    works = nests.works(layer, tiles.tile, tiles.stream)
    for place, (number, front) in enumerate(zip(nests.fronts, tiles.fronts, strict=True)):
        nest, here = nests.nests[number], f"{where}: fronts: {place}"
        box = nest.box(works[number].extents)
        for name, extents in (("part", front.part), ("at_once", front.at_once or front.part)):
            if len(extents) != len(box) or any(map(int.__gt__, extents, box)):
                raise ScheduleError(
                    f"{here}: {name}: {shown(extents)} does not fit into the {shown(box)} that a block needs of"
                    f" {nest.compiled.target}"
                )
        _check_rows(here, nest, front.rows)
        if front.unit == "tensor":
            _check_tensor(here, nest.product_of(front.part), costs.view.of(layer))


def _check_tensor(where: str, product: Product | None, view: GpuView) -> None:
    if view.tensor is None:
        dtype = view.product or view.dtype
        raise ScheduleError(f"{where}: unit: {view.spec.name} has no tensor units for {dtype} in use")
    if product is None:
        raise ScheduleError(f"{where}: unit: tensor units compute products of two operands only")
