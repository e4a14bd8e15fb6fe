"""Runners: how long a candidate takes, measured on a device or simulated (`tuner.search.kinds`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.tuner.measure.candidates import CandidateRunner
from dsascape.tuner.measure.tasks import CandidateBudget, KernelTask, PreparedTask
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task

NO_COST = (StepError, ArithmeticError, LookupError, ValueError)
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
