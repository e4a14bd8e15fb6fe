"""GPUs as machines that programs are searched for."""

import random
from collections.abc import Iterator, Sequence

from dsascape.hw_models import HardwareError, MachineSpec
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.kind import GPU
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kinds.any_kind import OpaqueKind
from dsascape.scheduler.kinds.kind import MachineCosts
from dsascape.scheduler.kinds.schedule import MachineSchedule
from dsascape.scheduler.kinds.table import tuning_with
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.grid_mutations import GRID_MUTATIONS, grid_decisions
from dsascape.tuner.search.grid_space import GridSpace
from dsascape.tuner.search.hints import HintError
from dsascape.tuner.search.kinds.kind import Decision, KernelSpace, TunedKind
from dsascape.tuner.search.mutations import drawn
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.reformer.grid_composing import composed_on_grid
from dsascape.tuner.search.reuse.grids import ReusableGrid
from dsascape.tuner.search.simulated_grids import SimulatedGrids
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task, equal_kernels, runs_in_order
from dsascape.workloads.analysis import Analysis

_SCHEDULED = OpaqueKind(GPU)


class GpuSpace(GridSpace, KernelSpace):
    """All programs of one kernel on a GPU."""

    def mutated(self, steps: Steps, rng: random.Random) -> Program | None:
        """Return a program with one decision changed; None where that did not work."""
        return drawn(self, GRID_MUTATIONS, steps, rng)

    def decisions(self, steps: Steps) -> Iterator[Decision]:
        """Yield copies of operands, who shares reductions, the least threads of a block, the order of blocks."""
        return grid_decisions(self, steps)

    def composed(self, parts: Sequence[Steps]) -> Program | None:
        """Return the program with most of the steps of ``parts`` that is legal with their sizes; None: none is."""
        return composed_on_grid(self, parts)

    def composed_apart(self, parts: Sequence[Steps]) -> None:
        """Return None: a kernel is one grid, whose blocks compute all that it needs of each part."""

    def placed_inside(self, steps: Steps) -> Iterator[Program]:
        """Yield nothing: places follow from the structure."""
        return iter(())

    def reusable(self) -> ReusableGrid:
        """Return the kernel as one that reuses, and is reused; raise ``ReuseError`` where shapes do not describe it."""
        return ReusableGrid(self)


def tasks_of(schedule: GpuSchedule, view: GpuView) -> tuple[Task, ...]:
    """Return the tasks of a schedule in the order in which they first occur; kernels that run in order are none.

    No steps describe the loops of a recurrence, a running sum, a single number or a Fourier transform.
    """
    machine = SearchMachine.of_gpu(view)
    kernels = [kernel for kernel in schedule.runs if _has_loops(kernel.layer)]
    return tuple([
        Task(key, naive, machine, len(equal), equal[0].steps, 1)
        for key, naive, equal in equal_kernels(kernels, schedule.dtype, machine.kind)
    ])  # fmt: skip


def task_of(layer: Layer, costs: GpuCosts) -> Task | None:
    """Return the task of one layer that no schedule has, with the built-in choice for it and weight 0.

    None where steps do not describe its loops, or no block of it fits into an SM.
    """
    chosen = costs.tiling_of(layer) if _has_loops(layer) else None
    if chosen is None:
        return None
    machine, naive = SearchMachine.of_gpu(costs.view), NaiveProgram(layer)
    return Task(naive.key(costs.dtype, machine.kind), naive, machine, 0, chosen.steps_of(layer), 1)


def _has_loops(layer: Layer) -> bool:
    """Whether steps can say all that there is to say about a layer's loops."""
    if runs_in_order(layer):
        return False
    has_lines = any(read.line is not None for nest in nests_of(layer).nests for read in nest.reads)
    return bool(layer.sink.shape) and not has_lines


class _Gpus:
    """GPUs: candidates run all threads that their kernels ask for."""

    def check(self, machine: MachineSpec, threads: int) -> None:
        """Raise ``HardwareError`` for a number of threads."""
        if threads:
            raise HardwareError(f"{machine.name}: is a GPU; threads are for CPUs")

    def check_hints(self, machine: MachineSpec, hints: str) -> None:
        """Raise ``HintError``: hints are for CPUs."""
        raise HintError(f"{hints}: hints are for CPUs; {machine.name} is a GPU")

    def settings(self, threads: int) -> dict[str, object]:
        """Return nothing: kernels that are tuned have the scheduler's tuning of all."""
        del threads  # refused by `check`
        return {}

    def analysed(self, analysis: Analysis) -> Analysis:
        """Return a network as it is."""
        return analysis

    def simulated(self, machine: MachineSpec, dtype: str, settings: dict[str, object]) -> SimulatedGrids:
        """Return the machine model as a runner, for kernels in ``dtype`` with the tuning ``settings``."""
        return SimulatedGrids(GpuView(_SCHEDULED.own_spec(machine), dtype, tuning_with(GpuTuning, settings)))

    def space(self, naive: NaiveProgram, machine: SearchMachine, options: SpaceOptions | None = None) -> GpuSpace:
        """Return all programs of a kernel on a machine."""
        return GpuSpace(naive, machine, options)

    def tasks(self, schedule: MachineSchedule, costs: MachineCosts) -> tuple[Task, ...]:
        """Return the tasks of a schedule in the order in which they first occur."""
        return tasks_of(_SCHEDULED.own_schedule(schedule), _SCHEDULED.own_costs(costs).view)

    def task(self, layer: Layer, costs: MachineCosts) -> Task | None:
        """Return the task of one layer; None where steps do not describe its loops, or no block of it fits."""
        return task_of(layer, _SCHEDULED.own_costs(costs))


GPUS: TunedKind = _Gpus()
