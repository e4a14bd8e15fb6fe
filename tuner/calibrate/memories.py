"""Memories of a processor: reading, writing and waiting, by arrays that lie in each of them.

A bundle carries this module, so it uses the standard library only.
"""

import itertools
import statistics
from functools import partial
from math import prod

from dsascape.tuner.calibrate.arithmetic import packed_s, panel_bytes, panel_depth, result_s, tile_bytes
from dsascape.tuner.calibrate.derived import impossible_of
from dsascape.tuner.calibrate.figures import Far, Idle, Level, Reading
from dsascape.tuner.calibrate.rounds import EIGHTH, HALF, TURNS, Found
from dsascape.tuner.calibrate.shapes import PANEL_BY_L1, STEPS, TILES, summed_vectors
from dsascape.tuner.calibrate.timer import FLOAT_BYTES, Timer

_APART = 16
"""Distance in lines between consecutively written lines of a scattered write."""
_WAITS_MS = (0, 4, 8, 16, 32)
"""Pauses in milliseconds before an array in the shared cache is read again."""
TRIES_AFTER_WAIT = 7
_FARTHER = 0.8
"""Time of a byte from a memory by that from the one before it, down to which it may be noise."""
_CALLED = 1 / 3
"""Least part of a fill that is no overhead of its call."""


def memories(timer: Timer) -> Found:
    """Measure all memories: reading, writing, and computing on data from them."""
    sizes = timer.plan.sizes_bytes
    levels = tuple([_level(timer, name, size) for name, size in sizes.items()])
    return {
        "levels": levels,
        "growing": tuple([Reading(size, _read_s(timer, size, 1)) for size in timer.plan.growing_bytes]),
        "written_s": _filled_s(timer, sizes["l1"]),
        "far": tuple([_far(timer, level) for level in levels[1:]]),
        "result_s": result_s(timer, TILES, EIGHTH),
    }


def shared(timer: Timer) -> Found:
    """Measure what other users of a shared cache leave of it: their usual use counts, so medians do."""
    return {"idle": _idle(timer), "again_s": _again_s(timer)}


def out_of_order(found: Found) -> str:
    """Return what is wrong with memories: that one is faster than the one before it, or with what they cost beside."""
    for near, far in itertools.pairwise(found["levels"]):
        if far.byte_s < _FARTHER * near.byte_s:
            return f"{far.name} is read faster than {near.name}; the rate of {near.name} is assumed for both"
    wrong = [impossible_of(far, found["levels"], found["result_s"]) for far in found["far"]]
    return "; ".join(filter(None, wrong))


def in_order(found: Found) -> Found:
    """Return the figures with memories each no faster than the one before it."""
    levels: list[Level] = []
    for level in found["levels"]:
        least_s = levels[-1].byte_s if levels else 0.0
        levels.append(
            Level(level.name, level.size_bytes, max(level.byte_s, least_s), level.byte_of_all_s, level.load_s)
        )
    return {**found, "levels": tuple(levels)}


def _level(timer: Timer, name: str, size_bytes: int) -> Level:
    """Measure reading of arrays of ``size_bytes``: by one thread, by all threads, and by dependent loads."""
    threads, line = timer.plan.threads, timer.plan.line_bytes
    alone = _read_s(timer, size_bytes, 1)
    together = _read_s(timer, size_bytes * threads, threads) if threads > 1 else alone
    words = line // FLOAT_BYTES
    load_s = timer.chase_s(max(size_bytes // line, 2) * words, words) / STEPS
    return Level(name, size_bytes, alone, together, load_s)


def _read_s(timer: Timer, size_bytes: int, threads: int) -> float:
    """Return the seconds per byte of an array that ``threads`` threads share.

    The array is multiplied and summed, because multiply-accumulates have the most pipes. The time of a single row
    is subtracted, unless noise makes it no smaller.
    """
    row_bytes = summed_vectors(timer.plan.shape.registers) * timer.lanes * FLOAT_BYTES
    rows = max(size_bytes // threads // row_bytes, 2)
    probe = "sums" if threads > 1 else "sum"
    all_s, one_s = (timer.seconds(probe, *timer.summed(count * threads * row_bytes, threads)) for count in (rows, 1))
    return (all_s - one_s if one_s < all_s else all_s) / (threads * (rows - 1) * row_bytes)


def _filled_s(timer: Timer, size_bytes: int) -> float:
    """Return the seconds per byte of an array in the first cache that one thread fills with zeros.

    The time of half of it is subtracted, so that the call does not count.
    """
    whole_s, half_s = [timer.seconds("fill1", (size // FLOAT_BYTES,)) for size in (size_bytes, size_bytes // 2)]
    return max(whole_s - half_s, whole_s * _CALLED) / (size_bytes - size_bytes // 2)


def _far(timer: Timer, level: Level) -> Far:
    """Measure writing to a memory and computing on data from it, beyond sequential reading."""
    size, threads = level.size_bytes, timer.plan.threads
    written_s = _written_s(timer, "write", size, 1, 1)
    of_all_s = _written_s(timer, "writes", size * threads, threads, 1) if threads > 1 else written_s
    apart_s = _written_s(timer, "write", size, 1, _APART)
    short = panel_depth(timer, 1)
    long = panel_depth(timer, PANEL_BY_L1 if "l2" in timer.plan.sizes_bytes else 1)
    panels = max(size // panel_bytes(timer, long), 1)
    near, far = ((1, short), (1, long)) if level.name == "l2" else ((1, long), (panels, long))
    tiles = max(size // tile_bytes(timer), 1)
    for _ in range(TURNS):  # small differences of large times, by turns
        near_s, panel_s = packed_s(timer, *near, EIGHTH), packed_s(timer, *far, EIGHTH)
        far_s = result_s(timer, tiles, EIGHTH)
    return Far(level.name, written_s, of_all_s, apart_s, near_s, panel_s, far_s)


def _written_s(timer: Timer, probe: str, size_bytes: int, threads: int, apart: int) -> float:
    """Return the seconds per byte of an array that ``threads`` threads share for writing.

    Consecutively written lines are ``apart`` lines from each other; those in between are written in later passes.
    Adjacent ones are one row: a loop over the vectors of a line takes longer than a near cache to store it.
    """
    vectors = max(timer.plan.line_bytes // FLOAT_BYTES // timer.lanes, 1)
    rows = max(size_bytes // threads // apart // vectors // timer.lanes // FLOAT_BYTES, 1)
    if apart == 1:
        rows, vectors = 1, rows * vectors
    shape = threads, rows, apart, vectors, timer.lanes
    return timer.seconds(probe, shape) / (prod(shape) * FLOAT_BYTES)


def _again_s(timer: Timer) -> float:
    """Return the seconds per byte of reading an array in the shared cache right after its first load from DRAM."""
    sizes = timer.plan.sizes_bytes
    if "l3" not in sizes:
        return 0.0

    def once() -> float:
        small, large = (timer.zeros(*timer.summed(sizes[name])) for name in ("l3", "dram"))
        clock = timer.bench.clock("sum", small, 1)
        samples = []
        for _ in range(TRIES_AFTER_WAIT):
            timer.bench.run("sum", large)
            samples.append(clock())  # which runs it once before it looks at the time
        return statistics.median(samples)

    return timer.of("again", once, HALF) / sizes["l3"]


def _idle(timer: Timer) -> tuple[Idle, ...]:
    """Measure how fast one thread reads an array in the shared cache after pauses; empty without such a cache."""
    size = timer.plan.sizes_bytes.get("l3")
    if size is None:
        return ()
    shapes = timer.summed(size)

    def once(wait_ms: int) -> float:
        return statistics.median(timer.bench.after_waits("sum", timer.zeros(*shapes), wait_ms, TRIES_AFTER_WAIT))

    return tuple(
        Idle(wait_ms * 1e-3, timer.of(("idle", wait_ms), partial(once, wait_ms), HALF) / size) for wait_ms in _WAITS_MS
    )
