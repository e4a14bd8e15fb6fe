"""Repeating until the median is known well: short runs, and those left out during which a processor was taken away."""

import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence

from dsascape.tuner.measure.records import Timing

FLUSH = "cache_flush_cpu_non_first_arg"
"""TVM's function that takes all tensors that it is given, but for the first, out of every cache, line by line."""
_FEWEST = 11
_FEWEST_ROWS = 3
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
        if known_well or (time.monotonic() > end and len(kept) + len(left_out) >= _FEWEST_ROWS):
            break
    if len(kept) < min(_FEWEST, len(kept) + len(left_out)) // 2:
        everything = sorted(kept + left_out)
        kept = everything[: max(len(everything) // 4, 1)]
    return Timing(statistics.median(kept), _spread(kept), interval_width(kept), len(kept), len(left_out))


def _nothing() -> None:
    """Do nothing."""


def measured_in_parts(
    parts: Sequence[Callable[[], object]], budget_s: float, width: float, before: Callable[[], object] = _nothing
) -> Timing:
    """Return the timing of all ``parts`` in a row, as they are run again and again.

    ``before`` is called ahead of each row; its time does not count. Where hardly any row is undisturbed, its time is
    the sum of what each part takes in the row when it is undisturbed.
    """
    for part in parts:
        part()
    rows: list[float] = []
    each: list[list[float]] = [[] for _ in parts]
    fastest = [math.inf] * len(parts)
    taken = 0
    end = time.monotonic() + budget_s
    while taken < _MOST:
        total, quiet = 0.0, True
        before()
        for place, part in enumerate(parts):
            preempted, begin = _preemptions(), time.perf_counter()
            part()
            seconds = time.perf_counter() - begin
            total += seconds
            fastest[place] = min(fastest[place], seconds)
            if _preemptions() == preempted:
                each[place].append(seconds)
            else:
                quiet = False
        taken += 1
        rows += [total] if quiet else []
        known_well = len(rows) >= _FEWEST and interval_width(rows) <= width
        if known_well or (time.monotonic() > end and taken >= _FEWEST_ROWS):
            break
    if len(rows) >= min(_FEWEST, taken) // 2 + 1:
        return Timing(statistics.median(rows), _spread(rows), interval_width(rows), len(rows), taken - len(rows))
    known = [samples or [least] for samples, least in zip(each, fastest, strict=True)]
    medians = [statistics.median(samples) for samples in known]
    total = sum(medians)
    spread, interval = (
        sum(share(samples) * median for samples, median in zip(known, medians, strict=True)) / total
        for share in (_spread, interval_width)
    )
    fewest = min(len(samples) for samples in each)
    return Timing(total, spread, interval, fewest, taken - fewest)


def interval_width(samples: Sequence[float]) -> float:
    """Return the width of the 95 % confidence interval of the median by the median, from the order of the samples."""
    count = len(samples)
    ordered = sorted(samples)
    reach = _CONFIDENCE * math.sqrt(count) / 2
    low = max(math.floor((count - 1) / 2 - reach), 0)
    high = min(math.ceil((count - 1) / 2 + reach), count - 1)
    return (ordered[high] - ordered[low]) / statistics.median(ordered)


def _spread(samples: Sequence[float]) -> float:
    if len(samples) == 1:
        return 0.0
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return (third - first) / statistics.median(samples)


def _preemptions() -> int:
    """Return how often the system has taken a processor from a thread of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
