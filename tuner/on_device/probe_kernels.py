"""Small kernels that each measure one figure of a processor (described in `tuner.calibrate.arithmetic` and beside it).

Arrays may have any size, so that the same code serves all caches; vectors have the machine's size.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import tvm
from tvm import te

from dsascape.tuner.calibrate.plan import ProbeShape
from dsascape.tuner.calibrate.shapes import (
    COLUMNS,
    DEPTH,
    LONG,
    SHORT,
    STEPS,
    TILES_OF_PANEL,
    VECTORS,
    few_rows,
    register_rows,
    summed_vectors,
    sums,
    sums_on_threads,
)
from dsascape.tuner.codegen.functions import TvmNumbers


def probe_functions(shape: ProbeShape) -> Mapping[str, Any]:
    """Return the PrimFunc of each probe, by name."""
    lanes = shape.lanes
    makers: dict[str, Callable[[], Any]] = {
        **{f"chains{count}": partial(_multiplied, count, lanes) for count in (1, *sums(shape.registers))},
        "chains_split": lambda: _multiplied_on_threads(sums_on_threads(shape.registers), lanes),
        "short_product": lambda: _product(shape, register_rows(shape.registers), SHORT),
        "long_product": lambda: _product(shape, register_rows(shape.registers), LONG),
        "short_few": lambda: _product(shape, few_rows(shape.registers), SHORT),
        "long_few": lambda: _product(shape, few_rows(shape.registers), LONG),
        "special": lambda: _special(lanes),
        "panels": lambda: _panels(TILES_OF_PANEL, register_rows(shape.registers), COLUMNS, lanes),
        "sum": lambda: _sum(shape, split=False), "sums": lambda: _sum(shape, split=True),
        "sums_of_others": lambda: _sum(shape, split=True, of_others=True), "fills": lambda: _fills(shape),
        "write": lambda: _write(lanes, split=False), "writes": lambda: _write(lanes, split=True),
        "little": lambda: _little(split=False), "little_split": lambda: _little(split=True),
        "fill1": lambda: _fill(1), "fill2": lambda: _fill(2), "fill3": lambda: _fill(3), "fill4": lambda: _fill(4),
        "fill5": lambda: _fill(5),
        "shuffle": lambda: tvm.script.from_source(_SHUFFLE),
        "chase": lambda: tvm.script.from_source(_CHASE.format(steps=STEPS)),
    }  # fmt: skip
    return {name: make().with_attr("global_symbol", name) for name, make in makers.items()}


def _multiplied(vectors: int, lanes: int) -> Any:
    """Return rank-one updates of ``vectors`` sums in registers by one column: two registers beside the sums."""
    return _of_sums(_SUMS, vectors, lanes)


def _multiplied_on_threads(vectors: int, lanes: int) -> Any:
    """Return the same updates as `_multiplied`, for each of a number of rows on each thread."""
    return _of_sums(_SUMS_ON_THREADS, vectors, lanes)


def _of_sums(source: str, vectors: int, lanes: int) -> Any:
    written = source.format(depth=DEPTH, lanes=lanes, wide=vectors * lanes, vectors=vectors)
    return tvm.script.from_source(written).with_attr("tirx.noalias", True)


def _product(shape: ProbeShape, rows: int, depth: int) -> Any:
    """Return a register tile of a matrix product, of ``depth`` rank-one updates, computed for each of its results."""
    wide, tiles = COLUMNS * shape.lanes, te.var("tiles", "int64")
    left, right = te.placeholder((rows, depth), name="left"), te.placeholder((depth, wide), name="right")
    k = te.reduce_axis((0, depth), "k")
    whole = tiles, rows, wide
    total = te.compute(whole, lambda _, r, j: te.sum(left[r, k] * right[k, j], axis=k), name="total")
    return _in_registers(_schedule([left, right, total]), 1, shape.lanes)


def _special(lanes: int) -> Any:
    """Return exponentials and divisions of vectors."""
    data = te.placeholder((VECTORS * lanes,), name="data")
    schedule = _schedule([data, te.compute((VECTORS * lanes,), lambda i: TvmNumbers().sigmoid(data[i]), name="result")])
    (loop,) = schedule.get_loops(schedule.get_sblock("result"))
    schedule.vectorize(schedule.split(loop, [None, lanes])[1])
    return schedule.mod["main"]


def _panels(tiles: int, rows: int, columns: int, lanes: int) -> Any:
    """Return products with packed weights, each panel of which a few register tiles use in turn."""
    wide = columns * lanes
    panels, depth = te.var("panels", "int64"), te.var("depth", "int64")
    data = te.placeholder((tiles, rows, depth), name="data")
    weights = te.placeholder((panels, depth, wide), name="weights")
    k = te.reduce_axis((0, depth), "k")
    whole = panels, tiles, rows, wide
    total = te.compute(whole, lambda p, t, r, j: te.sum(data[t, r, k] * weights[p, k, j], axis=k), name="total")
    return _in_registers(_schedule([data, weights, total]), 2, lanes)


def _sum(shape: ProbeShape, *, split: bool, of_others: bool = False) -> Any:
    """Return the sums of rows of vectors, one sum per thread; ``of_others``: of the thread half of all further on."""
    wide = summed_vectors(shape.registers) * shape.lanes
    threads, rows = te.var("threads", "int64"), te.var("rows", "int64")
    data, factor = te.placeholder((threads, rows, wide), name="data"), te.placeholder((1,), name="factor")
    k = te.reduce_axis((0, rows), "k")

    def summed(t: Any, j: Any) -> Any:
        of = te.indexmod(t + te.indexdiv(threads, 2), threads) if of_others else t
        return te.sum(data[of, k, j] * factor[0], axis=k)

    total = te.compute((threads, wide), summed, name="total")
    schedule = _schedule([data, factor, total])
    if split:
        schedule.parallel(schedule.get_loops(schedule.get_sblock("total"))[0])
    return _in_registers(schedule, 1, shape.lanes)


def _write(lanes: int, *, split: bool) -> Any:
    """Return a write of an array per thread: the first line of each row, then the second of each, and so on."""
    threads, rows, lines, vectors = (te.var(name, "int64") for name in ("threads", "rows", "lines", "vectors"))
    shape = threads, rows, lines, vectors, lanes
    schedule = _schedule([te.compute(shape, lambda *_: te.const(1.0, "float32"), name="result")])
    thread, row, line, vector, lane = schedule.get_loops(schedule.get_sblock("result"))
    schedule.reorder(line, row, vector)
    if split:
        schedule.parallel(thread)
    schedule.vectorize(lane)
    return schedule.mod["main"]


def _fills(shape: ProbeShape) -> Any:
    """Return a fill of rows of vectors, on each thread, of the shape that sums read."""
    wide = summed_vectors(shape.registers) * shape.lanes
    threads, rows = te.var("threads", "int64"), te.var("rows", "int64")
    schedule = _schedule([te.compute((threads, rows, wide), lambda *_: te.const(1.0, "float32"), name="result")])
    thread, _, column = schedule.get_loops(schedule.get_sblock("result"))
    schedule.parallel(thread)
    schedule.vectorize(schedule.split(column, [None, shape.lanes])[1])
    return schedule.mod["main"]


def _little(*, split: bool) -> Any:
    """Return one addition per element."""
    count = te.var("count", "int64")
    data = te.placeholder((count,), name="data")
    schedule = _schedule([data, te.compute((count,), lambda i: data[i] + 1.0, name="result")])
    if split:
        schedule.parallel(schedule.get_loops(schedule.get_sblock("result"))[0])
    return schedule.mod["main"]


def _fill(dims: int) -> Any:
    """Return a fill of an array with zeros."""
    sizes = tuple(te.var(f"size{dim}", "int64") for dim in range(dims))
    return _schedule([te.compute(sizes, lambda *_: te.const(0.0, "float32"), name="result")]).mod["main"]


def _in_registers(schedule: Any, outer: int, lanes: int) -> Any:
    """Keep the sums of block ``total``, below its ``outer`` loops, in registers during the reduction."""
    block = schedule.get_sblock("total")
    *loops, last, depth = schedule.get_loops(block)
    rows = loops[outer:]
    vectors, inner = schedule.split(last, [None, lanes])
    schedule.reorder(*loops[:outer], depth, *rows, vectors, inner)
    kept = schedule.cache_write(block, 0, "local")
    if outer:
        schedule.reverse_compute_at(kept, loops[outer - 1])
    schedule.vectorize(schedule.split(schedule.get_loops(kept)[-1], [None, lanes])[1])
    for loop in (*rows, vectors):
        schedule.unroll(loop)
    schedule.vectorize(inner)
    first = schedule.decompose_reduction(block, depth)
    for loop in schedule.get_loops(first)[outer:-1]:
        schedule.unroll(loop)
    return schedule.mod["main"]


def _schedule(tensors: list[Any]) -> Any:
    return tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func(tensors)}))


_SUMS = """
@T.prim_func(s_tir=True)
def sums(
    row: T.Buffer(({depth},), "float32"), column: T.Buffer(({lanes},), "float32"),
    total: T.Buffer(({wide},), "float32"),
):
    own = T.alloc_buffer(({wide},), "float32", scope="local")
    for sum in T.unroll({vectors}):
        for lane in T.vectorized({lanes}):
            own[sum * {lanes} + lane] = total[sum * {lanes} + lane]
    for step in T.serial({depth}):
        for sum in T.unroll({vectors}):
            for lane in T.vectorized({lanes}):
                own[sum * {lanes} + lane] = own[sum * {lanes} + lane] + row[step] * column[lane]
    for sum in T.unroll({vectors}):
        for lane in T.vectorized({lanes}):
            total[sum * {lanes} + lane] = own[sum * {lanes} + lane]
"""
"""Sums of one product each, which begin with numbers of their own, or a compiler would make one of them."""
_SUMS_ON_THREADS = """
@T.prim_func(s_tir=True)
def sums(
    row: T.Buffer(({depth},), "float32"), column: T.Buffer(({lanes},), "float32"), total_handle: T.handle,
):
    threads = T.int64()
    rows = T.int64()
    total = T.match_buffer(total_handle, (threads, rows, {wide}), "float32")
    for thread in T.parallel(threads):
        for part in T.serial(rows):
            own = T.alloc_buffer(({wide},), "float32", scope="local")
            for sum in T.unroll({vectors}):
                for lane in T.vectorized({lanes}):
                    own[sum * {lanes} + lane] = total[thread, part, sum * {lanes} + lane]
            for step in T.serial({depth}):
                for sum in T.unroll({vectors}):
                    for lane in T.vectorized({lanes}):
                        own[sum * {lanes} + lane] = own[sum * {lanes} + lane] + row[step] * column[lane]
            for sum in T.unroll({vectors}):
                for lane in T.vectorized({lanes}):
                    total[thread, part, sum * {lanes} + lane] = own[sum * {lanes} + lane]
"""
_SHUFFLE = """
@T.prim_func(s_tir=True)
def shuffle(chain_handle: T.handle, line_handle: T.handle, place: T.Buffer((1,), "int32")):
    count = T.int64()
    words = T.int64()
    chain = T.match_buffer(chain_handle, (count,), "int32")
    line = T.match_buffer(line_handle, (words,), "float32")
    state = T.alloc_buffer((1,), "int64")
    kept = T.alloc_buffer((1,), "int32")
    state[0] = T.int64(1)
    place[0] = 0
    for here in T.serial(count // words):
        chain[here * words] = T.Cast("int32", here * words)
    for back in T.serial(count // words - T.int64(1)):
        state[0] = T.bitwise_and(state[0] * T.int64(25214903917) + T.int64(11), T.int64(281474976710655))
        kept[0] = chain[(count // words - T.int64(1) - back) * words]
        chain[(count // words - T.int64(1) - back) * words] = chain[
            T.truncmod(T.shift_right(state[0], T.int64(17)), count // words - T.int64(1) - back) * words
        ]
        chain[T.truncmod(T.shift_right(state[0], T.int64(17)), count // words - T.int64(1) - back) * words] = kept[0]
"""
"""Sattolo's algorithm: the first words of all lines form one cycle, each holding the position of the next.

The draws are those of POSIX's ``drand48``. The length of a line is that of the second array.
"""
_CHASE = """
@T.prim_func(s_tir=True)
def chase(chain_handle: T.handle, place: T.Buffer((1,), "int32")):
    count = T.int64()
    chain = T.match_buffer(chain_handle, (count,), "int32")
    for step in T.serial({steps}):
        place[0] = chain[place[0]]
"""
