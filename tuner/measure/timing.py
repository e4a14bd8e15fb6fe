"""Timing by repetition: runs until the median is known precisely, leaving out runs that were preempted."""

import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence

from dsascape.tuner.measure.records import Timing

FLUSH = "cache_flush_cpu_non_first_arg"
"""TVM's function that flushes its tensor arguments, except the first, from every cache, line by line."""
FEWEST = 11
"""Undisturbed runs of which a median is made at least."""
_FEWEST_ROWS = 3
MOST = 2000
"""Runs that are timed at most."""
_WARM_UPS = 2
_CONFIDENCE = 1.96


def measured(
    run: Callable[[], float], budget_s: float, width: float, fewest: int = FEWEST, warm_ups: int = _WARM_UPS
) -> Timing:
    """Time ``run``, which does its work once and returns its seconds, for at most about ``budget_s`` seconds.

    Repetition ends early once ``fewest`` runs were undisturbed and the median's confidence interval is within
    ``width``. Where hardly any run is undisturbed, the fastest quarter of all runs is used.
    """
    for _ in range(warm_ups):
        run()
    kept: list[float] = []
    left_out: list[float] = []
    end = time.monotonic() + budget_s
    while len(kept) + len(left_out) < MOST:
        before = _preemptions()
        seconds = run()
        (kept if _preemptions() == before else left_out).append(seconds)
        is_precise = len(kept) >= fewest and interval_width(kept) <= width
        if is_precise or (time.monotonic() > end and len(kept) + len(left_out) >= _FEWEST_ROWS):
            break
    if len(kept) < min(fewest, len(kept) + len(left_out)) // 2:
        everything = sorted(kept + left_out)
        kept = everything[: max(len(everything) // 4, 1)]
    return Timing(statistics.median(kept), _spread(kept), interval_width(kept), len(kept), len(left_out))


def _nothing() -> None:
    """Do nothing."""


def measured_in_parts(
    parts: Sequence[Callable[[], object]], budget_s: float, width: float, before: Callable[[], object] = _nothing
) -> Timing:
    """Time all ``parts`` in sequence, repeated.

    ``before`` is called ahead of each sequence and not timed. Where hardly any sequence is undisturbed, its time is the
    sum of the medians of each part's undisturbed runs.
    """
    for part in parts:
        part()
    rows: list[float] = []
    each: list[list[float]] = [[] for _ in parts]
    fastest = [math.inf] * len(parts)
    taken = 0
    end = time.monotonic() + budget_s
    while taken < MOST:
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
        is_precise = len(rows) >= FEWEST and interval_width(rows) <= width
        if is_precise or (time.monotonic() > end and taken >= _FEWEST_ROWS):
            break
    if len(rows) >= min(FEWEST, taken) // 2 + 1:
        return Timing(statistics.median(rows), _spread(rows), interval_width(rows), len(rows), taken - len(rows))
    samples_of_parts = [samples or [least] for samples, least in zip(each, fastest, strict=True)]
    medians = [statistics.median(samples) for samples in samples_of_parts]
    total = sum(medians)
    spread, interval = (
        sum(share(samples) * median for samples, median in zip(samples_of_parts, medians, strict=True)) / total
        for share in (_spread, interval_width)
    )
    fewest = min(len(samples) for samples in each)
    return Timing(total, spread, interval, fewest, taken - fewest)


def interval_width(samples: Sequence[float]) -> float:
    """Return the width of the median's 95 % confidence interval (from order statistics), divided by the median."""
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
    """Return the number of times that threads of this process have been preempted."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
