"""Where design points are computed: in this process, in several of this machine, on a dask cluster."""

import importlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from types import ModuleType
from typing import Any, Protocol

from experiments.points import DesignPoint, Figure

Row = dict[str, Figure]
Compute = Callable[[DesignPoint], Row]
_IN_FLIGHT_PER_WORKER = 4
_IN_FLIGHT_ON_CLUSTER = 2000
_CONNECT_S = 10


class EngineError(RuntimeError):
    """The machinery that computes points is not there, or broke."""


class Engine(Protocol):
    """Computes design points, in whatever order they get done."""

    def rows(self, compute: Compute, points: Sequence[DesignPoint]) -> Iterator[tuple[DesignPoint, Row]]:
        """Yield every point with its row as soon as it is known."""


class InThisProcess:
    """One point after another."""

    def rows(self, compute: Compute, points: Sequence[DesignPoint]) -> Iterator[tuple[DesignPoint, Row]]:
        yield from ((point, compute(point)) for point in points)


class Processes:
    """``workers`` processes; they end with this one, however it ends."""

    def __init__(self, pool: ProcessPoolExecutor, workers: int) -> None:
        self._pool = pool
        self._in_flight = workers * _IN_FLIGHT_PER_WORKER

    def rows(self, compute: Compute, points: Sequence[DesignPoint]) -> Iterator[tuple[DesignPoint, Row]]:
        waiting = iter(points)
        running: dict[Future[Row], DesignPoint] = {}
        try:
            while True:
                for point in islice(waiting, self._in_flight - len(running)):
                    running[self._pool.submit(compute, point)] = point
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BrokenProcessPool as error:
            text = "a worker process died, perhaps for want of memory; rows so far are kept; try fewer --workers"
            raise EngineError(text) from error


class DaskCluster:
    """The workers of a dask cluster; each has dsascape installed, and policy files at the same paths."""

    def __init__(self, distributed: ModuleType, client: Any) -> None:
        self._distributed = distributed
        self._client = client

    def rows(self, compute: Compute, points: Sequence[DesignPoint]) -> Iterator[tuple[DesignPoint, Row]]:
        waiting = iter(points)
        first = self._submitted(compute, islice(waiting, _IN_FLIGHT_ON_CLUSTER))
        running = dict(first)
        done = self._distributed.as_completed(list(running), loop=self._client.loop)
        for future in done:
            try:
                row: Row = future.result()
            except (
                OSError,
                ImportError,
                self._distributed.CancelledError,
                self._distributed.KilledWorker,
            ) as error:
                raise EngineError(f"the dask cluster lost a point: {type(error).__name__}: {error}") from error
            yield running.pop(future), row
            for another, point in self._submitted(compute, islice(waiting, 1)):
                running[another] = point
                done.add(another)

    def _submitted(self, compute: Compute, points: Iterable[DesignPoint]) -> Iterator[tuple[Any, DesignPoint]]:
        for point in points:
            yield self._client.submit(compute, point, key=f"dsascape-{point.key}", pure=False), point


def open_engine(workers: int = 0, scheduler: str | None = None) -> AbstractContextManager[Engine]:
    """Return ``workers`` processes (0: one a core; 1: this process), or the dask cluster at ``scheduler``."""
    if scheduler is not None:
        return _dask_cluster(scheduler)
    workers = workers or os.cpu_count() or 1
    return nullcontext(InThisProcess()) if workers == 1 else _processes(workers)


@contextmanager
def _processes(workers: int) -> Iterator[Engine]:
    # Linux forks, so that a script without a guard for its main part can sweep, and workers start at once.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    pool = ProcessPoolExecutor(max_workers=workers, mp_context=context, initializer=_end_with_parent)
    try:
        pool.submit(os.getpid).result()  # started before anybody else starts a thread
        yield Processes(pool, workers)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Make this worker end when its parent is killed; it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _dask_cluster(scheduler: str) -> Iterator[Engine]:
    try:
        distributed = importlib.import_module("dask.distributed")
    except ImportError as error:
        raise EngineError("--engine dask needs dask: python -m pip install 'dsascape[distributed]'") from error
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise EngineError(f"--scheduler has {scheduler!r}, where no dask scheduler answers ({error})") from error
    try:
        yield DaskCluster(distributed, client)
    finally:
        client.close()
