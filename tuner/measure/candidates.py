"""One kernel, many programs: a process that lives on builds, checks and times candidates.

A candidate that has no code, computes something else, crashes the process or takes too long costs itself alone: the
next one is tried in a new process, which needs no onnxruntime for it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType

from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.measure.benches import bench_for
from dsascape.tuner.measure.candidate_worker import BUILT, Failed, Outcome, work_on_candidates
from dsascape.tuner.measure.child import Child, ChildEndedError
from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.run import MeasureError, check_installed
from dsascape.tuner.measure.tasks import CandidateResult, KernelTask, PreparedTask

_BUILT_AT_ONCE = 4
"""Candidates per core that are built before they run: enough for all cores to end at about the same time."""
_Setting = tuple[str, str, int]
"""Device, target and threads, for which a process is started."""


class CandidateRunner:
    """Runs candidates of one task after the other; the process lives on while device, target and threads stay."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._setting: _Setting | None = None
        self._given: PreparedTask | None = None
        """The task that the process has."""

    def __enter__(self) -> "CandidateRunner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()
        self._child, self._given = None, None

    def prepare(self, tasks: Sequence[KernelTask]) -> tuple[PreparedTask, ...]:
        """Draw weights and compute reference results, once for all ``tasks`` of a network that follow each other.

        Raises ``MeasureError`` for a kernel whose loops no steps describe, for packages that are missing, for more
        threads than cores and for a device that is not reached, ``TargetError`` for code that does not run there, and
        ``AddressError`` for a malformed address.
        """
        if not tasks:
            return ()
        first = tasks[0]
        child = self._started(first)
        child.send(tuple(tasks))
        prepared: tuple[PreparedTask, ...] = self._answer(child, first.budget.prepare_s)
        return prepared

    def results(self, prepared: PreparedTask, candidates: Iterable[Steps]) -> Iterator[CandidateResult]:
        """Yield the result of each candidate, in their order; for a bundle that is its code.

        Several are taken from ``candidates`` at a time, and built together on all cores; none runs here meanwhile.

        Raises ``MeasureError`` where no further process can be started: the device is not reached any more.
        """
        rest = iter(candidates)
        waiting: deque[Steps] = deque()
        alone = 0
        while True:
            size = 1 if alone else _BUILT_AT_ONCE * usable_cores()
            waiting.extend(islice(rest, max(size - len(waiting), 0)))
            batch = list(islice(waiting, size))
            if not batch:
                return
            found: list[CandidateResult] = []
            is_clear = self._run(prepared, batch, found)
            alone = max(alone - 1, 0) if is_clear else len(batch) - len(found)
            for result in found:
                waiting.popleft()
                yield result

    def _run(self, prepared: PreparedTask, batch: list[Steps], found: list[CandidateResult]) -> bool:
        """Append the results of the first of ``batch`` to ``found``, up to the one that ends the process.

        Returns whether that is known: if the process ends while several are built, it shows when each is by itself.
        """
        child, budget, is_built = self._with(prepared), prepared.task.budget, False
        child.send(batch)
        while len(found) < len(batch):
            try:
                answer: Outcome | int | str = child.receive(budget.run_s if is_built else budget.build_s)
            except ChildEndedError as ended:
                self.close()
                if not is_built and len(batch) > 1:
                    return False
                found.append(CandidateResult(None, f"while it {'ran' if is_built else 'was built'}: {ended}"))
                return True
            is_built = is_built or answer == BUILT
            if isinstance(answer, Outcome):
                found.append(answer.result)
                if answer.is_last:
                    self.close()
                    return True
        return True

    def _with(self, prepared: PreparedTask) -> Child:
        """Return a process that has the task."""
        task = prepared.task
        child = self._started(task)
        if self._given is not prepared:
            child.send(prepared)
            self._answer(child, task.budget.prepare_s)
            self._given = prepared
        return child

    def _started(self, task: KernelTask) -> Child:
        """Return a process for the task's device, target and threads."""
        setting = task.device, task.target, task.threads
        if self._child is not None and self._setting == setting:
            return self._child
        self.close()
        check_installed()
        bench_for(task.target).check(*setting)
        self._child, self._setting = Child(work_on_candidates, *setting), setting
        self._answer(self._child, task.budget.start_s)
        return self._child

    def _answer(self, child: Child, limit_s: float) -> tuple[PreparedTask, ...]:
        """Return what the process has prepared; raise ``MeasureError`` with the reason where it could not."""
        try:
            answer: tuple[PreparedTask, ...] | Failed = child.receive(limit_s)
        except ChildEndedError as ended:
            answer = Failed(str(ended))
        if isinstance(answer, Failed):
            self.close()
            raise MeasureError(answer.reason)
        return answer
