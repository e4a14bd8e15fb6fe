"""Engines: worker processes of this machine, or a dask cluster.

Either way each point runs in a worker process, so one that fails, crashes, or takes too much time or memory is a
`Failure` and the others continue.
"""

import importlib
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from multiprocessing.connection import wait
from types import ModuleType
from typing import Any, Protocol, TypeVar

from dsascape.experiments.engine.failures import Failure, failure_of
from dsascape.experiments.engine.limits import Limits
from dsascape.experiments.engine.waiting import WaitingPoints
from dsascape.experiments.engine.worker import Compute, Worker, computed_in_turn, forked, needs_another_try
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.tuner.measure import usable_cores

T = TypeVar("T")
_TASK_S = 0.5
"""Time in seconds after which a dask task starts no further point."""
_MOST_POINTS_OF_TASK = 64
_TASKS_OF_THREAD = 3
"""Number of dask tasks queued per thread, so that a worker does not wait for the next one."""
_CONNECT_S = 10
_SILENT_S = 60
"""Seconds without a finished task after which a dask cluster is asked whether it has workers."""


class EngineError(RuntimeError):
    """An engine that cannot be started, or that failed during a run."""


class Engine(Protocol):
    """Computes design points, in any order."""

    def results(self, compute: Compute[T], points: Iterable[DesignPoint]) -> Iterator[tuple[DesignPoint, T | Failure]]:
        """Yield (point, its result or failure) as soon as each is computed."""


class Processes:
    """Worker processes, ended with this process; one that a point kills is replaced."""

    def __init__(self, workers: int, limits: Limits) -> None:
        self._limits = limits
        self._workers = [forked() for _ in range(workers)]
        self._at_hand: dict[int, Workload] = {}
        """Workload of the latest point of each worker process."""

    def results(self, compute: Compute[T], points: Iterable[DesignPoint]) -> Iterator[tuple[DesignPoint, T | Failure]]:
        waiting = WaitingPoints(points)
        idle = list(range(len(self._workers)))
        running: dict[int, DesignPoint] = {}
        try:
            while True:
                for place in idle:
                    point = waiting.take(place, self._at_hand)
                    if point is None:
                        break
                    self._begin(place, compute, point)
                    running[place], self._at_hand[place] = point, point.workload
                if not running:
                    return
                idle = [place for place in range(len(self._workers)) if place not in running]
                for place in self._done(running):
                    outcome: T | Failure = self._workers[place].result()
                    if needs_another_try(self._workers[place], outcome):
                        self._begin(place, compute, running[place])
                    else:
                        idle.append(place)
                        yield running.pop(place), outcome
        finally:
            for place in running:
                self._workers[place].stop()

    def _begin(self, place: int, compute: Compute[T], point: DesignPoint) -> None:
        if not self._workers[place].is_usable:
            self._workers[place] = forked()
        self._workers[place].begin(compute, point, self._limits)

    def _done(self, running: Iterable[int]) -> list[int]:
        """Wait until a point has ended or is past its deadline; return the numbers of those workers."""
        workers: dict[int, Worker[Any]] = {place: self._workers[place] for place in running}
        left = [worker.seconds_left for worker in workers.values()]
        ready = wait(
            [worker.connection for worker in workers.values()],
            min((seconds for seconds in left if seconds is not None), default=None),
        )
        return [place for place, one in workers.items() if one.connection in ready or one.seconds_left == 0.0]

    def stop(self) -> None:
        """Stop all worker processes."""
        for worker in self._workers:
            worker.stop()


class DaskCluster:
    """A dask cluster; its workers need dsascape installed, and policy files at the same paths.

    A task is a sequence of points that takes about half a second, because scheduling one takes milliseconds. Points
    that a task has not started by then are scheduled again; stopping a run loses the tasks in progress.
    """

    def __init__(self, distributed: ModuleType, client: Any, limits: Limits) -> None:
        self._distributed = distributed
        self._client = client
        self._limits = limits
        self._point_s = _TASK_S
        """Duration of a point in the last task, in seconds."""

    def results(self, compute: Compute[T], points: Iterable[DesignPoint]) -> Iterator[tuple[DesignPoint, T | Failure]]:
        waiting, handed_back = iter(points), list[DesignPoint]()
        running: dict[Any, list[DesignPoint]] = {}
        def submit(task: list[DesignPoint]) -> None:
            key = f"dsascape-{len(task)}-{task[0].key}"
            future = self._client.submit(computed_in_turn, compute, task, self._limits, _TASK_S, key=key, pure=False)
            running[future] = task

        def submit_further() -> None:
            most = _TASKS_OF_THREAD * max(self._threads(), 1)
            while len(running) < most:
                wanted = self._points_of_task()
                task = handed_back[:wanted]
                del handed_back[:wanted]
                task += islice(waiting, wanted - len(task))
                if not task:
                    return
                submit(task)

        submit_further()
        while running:
            for future in self._ended(running):
                task = running.pop(future)
                outcomes = self._outcomes(future, task)
                if outcomes is None:
                    for point in task:
                        submit([point])
                else:
                    handed_back += task[len(outcomes) :]
                    yield from zip(task, outcomes, strict=False)
            submit_further()

    def _ended(self, running: Mapping[Any, list[DesignPoint]]) -> list[Any]:
        """Wait until a task has ended, and return those that have.

        Raises ``EngineError`` where the scheduler does not answer, has no workers, or has been silent for longer than
        a task can take.
        """
        longest_s = None if self._limits.timeout_s is None else _TASK_S + 2 * self._limits.timeout_s + _SILENT_S
        begun_s = time.monotonic()
        while True:
            try:
                with self._client.as_current():
                    found = self._distributed.wait(list(running), timeout=_SILENT_S, return_when="FIRST_COMPLETED")
                return list(found.done)
            except TimeoutError:
                waited_s = time.monotonic() - begun_s
            if not self._threads():
                has = f"has had no workers for {waited_s:.0f} s"
                raise EngineError(f"{self._scheduler} {has}; start some, and run again")
            # a task waits for those before it on its thread
            if longest_s is not None and waited_s > _TASKS_OF_THREAD * longest_s:
                raise EngineError(f"{self._scheduler} has finished nothing for {waited_s:.0f} s; look at its workers")

    def _threads(self) -> int:
        """Return the number of threads of all workers; raise ``EngineError`` where the scheduler does not answer."""
        try:
            threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=_CONNECT_S)
        except (OSError, TimeoutError) as error:
            raise EngineError(f"{self._scheduler} does not answer within {_CONNECT_S} s ({error})") from error
        return sum(threads.values())

    @property
    def _scheduler(self) -> str:
        return f"the dask scheduler {self._client.scheduler.address}"

    def _points_of_task(self) -> int:
        return min(max(round(_TASK_S / self._point_s), 1), _MOST_POINTS_OF_TASK)

    def _outcomes(self, future: Any, task: list[DesignPoint]) -> list[Any] | None:
        """Return the outcomes of the points that a task started, in their order.

        None if one of several points killed its workers, which leaves open which one. Raises ``EngineError`` if the
        cluster failed.
        """
        try:
            error = future.exception()
        except (OSError, self._distributed.CancelledError) as lost:
            error = lost
        if error is None:
            outcomes, taken_s = future.result()
            self._point_s = max(taken_s / len(outcomes), _TASK_S / _MOST_POINTS_OF_TASK)
            return list(outcomes)
        if isinstance(error, self._distributed.KilledWorker):
            died = Failure(f"the workers of the dask cluster that tried it died ({error})")
            return [died] if len(task) == 1 else None
        if isinstance(error, OSError | ImportError | self._distributed.CancelledError):
            raise EngineError(f"the dask cluster lost a point: {type(error).__name__}: {error}") from error
        return [failure_of(error)] * len(task)


def open_engine(
    workers: int = 0, scheduler: str | None = None, limits: Limits | None = None
) -> AbstractContextManager[Engine]:
    """Open an engine of ``workers`` processes (0: one per usable core), or the dask cluster at ``scheduler``."""
    limits = Limits() if limits is None else limits
    if scheduler is not None:
        return _dask_cluster(scheduler, limits)
    return _processes(workers or usable_cores(), limits)


@contextmanager
def _processes(workers: int, limits: Limits) -> Iterator[Engine]:
    engine = Processes(workers, limits)
    try:
        yield engine
    finally:
        engine.stop()


@contextmanager
def _dask_cluster(scheduler: str, limits: Limits) -> Iterator[Engine]:
    try:
        distributed = importlib.import_module("dask.distributed")
    except ImportError as error:
        raise EngineError("--engine dask needs dask: python -m pip install 'dsascape[distributed]'") from error
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise EngineError(f"--scheduler has {scheduler!r}, where no dask scheduler answers ({error})") from error
    try:
        yield DaskCluster(distributed, client, limits)
    finally:
        client.close()
