"""CPUs as machines that programs are searched for."""

import random
from collections.abc import Iterator, Sequence

from dsascape.hw_models import MachineSpec
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.kind import CPU
from dsascape.scheduler.cpu.schedule.schedule import CpuSchedule
from dsascape.scheduler.cpu.schedule.steps import steps_of
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kinds.any_kind import OpaqueKind
from dsascape.scheduler.kinds.kind import MachineCosts
from dsascape.scheduler.kinds.schedule import MachineSchedule
from dsascape.scheduler.kinds.table import tuning_with
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.kinds.kind import Decision, KernelSpace, TunedKind
from dsascape.tuner.search.loop_mutations import LOOP_MUTATIONS, loop_decisions
from dsascape.tuner.search.mutations import drawn
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.reformer.composing import composed, placed_inside
from dsascape.tuner.search.reuse.loops import ReusableLoops
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task, equal_kernels, runs_in_order
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.bounded import with_bounded_nests

_SCHEDULED = OpaqueKind(CPU)


class CpuSpace(KernelSpace):
    """All programs of one kernel on a CPU."""

    def mutated(self, steps: Steps, rng: random.Random) -> Program | None:
        """Return a program with one decision changed; None where that did not work."""
        return drawn(self, LOOP_MUTATIONS, steps, rng)

    def decisions(self, steps: Steps) -> Iterator[Decision]:
        """Yield places, what is parallel, what is written out."""
        return loop_decisions(self, steps)

    def composed(self, parts: Sequence[Steps]) -> Program | None:
        """Return the program whose nodes have the steps of their mini sub-graph; None where it is not legal."""
        return composed(self, parts)

    def composed_apart(self, parts: Sequence[Steps]) -> Program | None:
        """Return what is composed: a mini sub-graph reads from memory what another one leaves there."""
        return composed(self, parts)

    def placed_inside(self, steps: Steps) -> Iterator[Program]:
        """Yield the legal programs in which one flexible stage of ``steps`` is computed in another place."""
        return placed_inside(self, steps)

    def reusable(self) -> ReusableLoops:
        """Return the kernel as one that reuses, and is reused; raise ``ReuseError`` where shapes do not describe it."""
        return ReusableLoops(self)


def tasks_of(schedule: CpuSchedule, view: CpuView) -> tuple[Task, ...]:
    """Return the tasks of a schedule in the order in which they first occur; kernels that run in order are none.

    No steps describe the loops of a recurrence or a running sum. Raises ``ValueError`` for a schedule with convolutions
    that are not direct: programs are of a network's own operators, so that searches need ``tuning.winograd=0``.
    """
    if any(kernel.algorithm for kernel in schedule.runs):
        raise ValueError("a schedule with convolutions that are not direct has no tasks; needs tuning.winograd=0")
    machine = SearchMachine.of_cpu(view, schedule.dtype)
    kernels = [kernel for kernel in schedule.runs if not runs_in_order(kernel.layer)]
    return tuple([
        Task(key, naive, machine, len(equal), equal[0].steps, equal[0].threads)
        for key, naive, equal in equal_kernels(kernels, schedule.dtype, machine.kind)
    ])  # fmt: skip


def task_of(layer: Layer, costs: CpuCosts) -> Task | None:
    """Return the task of one layer that no schedule has, with the built-in choice for it and weight 0.

    None where steps do not describe its loops.
    """
    if runs_in_order(layer):
        return None
    machine, naive, tiling = SearchMachine.of_cpu(costs.view, costs.dtype), NaiveProgram(layer), costs.tiling_of(layer)
    steps = steps_of(layer, tiling.tiles, machine.lanes)
    return Task(naive.key(costs.dtype, machine.kind), naive, machine, 0, steps, tiling.threads)


class _Processors:
    """CPUs: convolutions are direct, and bounded loops have the form that code is generated for."""

    def check(self, machine: MachineSpec, threads: int) -> None:
        """Do nothing: candidates run on devices or are simulated, on any number of threads."""

    def check_hints(self, machine: MachineSpec, hints: str) -> None:
        """Do nothing: hints are for CPUs."""

    def settings(self, threads: int) -> dict[str, object]:
        """Return the scheduler tuning of kernels that are tuned: their threads, and no Winograd's algorithm."""
        return {**({"threads": threads} if threads else {}), "winograd": 0}

    def analysed(self, analysis: Analysis) -> Analysis:
        """Return a network with bounded loop nests."""
        return analysis.of(with_bounded_nests)

    def simulated(self, machine: MachineSpec, dtype: str, settings: dict[str, object]) -> SimulatedRunner:
        """Return the machine model as a runner, for kernels in ``dtype`` with the tuning ``settings``."""
        return SimulatedRunner(CpuView(_SCHEDULED.own_spec(machine), tuning_with(CpuTuning, settings)), dtype)

    def space(self, naive: NaiveProgram, machine: SearchMachine, options: SpaceOptions | None = None) -> CpuSpace:
        """Return all programs of a kernel on a machine."""
        return CpuSpace(naive, machine, options)

    def tasks(self, schedule: MachineSchedule, costs: MachineCosts) -> tuple[Task, ...]:
        """Return the tasks of a schedule in the order in which they first occur."""
        return tasks_of(_SCHEDULED.own_schedule(schedule), _SCHEDULED.own_costs(costs).view)

    def task(self, layer: Layer, costs: MachineCosts) -> Task | None:
        """Return the task of one layer; None where steps do not describe its loops."""
        return task_of(layer, _SCHEDULED.own_costs(costs))


PROCESSORS: TunedKind = _Processors()
