"""Small kernels that each show one figure of a processor, and what is read off their times.

None of them looks like a layer of a network: what is calibrated here is judged by networks elsewhere.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import te

from tuner.calibrate.figures import Figures, Idle, Level, Reading
from tuner.calibrate.plan import ProbePlan
from tuner.codegen.functions import sigmoid
from tuner.measure.arrays import aligned_bytes
from tuner.measure.timing import measured, measured_in_parts
from workloads.operators.registry import Array

_BUDGET_S = 0.6
"""Of one probe."""
_WIDTH = 0.01
_SHORTEST_SAMPLE_S = 50e-6
_ACCUMULATORS = 12
"""Vectors that multiply-accumulates go to by turns: more than any pipe's latency times its pipes."""
_COLUMNS = 3
"""Vectors of one row of a register tile of a matrix product."""
_TILES_OF_PANEL = 4
"""Register tiles that use one panel of weights."""
_FLOAT_BYTES = 4
_TRIES = 5
"""Of a figure that is the difference of others."""
_WAITS_MS = (0, 4, 8, 16, 32)
"""In which an array that lies in the shared cache is not used."""
_TRIES_AFTER_WAIT = 15
_STEPS = 20_000
"""Loads of a chain of addresses."""


def probe(plan: ProbePlan) -> Figures:
    """Return the figures of the processor that this runs on; takes about half a second for each of them."""
    probes = _Probes(plan)
    levels = tuple(probes.level(name, size) for name, size in plan.sizes_bytes.items())
    fed_fma_s, tile_s = probes.fed()
    return Figures(
        fma_chain_s=probes.chain_s(),
        fma_s=probes.fma_s(),
        fed_fma_s=fed_fma_s,
        tile_s=tile_s,
        special_s=probes.special_s(),
        levels=levels,
        idle=probes.idle(plan.sizes_bytes["l3"]) if "l3" in plan.sizes_bytes else (),
        growing=tuple(Reading(size, probes.read_s(size, 1)) for size in plan.growing_bytes),
        overlap=probes.overlap(levels),
        call_s=probes.call_s(),
        region_s=probes.region_s(),
    )


class _Probes:
    """Builds and times probes for one target."""

    def __init__(self, plan: ProbePlan) -> None:
        self.plan, self.lanes = plan, plan.lanes
        self.streams = plan.registers // 2
        """Vectors that are added up side by side."""
        self.rows = (plan.registers - 1) // _COLUMNS - 1
        """Of a register tile of a matrix product: as many as registers hold beside the operands."""
        self.target = tvm.target.Target(plan.target)
        self.device = tvm.cpu()

    def chain_s(self) -> float:
        """Return the seconds of a multiply-accumulate of which the next one needs the result."""
        depth = 4096
        return self._multiplied(1, depth) / depth

    def fma_s(self) -> float:
        """Return the seconds of one vector multiply-accumulate when there are enough of them."""
        depth = 4096
        return self._multiplied(_ACCUMULATORS, depth) / depth / _ACCUMULATORS

    def _multiplied(self, vectors: int, depth: int) -> float:
        """Return the seconds of ``depth`` rank-one updates of so many vectors that stay in registers."""
        wide = vectors * self.lanes
        row, column = te.placeholder((depth,), name="row"), te.placeholder((wide,), name="column")
        k = te.reduce_axis((0, depth), "k")
        total = te.compute((wide,), lambda j: te.sum(row[k] * column[j], axis=k), name="total")
        schedule = _schedule([row, column, total])
        self._in_registers(schedule, "total", 0)
        return self._seconds(schedule, [(depth,), (wide,), (wide,)])

    def fed(self) -> tuple[float, float]:
        """Return the seconds of one multiply-accumulate of a product in the nearest cache, and of a loop of them."""
        short, long = 16, 128
        short_s, long_s = self._product_s(short), self._product_s(long)
        row_s = (long_s - short_s) / (long - short)
        return row_s / (self.rows * _COLUMNS), max(short_s - short * row_s, 0.0)

    def _product_s(self, depth: int) -> float:
        """Return the seconds of a register tile of a matrix product: so many rank-one updates."""
        tiles, wide = 16, _COLUMNS * self.lanes
        left, right = te.placeholder((self.rows, depth), name="left"), te.placeholder((depth, wide), name="right")
        k = te.reduce_axis((0, depth), "k")
        shape = tiles, self.rows, wide
        total = te.compute(shape, lambda _, r, j: te.sum(left[r, k] * right[k, j], axis=k), name="total")
        schedule = _schedule([left, right, total])
        self._in_registers(schedule, "total", 1)
        return self._seconds(schedule, [(self.rows, depth), (depth, wide), shape]) / tiles

    def special_s(self) -> float:
        """Return the seconds of an exponential or a division of one vector, on average."""
        count = 64 * self.lanes
        data = te.placeholder((count,), name="data")
        result = te.compute((count,), lambda i: sigmoid(data[i]), name="result")
        schedule = _schedule([data, result])
        (loop,) = schedule.get_loops(schedule.get_sblock("result"))
        schedule.vectorize(schedule.split(loop, [None, self.lanes])[1])
        return self._seconds(schedule, [(count,), (count,)]) / 64 / 2  # an exponential, and a division by one more

    def level(self, name: str, size_bytes: int) -> Level:
        """Return how fast arrays of ``size_bytes`` are read: by one thread, by all of them, and one word at a time."""
        alone = self.read_s(size_bytes, 1)
        together = self.read_s(size_bytes * self.plan.threads, self.plan.threads) if self.plan.threads > 1 else alone
        return Level(name, size_bytes, alone, together, self._chased_s(size_bytes))

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
        depth = panel_bytes // _FLOAT_BYTES // self.lanes
        data = te.placeholder((_TILES_OF_PANEL, self.rows, depth), name="data")
        weights = te.placeholder((panels, depth, self.lanes), name="weights")
        k = te.reduce_axis((0, depth), "k")
        shape = panels, _TILES_OF_PANEL, self.rows, self.lanes
        total = te.compute(shape, lambda p, t, r, j: te.sum(data[t, r, k] * weights[p, k, j], axis=k), name="total")
        schedule = _schedule([data, weights, total])
        self._in_registers(schedule, "total", 2)
        shapes = [(_TILES_OF_PANEL, self.rows, depth), (panels, depth, self.lanes), shape]
        return self._seconds(schedule, shapes) / (panels * depth * self.lanes * _FLOAT_BYTES)

    def read_s(self, size_bytes: int, threads: int) -> float:
        """Return the seconds of each byte of an array that all threads read a part of.

        It is multiplied and added up, as multiply-accumulates have the most pipes.
        """
        wide = self.streams * self.lanes
        rows = size_bytes // threads // _FLOAT_BYTES // wide
        taken_s = self._sum_s(rows, threads) - self._sum_s(1, threads)
        return taken_s / (threads * (rows - 1) * wide * _FLOAT_BYTES)

    def idle(self, size_bytes: int) -> tuple[Idle, ...]:
        """Return how fast one thread reads an array that it has left alone for a while."""
        wide = self.streams * self.lanes
        rows = size_bytes // _FLOAT_BYTES // wide
        schedule, shapes = self._sum(rows, 1)
        built = tvm.tirx.build(schedule.mod, target=self.target)
        arguments = [tvm_ffi.from_dlpack(_array(shape, np.float32)) for shape in shapes]
        found = []
        for wait_ms in _WAITS_MS:
            clock = built.time_evaluator(
                "main", self.device, number=1, repeat=_TRIES_AFTER_WAIT, cooldown_interval_ms=wait_ms,
                repeats_to_cooldown=1,
            )  # fmt: skip
            taken_s = statistics.median(clock(*arguments).results)
            found.append(Idle(wait_ms * 1e-3, taken_s / (rows * wide * _FLOAT_BYTES)))
        return tuple(found)

    def _sum_s(self, rows: int, threads: int) -> float:
        """Return the seconds of adding up so many rows of vectors on each thread."""
        return self._seconds(*self._sum(rows, threads))

    def _sum(self, rows: int, threads: int) -> tuple[Any, list[tuple[int, ...]]]:
        """Return what adds up so many rows of vectors on each thread, and the shapes of its arrays."""
        wide = self.streams * self.lanes
        data, factor = te.placeholder((threads, rows, wide), name="data"), te.placeholder((1,), name="factor")
        k = te.reduce_axis((0, rows), "k")
        total = te.compute((threads, wide), lambda t, j: te.sum(data[t, k, j] * factor[0], axis=k), name="total")
        schedule = _schedule([data, factor, total])
        if threads > 1:
            schedule.parallel(schedule.get_loops(schedule.get_sblock("total"))[0])
        self._in_registers(schedule, "total", 1)
        return schedule, [(threads, rows, wide), (1,), (threads, wide)]

    def _in_registers(self, schedule: Any, name: str, outer: int) -> None:
        """Keep the sums of block ``name``, but for its ``outer`` loops, in registers while the reduction runs."""
        block = schedule.get_sblock(name)
        *loops, last, depth = schedule.get_loops(block)
        rows = loops[outer:]
        vectors, inner = schedule.split(last, [None, self.lanes])
        schedule.reorder(*loops[:outer], depth, *rows, vectors, inner)
        kept = schedule.cache_write(block, 0, "local")
        if outer:
            schedule.reverse_compute_at(kept, loops[outer - 1])
        schedule.vectorize(schedule.split(schedule.get_loops(kept)[-1], [None, self.lanes])[1])
        for loop in (*rows, vectors):
            schedule.unroll(loop)
        schedule.vectorize(inner)
        first = schedule.decompose_reduction(block, depth)
        for loop in schedule.get_loops(first)[outer:-1]:
            schedule.unroll(loop)

    def _chased_s(self, size_bytes: int) -> float:
        """Return the seconds from one load to the next that needs its result, all over an array."""
        count = size_bytes // self.plan.line_bytes
        step = self.plan.line_bytes // _FLOAT_BYTES
        order = np.random.default_rng(0).permutation(count)
        chain, place = _array((count * step,), np.int32), _array((1,), np.int32)
        chain[order * step] = np.roll(order, -1) * step
        source = _CHASE.format(count=count * step, steps=_STEPS)
        function = tvm.script.from_source(source)
        return self._timed(tvm.IRModule({"main": function}), [chain, place]) / _STEPS

    def call_s(self) -> float:
        """Return the seconds of calling a kernel that does next to nothing, as the kernels of a network are called."""
        function = tvm.tirx.build(self._little(1).mod, target=self.target)["main"]
        arguments = [tvm_ffi.from_dlpack(_array((1,), np.float32)) for _ in range(2)]
        return measured_in_parts([partial(function, *arguments)], _BUDGET_S, _WIDTH).seconds

    def region_s(self) -> float:
        """Return the seconds that a loop takes more when it is split over all threads; 0 for a single one."""
        threads = self.plan.threads
        if threads == 1:
            return 0.0
        schedule = self._little(threads)
        schedule.parallel(schedule.get_loops(schedule.get_sblock("result"))[0])
        split = self._seconds(schedule, [(threads,), (threads,)])
        return max(split - self._seconds(self._little(threads), [(threads,), (threads,)]), 0.0)

    @staticmethod
    def _little(count: int) -> Any:
        data = te.placeholder((count,), name="data")
        return _schedule([data, te.compute((count,), lambda i: data[i] + 1.0, name="result")])

    def _seconds(self, schedule: Any, shapes: Sequence[tuple[int, ...]]) -> float:
        return self._timed(schedule.mod, [_array(shape, np.float32) for shape in shapes])

    def _timed(self, module: Any, arrays: Sequence[Array]) -> float:
        """Return the median seconds of one run of ``main``, its data in the caches from the run before."""
        built = tvm.tirx.build(module, target=self.target)
        arguments = [tvm_ffi.from_dlpack(array) for array in arrays]
        run = _repeated(built, self.device, arguments, 1)
        number = max(1, int(_SHORTEST_SAMPLE_S / max(min(run() for _ in range(3)), 1e-9)))
        return measured(_repeated(built, self.device, arguments, number), _BUDGET_S, _WIDTH).seconds


def _array(shape: tuple[int, ...], dtype: type) -> Array:
    found: Array = aligned_bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize).view(dtype).reshape(shape)
    found[...] = 0
    return found


def _schedule(tensors: list[Any]) -> Any:
    return tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func(tensors)}))


def _repeated(module: Any, device: Any, arguments: Sequence[Any], number: int) -> Callable[[], float]:
    evaluator = module.time_evaluator("main", device, number=number, repeat=1)
    return lambda: float(evaluator(*arguments).results[0])


_CHASE = """
@T.prim_func(s_tir=True)
def main(chain: T.Buffer(({count},), "int32"), place: T.Buffer((1,), "int32")):
    for step in T.serial({steps}):
        place[0] = chain[place[0]]
"""
