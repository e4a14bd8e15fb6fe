"""Threads that ask for words of one bank wait for each other; rows of copies are padded where that pays."""

import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
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
from dsascape.scheduler.gpu.cost.padding import padded, with_rows
from dsascape.scheduler.gpu.cost.warps import addresses_of
from dsascape.scheduler.gpu.costs import GpuCosts
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
from dsascape.scheduler.kernels.loops.nodes import Buffer, stored_elements
from dsascape.scheduler.kernels.loops.steps import CacheRead, RowPadding
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.scheduler.gpu.running import kernel_in
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
    assert passes_per_access(addresses_of(moves), elements, element_bytes, WARP, BANKS) == passes


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
    passes = least + passes_per_access(addresses_of(((WARP, stride),)), elements, 4, WARP, BANKS)

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
    found = passes_per_access(addresses_of(tuple(moves)), elements, element_bytes, warp, banks)

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


def product(part: tuple[int, int, int] = (1, 4, 8)) -> GpuKernel:
    """Return a product of 256 x 256 matrices in blocks of 64 x 64, operands staged for 16 iterations of the depth."""
    net = Net()
    graph = net.graph(net.dense(net.input(1, 256, 256), 256), dtype="fp32")
    (kernel,) = kernels_of(graph)
    return kernel_in(kernel.layer, GpuTiles((1, 64, 64), (0, 1, 2), part, 1, 16, 2, "lanes"), H100)


def rows_of(kernel: GpuKernel) -> dict[str, RowPadding | None]:
    return {step.stage: step.rows for step in kernel.steps if isinstance(step, CacheRead)}


def test_a_block_takes_as_many_further_passes_as_its_threads_meet_in_banks() -> None:
    """A warp has 4 x 8 threads of 4 rows and 8 columns each.

    A row of the left copy is 16 words, of which a thread takes 4 at once: of eight threads at a time, all ask for the
    same ones. In the right copy threads are 8 columns apart, of which they take 4 at once: every second vector of 64
    words, so that two of eight threads meet in each bank, four times. Each of 4 warps takes its 8 columns a thread in
    two accesses, for each of 256 iterations of the depth.
    """
    kernel = product()
    accesses = 4 * 256 * 2

    assert grid_of(kernel.layer, kernel.steps, H100).code.issued.further_passes == accesses * 4


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"))
def test_padding_that_is_chosen_never_has_more_passes_and_takes_its_bytes(graph: Graph) -> None:
    for kernel in kernels_of(graph):
        plain = with_rows(kernel.steps, {})
        other = padded(kernel.layer, plain, H100)
        grids = [grid_of(kernel.layer, steps, H100) for steps in (plain, other)]
        passes = [grid.code.issued.further_passes for grid in grids]
        taken = [grid.needs.shared_bytes for grid in grids]

        assert (other == plain) or (passes[1] <= passes[0] and taken[1] >= taken[0])


def test_rows_are_padded_where_that_pays() -> None:
    kernels = kernels_of(load_network("resnet18").with_dtype("fp32"))
    own = [kernel for kernel in kernels if any(rows_of(kernel).values())]
    times = []
    for kernel in own:
        grids = [grid_of(kernel.layer, steps, H100) for steps in (with_rows(kernel.steps, {}), kernel.steps)]
        times.append([estimate_ps(grid, H100, 0) for grid in grids])

    assert own
    assert all(after <= before for before, after in times)
    assert any(after < 0.9 * before for before, after in times)


def test_a_machine_without_banks_pads_nothing() -> None:
    spec = load_hardware("mali_g76", Gpu)
    view = GpuView(spec, "fp32")
    kernels = kernels_of(load_network("resnet18").with_dtype("fp32"), view)

    assert spec.sms.shared.banks == 0
    assert not any(rows for kernel in kernels for rows in rows_of(kernel).values())
    assert all(grid_of(kernel.layer, kernel.steps, view).code.issued.further_passes == 0 for kernel in kernels)


def test_padding_stands_in_printed_loops_and_survives_a_schedules_file() -> None:
    kernel = product()
    first, second = rows_of(kernel)
    kernel = replace(kernel, steps=with_rows(kernel.steps, {first: RowPadding(4), second: RowPadding(3, 1)}))
    costs = GpuCosts(H100, kernel.layer.analysis)
    schedule = kernel_by_kernel(fixed_pattern_plan(kernel.layer.graph), costs)
    document = json.loads(json.dumps(schedule_json(replace(schedule, runs=(kernel,)))))

    assert "+ 4]" in str(kernel.program)
    assert read_schedule(document, costs).runs[0].steps == kernel.steps

    (copy, _) = [step for step in document["kernels"][0]["steps"] if step["step"] == "CacheRead"]
    copy["rows"]["dims"] = 7
    with pytest.raises(ScheduleError, match="has rows of 7 dimensions"):
        read_schedule(document, costs)


@pytest.mark.parametrize(("change", "message"), [
    ({"scope": "stack"}, "lies in stack: rows are padded in shared memory only"),
    ({"rows": RowPadding(0)}, "with 0 elements behind them"),
    ({"rows": RowPadding(1, 4)}, "has rows of 4 dimensions"),
])  # fmt: skip
def test_rows_that_cannot_be_padded_are_refused(change: dict[str, Any], message: str) -> None:
    kernel = product()
    steps = with_rows(kernel.steps, {min(rows_of(kernel)): SHIFTED})
    changed = [replace(each, **change) if isinstance(each, CacheRead) and each.rows else each for each in steps]

    with pytest.raises(StepError, match=re.escape(message)):
        loop_program(NaiveProgram(kernel.layer), tuple(changed))
