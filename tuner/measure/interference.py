"""Disturbances of measured times: other busy processes before measuring, and preemption during it."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dsascape.tuner.measure.records import Device, Timing
from dsascape.wording import count

_STATISTICS = Path("/proc/stat")
_IDLE = (3, 4)
"""Positions of ``idle`` and ``iowait`` in a processor's line of ``/proc/stat``."""
_COUNTED = 8
"""Number of values to sum in that line; the guest times after them are included in user time."""
_WINDOW_S = 0.25
_MOST_BUSY = 0.15
"""Fraction of the cores kept busy by other processes above which figures are reported as disturbed: more than a core
spends on the system's own housekeeping, and less than one busy process on six cores."""
_MOST_DISTURBED = 0.2


def busy_elsewhere(window_s: float = _WINDOW_S) -> float | None:
    """Return the number of usable cores that other processes keep busy, averaged over ``window_s``.

    This process and its children do not count. Where the system does not tell, returns its load average, which lags by
    a minute; None where there is none either.
    """
    before = _others_s()
    if before is None:
        return _load_average()
    begin = time.monotonic()
    time.sleep(window_s)
    after = _others_s()
    return None if after is None else max(after - before, 0.0) / (time.monotonic() - begin)


@contextmanager
def watched(found: list[str], cores: int) -> Iterator[None]:
    """Append to ``found`` how many of ``cores`` other processes kept busy while the block ran, if that disturbs.

    The system's own work, and virtual machines that took the cores' time, count as others; nothing is appended where
    the system does not tell.
    """
    before, begin = _others_s(), time.monotonic()
    yield
    after = _others_s()
    if before is not None and after is not None:
        found += busy(max(after - before, 0.0) / (time.monotonic() - begin), cores)


def busy(load: float, cores: int) -> list[str]:
    """Return a warning about ``load`` of ``cores`` that others kept busy during a measurement; none if it is little."""
    if load <= _MOST_BUSY * cores:
        return []
    return [f"other processes kept {load:.1f} of {count(cores, 'core')} at work meanwhile, which may disturb figures"]


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def _others_s() -> float | None:
    """Return the processor seconds used by other processes so far; None where the system does not tell."""
    try:
        lines = _STATISTICS.read_text(encoding="ascii").splitlines()
        own = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        ticks_per_s = os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return None
    ticks = 0
    for name, *texts in map(str.split, filter(None, lines)):
        if name in own:
            numbers = [int(text) for text in texts[:_COUNTED]]
            ticks += sum(number for place, number in enumerate(numbers) if place not in _IDLE)
    times = os.times()
    ours = times.user + times.system + times.children_user + times.children_system
    return ticks / ticks_per_s - ours


def disturbances(device: Device, timings: Sequence[Timing], width: float) -> list[str]:
    """Return descriptions of what may have disturbed ``timings``; ``width`` is the wanted confidence interval."""
    warnings = []
    if device.load is not None and device.load > _MOST_BUSY * device.cores:
        warnings.append(
            f"the machine was busy before measuring began: other processes kept {device.load:.1f} of"
            f" {count(device.cores, 'core')} at work"
        )
    taken = sum(timing.samples + timing.disturbed for timing in timings)
    disturbed = sum(timing.disturbed for timing in timings)
    if taken and disturbed > _MOST_DISTURBED * taken:
        warnings.append(f"{disturbed} of {count(taken, 'run')} were disturbed by other processes and left out")
    wide = sum(timing.interval > width for timing in timings)
    if wide:
        warnings.append(f"{wide} of {count(len(timings), 'median')} known less well than to {width:.1%}")
    return warnings
