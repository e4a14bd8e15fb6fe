"""Calibration of a processor, run in a child process with one thread per core."""

import os
from multiprocessing.connection import Connection

from dsascape.tuner.calibrate.facts import HostFacts
from dsascape.tuner.calibrate.figures import Figures
from dsascape.tuner.calibrate.plan import PROBE_S
from dsascape.tuner.late import late
from dsascape.tuner.measure.address import LOCAL, remote_address
from dsascape.tuner.measure.child import Child, ChildEndedError
from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.run import MeasureError, check_installed
from dsascape.tuner.measure.targets import check_cpu_target, check_target
from dsascape.tuner.measure.worker import FAILURES, reason

_LIMIT_S = 600.0


def calibrate(
    device: str = LOCAL, target: str = "llvm", most_bytes: int | None = None, probe_s: float = PROBE_S
) -> tuple[HostFacts, Figures]:
    """Probe ``device``; return the facts that its system tells and the measured figures.

    Probes are compiled for ``target``; no array is larger than ``most_bytes``, if given, and each probe is repeated for
    ``probe_s``. Raises ``MeasureError`` if that fails, ``AddressError`` and ``TargetError`` for malformed names.
    """
    check_installed()
    if remote_address(device) is None:
        check_target(target)
    else:
        check_cpu_target(target)
    child = Child(_work, device, target, most_bytes, probe_s)
    try:
        outcome = child.receive(_LIMIT_S)
    except ChildEndedError as ended:
        outcome = str(ended)
    finally:
        child.end()
    if isinstance(outcome, str):
        raise MeasureError(f"calibrating failed: {outcome}")
    facts, figures = outcome
    return facts, figures


def _work(connection: Connection, device: str, target: str, most_bytes: int | None, probe_s: float) -> None:
    os.environ["TVM_NUM_THREADS"] = str(usable_cores())
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    try:  # TVM reads the number of threads when it is imported
        connection.send(late("probes").probe(device, target, most_bytes, probe_s))
    except FAILURES as error:
        connection.send(reason(error))
