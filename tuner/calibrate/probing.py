"""Figures of a processor, read off the times of small kernels, wherever these run.

None of the kernels (`tuner.on_device.probe_kernels`) looks like a layer of a network: what is calibrated here is judged
by networks elsewhere. A bundle carries this module, so it needs nothing but Python's own library.
"""

import statistics
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

from tuner.calibrate.figures import Figures, Idle, Level, Reading
from tuner.calibrate.plan import ProbePlan
from tuner.measure.timing import measured

ACCUMULATORS = 12
"""Vectors that multiply-accumulates go to by turns: more than any pipe's latency times its pipes."""
COLUMNS = 3
"""Vectors of one row of a register tile of a matrix product."""
TILES_OF_PANEL = 4
"""Register tiles that use one panel of weights."""
TILES = 16
"""Register tiles of a product that are computed in a row."""
SHORT, LONG = 16, 128
"""Depths of such products: what both take besides is beginning and ending their loops."""
DEPTH = 4096
"""Multiply-accumulates in a row, of one vector or of several by turns."""
VECTORS = 64
"""Of exponentials and divisions."""
STEPS = 20_000
"""Loads of a chain of addresses."""
_WIDTH = 0.01
_SHORTEST_SAMPLE_S = 50e-6
_FLOAT_BYTES = 4
_TRIES = 5
"""Of a figure that is the difference of others."""
_WAITS_MS = (0, 4, 8, 16, 32)
"""In which an array that lies in the shared cache is not used."""
_TRIES_AFTER_WAIT = 15


class Bench(Protocol):
    """Where probes run. What ``array`` returns is what the other methods take as arguments."""

    def array(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return memory at an aligned address; what it holds is not defined."""

    def run(self, probe: str, arguments: Sequence[Any]) -> None:
        """Run a probe once."""

    def clock(self, probe: str, arguments: Sequence[Any], number: int) -> Callable[[], float]:
        """Return what runs a probe so many times in a row and tells how many seconds one took."""

    def after_waits(self, probe: str, arguments: Sequence[Any], wait_ms: int, tries: int) -> list[float]:
        """Return the seconds of so many runs, each after a wait."""

    def call_s(self, probe: str, arguments: Sequence[Any], budget_s: float) -> float:
        """Return the seconds of calling a probe as the kernels of a network are called."""


def register_rows(registers: int) -> int:
    """Return the rows of a register tile of a matrix product: as many as registers hold beside the operands."""
    return (registers - 1) // COLUMNS - 1


def summed_vectors(registers: int) -> int:
    """Return how many vectors are added up side by side."""
    return registers // 2


def probed(plan: ProbePlan, bench: Bench) -> Figures:
    """Return the figures of the processor of ``bench``; repeats some forty probes for ``plan.probe_s`` each."""
    probing = _Probing(plan, bench)
    levels = tuple(probing.level(name, size) for name, size in plan.sizes_bytes.items())
    fed_fma_s, tile_s = probing.fed()
    return Figures(
        fma_chain_s=probing.multiplied_s("chain", 1),
        fma_s=probing.multiplied_s("chains", ACCUMULATORS),
        fed_fma_s=fed_fma_s,
        tile_s=tile_s,
        special_s=probing.special_s(),
        levels=levels,
        growing=tuple(Reading(size, probing.read_s(size, 1)) for size in plan.growing_bytes),
        idle=probing.idle(plan.sizes_bytes["l3"]) if "l3" in plan.sizes_bytes else (),
        overlap=probing.overlap(levels),
        call_s=probing.call_s(),
        region_s=probing.region_s(),
    )


class _Probing:
    """Runs probes on a bench."""

    def __init__(self, plan: ProbePlan, bench: Bench) -> None:
        self._plan, self._bench, self._lanes = plan, bench, plan.shape.lanes
        self._rows = register_rows(plan.shape.registers)
        self._summed = summed_vectors(plan.shape.registers) * self._lanes

    def multiplied_s(self, probe: str, vectors: int) -> float:
        """Return the seconds of one vector multiply-accumulate, of so many that go on side by side in registers."""
        wide = vectors * self._lanes
        return self._seconds(probe, (DEPTH,), (wide,), (wide,)) / DEPTH / vectors

    def fed(self) -> tuple[float, float]:
        """Return the seconds of one multiply-accumulate of a product in the nearest cache, and of a loop of them."""
        short_s, long_s = self._product_s("short_product", SHORT), self._product_s("long_product", LONG)
        row_s = (long_s - short_s) / (LONG - SHORT)
        return row_s / (self._rows * COLUMNS), max(short_s - SHORT * row_s, 0.0)

    def _product_s(self, probe: str, depth: int) -> float:
        """Return the seconds of a register tile of a matrix product: so many rank-one updates."""
        wide = COLUMNS * self._lanes
        return self._seconds(probe, (self._rows, depth), (depth, wide), (TILES, self._rows, wide)) / TILES

    def special_s(self) -> float:
        """Return the seconds of an exponential or a division of one vector, on average."""
        count = VECTORS * self._lanes
        return self._seconds("special", (count,), (count,)) / VECTORS / 2  # an exponential, and a division by one more

    def level(self, name: str, size_bytes: int) -> Level:
        """Return how fast arrays of ``size_bytes`` are read: by one thread, by all of them, and one word at a time."""
        threads = self._plan.threads
        alone = self.read_s(size_bytes, 1)
        together = self.read_s(size_bytes * threads, threads) if threads > 1 else alone
        return Level(name, size_bytes, alone, together, self._chased_s(size_bytes))

    def read_s(self, size_bytes: int, threads: int) -> float:
        """Return the seconds of each byte of an array that all threads read a part of.

        It is multiplied and added up, as multiply-accumulates have the most pipes.
        """
        rows = max(size_bytes // threads // _FLOAT_BYTES // self._summed, 2)
        taken_s = self._sum_s(rows, threads) - self._sum_s(1, threads)
        return max(taken_s, 1e-12) / (threads * (rows - 1) * self._summed * _FLOAT_BYTES)

    def _sum_s(self, rows: int, threads: int) -> float:
        """Return the seconds of adding up so many rows of vectors on each thread."""
        probe = "sums" if threads > 1 else "sum"
        return self._seconds(probe, (threads, rows, self._summed), (1,), (threads, self._summed))

    def _chased_s(self, size_bytes: int) -> float:
        """Return the seconds from one load to the next that needs its result, all over an array."""
        words = self._plan.line_bytes // _FLOAT_BYTES
        chain = self._bench.array((max(size_bytes // self._plan.line_bytes, 2) * words,), "int32")
        place = self._bench.array((1,), "int32")
        self._bench.run("shuffle", [chain, self._zeros((words,)), place])
        return self._timed("chase", [chain, place]) / STEPS

    def overlap(self, levels: Sequence[Level]) -> float:
        """Return how much of reading the last cache hides behind arithmetic: the median of a few tries."""
        near, far = levels[0].size_bytes, levels[-2].size_bytes
        return statistics.median([self._overlap(near, far) for _ in range(_TRIES)])

    def _overlap(self, near_bytes: int, far_bytes: int) -> float:
        near_s, far_s = self._panels_s(near_bytes, 1), self._panels_s(near_bytes, far_bytes // near_bytes)
        shorter, longer = sorted([near_s, self.read_s(far_bytes, 1)])
        return min(max(1 - (far_s - longer) / shorter, 0.0), 1.0)

    def _panels_s(self, panel_bytes: int, panels: int) -> float:
        """Return the seconds of each byte of packed weights, each panel of which some register tiles use in turn.

        The first of these waits for the panel, as the kernels of a network do.
        """
        depth = panel_bytes // _FLOAT_BYTES // self._lanes
        weights = panels, depth, self._lanes
        tiles = panels, TILES_OF_PANEL, self._rows, self._lanes
        taken_s = self._seconds("panels", (TILES_OF_PANEL, self._rows, depth), weights, tiles)
        return taken_s / (prod(weights) * _FLOAT_BYTES)

    def idle(self, size_bytes: int) -> tuple[Idle, ...]:
        """Return how fast one thread reads an array that it has left alone for a while."""
        rows = size_bytes // _FLOAT_BYTES // self._summed
        arguments = [self._zeros(shape) for shape in ((1, rows, self._summed), (1,), (1, self._summed))]
        found = []
        for wait_ms in _WAITS_MS:
            taken_s = statistics.median(self._bench.after_waits("sum", arguments, wait_ms, _TRIES_AFTER_WAIT))
            found.append(Idle(wait_ms * 1e-3, taken_s / (rows * self._summed * _FLOAT_BYTES)))
        return tuple(found)

    def call_s(self) -> float:
        """Return the seconds of calling a kernel that does next to nothing."""
        return self._bench.call_s("little", [self._zeros((1,)) for _ in range(2)], self._plan.probe_s)

    def region_s(self) -> float:
        """Return the seconds that a loop takes more when it is split over all threads; 0 for a single one."""
        threads = self._plan.threads
        if threads == 1:
            return 0.0
        shapes = (threads,), (threads,)
        return max(self._seconds("little_split", *shapes) - self._seconds("little", *shapes), 0.0)

    def _zeros(self, shape: tuple[int, ...]) -> Any:
        """Return an array of zeros, written one by one: memory that was never written to may be no memory at all."""
        found = self._bench.array(shape, "float32")
        self._bench.run(f"fill{len(shape)}", [found])
        return found

    def _seconds(self, probe: str, *shapes: tuple[int, ...]) -> float:
        return self._timed(probe, [self._zeros(shape) for shape in shapes])

    def _timed(self, probe: str, arguments: Sequence[Any]) -> float:
        """Return the median seconds of one run, its data in the caches from the run before."""
        once = self._bench.clock(probe, arguments, 1)
        number = max(1, int(_SHORTEST_SAMPLE_S / max(min(once() for _ in range(3)), 1e-9)))
        return measured(self._bench.clock(probe, arguments, number), self._plan.probe_s, _WIDTH).seconds
