"""A schedule for a CPU: the kernels in order, each a layer with the tiles of its loops and the threads that share them.

What lies in which cache is not decided but follows; lowering and code generation read the same record.
"""

from collections.abc import Container
from dataclasses import dataclass, replace

from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.scheduler.cpu.cost.split import Split
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.steps import Decided, program_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.kernels.cut import layers_in_order
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kernels.schedule import Kernel, KernelSchedule, shown
from dsascape.wording import count


@dataclass(frozen=True, slots=True)
class CpuKernel(Kernel):
    """One kernel: a layer, the loops in which it is computed, the threads that its parallel loop is split over."""

    tiles: LoopTiles
    threads: int
    steps: Steps = ()
    """Steps that make its loops, in place of ``tiles``; none where the built-in choice writes those of the tiles."""

    @property
    def chunks(self) -> int:
        """Parts of the parallel loop, one a thread; fewer than threads where there are not so many iterations."""
        return Split(self.layer, self.program(1), self.threads).main.chunks.count

    @property
    def decided(self) -> Decided:
        """Its steps, or the tiles that steps are written from."""
        return self.steps or self.tiles

    def program(self, lanes: int) -> LoopProgram:
        """Return the loops of the kernel, for vectors of ``lanes``."""
        return program_of(self.layer, self.decided, lanes)

    def __str__(self) -> str:
        tiles = self.tiles
        if self.steps:
            decided = count(len(self.steps), "step"), count(self.threads, "thread"), count(self.chunks, "chunk")
            return f"{self.name}: {', '.join(decided)}"
        depth = "all" if tiles.depth_step is None else str(tiles.depth_step)
        vectors = "no vectors" if tiles.vector_dim < 0 else f"vectors along d{tiles.vector_dim}"
        in_front = "".join([
            f", in front registers {shown(each.register)}, loops {_loops(each.order)}, vectors along d{each.vector_dim}"
            for each in tiles.upstream
        ])  # fmt: skip
        depth += ", softmax in parts" if tiles.streamed else ""
        algorithm = f", Winograd F({tiles.winograd}, 3)" if tiles.winograd else ", patches" if tiles.patches else ""
        return (
            f"{self.name}: tile {shown(tiles.tile)} of {shown(self.layer.sink.shape)}, loops {_loops(tiles.order)},"
            f" first {tiles.parallel} in parallel, registers {shown(tiles.register)}, {vectors}, depth {depth}"
            f"{in_front}{algorithm}, {count(self.threads, 'thread')}, {count(self.chunks, 'chunk')}"
        )


def _loops(order: tuple[int, ...]) -> str:
    return " ".join(f"d{dim}" for dim in order)


@dataclass(frozen=True)
class CpuSchedule(KernelSchedule[CpuKernel]):
    """Decisions about a network on a CPU: its kernels in order, each with its loops and threads."""


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
    plan: FusionPlan, costs: CpuCosts, policy: str = "", direct: Container[int] = ()
) -> CpuSchedule:
    """Return the schedule that calls the plan's kernels one after the other.

    Operators of several products and recurrences are several kernels each. Convolutions are computed by the
    algorithm that is estimated to be fastest (`CpuCosts.algorithms_of`), those of groups in ``direct`` directly.
    """
    found = []
    chosen = [
        costs.algorithms_of(group.ops) if number not in direct else frozenset()
        for number, group in enumerate(plan.groups)
    ]
    algorithms = frozenset[tuple[int, int]]().union(*chosen)
    for number, (group, own) in enumerate(zip(plan.groups, chosen, strict=True)):
        algorithm = max([each for _, each in own], default=0)
        for layer in layers_in_order(costs.analysis, group.ops, costs.transposed, algorithms):
            tiling, steps, threads = costs.decided(layer)
            tiles = tiling.tiles.by(algorithm)
            found.append(CpuKernel(layer.sink.name, number, layer, tiles, threads or tiling.threads, steps))
    pins = () if costs.pins is None else costs.pins.applied(kernel.layer for kernel in found)
    return CpuSchedule(plan, tuple(found), costs.dtype, policy, pins)
