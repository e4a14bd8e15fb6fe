"""The process in which kernels are built, checked and run, isolated from the process that asks for it.

It sends a message for each finished kernel, and the kernel's name before it starts on it.
"""

import os
from multiprocessing.connection import Connection

from dsascape.tuner.late import late
from dsascape.tuner.measure.job import Job
from dsascape.tuner.measure.records import KernelMeasurement
from dsascape.workloads import WorkloadError

PREPARATION = "preparation"
"""Name used in place of a kernel's while code and reference results are generated."""
NETWORK = "network"
"""Name used in place of a kernel's for all kernels in sequence."""
UNPREPARED = "generating code and reference results failed"
FAILURES = (ValueError, RuntimeError, TypeError, LookupError, AttributeError, MemoryError)
"""Exceptions of generating, building and running code, TVM's own errors included."""
_MOST_CHARACTERS = 300


def work(connection: Connection, job: Job) -> None:
    """Measure ``job``; send each kernel's name before working on it and its `KernelMeasurement` afterwards."""
    os.environ["TVM_NUM_THREADS"] = str(job.threads)
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    try:
        session = late("session").Session(job)  # TVM reads the number of threads when it is imported
    except WorkloadError as error:
        connection.send(KernelMeasurement(PREPARATION, (), error=str(error)))
        return
    except FAILURES as error:
        connection.send(KernelMeasurement(PREPARATION, (), error=f"{UNPREPARED}: {reason(error)}"))
        return
    connection.send(session.device)
    for position, kernel in enumerate(session.code.kernels):
        if kernel.name not in job.done:
            connection.send(kernel.name)
            connection.send(session.kernel(position))
    for missing in session.code.missing:
        if missing.name not in job.done:
            connection.send(missing.name)
            connection.send(KernelMeasurement(missing.name, missing.operators, error=f"no code: {missing.reason}"))
    if NETWORK not in job.done:
        connection.send(NETWORK)
        connection.send(session.network(job.failed))
    connection.close()


def reason(error: BaseException) -> str:
    """Return an error in one line: its type and the last line of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines[-1] if lines else '')[:_MOST_CHARACTERS]}"
