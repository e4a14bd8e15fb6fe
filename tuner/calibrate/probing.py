"""Probing of a processor: figures from the times of small kernels, on any bench.

None of the kernels (`tuner.on_device.probe_kernels`) resembles a layer of a network, so that networks remain an
independent check. A bundle carries this module, so it uses the standard library only.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from dsascape.tuner.calibrate.bench import Bench
from dsascape.tuner.calibrate.figures import Far, Figures, Handed, Idle, Level, OnThreads, Reading
from dsascape.tuner.calibrate.plan import ProbePlan
from dsascape.tuner.measure.timing import measured

ACCUMULATORS = 12
"""Independent accumulator vectors, more than any processor's latency times its pipes."""
COLUMNS = 2
"""Vectors per row of a register tile of a matrix product; with as many rows as the registers hold, the tile generated
for most layers."""
TILES_OF_PANEL = 4
"""Number of register tiles that use one panel of weights."""
TILES = 16
"""Number of register tiles of a product computed in sequence where results should stay in the first cache."""
PANEL_BY_L1 = 4
"""Size of far panels of weights relative to the first cache's array, so that all tiles but the first read them from the
second cache."""
SHORT, LONG = 16, 128
"""Reduction depths of these products; what both take in common is the overhead of their loops."""
DEPTH = 4096
"""Number of sequential multiply-accumulates, of one vector or several by turns."""
VECTORS = 64
"""Number of vectors of exponentials and divisions."""
STEPS = 20_000
"""Number of dependent loads of a chain."""
_ROWS_BY_THREAD = 256
"""Rows of updates on each thread, so many that handing them out counts for nothing."""
_WIDTH = 0.01
_SHORTEST_SAMPLE_S = 50e-6
_FLOAT_BYTES = 4
_TRIES = 3
"""Repetitions of a figure computed as a difference."""
_TRIES_OF_PANELS = 6
_APART = 16
"""Distance in lines between consecutively written lines of a scattered write."""
_WAITS_MS = (0, 4, 8, 16, 32)
"""Pauses in milliseconds before an array in the shared cache is read again."""
TRIES_AFTER_WAIT = 7
_REPEATED = 16
"""Times that an almost empty loop is repeated."""
HANDING = ("fill3", "fills", "fill1", "fill2", "sums", "sums_of_others")
"""Probes that measure what lines cost that pass from core to core."""
_ROUNDS = 3
"""Rounds of pauses and clock readings, spread over the probes because cache use by others and clocks change."""


def register_rows(registers: int) -> int:
    """Return the rows of a product's register tile: as many as the registers hold in addition to its operands."""
    return (registers - 1) // COLUMNS - 1


def few_rows(registers: int) -> int:
    """Return half of `register_rows`, at least one."""
    return max(register_rows(registers) // 2, 1)


def summed_vectors(registers: int) -> int:
    """Return the number of vectors that are summed side by side."""
    return registers // 2


def probed(plan: ProbePlan, bench: Bench) -> Figures:
    """Measure the figures of the processor of ``bench``; repeats about forty probes for ``plan.probe_s`` each."""
    probing = _Probing(plan, bench)
    idle, slowed, paces, handed = [probing.idle()], [probing.slowed()], [probing.pace()], [probing.handed()]
    levels = tuple(probing.level(name, size) for name, size in plan.sizes_bytes.items())
    idle.append(probing.idle())
    slowed.append(probing.slowed())
    paces.append(probing.pace())
    handed.append(probing.handed())
    far = tuple(probing.far(level) for level in levels[1:])
    paces += [probing.pace() for _ in range(_ROUNDS - len(paces))]
    fma_chain_s, fma_s, _, tile_s, few_tile_s = map(statistics.median, zip(*paces, strict=True))
    # By the pace of arithmetic of its own round: the clock may be another one in each.
    fed = statistics.median([probing.fed_fma_s(panel_s, end_s) / by_s for _, by_s, panel_s, end_s, _ in paces])
    idle += [probing.idle() for _ in range(_ROUNDS - len(idle))]
    return Figures(
        fma_chain_s=fma_chain_s,
        fma_s=fma_s,
        fed_fma_s=fed * fma_s,
        tile_s=tile_s,
        few_tile_s=few_tile_s,
        special_s=probing.special_s(),
        written_s=probing.filled_s(plan.sizes_bytes["l1"]),
        levels=levels,
        growing=tuple(Reading(size, probing.read_s(size, 1)) for size in plan.growing_bytes),
        idle=tuple(map(_medians, zip(*idle, strict=True))),
        again_s=probing.again_s(),
        result_s=min(probing.near_results_s, default=0.0) or probing.result_s(TILES),
        far=far,
        call_s=probing.call_s(),
        region_s=probing.region_s(),
        slowed=statistics.median([*slowed, probing.slowed()]),
        fewer=probing.fewer(),
        handed=tuple(map(_median_handed, zip(*handed, probing.handed(), strict=True))),
    )


def handed(plan: ProbePlan, bench: Bench) -> tuple[Handed, ...]:
    """Measure what lines cost that pass from core to core, with the probes of `HANDING`; empty for one thread."""
    return _Probing(plan, bench).handed()


def _medians(readings: Sequence[Idle]) -> Idle:
    return Idle(readings[0].idle_s, statistics.median([each.byte_s for each in readings]))


def _median_handed(readings: Sequence[Handed]) -> Handed:
    return Handed(readings[0].name, statistics.median([each.line_s for each in readings]))


class _Probing:
    """Runs probes on a bench and derives figures from their times."""

    def __init__(self, plan: ProbePlan, bench: Bench) -> None:
        self._plan, self._bench, self._lanes = plan, bench, plan.shape.lanes
        self._rows = register_rows(plan.shape.registers)
        self._summed = summed_vectors(plan.shape.registers) * self._lanes
        self.near_results_s: list[float] = []
        """Seconds per byte of results in the first cache, measured beside those of memories behind it."""

    def pace(self) -> tuple[float, float, float, float, float]:
        """Return the current pace of arithmetic, in seconds of a chain, of many chains, a panel, and two short loops.

        The first of these loops is one of a register tile with all rows, the second with half of them.
        """
        chain_s, chains_s = self.multiplied_s("chain", 1), self.multiplied_s("chains", ACCUMULATORS)
        ends_s = [self.tile_s(rows) for rows in (self._rows, few_rows(self._plan.shape.registers))]
        return chain_s, chains_s, self.panel_s(1, self._panel_depth(1)), ends_s[0], ends_s[1]

    def multiplied_s(self, probe: str, vectors: int) -> float:
        """Return the seconds of one vector multiply-accumulate among ``vectors`` independent ones in registers."""
        wide = vectors * self._lanes
        return self._seconds(probe, (DEPTH,), (wide,), (wide,)) / DEPTH / vectors

    def slowed(self) -> float:
        """Return the time of multiply-accumulates in registers on all threads, relative to that on one; at least 1."""
        wide, threads = ACCUMULATORS * self._lanes, self._plan.threads
        if threads == 1:
            return 1.0
        # Others on the machine only add to either time: the least ones count.
        all_s, one_s = [
            min(
                self._seconds("chains_split", (DEPTH,), (wide,), (each, _ROWS_BY_THREAD, wide)) for _ in range(_TRIES)
            )
            for each in (threads, 1)
        ]  # fmt: skip
        return max(all_s / one_s, 1.0)

    def fewer(self) -> tuple[OnThreads, ...]:
        """Measure what splitting a loop takes, and the pace of arithmetic, on two threads, on four and so on."""
        found, threads = [], 2
        while threads < self._plan.threads:
            self._bench.use_threads(threads)
            few = _Probing(replace(self._plan, threads=threads), self._bench)
            found.append(OnThreads(threads, few.region_s(), few.slowed()))
            threads *= 2
        self._bench.use_threads(self._plan.threads)
        return tuple(found)

    def tile_s(self, rows: int) -> float:
        """Return the overhead of a product's register tile of ``rows`` beyond its rank-one updates, in seconds."""
        of = "product" if rows == self._rows else "few"
        short_s, long_s = [
            self._product_s(f"{name}_{of}", depth, TILES, rows) for name, depth in (("short", SHORT), ("long", LONG))
        ]
        return max(short_s - SHORT * (long_s - short_s) / (LONG - SHORT), 0.0)

    def _product_s(self, probe: str, depth: int, tiles: int, rows: int) -> float:
        """Return the seconds of a product's register tile of ``depth`` rank-one updates, averaged over ``tiles``."""
        wide = COLUMNS * self._lanes
        return self._seconds(probe, (rows, depth), (depth, wide), (tiles, rows, wide)) / tiles

    def result_s(self, tiles: int) -> float:
        """Return the seconds per byte of the results of ``tiles`` register tiles."""
        return self._product_s("short_product", SHORT, tiles, self._rows) / self._tile_bytes

    @property
    def _tile_bytes(self) -> int:
        return self._rows * COLUMNS * self._lanes * _FLOAT_BYTES

    def fed_fma_s(self, panel_s: float, tile_s: float) -> float:
        """Return the seconds of one multiply-accumulate in tiles that use a panel in the first cache."""
        depth = self._panel_depth(1)
        tiles_s = panel_s * self._panel_bytes(depth) - TILES_OF_PANEL * tile_s
        return tiles_s / (TILES_OF_PANEL * self._rows * COLUMNS * depth)

    def _panel_depth(self, by_l1: int) -> int:
        return self._plan.sizes_bytes["l1"] * by_l1 // _FLOAT_BYTES // COLUMNS // self._lanes

    def _panel_bytes(self, depth: int) -> int:
        return depth * COLUMNS * self._lanes * _FLOAT_BYTES

    def special_s(self) -> float:
        """Return the mean seconds of an exponential and a division of one vector."""
        count = VECTORS * self._lanes
        return self._seconds("special", (count,), (count,)) / VECTORS / 2  # an exponential, and a division by one more

    def level(self, name: str, size_bytes: int) -> Level:
        """Measure reading of arrays of ``size_bytes``: by one thread, by all threads, and by dependent loads."""
        threads = self._plan.threads
        alone = self.read_s(size_bytes, 1)
        together = self.read_s(size_bytes * threads, threads) if threads > 1 else alone
        return Level(name, size_bytes, alone, together, self._chased_s(size_bytes))

    def read_s(self, size_bytes: int, threads: int) -> float:
        """Return the seconds per byte of an array that ``threads`` threads share.

        The array is multiplied and summed, because multiply-accumulates have the most pipes. The time of a single row
        is subtracted, unless noise makes it no smaller.
        """
        rows = max(size_bytes // threads // _FLOAT_BYTES // self._summed, 2)
        for _ in range(_TRIES):
            all_s, one_s = self._sum_s(rows, threads), self._sum_s(1, threads)
            if one_s < all_s:
                break
        taken_s = all_s - one_s if one_s < all_s else all_s
        return taken_s / (threads * (rows - 1) * self._summed * _FLOAT_BYTES)

    def _sum_s(self, rows: int, threads: int) -> float:
        """Return the seconds of summing ``rows`` rows of vectors on each thread."""
        size_bytes = rows * threads * self._summed * _FLOAT_BYTES
        return self._timed("sums" if threads > 1 else "sum", self._summed_arrays(size_bytes, threads))

    def _chased_s(self, size_bytes: int) -> float:
        """Return the latency in seconds of dependent loads all over an array."""
        words = self._plan.line_bytes // _FLOAT_BYTES
        chain = self._bench.array((max(size_bytes // self._plan.line_bytes, 2) * words,), "int32")
        place = self._bench.array((1,), "int32")
        self._bench.run("shuffle", [chain, self._zeros((words,)), place])
        return self._timed("chase", [chain, place]) / STEPS

    def far(self, level: Level) -> Far:
        """Measure writing to a memory and computing on data from it, beyond sequential reading."""
        size, threads = level.size_bytes, self._plan.threads
        written_s = self._written_s("write", size, 1, 1)
        of_all_s = self._written_s("writes", size * threads, threads, 1) if threads > 1 else written_s
        apart_s = self._written_s("write", size, 1, _APART)
        short, long = self._panel_depth(1), self._panel_depth(PANEL_BY_L1 if "l2" in self._plan.sizes_bytes else 1)
        panels = max(size // self._panel_bytes(long), 1)
        near, far = ((1, short), (1, long)) if level.name == "l2" else ((1, long), (panels, long))
        # A small difference of two large times, to which others on the machine only add: the least ones count.
        tries = [(self.panel_s(*near), self.panel_s(*far)) for _ in range(_TRIES_OF_PANELS)]
        near_s, panel_s = map(min, zip(*tries, strict=True))
        tiles = max(size // self._tile_bytes, 1)
        results = [(self.result_s(TILES), self.result_s(tiles)) for _ in range(_TRIES)]
        self.near_results_s += [near for near, _ in results]
        return Far(level.name, written_s, of_all_s, apart_s, near_s, panel_s, min(far for _, far in results))

    def filled_s(self, size_bytes: int) -> float:
        """Return the seconds per byte of an array in the first cache that one thread fills with zeros.

        The time of half of it is subtracted, so that the call does not count.
        """
        whole_s, half_s = [
            min(self._seconds("fill1", (size // _FLOAT_BYTES,)) for _ in range(_TRIES))
            for size in (size_bytes, size_bytes // 2)
        ]
        return max(whole_s - half_s, whole_s / _TRIES) / (size_bytes - size_bytes // 2)

    def _written_s(self, probe: str, size_bytes: int, threads: int, apart: int) -> float:
        """Return the seconds per byte of an array that ``threads`` threads share for writing.

        Consecutively written lines are ``apart`` lines from each other; those in between are written in later passes.
        Adjacent ones are one row: a loop over the vectors of a line takes longer than a near cache to store it.
        """
        vectors = max(self._plan.line_bytes // _FLOAT_BYTES // self._lanes, 1)
        rows = max(size_bytes // threads // apart // vectors // self._lanes // _FLOAT_BYTES, 1)
        if apart == 1:
            rows, vectors = 1, rows * vectors
        shape = threads, rows, apart, vectors, self._lanes
        return self._seconds(probe, shape) / (prod(shape) * _FLOAT_BYTES)

    def panel_s(self, panels: int, depth: int) -> float:
        """Return the seconds per byte of packed weights whose panels are each used by a few register tiles in turn.

        The first tile waits for its panel, as in the kernels of a network.
        """
        wide = COLUMNS * self._lanes
        data, weights = (TILES_OF_PANEL, self._rows, depth), (panels, depth, wide)
        taken_s = self._seconds("panels", data, weights, (panels, TILES_OF_PANEL, self._rows, wide))
        return taken_s / (prod(weights) * _FLOAT_BYTES)

    def again_s(self) -> float:
        """Return the seconds per byte of reading an array in the shared cache right after its first load from DRAM."""
        if "l3" not in self._plan.sizes_bytes:
            return 0.0
        small, large = (self._summed_arrays(self._plan.sizes_bytes[name]) for name in ("l3", "dram"))
        clock = self._bench.clock("sum", small, 1)
        samples = []
        for _ in range(TRIES_AFTER_WAIT):
            self._bench.run("sum", large)
            samples.append(clock())  # which runs it once before it looks at the time
        return statistics.median(samples) / self._plan.sizes_bytes["l3"]

    def idle(self) -> tuple[Idle, ...]:
        """Measure how fast one thread reads an array in the shared cache after pauses; empty without such a cache."""
        if "l3" not in self._plan.sizes_bytes:
            return ()
        size = self._plan.sizes_bytes["l3"]
        arguments = self._summed_arrays(size)
        readings = []
        for wait_ms in _WAITS_MS:
            taken_s = statistics.median(self._bench.after_waits("sum", arguments, wait_ms, TRIES_AFTER_WAIT))
            readings.append(Idle(wait_ms * 1e-3, taken_s / size))
        return tuple(readings)

    def _summed_arrays(self, size_bytes: int, threads: int = 1) -> list[Any]:
        """Return the arguments of a sum that ``threads`` threads share."""
        rows = size_bytes // threads // _FLOAT_BYTES // self._summed
        return [self._zeros(shape) for shape in ((threads, rows, self._summed), (1,), (threads, self._summed))]

    def call_s(self) -> float:
        """Return a kernel call's overhead: the extra seconds of small kernels after one that evicts a core's caches.

        Compared with the same kernels repeated by themselves; at least the time of calling an empty one.
        """
        count, wide = VECTORS * self._lanes, COLUMNS * self._lanes
        shapes = {
            "little": ((1,), (1,)), "fill1": ((1,),), "fill2": ((1, 1),), "special": ((count,), (count,)),
            "short_product": ((self._rows, SHORT), (SHORT, wide), (TILES, self._rows, wide)),
        }  # fmt: skip
        small = [(probe, [self._zeros(shape) for shape in each]) for probe, each in shapes.items()]
        size = self._plan.sizes_bytes.get("l3", self._plan.sizes_bytes["dram"])
        large = "sum", self._summed_arrays(size)
        by_themselves_s = sum([self._timed(*each) for each in small])
        extra_s = []
        for _ in range(_TRIES):
            both_s, alone_s = (self._bench.row_s(row, self._plan.probe_s) for row in ([large, *small], [large]))
            extra_s.append((both_s - alone_s - by_themselves_s) / len(small))
        return max(statistics.median(extra_s), self._bench.row_s(small[:1], self._plan.probe_s))

    def region_s(self) -> float:
        """Return the extra seconds of a loop that is split over all threads; 0 for a single thread.

        The loop follows another split loop that evicts its data, as most loops of a network do; it costs no less than
        by itself, which is measured as well, as the first is a small difference of large times.
        """
        threads = self._plan.threads
        if threads == 1:
            return 0.0
        large = "sums", self._summed_arrays(self._plan.sizes_bytes.get("l3", self._plan.sizes_bytes["dram"]), threads)
        loops = [(name, [self._zeros((threads,)) for _ in range(2)]) for name in ("little_split", "little")]
        extra_s = []
        for _ in range(_TRIES):
            split_s, whole_s = (self._bench.row_s([large, loop], self._plan.probe_s) for loop in loops)
            extra_s.append(split_s - whole_s)
        split_s, whole_s = (self._bench.row_s([loop] * _REPEATED, self._plan.probe_s) for loop in loops)
        return max(statistics.median(extra_s), (split_s - whole_s) / _REPEATED, 0.0)

    def handed(self) -> tuple[Handed, ...]:
        """Measure what a line costs that one core writes and one half of all cores away reads; empty for one thread.

        The array of a core lies in its second cache, then in the shared one, as far as there are such caches.
        """
        threads, sizes = self._plan.threads, self._plan.sizes_bytes
        if threads == 1:
            return ()
        found = []
        for name in [each for each in ("l2", "l3") if each in sizes] or ["l1"]:
            arrays = self._summed_arrays(sizes[name] * threads, threads)
            lines = sizes[name] // self._plan.line_bytes
            own_s, others_s = [
                self._bench.row_s([("fills", arrays[:1]), (probe, arrays)], self._plan.probe_s)
                for probe in ("sums", "sums_of_others")
            ]
            found.append(Handed(name, max(others_s - own_s, 0.0) / lines))
        return tuple(found)

    def _zeros(self, shape: tuple[int, ...]) -> Any:
        """Return an array of zeros that were written explicitly: untouched pages may not be mapped."""
        array = self._bench.array(shape, "float32")
        self._bench.run(f"fill{len(shape)}", [array])
        return array

    def _seconds(self, probe: str, *shapes: tuple[int, ...]) -> float:
        return self._timed(probe, [self._zeros(shape) for shape in shapes])

    def _timed(self, probe: str, arguments: Sequence[Any]) -> float:
        """Return the median seconds of one run with its data in the caches from the run before."""
        once = self._bench.clock(probe, arguments, 1)
        number = max(1, int(_SHORTEST_SAMPLE_S / max(min(once() for _ in range(3)), 1e-9)))
        return measured(self._bench.clock(probe, arguments, number), self._plan.probe_s, _WIDTH).seconds
