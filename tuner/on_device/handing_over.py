"""Cost of lines that pass from core to core, at the time of a measurement: virtual cores move from place to place."""

from typing import Any

from dsascape.tuner.calibrate.facts import local_facts
from dsascape.tuner.calibrate.overheads import HANDING
from dsascape.tuner.calibrate.plan import ProbeShape, probe_plan
from dsascape.tuner.calibrate.probing import handed
from dsascape.tuner.on_device.places import Place
from dsascape.tuner.on_device.probes import PlaceBench

_REGISTERS = 16
"""Vector registers that any processor has: the probe's time does not depend on them."""
_PROBE_S = 0.1


def handed_line_s(place: Place, target: Any, lanes: int, threads: int) -> float:
    """Return the extra seconds of a line that one core writes and another reads (`tuner.calibrate.figures.Handed`).

    ``lanes`` are single-precision numbers of a vector. 0 for one thread.
    """
    shape = ProbeShape(lanes, _REGISTERS)
    plan = probe_plan(local_facts().on_threads(threads), None, _PROBE_S, shape)
    found = handed(plan, PlaceBench(place, shape, target, HANDING))
    return found[0].line_s if found else 0.0
