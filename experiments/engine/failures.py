"""Why a design point has no figures: an exception, or the end of the process that computed it."""

import signal
import traceback
from dataclasses import dataclass

from dsascape.fusion import FusionError
from dsascape.hw_models import HardwareError, SimulationError
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.errors import where_raised
from dsascape.workloads import WorkloadError

EXPECTED = (WorkloadError, HardwareError, ScheduleError, SimulationError, FusionError)
"""Their messages say what the user has to mend."""
_LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True)
class Failure:
    """What stood in the way of a point's figures."""

    reason: str
    traceback: str = ""
    """Of an exception that nobody expects; empty where the reason says it all."""
    is_exhausted: bool = False
    """Memory ran out, perhaps because of what the process had computed before."""


def failure_of(error: BaseException) -> Failure:
    """Return the reason that an exception is: its message if it is expected, else its type and place too."""
    if isinstance(error, EXPECTED):
        foreign = error.__cause__ is not None and not isinstance(error.__cause__, EXPECTED)
        return Failure(_clipped(str(error)), _text(error) if foreign else "")
    told = traceback.TracebackException.from_exception(error)
    message = " ".join("".join(told.format_exception_only()).split())
    place = where_raised(error)
    return Failure(_clipped(f"{message} ({place})" if place else message), _text(error))


def end_of_process(exit_code: int | None) -> str:
    """Return why a point is without figures whose process ended with ``exit_code``; minus a signal's number."""
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
