"""A CPU schedule as JSON: written, edited by hand perhaps, and read back, each part checked."""

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.checked import checked_steps
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, CpuSchedule
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, UpstreamTiles
from dsascape.scheduler.cpu.search.register_tiles import vector_dim_of
from dsascape.scheduler.cpu.structure.chains import depth_of, streamed_softmax
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.cut import only_convolution
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.files import read_steps, steps_json
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kernels.schedule_file import (
    KernelRecord,
    MachineRecord,
    Number,
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
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.wording import count
from dsascape.workloads.nest_by_nest import PATCHES, Algorithms, has_algorithm
from dsascape.workloads.winograd.accuracy import sizes_of


class _Machine(MachineRecord):
    kind: Literal["cpu"]


class _Upstream(Record):
    order: Numbers
    register_tile: Sizes
    vector_dim: Number


class _Kernel(KernelRecord):
    order: Numbers
    parallel: Number
    register_tile: Sizes
    vector_dim: Annotated[int, Field(ge=-1, lt=64)]
    depth_step: Size | None
    upstream: Annotated[tuple[_Upstream, ...], Field(strict=False)] = ()
    streamed: bool = False
    winograd: Number = 0
    patches: bool = False
    threads: Size
    steps: list[dict[str, Any]] | None = None


class _File(ScheduleFile[_Kernel]):
    format: Literal["dsascape cpu schedule 1"]
    machine: _Machine


def schedule_json(schedule: CpuSchedule) -> dict[str, Any]:
    """Return what is written of a schedule."""
    return written(_File, "cpu", schedule, _kernel_record)


def _kernel_record(kernel: CpuKernel) -> _Kernel:
    tiles = kernel.tiles
    return _Kernel(
        output=kernel.name, group=kernel.group, operators=kernel.layer.ops, tile=tiles.tile, order=tiles.order,
        parallel=tiles.parallel, register_tile=tiles.register, vector_dim=tiles.vector_dim,
        depth_step=tiles.depth_step, threads=kernel.threads, winograd=tiles.winograd, patches=tiles.patches,
        streamed=tiles.streamed,
        upstream=tuple([
            _Upstream(order=each.order, register_tile=each.register, vector_dim=each.vector_dim)
            for each in tiles.upstream
        ]),
        steps=steps_json(kernel.steps) if kernel.steps else None,
    )  # fmt: skip


def read_schedule(data: object, costs: CpuCosts) -> CpuSchedule:
    """Return the schedule that `schedule_json` has written about the network of ``costs``.

    Kernels on more threads than the run may use (`tuning.threads`) run on all of those.

    Raises ``ScheduleError`` for what is no schedule, is one of another network or machine, or cannot run.
    """
    file = parsed(_File, data)
    plan, kernels = read_kernels(
        file, costs.analysis, costs.dtype, partial(_kernel, costs), costs.transposed, _algorithms(file, costs)
    )
    return CpuSchedule(plan, kernels, costs.dtype, file.policy, file.pins)


def _algorithms(file: _File, costs: CpuCosts) -> Algorithms:
    """Return how a file's kernels compute convolutions that are not direct; refuse what they cannot compute."""
    found = set[tuple[int, int]]()
    graph = costs.analysis.graph
    for number, kernel in enumerate(file.kernels):
        if not kernel.winograd and not kernel.patches:
            continue
        where = f"schedule: kernels.{number} ({kernel.output}): {'winograd' if kernel.winograd else 'patches'}"
        has, needs = (kernel.winograd, "0") if kernel.winograd else ("true", "false")
        if kernel.winograd and kernel.patches:
            raise ScheduleError(f"{where}: has {has}; needs 0, as patches has true")
        if kernel.group >= len(file.groups):
            raise ScheduleError(f"{where}: group {kernel.group}: there are {len(file.groups)}")
        sizes = sizes_of(costs.dtype, _LARGEST, is_coarse=costs.view.tuning.coarse_winograd)
        if kernel.winograd and kernel.winograd not in sizes:
            allowed = " or ".join(map(str, (0, *sizes)))
            raise ScheduleError(f"{where}: has {has}; numbers of {costs.dtype} need {allowed}")
        if kernel.steps is not None:
            raise ScheduleError(f"{where}: has {has}; a kernel with steps needs {needs}")
        ops = [op for op in file.groups[kernel.group].operators if op < len(graph.ops)]
        op, algorithm = only_convolution(costs.analysis, ops), kernel.winograd or PATCHES
        if op is None or not has_algorithm(graph.ops[op], graph.tensors, algorithm):
            kind = "convolution of 3x3, stride 1" if kernel.winograd else "convolution in two dimensions"
            raise ScheduleError(
                f"{where}: has {has}; needs {needs}: its group has no {kind} and one group that is its only reduction"
            )
        found.add((op, algorithm))
    return frozenset(found)


_LARGEST = 6
"""Results along each side of the largest tiles of Winograd's algorithm."""


def _kernel(costs: CpuCosts, where: str, record: _Kernel, layer: Layer) -> CpuKernel:
    shape, spec = layer.sink.shape, costs.view.spec
    if len(record.tile) != len(shape):
        raise ScheduleError(f"{where}: tile {list(record.tile)} is no part of {list(shape)}")
    if record.threads > spec.core_count:
        raise ScheduleError(f"{where}: threads: has {record.threads}; {spec.name} has {count(spec.core_count, 'core')}")
    if record.vector_dim not in (-1, vector_dim_of(layer)):
        raise ScheduleError(
            f"{where}: vector_dim: has {record.vector_dim}; needs {vector_dim_of(layer)}, which lies innermost, or -1"
        )
    try:
        tiles = LoopTiles(
            record.tile, record.order, record.parallel, record.register_tile, record.vector_dim, record.depth_step,
            tuple([UpstreamTiles(each.order, each.register_tile, each.vector_dim) for each in record.upstream]),
            record.streamed, record.winograd, record.patches,
        )  # fmt: skip
    except ValueError as error:
        raise ScheduleError(f"{where}: {error}") from error
    _check_upstream(layer, tiles, where)
    _check_streamed(layer, tiles, where)
    check_tile(where, tiles.tile, tiles.padded(shape))
    threads = min(record.threads, max(costs.view.thread_counts))
    steps = () if record.steps is None else _steps(costs, where, record.steps, layer)
    return CpuKernel(record.output, record.group, layer, tiles, threads, steps)


def _steps(costs: CpuCosts, where: str, data: object, layer: Layer) -> Steps:
    """Return the steps of a kernel; raise ``ScheduleError`` if they do not fit it, or if their program cannot run."""
    return checked_steps(f"{where}: steps", layer, read_steps(data, f"{where}: steps"), costs.view)


def _check_streamed(layer: Layer, tiles: LoopTiles, where: str) -> None:
    """Refuse running statistics where there are none, or where steps or tiles do not fit them."""
    if not tiles.streamed:
        return
    if streamed_softmax(layer) is None or not tiles.upstream:
        raise ScheduleError(f"{where}: streamed: needs a softmax between two products, with upstream tiles of both")
    depth, along = depth_of(parts_of(layer)[-1]), tiles.vector_dim
    if tiles.depth_step is not None and tiles.depth_step > depth:
        raise ScheduleError(f"{where}: depth_step: has {tiles.depth_step}; streamed needs at most {depth}")
    if tiles.whole_registers[along] < layer.sink.shape[along]:
        raise ScheduleError(f"{where}: streamed: needs a tile of all {layer.sink.shape[along]} along d{along}")


def _check_upstream(layer: Layer, tiles: LoopTiles, where: str) -> None:
    """Refuse tiles of anchors in front of the last that are not those of the layer."""
    in_front = tuple(reversed(parts_of(layer)[:-1]))
    if tiles.upstream and len(tiles.upstream) != len(in_front):
        raise ScheduleError(
            f"{where}: upstream: has tiles of {count(len(tiles.upstream), 'anchor')} in front of the last; there are"
            f" {len(in_front)}"
        )
    for number, (part, each) in enumerate(zip(in_front, tiles.upstream, strict=False)):
        if len(each.register) != len(part.sink.shape) or each.vector_dim != vector_dim_of(part):
            raise ScheduleError(
                f"{where}: upstream.{number}: needs a register tile of {part.sink.name!r}, which has"
                f" {count(len(part.sink.shape), 'dimension')}, vectors along {vector_dim_of(part)}"
            )
