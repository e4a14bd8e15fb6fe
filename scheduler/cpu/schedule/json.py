"""A CPU schedule as JSON: written, edited by hand perhaps, and read back, each part checked."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.checked import checked_steps
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, CpuSchedule
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.cut import only_convolution
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.files import read_steps, steps_json
from dsascape.scheduler.kernels.schedule_file import (
    KernelRecord,
    MachineRecord,
    Number,
    ScheduleFile,
    Size,
    parsed,
    read_kernels,
    written,
)
from dsascape.wording import count
from dsascape.workloads.nest_by_nest import PATCHES, Algorithms, has_algorithm
from dsascape.workloads.winograd.accuracy import sizes_of


class _Machine(MachineRecord):
    kind: Literal["cpu"]


class _Kernel(KernelRecord):
    steps: list[dict[str, Any]]
    threads: Size
    winograd: Number = 0
    patches: bool = False


class _File(ScheduleFile[_Kernel]):
    format: Literal["dsascape cpu schedule 2"]
    machine: _Machine


def schedule_json(schedule: CpuSchedule) -> dict[str, Any]:
    """Return what is written of a schedule."""
    return written(_File, "cpu", schedule, _kernel_record)


def _kernel_record(kernel: CpuKernel) -> _Kernel:
    patches = kernel.algorithm == PATCHES
    return _Kernel(
        output=kernel.name, group=kernel.group, operators=kernel.layer.ops, threads=kernel.threads,
        steps=steps_json(kernel.steps), winograd=0 if patches else kernel.algorithm, patches=patches,
    )  # fmt: skip


def read_schedule(data: object, costs: CpuCosts) -> CpuSchedule:
    """Return the schedule that `schedule_json` has written about the network of ``costs``.

    Kernels on more threads than the run may use (`tuning.threads`) run on all of those.

    Raises ``ScheduleError`` for what is no schedule, is one of another network or machine, or cannot run.
    """
    if isinstance(data, Mapping) and data.get("format") == _BEFORE:
        raise ScheduleError(
            f"schedule: format: has {_BEFORE!r}, whose kernels have tiles in place of steps; write it anew with"
            " `dsascape simulate --schedule-out`, and put other sizes into its Tile steps"
        )
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


_BEFORE = "dsascape cpu schedule 1"


def _kernel(costs: CpuCosts, where: str, record: _Kernel, layer: Layer) -> CpuKernel:
    spec = costs.view.spec
    if record.threads > spec.core_count:
        raise ScheduleError(f"{where}: threads: has {record.threads}; {spec.name} has {count(spec.core_count, 'core')}")
    steps = read_steps(record.steps, f"{where}: steps")
    steps = checked_steps(f"{where}: steps", layer, steps, costs.view)
    threads = min(record.threads, max(costs.view.thread_counts))
    algorithm = PATCHES if record.patches else record.winograd
    return CpuKernel(record.output, record.group, layer, steps, threads, algorithm)
