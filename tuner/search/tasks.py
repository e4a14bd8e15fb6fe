"""Tasks of a search: what a kernel computes, on a machine, and how often a network does so."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, CpuSchedule
from dsascape.scheduler.cpu.schedule.steps import program_of, steps_of
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.schedule import GpuKernel, GpuSchedule
from dsascape.scheduler.gpu.steps import steps_of as grid_steps_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.space import Program

_FLOPS_BASE = 1.618
"""Tasks of one kind are similar within such a factor of operations (TVM's default)."""


@dataclass(frozen=True, eq=False)
class Task:
    """One kernel on a machine; equal kernels are one task."""

    key: str
    naive: NaiveProgram
    machine: SearchMachine
    weight: int
    """Number of times that the kernel occurs."""
    builtin: Steps
    """Steps of the built-in choice."""
    threads: int
    """Threads of the built-in choice."""

    @property
    def name(self) -> str:
        """Name of the kernel: that of its last result."""
        return self.naive.layer.sink.name

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of its operators, without views."""
        ops = [self.naive.layer.graph.ops[position] for position in self.naive.layer.ops]
        return tuple([op.name for op in ops if not op.is_view])

    @cached_property
    def flops(self) -> int:
        """Floating-point operations."""
        return sum([compiled.nest.operations().flops for compiled in self.naive.layer.nests])

    @cached_property
    def similarity(self) -> tuple[str, int]:
        """Equal for similar tasks: kinds of their reductions, and about as many operations."""
        kinds = [stage.nests[0].name for stage in self.naive.stages.values() if stage.kind == "sum"]
        return " ".join(kinds), int(math.log(max(self.flops, 1), _FLOPS_BASE))

    def program(self) -> Program:
        """Return the program of the built-in choice."""
        if self.machine.kind == "gpu":
            return Program(self.builtin, loop_program(self.naive, self.builtin))
        return Program(self.builtin, program_of(self.naive.layer, self.builtin, self.machine.lanes))


def tasks_of(schedule: CpuSchedule | GpuSchedule, view: CpuView | GpuView) -> tuple[Task, ...]:
    """Return the tasks of a schedule in the order in which they first occur; kernels that run in order are none.

    No steps describe the loops of a recurrence, a running sum, or, on a GPU, a single number or a Fourier transform.
    Raises ``ValueError`` for a schedule with convolutions that are not direct: programs are of a network's own
    operators, so that searches need ``tuning.winograd=0``.
    """
    if isinstance(schedule, CpuSchedule) and any(kernel.tiles.algorithm for kernel in schedule.runs):
        raise ValueError("a schedule with convolutions that are not direct has no tasks; needs tuning.winograd=0")
    found: dict[str, list[CpuKernel | GpuKernel]] = {}
    programs: dict[str, NaiveProgram] = {}
    for kernel in schedule.runs:
        if not _has_loops(kernel.layer, view.spec.kind):
            continue
        naive = NaiveProgram(kernel.layer)
        key = naive.key(schedule.dtype, view.spec.kind)
        programs.setdefault(key, naive)
        found.setdefault(key, []).append(kernel)
    machine = search_machine(view, schedule.dtype)
    return tuple([
        Task(key, programs[key], machine, len(kernels), _builtin(kernels[0], machine), _threads(kernels[0]))
        for key, kernels in found.items()
    ])  # fmt: skip


def search_machine(view: CpuView | GpuView, dtype: str) -> SearchMachine:
    """Return what a search needs to know of a machine."""
    return SearchMachine.of_gpu(view) if isinstance(view, GpuView) else SearchMachine.of_cpu(view, dtype)


def task_of(layer: Layer, costs: CpuCosts | GpuCosts) -> Task | None:
    """Return the task of one layer that no schedule has, with the built-in choice for it and weight 0.

    None where steps do not describe its loops, or no block of it fits into an SM.
    """
    view, machine = costs.view, search_machine(costs.view, costs.dtype)
    if not _has_loops(layer, view.spec.kind):
        return None
    naive, name = NaiveProgram(layer), layer.sink.name
    key = naive.key(costs.dtype, view.spec.kind)
    if isinstance(costs, GpuCosts):
        chosen = costs.tiling_of(layer)
        if chosen is None:
            return None
        return Task(key, naive, machine, 0, _builtin(GpuKernel(name, 0, layer, chosen.tiles), machine), 1)
    tiling = costs.tiling_of(layer)
    kernel = CpuKernel(name, 0, layer, tiling.tiles, tiling.threads)
    return Task(key, naive, machine, 0, _builtin(kernel, machine), tiling.threads)


def _has_loops(layer: Layer, kind: str) -> bool:
    """Whether steps can say all that there is to say about a layer's loops on a machine kind."""
    if any(compiled.nest.ordered for compiled in layer.nests):
        return False
    if kind == "cpu":
        return True
    has_lines = any(read.line is not None for nest in nests_of(layer).nests for read in nest.reads)
    return bool(layer.sink.shape) and not has_lines


def _builtin(kernel: CpuKernel | GpuKernel, machine: SearchMachine) -> Steps:
    if isinstance(kernel, GpuKernel):
        return kernel.steps or grid_steps_of(kernel.layer, kernel.tiles, machine.warp, machine.grid.tensor)
    return kernel.steps or steps_of(kernel.layer, kernel.tiles, machine.lanes)


def _threads(kernel: CpuKernel | GpuKernel) -> int:
    return kernel.threads if isinstance(kernel, CpuKernel) else 1


def joined(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Return tasks of several networks with equal ones as one, whose weight is the sum."""
    found: dict[str, Task] = {}
    for task in tasks:
        known = found.get(task.key)
        weight = task.weight + (0 if known is None else known.weight)
        first = task if known is None else known
        found[task.key] = Task(
            first.key, first.naive, first.machine, weight, first.builtin, first.threads
        )  # fmt: skip
    return tuple(found.values())
