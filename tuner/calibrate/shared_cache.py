"""Values of a shared cache that follow from measured figures: what there is of it, for how long, for which lines."""

import itertools
import math
import statistics
import sys

from dsascape.hw_models.caches.lines import random_placement_hit_rate
from dsascape.tuner.calibrate.facts import CacheFact
from dsascape.tuner.calibrate.figures import Figures
from dsascape.tuner.calibrate.values import MEASURED, Value

_HALF = 0.5
_LEAST_TOLD = 0.1
"""Fractions this close to 0 or 1 are within measurement noise."""
_LARGER = 1e-3
_APART = 0.5
"""Cost of a line in arrays of the shared cache by that in arrays of the second one, from which on cores share none: in
a cache that they share, the second caches have given up all but a part of the lines."""


def shared_capacity(l3: CacheFact, figures: Figures | None) -> Value:
    """Return the available capacity of the shared cache; others may use the rest, as on a partitioned machine.

    Half of an array is cached where its reading speed is midway between those of cache and DRAM.
    """
    told = Value(f"{l3.size_bytes // 2**10} KiB", l3.source)
    if figures is None:
        return told
    near, far = (next(level for level in figures.levels if level.name == name) for name in ("l3", "dram"))
    if far.byte_s <= near.byte_s:
        return told
    points = [(math.log2(near.size_bytes), 1.0)]
    points += [(math.log2(e.size_bytes), (far.byte_s - e.byte_s) / (far.byte_s - near.byte_s)) for e in figures.growing]
    for (size, share), (larger, less) in itertools.pairwise(points):
        if less < _HALF <= share:
            held = 2 ** (size + (share - _HALF) / (share - less) * (larger - size)) / _times_for(_HALF)
            text = f"{MEASURED}: what there is of {l3.size_bytes // 2**10} KiB, beyond which reading slows down"
            return Value(f"{round(held / 2**10)} KiB", text) if held < l3.size_bytes else told
    return told


def kept(figures: Figures | None) -> Value:
    """Return the time in which other processes bring in as much data as the shared cache holds."""
    if figures is None:
        return Value("null", "assumed: nobody else uses it")
    (first, *later), dram = figures.idle, next(level for level in figures.levels if level.name == "dram")
    times = []
    for each in later:
        share = (dram.byte_s - each.byte_s) / max(dram.byte_s - first.byte_s, sys.float_info.min)
        if _LEAST_TOLD < share < 1 - _LEAST_TOLD:
            times.append((each.idle_s - first.idle_s) / _times_for(share))
    if not times:
        return Value("null", f"{MEASURED}: nobody else uses it")
    return Value(f"{statistics.median(times) * 1e3:.1f} ms", f"{MEASURED}: an array that is left alone slows down")


def fresh(figures: Figures | None) -> Value:
    """Return the part of the shared cache available to lines new to it; null where it is the whole cache."""
    if figures is None:
        return Value("null", "assumed: the whole cache")
    near, far = (next(level for level in figures.levels if level.name == name) for name in ("l3", "dram"))
    share = (far.byte_s - figures.again_s) / max(far.byte_s - near.byte_s, sys.float_info.min)
    if share > 1 - _LEAST_TOLD:
        return Value("null", f"{MEASURED}: an array that came from memory once is found")
    held = near.size_bytes / _times_for(max(share, _LEAST_TOLD))
    return Value(f"{round(held / 2**10)} KiB", f"{MEASURED}: an array that came from memory once is found in part")


def _times_for(share: float) -> float:
    """Return the number of cache fills after which ``share`` of the earlier contents is left."""
    return next(times for step in itertools.count(1) if random_placement_hit_rate(times := _LARGER * step) <= share)


def sharing(cores: int, figures: Figures | None) -> Value:
    """Return the number of cores that share the last cache: all, or half where one half has to fetch from the other."""
    by_name = {} if figures is None else {each.name: each.line_s for each in figures.handed}
    near_s, far_s = by_name.get("l2", 0.0), by_name.get("l3", 0.0)
    if not near_s:
        return Value("null", "assumed: all cores")
    if far_s / near_s < _APART:
        return Value("null", f"{MEASURED}: what one half of the cores writes is found there by the other")
    return Value(str(-(-cores // 2)), f"{MEASURED}: one half of the cores fetches what the other writes from afar")
