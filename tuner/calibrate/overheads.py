"""Overheads around a processor's kernels: calls, loops that are split over threads, lines that change cores.

A bundle carries this module, so it uses the standard library only.
"""

from dsascape.tuner.calibrate.arithmetic import slowed
from dsascape.tuner.calibrate.figures import Handed, OnThreads
from dsascape.tuner.calibrate.rounds import Found
from dsascape.tuner.calibrate.shapes import COLUMNS, SHORT, TILES, VECTORS
from dsascape.tuner.calibrate.timer import Call, Timer

_REPEATED = 16
"""Times that an almost empty loop is repeated."""
HANDING = ("fill3", "fills", "fill1", "fill2", "sums", "sums_of_others")
"""Probes that measure what lines cost that pass from core to core."""


def calls(timer: Timer) -> Found:
    """Measure a kernel call's overhead: the extra seconds of small kernels after one that evicts a core's caches.

    Compared with the same kernels repeated by themselves; at least the time of calling an empty one.
    """
    length, wide = VECTORS * timer.lanes, COLUMNS * timer.lanes
    shapes = {
        "little": ((1,), (1,)), "fill1": ((1,),), "fill2": ((1, 1),), "special": ((length,), (length,)),
        "short_product": ((timer.rows, SHORT), (SHORT, wide), (TILES, timer.rows, wide)),
    }  # fmt: skip
    small = [_call(probe, *each) for probe, each in shapes.items()]
    large = _call("sum", *timer.summed(timer.plan.sizes_bytes[timer.last]))
    by_themselves_s = sum([timer.seconds(probe, *each) for probe, each in shapes.items()])
    extra_s = timer.row_s(large, *small) - timer.row_s(large) - by_themselves_s
    return {"call_s": max(extra_s / len(small), timer.row_s(small[0]))}


def splitting(timer: Timer) -> Found:
    """Measure what splitting a loop takes, and the pace of arithmetic, on all threads and on two, four and so on."""
    found = []
    threads = 2
    while threads < timer.plan.threads:
        timer.bench.use_threads(threads)
        few = timer.on_threads(threads)
        found.append(OnThreads(threads, region_s(few), slowed(few)))
        threads *= 2
    timer.bench.use_threads(timer.plan.threads)
    return {"region_s": region_s(timer), "slowed": slowed(timer), "fewer": tuple(found)}


def region_s(timer: Timer) -> float:
    """Return the extra seconds of a loop that is split over all threads; 0 for a single thread.

    The loop follows another split loop that evicts its data, as most loops of a network do; it costs no less than
    by itself, which is measured as well, as the first is a small difference of large times.
    """
    threads = timer.plan.threads
    if threads == 1:
        return 0.0
    large = _call("sums", *timer.summed(timer.plan.sizes_bytes[timer.last], threads))
    loops = [_call(probe, (threads,), (threads,)) for probe in ("little_split", "little")]
    behind_s = [timer.row_s(large, loop) for loop in loops]
    alone_s = [timer.row_s(loop, repeated=_REPEATED) for loop in loops]
    return max(behind_s[0] - behind_s[1], (alone_s[0] - alone_s[1]) / _REPEATED, 0.0)


def handing(timer: Timer) -> Found:
    """Measure what a line costs that one core writes and one half of all cores away reads; empty for one thread.

    The array of a core lies in its second cache, then in the shared one, as far as there are such caches.
    """
    threads, sizes = timer.plan.threads, timer.plan.sizes_bytes
    if threads == 1:
        return {"handed": ()}
    found = []
    for name in [each for each in ("l2", "l3") if each in sizes] or ["l1"]:
        arrays = tuple(zip(("data", "factor", "sums"), timer.summed(sizes[name] * threads, threads), strict=True))
        own_s, others_s = [timer.row_s(("fills", arrays[:1]), (probe, arrays)) for probe in ("sums", "sums_of_others")]
        found.append(Handed(name, max(others_s - own_s, 0.0) / (sizes[name] // timer.plan.line_bytes)))
    return {"handed": tuple(found)}


def _call(probe: str, *shapes: tuple[int, ...]) -> Call:
    """Return a call with arrays of its own."""
    return probe, tuple((f"{probe}{place}", shape) for place, shape in enumerate(shapes))
