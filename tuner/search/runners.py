"""Runners: how long a candidate takes, measured on a device or simulated on any machine."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.cost.estimate import among_others_ps
from dsascape.scheduler.cpu.cost.tiled_kernel import TiledKernel
from dsascape.scheduler.cpu.schedule.chunks import chunks_of
from dsascape.scheduler.cpu.schedule.tiles import TiledLoops
from dsascape.scheduler.cpu.structure.read_loops import read_loops
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.gpu.read_tiles import read_tiles
from dsascape.scheduler.gpu.residency import found_among_others
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import estimate_ps, make_grid, off_chip_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.tuner.measure.candidates import CandidateRunner
from dsascape.tuner.measure.tasks import CandidateBudget, KernelTask, PreparedTask
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from dsascape.wording import count

_NO_COST = (StepError, ArithmeticError, LookupError, ValueError)
"""Exceptions of costing a program whose loops the machine model does not know."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Time of a candidate, or the reason why there is none."""

    seconds: float | None
    reason: str = ""
    threads: int = 1
    """Threads that it takes so long on."""


class Runner(Protocol):
    """Whoever knows how long candidates take."""

    is_repeatable: bool
    """Whether the same candidate always takes the same time."""

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        """Yield the answer for each program of a task, in their order."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class SimulatedRunner:
    """The machine model: a kernel among others, whose operands are in caches as far as they fit."""

    is_repeatable = True

    def __init__(self, view: CpuView, dtype: str) -> None:
        self._view, self._dtype = view, dtype

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        """Yield the time of each program on that number of threads on which it is fastest."""
        for program in programs:
            yield self._answer(task, program)

    def _answer(self, task: Task, program: Program) -> Answer:
        layer = task.naive.layer
        try:
            time_ps, threads = self._fastest(layer, read_loops(layer, program.loops))
        except _NO_COST as error:
            return Answer(None, f"no cost: {type(error).__name__}: {error}")
        return Answer(time_ps / PS_PER_S, threads=threads)

    def _fastest(self, layer: Layer, tiled: TiledLoops) -> tuple[float, int]:
        """Return the least time in picoseconds, and the threads that it takes.

        Numbers of threads that make the same chunks are one. Those with which the instructions of a full chunk
        take the fastest core longer than what has been found are not looked at further; slower cores may have less.
        """
        found, seen, dtype = (math.inf, 1), set[int](), self._view.dtype_of(layer, self._dtype)
        for threads in self._view.thread_counts:
            chunks = chunks_of(layer.sink.shape, tiled, threads).count
            if chunks in seen:
                continue
            seen.add(chunks)
            fastest = self._view.paces[0]
            kernel = TiledKernel(layer, tiled, threads, dtype, self._view)
            if kernel.chunk_cycles(fastest) * fastest.cycle_ps < found[0]:
                found = min(found, (among_others_ps(layer, tiled, threads, dtype, self._view), threads))
        return found

    def close(self) -> None:
        """Do nothing: it holds nothing."""


class SimulatedGrids:
    """The machine model of a GPU: a kernel among others, which finds their results in the L2 if all fits there."""

    is_repeatable = True

    def __init__(self, view: GpuView) -> None:
        self._view = view

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        """Yield the time of each program, launch included."""
        for program in programs:
            yield self._answer(task.naive.layer, program)

    def _answer(self, layer: Layer, program: Program) -> Answer:
        view = self._view.of(layer)
        try:
            grid = make_grid(layer, read_tiles(layer, program.loops), view)
            found = found_among_others(layer, view.spec.l2.capacity_bytes)
            time_ps = estimate_ps(grid, view, off_chip_of(layer, grid, grid.tiles.order, view).left(found))
        except _NO_COST as error:
            return Answer(None, f"no cost: {type(error).__name__}: {error}")
        if time_ps == math.inf:
            needs = grid.needs
            each = f"{count(needs.registers_per_thread, 'register')} a thread, {needs.shared_bytes:,} B shared"
            return Answer(None, f"no SM of {view.spec.name} holds a block of it: {each}")
        return Answer(time_ps / PS_PER_S)

    def close(self) -> None:
        """Do nothing: it holds nothing."""


def simulated(view: CpuView | GpuView, dtype: str) -> Runner:
    """Return the machine model as a runner, for kernels in ``dtype``."""
    return SimulatedGrids(view) if isinstance(view, GpuView) else SimulatedRunner(view, dtype)


class MeasuredRunner:
    """A device: candidates are built, compared with onnxruntime's results, and timed.

    A candidate that cannot be built, crashes its process, hangs or computes something else has a reason in place of a
    time.
    """

    is_repeatable = False

    def __init__(
        self, device: str, target: str, threads: int, budget: CandidateBudget | None = None
    ) -> None:
        self._setting = device, target, threads
        self._budget = CandidateBudget() if budget is None else budget
        self._runner = CandidateRunner()
        self._prepared: dict[str, PreparedTask] = {}

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Compute the reference results of all ``tasks`` at once.

        Raises what `CandidateRunner.prepare` raises.
        """
        wanted = [task for task in tasks if task.key not in self._prepared]
        prepared = self._runner.prepare([self._kernel(task) for task in wanted])
        self._prepared |= dict(zip([task.key for task in wanted], prepared, strict=True))

    def _kernel(self, task: Task) -> KernelTask:
        device, target, threads = self._setting
        layer = task.naive.layer
        return KernelTask(layer.graph, layer.ops, threads, target, device, self._budget)

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        """Yield the median time of each program, or why it has none; raises what `CandidateRunner.results` raises."""
        self.prepare([task])
        threads = self._setting[2]
        for result in self._runner.results(self._prepared[task.key], [program.steps for program in programs]):
            yield Answer(result.seconds, result.reason, threads)

    def close(self) -> None:
        """End the process of the candidates."""
        self._runner.close()

    def __enter__(self) -> "MeasuredRunner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
