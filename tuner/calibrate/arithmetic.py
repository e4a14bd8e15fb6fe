"""Pace of a core's arithmetic: pipes, products of matrices, ends of loops, and the clock with others at work.

A bundle carries this module, so it uses the standard library only.
"""

from dsascape.tuner.calibrate.figures import OnThreads
from dsascape.tuner.calibrate.rounds import EIGHTH, QUARTER, TURNS, Found
from dsascape.tuner.calibrate.shapes import (
    COLUMNS,
    DEPTH,
    LONG,
    SHORT,
    TILES,
    TILES_OF_PANEL,
    VECTORS,
    few_rows,
    sums,
    sums_on_threads,
)
from dsascape.tuner.calibrate.timer import FLOAT_BYTES, Timer
from dsascape.wording import count

FMA_LATENCY_CYCLES = 4.0
"""Multiply-accumulate latency of every CPU preset; it converts the measured chain into a clock."""
_WHOLE = 0.15
"""Distance from a whole number within which a measured number of pipes is believed."""
_NOISE = 0.03
"""Part of a time by which others' work may differ between two turns."""
_ROWS_BY_THREAD = 64
"""Rows of updates on each thread, so many that handing them out counts for nothing."""


def pace(timer: Timer) -> Found:
    """Measure multiply-accumulates: one after the other, of independent sums, and in a product with packed weights.

    The rate of sums is that of the number of sums that is fastest, and no lower than the product's.
    """
    depth = panel_depth(timer, 1)
    panel_s = packed_s(timer, 1, depth) * panel_bytes(timer, depth)
    ends_s = _tile_s(timer, timer.rows)
    updates = TILES_OF_PANEL * timer.rows * COLUMNS * depth
    independent_s = min([_multiplied_s(timer, each) for each in sums(timer.plan.shape.registers)])
    return {
        "fma_chain_s": _multiplied_s(timer, 1),
        "fma_s": min(independent_s, panel_s / updates),
        "fed_fma_s": (panel_s - TILES_OF_PANEL * ends_s) / updates,
        "tile_s": ends_s,
        "few_tile_s": _tile_s(timer, few_rows(timer.plan.shape.registers)),
        "special_s": _special_s(timer),
    }


def pipes_of(chain_s: float, fma_s: float) -> float:
    """Return the number of pipes, not rounded, from the seconds of a dependent multiply-accumulate and of any."""
    return chain_s / fma_s / FMA_LATENCY_CYCLES


def whole_pipes(chain_s: float, fma_s: float) -> int:
    """Return the nearest whole number of pipes, at least one."""
    return max(round(pipes_of(chain_s, fma_s)), 1)


def no_whole_pipes(found: Found) -> str:
    """Return what is wrong with a number of pipes that is no whole number; empty within 0.15 of one."""
    pipes = pipes_of(found["fma_chain_s"], found["fma_s"])
    nearest = whole_pipes(found["fma_chain_s"], found["fma_s"])
    if abs(pipes - nearest) <= _WHOLE:
        return ""
    return (
        f"multiply-accumulates are found to have pipes of {FMA_LATENCY_CYCLES:.0f} cycles in a number of {pipes:.2f};"
        f" {nearest} assumed, with a clock that agrees with their rate"
    )


def slowed(timer: Timer) -> float:
    """Return the time of multiply-accumulates in registers on all threads, relative to that on one; at least 1.

    All and one take turns, because clocks and others' work change, and virtual cores move: those of one physical core
    have half of its pipes each.
    """
    threads, vectors = timer.plan.threads, sums_on_threads(timer.plan.shape.registers)
    if threads == 1:
        return 1.0
    wide = vectors * timer.lanes
    for _ in range(TURNS):
        one_s, all_s = [
            timer.seconds("chains_split", (DEPTH,), (timer.lanes,), (each, _ROWS_BY_THREAD, wide), share=EIGHTH)
            for each in (1, threads)
        ]
    return max(all_s / one_s, 1.0)


def computed_on(threads: int, times_one: float) -> float:
    """Return what ``threads`` threads compute together, by what one does alone, from ``slowed`` of them."""
    return threads / times_one


def less_than_one(found: Found, threads: int) -> str:
    """Return what is wrong with clocks of many cores: that they compute less together than one does alone."""
    for each, times_one in [*((few.threads, few.slowed) for few in found["fewer"]), (threads, found["slowed"])]:
        together = computed_on(each, times_one)
        if together < 1 - _NOISE:
            return (
                f"{count(each, 'thread')} compute {together:.2f} of what one does alone, which others' work must have"
                " caused; cores are assumed to keep their clock"
            )
    return ""


def steady(found: Found) -> Found:
    """Return the figures with a clock that does not depend on how many cores work."""
    fewer = tuple(OnThreads(each.threads, each.region_s, 1.0) for each in found["fewer"])
    return {**found, "slowed": 1.0, "fewer": fewer}


def packed_s(timer: Timer, panels: int, depth: int, share: float = QUARTER) -> float:
    """Return the seconds per byte of packed weights whose panels are each used by a few register tiles in turn.

    The first tile waits for its panel, as in the kernels of a network.
    """
    wide = COLUMNS * timer.lanes
    data, weights = (TILES_OF_PANEL, timer.rows, depth), (panels, depth, wide)
    taken_s = timer.seconds("panels", data, weights, (panels, TILES_OF_PANEL, timer.rows, wide), share=share)
    return taken_s / (panels * panel_bytes(timer, depth))


def panel_depth(timer: Timer, by_l1: int) -> int:
    """Return the depth of a panel of weights that is ``by_l1`` times as large as the first cache's array."""
    return timer.plan.sizes_bytes["l1"] * by_l1 // FLOAT_BYTES // COLUMNS // timer.lanes


def panel_bytes(timer: Timer, depth: int) -> int:
    """Return the size of a panel of weights."""
    return depth * COLUMNS * timer.lanes * FLOAT_BYTES


def result_s(timer: Timer, tiles: int, share: float = QUARTER) -> float:
    """Return the seconds per byte of the results of ``tiles`` register tiles."""
    return _product_s(timer, "short_product", SHORT, tiles, timer.rows, share) / tile_bytes(timer)


def tile_bytes(timer: Timer) -> int:
    """Return the size of a register tile's results."""
    return timer.rows * COLUMNS * timer.lanes * FLOAT_BYTES


def _multiplied_s(timer: Timer, vectors: int) -> float:
    """Return the seconds of one vector multiply-accumulate among ``vectors`` independent ones in registers."""
    return timer.seconds(f"chains{vectors}", (DEPTH,), (timer.lanes,), (vectors * timer.lanes,)) / DEPTH / vectors


def _tile_s(timer: Timer, rows: int) -> float:
    """Return the overhead of a product's register tile of ``rows`` beyond its rank-one updates, in seconds."""
    of = "product" if rows == timer.rows else "few"
    short_s, long_s = [
        _product_s(timer, f"{name}_{of}", depth, TILES, rows) for name, depth in (("short", SHORT), ("long", LONG))
    ]
    return max(short_s - SHORT * (long_s - short_s) / (LONG - SHORT), 0.0)


def _product_s(timer: Timer, probe: str, depth: int, tiles: int, rows: int, share: float = QUARTER) -> float:
    """Return the seconds of a product's register tile of ``depth`` rank-one updates, averaged over ``tiles``."""
    wide = COLUMNS * timer.lanes
    return timer.seconds(probe, (rows, depth), (depth, wide), (tiles, rows, wide), share=share) / tiles


def _special_s(timer: Timer) -> float:
    """Return the mean seconds of an exponential and a division of one vector."""
    length = VECTORS * timer.lanes
    return timer.seconds("special", (length,), (length,)) / VECTORS / 2  # a division more, in each sigmoid
