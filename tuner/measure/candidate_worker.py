"""The process that builds, checks and times candidates, isolated from the process that asks for it.

It is sent tasks to prepare, a prepared task to go on with, or candidates of that. For candidates it sends the number of
those that are built, `BUILT` when all are, and the outcome of each: behind `BUILT`, or as soon as it is there where the
device is another machine.
"""

import os
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.measure.benches import bench_for
from dsascape.tuner.measure.tasks import CandidateResult, KernelTask, PreparedTask
from dsascape.tuner.measure.worker import FAILURES, UNPREPARED, reason
from dsascape.workloads import WorkloadError

BUILT = "built"
"""Message when all candidates of a batch are built."""

Request = tuple[KernelTask, ...] | PreparedTask | list[Steps]


@dataclass(frozen=True, slots=True)
class Failed:
    """Answer where a process or a task could not be prepared."""

    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Answer for one candidate."""

    result: CandidateResult
    is_last: bool = False
    """Whether the process can go on with no other: a call failed on the device, which may be gone."""


def work_on_candidates(connection: Connection, device: str, target: str, threads: int) -> None:
    """Answer requests until the pipe is closed."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    try:
        bench = bench_for(target).opened(device, target, threads)
    except FAILURES as error:
        connection.send(Failed(reason(error)))
        return
    connection.send(())
    while True:
        try:
            request: Request = connection.recv()
        except EOFError:
            return
        if isinstance(request, list):
            _work_on(connection, bench, request)
        else:
            connection.send(_prepared(bench, request))


def _prepared(bench: Any, request: PreparedTask | tuple[KernelTask, ...]) -> tuple[PreparedTask, ...] | Failed:
    try:
        if isinstance(request, PreparedTask):
            bench.take(request)
            return ()
        found: tuple[PreparedTask, ...] = bench.prepared(request)
    except WorkloadError as error:
        return Failed(str(error))
    except FAILURES as error:
        return Failed(f"{UNPREPARED}: {reason(error)}")
    return found


def _work_on(connection: Connection, bench: Any, batch: list[Steps]) -> None:
    """Build candidates, then run each; on a device elsewhere each runs while further ones are built here."""
    waiting = []
    for number, each in enumerate(bench.built(batch), 1):
        connection.send(BUILT if number == len(batch) else number)
        waiting.append(each)
        if number < len(batch) and bench.is_here:
            continue
        for built in waiting:
            outcome: Outcome = bench.outcome(built)
            connection.send(outcome)
            if outcome.is_last:
                return
        waiting = []
