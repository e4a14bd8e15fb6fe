"""A schedule for a CPU: the kernels in order, each a layer with the steps of its loops and the threads that share them.

What lies in which cache is not decided but follows; lowering and code generation read the same record.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.scheduler.cpu.cost.split import Split
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.steps import Chosen, steps_of
from dsascape.scheduler.kernels.cut import layers_in_order
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Parallel, Steps, Tile, Vectorise
from dsascape.scheduler.kernels.schedule import Kernel, KernelSchedule, shown
from dsascape.wording import count
from dsascape.workloads.nest_by_nest import PATCHES


@dataclass(frozen=True, slots=True)
class CpuKernel(Kernel):
    """One kernel: a layer, the steps that make its loops, the threads that its parallel loops are split over."""

    steps: Steps
    threads: int
    algorithm: int = 0
    """Algorithm of its convolution (`workloads.nest_by_nest.Algorithms`); 0: directly."""

    @property
    def chunks(self) -> int:
        """Parts of the parallel loop, one a thread; fewer than threads where there are not so many iterations."""
        return Split(self.layer, self.program, self.threads).main.chunks.count

    @property
    def program(self) -> LoopProgram:
        """The loops of the kernel."""
        return loop_program(NaiveProgram(self.layer), self.steps)

    def __str__(self) -> str:
        sink = self.layer.sink.name
        tiled = [step for step in self.steps if isinstance(step, Tile)]
        parts = [f"tiles {_levels(step)}" for step in tiled if step.stage == sink]
        if others := [step for step in tiled if step.stage != sink]:
            parts.append(f"{count(len(others), 'further stage')} in tiles")
        split = [step for step in self.steps if isinstance(step, Parallel) and step.loops]
        parts += [f"first {count(step.loops, 'loop')} of {step.stage} in parallel" for step in split]
        vectors = [step for step in self.steps if isinstance(step, Vectorise) and step.stage == sink]
        parts += [f"vectors of {step.lanes}" for step in vectors]
        if self.algorithm:
            parts.append("patches" if self.algorithm == PATCHES else f"Winograd F({self.algorithm}, 3)")
        return f"{self.name}: {', '.join([*parts, count(self.threads, 'thread'), count(self.chunks, 'chunk')])}"


def _levels(step: Tile) -> str:
    """Return the tiles of a stage, outermost first: the dimensions, or numbered loops of a reduction, and sizes."""
    levels = [
        (" ".join([f"d{each}" if level.axes == "space" else f"r{each}" for each in level.order]), level.sizes)
        for level in step.levels
    ]
    return " and ".join([f"{'?' if sizes is None else shown(sizes)} ({axes})" for axes, sizes in levels])


@dataclass(frozen=True)
class CpuSchedule(KernelSchedule[CpuKernel]):
    """Decisions about a network on a CPU: its kernels in order, each with its loops and threads."""

    @cached_property
    def kernels_of(self) -> Mapping[int, tuple[CpuKernel, ...]]:
        """Kernels of each group that has any, in order, by the group's number."""
        by_group: dict[int, tuple[CpuKernel, ...]] = {}
        for kernel in self.runs:
            by_group[kernel.group] = (*by_group.get(kernel.group, ()), kernel)
        return by_group

    @property
    def chosen(self) -> dict[int, Chosen]:
        """Loops of each group that has kernels, by the group's number."""
        return {
            group: Chosen(tuple([kernel.steps for kernel in kernels]), kernels[0].algorithm)
            for group, kernels in self.kernels_of.items()
        }


def as_it_runs(schedule: CpuSchedule) -> CpuSchedule:
    """Return the schedule with a group of the plan for each kernel, where products read copies of operands.

    It is of the network with these copies; ``schedule`` itself where there are none, and where an operator is several
    kernels.
    """
    graph, own = schedule.written_out, schedule.plan.graph
    kept = {name for op in own.ops for name in op.outputs}
    added = [op for op in graph.ops if not kept & {*op.outputs}]
    if graph is own or len(graph.ops) - len(added) != len(own.ops) or any(op.kind != "Transpose" for op in added):
        return schedule
    by_run = [[op for op in run.layer.ops if not graph.ops[op].is_view] for run in schedule.runs]
    run_of = {op: run for run, ops in zip(schedule.runs, by_run, strict=True) for op in ops}
    views = [[op] for op in range(len(graph.ops)) if op not in run_of]
    plan = plan_from_groups(graph, [Group(tuple(ops)) for ops in (*by_run, *views)])
    runs = [
        replace(run_of[group.ops[0]], group=number)
        for number, group in enumerate(plan.groups) if group.ops[0] in run_of
    ]  # fmt: skip
    return CpuSchedule(plan, tuple(runs), schedule.dtype, schedule.policy)


def kernel_by_kernel(
    plan: FusionPlan, costs: CpuCosts, policy: str = "", direct: Container[int] = (), whole: Container[int] = ()
) -> CpuSchedule:
    """Return the schedule that calls the plan's kernels one after the other.

    Operators of several products and recurrences are several kernels each. Convolutions are computed by the
    algorithm that is estimated to be fastest (`CpuCosts.convolved`), those of groups in ``direct`` directly, and
    those of groups in ``whole`` as one kernel.
    """
    found = []
    chosen = [
        None if number in direct else costs.convolved(group.ops, may_be_phases=number not in whole)
        for number, group in enumerate(plan.groups)
    ]
    algorithms = frozenset([(each.op, each.algorithm) for each in chosen if each is not None])
    phased = frozenset([each.op for each in chosen if each is not None and each.in_phases])
    for number, (group, own) in enumerate(zip(plan.groups, chosen, strict=True)):
        algorithm = 0 if own is None else own.algorithm
        for layer in layers_in_order(costs.analysis, group.ops, costs.transposed, algorithms, phased):
            tiling, steps, threads = costs.decided(layer)
            steps = steps or steps_of(layer, tiling.tiles, costs.view.lanes(costs.view.dtype_of(layer, costs.dtype)))
            found.append(CpuKernel(layer.sink.name, number, layer, steps, threads or tiling.threads, algorithm))
    pins = () if costs.pins is None else costs.pins.applied(kernel.layer for kernel in found)
    return CpuSchedule(plan, tuple(found), costs.dtype, policy, pins)
