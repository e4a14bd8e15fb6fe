"""Worker processes that compute one point after another, isolated from the process that keeps the results.

A worker is forked by an engine of this machine, or started anew under a dask worker, which may not fork or use threads
freely. Messages between both ends are pickled.
"""

import gc
import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from dsascape.experiments.engine.failures import Failure, end_of_process, failure_of
from dsascape.experiments.engine.limits import Limits
from dsascape.experiments.question.points import DesignPoint
from dsascape.hw_models.simulation.pause import collect_seldom

T = TypeVar("T")
Compute = Callable[[DesignPoint], T]
_WORST_OOM_SCORE = "1000"
"""OOM score of a worker: when memory runs out, the system kills it rather than the process with the results."""
_GROWN_BYTES = 128 * 2**20
"""Growth of a process, in bytes, after which cyclic garbage, as left by runs in Python, is collected."""
_START_S = 120.0
_END_S = 5.0
"""Time in seconds that a process may take to end."""


class Worker(Generic[T]):
    """Parent's end of a worker process: `begin` a point, wait for ``connection``, then take the `result`."""

    def __init__(
        self, connection: Connection, kill: Callable[[], None], exit_code: Callable[[], int | None]
    ) -> None:
        """Wrap a started process: ``kill`` ends it, ``exit_code`` returns its code once it has ended."""
        self.connection = connection
        self._kill = kill
        self._exit_code = exit_code
        self._limits = Limits()
        self.deadline_s: float | None = None
        """Deadline of the current point on the monotonic clock, in seconds; None is no limit."""
        self.begun = 0
        """Number of points started."""
        self.is_usable = True

    def begin(self, compute: Compute[T], point: DesignPoint, limits: Limits) -> None:
        """Send the process its next point."""
        self._limits = limits
        self.deadline_s = None if limits.timeout_s is None else time.monotonic() + limits.timeout_s
        self.begun += 1
        with suppress(OSError):  # a process that has ended meanwhile shows in the result
            self.connection.send((compute, point, limits.memory_bytes))

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, at least 0; None if there is none."""
        return None if self.deadline_s is None else max(0.0, self.deadline_s - time.monotonic())

    def result(self) -> T | Failure:
        """Return the point's result, or its failure: an exception or the end of the process.

        If nothing has arrived, the point took too long and the process is stopped.
        """
        try:
            if not self.connection.poll(0):
                self.stop()
                return Failure(self._limits.too_slow)
            outcome: T | Failure = self.connection.recv()
        except (EOFError, OSError):
            code = self._exit_code()
            self.stop()
            return Failure(end_of_process(code))
        if isinstance(outcome, Failure) and outcome.is_exhausted:
            self.stop()
            return Failure(self._limits.too_large, is_exhausted=True)
        return outcome

    def stop(self) -> None:
        """Kill the process."""
        if self.is_usable:
            self.is_usable = False
            self._kill()
            self._exit_code()
            self.connection.close()


def forked() -> Worker[Any]:
    """Start a worker process as a fork of this one (on systems without fork: spawned)."""
    # Linux forks, so that a script without a guard for its main part can sweep, and workers start at once.
    here, there = multiprocessing.Pipe()
    if sys.platform == "linux":
        process: BaseProcess = multiprocessing.get_context("fork").Process(target=_serve_as_child, args=(there,))
    else:
        process = multiprocessing.get_context("spawn").Process(target=_serve_as_child, args=(there,))
    process.start()
    there.close()

    def exit_code() -> int | None:
        process.join(_END_S)
        code: int | None = process.exitcode
        return code

    return Worker(here, process.kill, exit_code)


def started() -> Worker[Any]:
    """Start a worker process as a new interpreter, for parents that cannot fork safely."""
    here, there = multiprocessing.Pipe()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-P", "-m", "dsascape.experiments.engine.worker", str(there.fileno())]
    process = subprocess.Popen(command, env=environment, pass_fds=[there.fileno()], stdin=subprocess.PIPE)
    there.close()
    if not here.poll(_START_S):  # its imports are no part of its first point's time
        process.kill()
        raise TimeoutError(f"a worker process (number {process.pid}) has not started within {_START_S:g} s")
    here.recv()

    def exit_code() -> int | None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        return process.returncode

    return Worker(here, process.kill, exit_code)


_of_thread = threading.local()


def computed_in_worker(compute: Compute[T], point: DesignPoint, limits: Limits) -> T | Failure:
    """Compute a point in this thread's worker process; return its result or failure."""
    while True:
        worker: Worker[T] | None = getattr(_of_thread, "worker", None)
        if worker is None or not worker.is_usable:
            worker = _of_thread.worker = started()
        worker.begin(compute, point, limits)
        worker.connection.poll(worker.seconds_left)
        outcome = worker.result()
        if not needs_another_try(worker, outcome):
            return outcome


def computed_in_turn(
    compute: Compute[T], points: Sequence[DesignPoint], limits: Limits, seconds: float
) -> tuple[list[T | Failure], float]:
    """Compute points in this thread's worker process; return (results or failures, seconds taken).

    No further point is started after ``seconds``, so only the first ones, at least one, may have results.
    """
    started_s = time.monotonic()
    outcomes: list[T | Failure] = []
    taken_s = 0.0
    for point in points:
        outcomes.append(computed_in_worker(compute, point, limits))
        taken_s = time.monotonic() - started_s
        if taken_s > seconds:
            break
    return outcomes, taken_s


def needs_another_try(worker: Worker[T], outcome: T | Failure) -> bool:
    """Return whether memory ran out in a process that had computed other points before."""
    return isinstance(outcome, Failure) and outcome.is_exhausted and worker.begun > 1


class _Guard:
    """Catches any exception of its block and keeps it as ``failure``."""

    failure: Failure | None = None

    def __enter__(self) -> "_Guard":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> bool:
        if error is not None:
            exhausted = isinstance(error, MemoryError)
            self.failure = Failure("", is_exhausted=True) if exhausted else failure_of(error)
        return True


def serve(connection: Connection) -> None:
    """Compute the points received through ``connection`` until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(sys.__stderr__.fileno() if sys.__stderr__ else 2, 1)  # what a policy prints is no result
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_WORST_OOM_SCORE, encoding="ascii")
    idle_bytes = searched_bytes = _data_bytes()
    collect_seldom()
    while True:
        try:
            request = connection.recv_bytes()
        except (EOFError, OSError):
            return
        answer = b""
        with _Guard() as guard:
            compute, point, memory_bytes = pickle.loads(request)
            _limit_memory(idle_bytes, memory_bytes)
            answer = pickle.dumps(compute(point))
        if guard.failure is not None:
            _limit_memory(idle_bytes, None)
            answer = pickle.dumps(guard.failure)
        connection.send_bytes(answer)
        if _data_bytes() > searched_bytes + _GROWN_BYTES:
            gc.collect()
            searched_bytes = _data_bytes()


def _data_bytes() -> int:
    """Return the memory of this process that the limit counts, in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _limit_memory(idle_bytes: int, memory_bytes: int | None) -> None:
    """Limit this process to ``memory_bytes`` more than when idle; larger allocations raise ``MemoryError``."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = resource.RLIM_INFINITY if memory_bytes is None else idle_bytes + memory_bytes
    if most != resource.RLIM_INFINITY and (wanted == resource.RLIM_INFINITY or wanted > most):
        wanted = most
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))


def _serve_as_child(connection: Connection) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        _end_after(parent.join)
    serve(connection)


def _end_after(wait: Callable[[], object]) -> None:
    """End this process when ``wait`` returns, as its results are no longer needed."""

    def watch() -> None:
        wait()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    _end_after(lambda: os.read(0, 1))
    to_parent = Connection(int(sys.argv[1]))
    to_parent.send("ready")
    serve(to_parent)
