"""Threads that ask for words of one bank wait for each other; rows of copies are padded where that pays."""

import itertools
import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, load_hardware
from dsascape.hw_models.gpu.banks import passes_per_access
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.gpu.code import block_code, block_needs
from dsascape.scheduler.gpu.conflicts import Accesses, accesses_of, addresses_of, padded, threads_of
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.parts import parts_of
from dsascape.scheduler.gpu.read_tiles import read_tiles
from dsascape.scheduler.gpu.schedule import GpuKernel, kernel_by_kernel
from dsascape.scheduler.gpu.schedule_json import read_schedule, schedule_json
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import estimate_ps, grid_of
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import SUMS, Buffer, Loop, Statement, statements_of, stored_elements
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import CacheRead, RowPadding
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import LoopNest
from tests.graphs import Net, networks
from tests.tiers import examples

WARP = BANKS = 32
H100 = GpuView(load_hardware("h100", Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))
SHIFTED = RowPadding(1)


def buffer(shape: tuple[int, ...], rows: RowPadding | None = None) -> Buffer:
    return Buffer("copy", "shared", shape, 4, (Affine(),) * len(shape), rows=rows)


@pytest.mark.parametrize(("rows", "passes"), [(None, 31), (RowPadding(1), 0), (RowPadding(2), 1), (RowPadding(4), 3)])
def test_a_warp_reads_a_column_of_a_tile_of_32_floats_in_as_many_passes_as_rows_share_a_bank(
    rows: RowPadding | None, passes: int
) -> None:
    stride, _ = buffer((32, 32), rows).strides

    assert stride == 32 + (rows.elements if rows else 0)
    assert passes_per_access(np.arange(WARP) * stride, 1, 4, WARP, BANKS) == passes


@pytest.mark.parametrize(("moves", "elements", "element_bytes", "passes"), [
    (((32, 1),), 1, 4, 0),  # neighbours
    (((32, 0),), 1, 4, 0),  # all the same word
    (((4, 16), (8, 0)), 1, 4, 1),  # rows of 16: every second one in the same bank
    (((32, 2),), 1, 2, 0),  # 16-bit elements, a word for each thread
    (((32, 1),), 1, 2, 0),  # two threads for each word
    (((32, 64),), 1, 2, 31),  # a column of 64 elements of 16 bit
    (((32, 4),), 4, 4, 0),  # vectors: eight threads at a time
    (((32, 8),), 4, 4, 4),  # every second vector: two passes for each of four times eight threads
    (((32, 32),), 4, 4, 28),
    (((32, 36),), 4, 4, 0),  # rows of 32 with four elements behind them
])  # fmt: skip
def test_passes_of_one_access_counted_by_hand(
    moves: tuple[tuple[int, int], ...], elements: int, element_bytes: int, passes: int
) -> None:
    assert Accesses(moves, elements, element_bytes).further_passes(WARP, BANKS) == passes


def measured() -> list[tuple[int, int, float]]:
    """Return stride in words, words a thread, and cycles of an access of one warp, measured on an H200.

    32 warps of one block, 1,024 loads each, every one of which waits for the one before; the best of five runs.
    """
    scalar = {1: 1.01, 2: 2.00, 3: 1.01, 4: 4.00, 8: 8.00, 9: 1.01, 12: 4.00, 16: 15.99, 20: 4.00, 32: 31.97,
              33: 1.01, 36: 4.00, 63: 1.01, 64: 31.97, 68: 4.00, 72: 8.00}  # fmt: skip
    vectors = {4: 4.00, 8: 8.00, 12: 4.00, 16: 15.99, 20: 4.00, 32: 31.97, 36: 4.00, 64: 31.97, 68: 4.00, 72: 8.00}
    return [
        *[(stride, 1, cycles) for stride, cycles in scalar.items()],
        *[(stride, 4, cycles) for stride, cycles in vectors.items()],
    ]


@pytest.mark.parametrize(("stride", "elements", "cycles"), measured())
def test_passes_are_the_cycles_that_a_real_gpu_takes(stride: int, elements: int, cycles: float) -> None:
    least = elements  # vectors of four words are served for eight threads at a time
    passes = least + Accesses(((WARP, stride),), elements, 4).further_passes(WARP, BANKS)

    assert cycles == pytest.approx(passes, rel=0.02)


def by_hand(addresses: Sequence[int], elements: int, element_bytes: float, warp: int, banks: int) -> float:
    """Return the further passes of one access, thread by thread and word by word."""
    at_a_time = max(min(int(banks * 4 // max(elements * element_bytes, 4)), warp), 1)
    warps = [addresses[begin : begin + warp] for begin in range(0, len(addresses), warp)]
    further = 0
    for own in warps:
        for begin in range(0, len(own), at_a_time):
            asked: dict[int, set[int]] = defaultdict(set)
            for first in own[begin : begin + at_a_time]:
                word = math.floor(first * element_bytes / 4)
                for each in range(word, word + max(int(elements * element_bytes // 4), 1)):
                    asked[each % banks].add(each)
            further += max(map(len, asked.values())) - 1
    return further / len(warps)


@settings(max_examples=examples(200), deadline=None)
@given(
    moves=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 200)), min_size=1, max_size=3),
    elements=st.sampled_from([1, 2, 4]), element_bytes=st.sampled_from([0.5, 1, 2, 4]),
    warp=st.sampled_from([8, 32, 64]), banks=st.sampled_from([16, 32]),
)  # fmt: skip
def test_passes_are_those_counted_thread_by_thread(
    moves: list[tuple[int, int]], elements: int, element_bytes: float, warp: int, banks: int
) -> None:
    found = Accesses(tuple(moves), elements, element_bytes).further_passes(warp, banks)

    assert found == by_hand(addresses_of(tuple(moves)).tolist(), elements, element_bytes, warp, banks)


@settings(max_examples=examples(100), deadline=None)
@given(shape=st.lists(st.integers(1, 6), min_size=1, max_size=4), elements=st.integers(1, 9), data=st.data())
def test_padded_buffers_keep_elements_apart_and_hold_all_of_them(
    shape: list[int], elements: int, data: st.DataObject
) -> None:
    rows = RowPadding(elements, data.draw(st.integers(1, len(shape))))
    own = buffer(tuple(shape), rows)
    places = {
        sum([each * stride for each, stride in zip(place, own.strides, strict=True)])
        for place in itertools.product(*map(range, shape))
    }

    assert len(places) == math.prod(shape)
    assert max(places) < own.elements == stored_elements(shape, rows)
    assert own.size_bytes == 4 * own.elements


def kernels_of(graph: Graph, view: GpuView = H100) -> tuple[GpuKernel, ...]:
    return kernel_by_kernel(fixed_pattern_plan(graph), GpuCosts(view, Analysis(graph))).runs


def repadded(kernel: GpuKernel, rng: random.Random) -> GpuKernel:
    """Return a kernel with rows of its copies padded at random, where it has copies."""
    nests = nests_of(kernel.layer)
    if nests.anchor < 0 or kernel.tiles.depth_step is None:
        return kernel
    nest = nests.nests[nests.anchor]
    rows = tuple([
        RowPadding(rng.randint(1, 9), rng.randint(1, len(nest.reads[operand].order)))
        if nest.is_copied(operand) and rng.random() < 2 / 3 else None for operand in range(2)
    ])  # fmt: skip
    return replace(kernel, tiles=replace(kernel.tiles, rows=rows if any(rows) else ()))


def addresses_in_tree(program: LoopProgram, tensor: str, nest: LoopNest, operand: int) -> list[int] | None:
    """Return where each thread's first access to the copy of an operand is, read off the tree; None without one."""
    read = nest.reads[operand]
    copy = program.copies(tensor + SUMS).get(read.tensor)
    if copy is None:
        return None
    held = program.buffer(copy)
    around, statement = next(
        found for found in statements_of(program.body) if found[1].stage == tensor + SUMS and found[1].role == "update"
    )
    place = next(number for number, loop in enumerate(around) if loop.kind == "thread")
    order = program.stage(copy).order
    return [
        sum([
            (index - first) * stride
            for index, first, stride in zip(
                [_read(nest, operand, statement, values)[dim] for dim in order],
                [_value(held.first[dim], values) for dim in order], held.strides, strict=True,
            )
        ])
        for values in _threads(around[place])
    ]  # fmt: skip


def _threads(loop: Loop) -> Iterator[Mapping[str, int]]:
    fused = loop.fused or ((loop.name, loop.extent),)
    for numbers in itertools.product(*[range(extent) for _, extent in fused]):
        yield dict(zip([name for name, _ in fused], numbers, strict=True))


def _value(affine: Affine, values: Mapping[str, int]) -> int:
    return affine.offset + sum([stride * values.get(loop, 0) for loop, stride in affine.terms])


def _read(nest: LoopNest, operand: int, statement: Statement, values: Mapping[str, int]) -> list[int]:
    """Return the element that a nest reads of an operand for one thread, at the first iterations of other loops."""
    loops = {loop: _value(each, values) for loop, each in statement.reduced}
    for index, element in zip(nest.write.indices, statement.element, strict=True):
        left = _value(element, values) - index.offset
        for loop, stride in sorted(index.terms, key=lambda term: -term[1]):
            if nest.loops[loop].extent > 1:
                loops[loop], left = divmod(left, stride)
    return [
        (index.offset + sum([stride * loops.get(loop, 0) for loop, stride in index.terms])) // index.divisor
        for index in nest.reads[operand].indices
    ]  # fmt: skip


def disagreements(kernel: GpuKernel) -> Iterator[tuple[object, ...]]:
    """Yield operands whose accesses the cost model and the tree of the program have at different places."""
    layer, tiles = kernel.layer, kernel.tiles
    nests = nests_of(layer)
    number = nests.anchor
    if number < 0:
        return
    nest, parts = nests.nests[number], parts_of(nests, number, layer, tiles, WARP)
    threads = threads_of(nest, number, layer, tiles)
    if parts is None or parts.depth_step is None or threads is None or nest.is_of_block:
        return
    program = kernel.program(WARP)
    for operand in range(2):
        rows = parts.rows[operand] if parts.rows else None
        if any(index.divisor != 1 for index in nest.compiled.nest.reads[operand].indices):
            continue
        name = [each.nest for each in reversed(layer.nests) if not each.is_view][number]
        found = addresses_in_tree(program, name.write.tensor, name, operand)
        if found is None:
            continue
        said = addresses_of(accesses_of(nest, operand, threads, parts, rows, 16).moves).tolist()
        if said != [each - found[0] for each in found]:
            yield kernel.name, operand, rows, said[:40], found[:40]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"), seed=st.integers(0, 2**16))
def test_accesses_of_any_kernel_are_those_of_its_program(graph: Graph, seed: int) -> None:
    rng = random.Random(seed)

    assert [each for kernel in kernels_of(graph) for each in disagreements(repadded(kernel, rng))] == []


@pytest.mark.sampled(1, long=["shufflenet-v2"])
@pytest.mark.parametrize("network", ["resnet18", "bert-tiny", "dcgan", "shufflenet-v2"])
def test_accesses_of_a_network_are_those_of_its_programs(network: str) -> None:
    rng = random.Random(0)
    kernels = kernels_of(load_network(network).with_dtype("fp32"))

    assert [each for kernel in kernels for each in disagreements(repadded(kernel, rng))] == []
    assert any(kernel.tiles.rows for kernel in kernels)


def product(part: tuple[int, int, int] = (1, 4, 8)) -> GpuKernel:
    """Return a product of 256 x 256 matrices in blocks of 64 x 64, operands staged for 16 iterations of the depth."""
    net = Net()
    graph = net.graph(net.dense(net.input(1, 256, 256), 256), dtype="fp32")
    (kernel,) = kernels_of(graph)
    return replace(kernel, tiles=GpuTiles((1, 64, 64), (0, 1, 2), part, 1, 16, 2, "lanes"))


def test_a_block_takes_as_many_further_passes_as_its_threads_meet_in_banks() -> None:
    kernel = product()
    nest = nests_of(kernel.layer).nests[nests_of(kernel.layer).anchor]
    parts = parts_of(nests_of(kernel.layer), nests_of(kernel.layer).anchor, kernel.layer, kernel.tiles, WARP)
    threads = threads_of(nest, nests_of(kernel.layer).anchor, kernel.layer, kernel.tiles)
    assert parts is not None
    assert threads is not None
    left, right = [accesses_of(nest, operand, threads, parts, None, 16) for operand in range(2)]

    # a warp has 4 x 8 threads of 4 rows and 8 columns each; a row of the left copy is 16 words, of which a thread takes
    # 4 at once: of eight threads at a time, all ask for the same ones
    assert (left.moves, left.elements, left.further_passes(WARP, BANKS)) == (((16, 64), (8, 0)), 4, 0)
    # in the right copy threads are 8 columns apart, of which they take 4 at once: every second vector of 64 words, so
    # that two of eight threads meet in each bank, four times
    assert (right.moves, right.elements, right.further_passes(WARP, BANKS)) == (((16, 0), (8, 8)), 4, 4)
    # each of 4 warps takes its 8 columns a thread in two accesses, for each of 256 iterations of the depth
    accesses = 4 * 256 * 2
    assert block_code(kernel.layer, kernel.tiles, H100).issued.further_passes == accesses * 4


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"))
def test_padding_that_is_chosen_never_has_more_passes_and_takes_its_bytes(graph: Graph) -> None:
    for kernel in kernels_of(graph):
        layer, plain = kernel.layer, without_padding(kernel.tiles)
        other = padded(layer, plain, H100)
        passes = [block_code(layer, tiles, H100).issued.further_passes for tiles in (plain, other)]
        taken = [block_needs(layer, tiles, H100).shared_bytes for tiles in (plain, other)]

        assert (other == plain) or (passes[1] <= passes[0] and taken[1] >= taken[0])


def without_padding(tiles: GpuTiles) -> GpuTiles:
    return replace(tiles, rows=(), fronts=tuple([replace(front, rows=()) for front in tiles.fronts]))


def test_rows_are_padded_where_that_pays() -> None:
    kernels = kernels_of(load_network("resnet18").with_dtype("fp32"))
    own = [kernel for kernel in kernels if kernel.tiles.rows]
    times = []
    for kernel in own:
        grids = [grid_of(kernel.layer, tiles, H100) for tiles in (without_padding(kernel.tiles), kernel.tiles)]
        times.append([estimate_ps(grid, H100, 0) for grid in grids])

    assert own
    assert all(after <= before for before, after in times)
    assert any(after < 0.9 * before for before, after in times)


def test_a_machine_without_banks_pads_nothing() -> None:
    spec = load_hardware("mali_g76", Gpu)
    view = GpuView(spec, "fp32")
    kernels = kernels_of(load_network("resnet18").with_dtype("fp32"), view)

    assert spec.sms.shared.banks == 0
    assert not any(kernel.tiles.rows for kernel in kernels)
    assert all(block_code(kernel.layer, kernel.tiles, view).issued.further_passes == 0 for kernel in kernels)


def test_padding_is_read_off_a_program_and_survives_a_schedules_file() -> None:
    kernel = product()
    rows = (RowPadding(4), RowPadding(3, 1))
    kernel = replace(kernel, tiles=replace(kernel.tiles, rows=rows))
    program = kernel.program(WARP)
    costs = GpuCosts(H100, kernel.layer.analysis)
    schedule = kernel_by_kernel(fixed_pattern_plan(kernel.layer.graph), costs)
    document = json.loads(json.dumps(schedule_json(replace(schedule, runs=(kernel,)))))

    assert read_tiles(kernel.layer, program).rows == rows
    assert "+ 4]" in str(program)
    assert read_schedule(document, costs).runs[0].tiles == kernel.tiles

    document["kernels"][0]["rows"][0]["dims"] = 7
    with pytest.raises(ScheduleError, match="rows: 0: has rows of 7 dimensions; the operand has 3"):
        read_schedule(document, costs)


@pytest.mark.parametrize(("change", "message"), [
    ({"scope": "stack"}, "lies in stack: rows are padded in shared memory only"),
    ({"rows": RowPadding(0)}, "with 0 elements behind them"),
    ({"rows": RowPadding(1, 4)}, "has rows of 4 dimensions"),
])  # fmt: skip
def test_rows_that_cannot_be_padded_are_refused(change: dict[str, Any], message: str) -> None:
    kernel = product()
    steps = replace(kernel, tiles=replace(kernel.tiles, rows=(SHIFTED, None))).program(WARP).steps
    changed = [replace(each, **change) if isinstance(each, CacheRead) and each.rows else each for each in steps]

    with pytest.raises(StepError, match=re.escape(message)):
        loop_program(NaiveProgram(kernel.layer), tuple(changed))
