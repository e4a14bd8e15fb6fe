"""Repeating until the median is known well: short runs, and those left out during which a processor was taken away."""

import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence

from tuner.measure.records import Timing

_FEWEST = 11
_MOST = 2000
_WARM_UPS = 2
_CONFIDENCE = 1.96


def measured(run: Callable[[], float], budget_s: float, width: float) -> Timing:
    """Return the timing of ``run``, which does its work once and returns its seconds.

    Where hardly any run is undisturbed, the fastest quarter of all stands in for them.
    """
    for _ in range(_WARM_UPS):
        run()
    kept: list[float] = []
    left_out: list[float] = []
    end = time.monotonic() + budget_s
    while len(kept) + len(left_out) < _MOST:
        before = _preemptions()
        seconds = run()
        (kept if _preemptions() == before else left_out).append(seconds)
        known_well = len(kept) >= _FEWEST and interval_width(kept) <= width
        if known_well or (time.monotonic() > end and len(kept) + len(left_out) >= min(_FEWEST, 3)):
            break
    if len(kept) < min(_FEWEST, len(kept) + len(left_out)) // 2:
        everything = sorted(kept + left_out)
        kept = everything[: max(len(everything) // 4, 1)]
    return Timing(
        statistics.median(kept), _spread(kept), interval_width(kept), len(kept), len(left_out)
    )  # fmt: skip


def interval_width(samples: Sequence[float]) -> float:
    """Return the width of the 95 % confidence interval of the median by the median, from the order of the samples."""
    count = len(samples)
    ordered = sorted(samples)
    reach = _CONFIDENCE * math.sqrt(count) / 2
    low = max(math.floor((count - 1) / 2 - reach), 0)
    high = min(math.ceil((count - 1) / 2 + reach), count - 1)
    return (ordered[high] - ordered[low]) / statistics.median(ordered)


def _spread(samples: Sequence[float]) -> float:
    if len(samples) < 2:  # noqa: PLR2004
        return 0.0
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return (third - first) / statistics.median(samples)


def _preemptions() -> int:
    """Return how often the system has taken a processor from a thread of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
