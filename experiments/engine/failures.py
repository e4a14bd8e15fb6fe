"""Failures of design points: an exception, or the end of the process that computed the point."""

import signal
import traceback
from dataclasses import dataclass

from dsascape.fusion import FusionError
from dsascape.hw_models import HardwareError, SimulationError
from dsascape.hw_models.text.raised import where_raised
from dsascape.scheduler import ScheduleError
from dsascape.workloads import WorkloadError

EXPECTED = (WorkloadError, HardwareError, ScheduleError, SimulationError, FusionError)
"""Exceptions whose messages tell the user what to change."""
_LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason why a point has no figures."""

    reason: str
    traceback: str = ""
    """Traceback of an unexpected exception; empty where the reason is enough."""
    is_exhausted: bool = False
    """Whether memory ran out, perhaps because of earlier points of the same process."""


def failure_of(error: BaseException) -> Failure:
    """Return an exception as a failure: its message if it is expected, otherwise with its type and location."""
    if isinstance(error, EXPECTED):
        foreign = error.__cause__ is not None and not isinstance(error.__cause__, EXPECTED)
        return Failure(_clipped(str(error)), _text(error) if foreign else "")
    told = traceback.TracebackException.from_exception(error)
    message = " ".join("".join(told.format_exception_only()).split())
    place = where_raised(error)
    return Failure(_clipped(f"{message} ({place})" if place else message), _text(error))


def end_of_process(exit_code: int | None) -> str:
    """Return why a process ended, from its exit code: negative for a signal, None if it does not answer."""
    if exit_code is None:
        return "its process no longer answered"
    if exit_code < 0:
        name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else f"signal {-exit_code}"
        likely = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{likely}"
    return f"its process ended by itself, with exit code {exit_code}"


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
