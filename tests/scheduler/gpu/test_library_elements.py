"""Kernels of PyTorch without tiles: grids as a profile of an H200 has them, times by hand, more is never slower."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.hw_models import Gpu, load_hardware, with_values
from dsascape.scheduler.gpu.library import library_ps
from dsascape.scheduler.gpu.library_elements import grid_of, took_ps
from dsascape.scheduler.gpu.library_grids import (
    Grid,
    concatenation,
    depthwise,
    normalisation,
    padding,
    pooling,
    reduction,
)
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.single_operators import Attribute, SingleOperator, single_operator
from tests.tiers import examples

GRAPHS = GpuTuning(graphs=True)
CHANNELS_LAST = 0, 2, 3, 1


def h200() -> Gpu:
    found = load_hardware("h200")
    assert isinstance(found, Gpu)
    return found


def operator(kind: str, *shapes: tuple[int, ...], **given_values: Attribute) -> Graph:
    weights = shapes[1:] if kind == "Conv" else ()
    operands = shapes[:1] if kind == "Conv" else shapes
    return single_operator(SingleOperator("it", kind, operands, weights, given_values)).with_dtype("fp16")


def layer(graph: Graph) -> Layer:
    found = layer_of(Analysis(graph), range(len(graph.ops)))
    assert found is not None
    return found


def size_of(grid: Grid | None) -> tuple[int, int]:
    assert grid is not None
    return grid.blocks, grid.threads


POOLINGS = [
    ((1, 64, 55, 55), 3, 28, 1024), ((16, 64, 56, 56), 3, 16 * 28, 1024), ((16, 128, 27, 27), 3, 16 * 7, 1024),
    ((1, 256, 13, 13), 3, 4, 1024), ((1, 64, 112, 112), 2, 112, 1024), ((1, 512, 7, 7), 2, 2, 1024),
    ((1, 24, 56, 56), 3, 14, 1024),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "side", "blocks", "threads"), POOLINGS)
def test_a_maximum_over_windows_has_the_grid_of_the_profile(
    shape: tuple[int, ...], side: int, blocks: int, threads: int
) -> None:
    grid = pooling(shape, CHANNELS_LAST, ((side, 2), (side, 2)), is_mean=False)

    assert size_of(grid) == (blocks, threads)


def test_a_maximum_of_few_blocks_waits_for_one_load_after_the_other() -> None:
    spec = h200()
    grid = pooling((1, 64, 55, 55), CHANNELS_LAST, ((3, 2), (3, 2)), is_mean=False)
    results = 2 * 2 * 2  # rows, columns and channels of a thread: 2 of 55 rows, 2 of 55 columns by 32, 2 of 64 by 32
    cycles = 40 * 29 + (20 + results * 10 * 25) * 32 / 4
    by_hand = spec.launch_ps + results * 4 * spec.l2.latency_ps + cycles * spec.cycle_ps

    assert (grid.waits, grid.hits) == (results * 4, results * 5)
    assert took_ps(grid, spec, spec.l2.latency_ps, spec.l2.latency_ps) == pytest.approx(by_hand)


MEANS = [((1, 2048, 7, 7), 4, 128), ((1, 1000, 13, 13), 8, 128), ((16, 1000, 13, 13), 125, 128),
         ((1, 32, 112, 112), 49, 128), ((1, 96, 56, 56), 2 * 25, 128), ((1, 144, 56, 56), 2 * 49, 128),
         ((1, 240, 28, 28), 2, 128), ((16, 1280, 7, 7), 40, 128)]  # fmt: skip


@pytest.mark.parametrize(("shape", "blocks", "threads"), MEANS)
def test_a_mean_of_channels_has_the_grid_of_the_profile(shape: tuple[int, ...], blocks: int, threads: int) -> None:
    (nest,) = operator("GlobalAveragePool", shape).ops[0].nests

    assert size_of(reduction(nest, CHANNELS_LAST, h200())) == (blocks, threads)


def test_neighbouring_sums_in_one_row_are_loaded_by_a_warp_together() -> None:
    (nest,) = operator("GlobalAveragePool", (1, 2048, 64, 64)).ops[0].nests
    grid = reduction(nest, (0, 1, 2, 3), h200())

    assert size_of(grid) == (2048 // 16, 512)
    assert grid.waits == 4096 / 32 / 4


NORMALISATIONS = [((1, 64, 56, 56), 2 * 13, 512), ((1, 128, 28, 28), 4 * 4, 512), ((1, 288, 14, 14), 5 * 2, 512),
                  ((1, 576, 7, 7), 5, 512)]  # fmt: skip


@pytest.mark.parametrize(("shape", "blocks", "threads"), NORMALISATIONS)
def test_a_normalisation_has_the_grid_of_the_profile(shape: Sequence[int], blocks: int, threads: int) -> None:
    assert size_of(normalisation(shape)) == (blocks, threads)


@pytest.mark.parametrize(("parts", "blocks"), [((193600, 193600), 2 * 379), ((3097600, 3097600), 2 * 4224)])
def test_parts_of_a_concatenation_have_the_grid_of_the_profile(parts: Sequence[int], blocks: int) -> None:
    grid = concatenation(parts, (1, 128, 55, 55), CHANNELS_LAST, 2, h200())

    assert size_of(grid) == (blocks, 128)


def test_other_kernels_have_the_grids_of_the_profile() -> None:
    spec = h200()

    assert size_of(grid_of(layer(operator("Relu", (256, 1024))), spec)) == (256, 128)
    assert size_of(grid_of(layer(operator("Transpose", (4096, 1024), perm=[1, 0])), spec)) == (8192, 128)
    assert size_of(depthwise(32 * 112 * 112, ((3, 1), (3, 1)))) == (392, 256)
    assert size_of(padding(16 * 224 * 224 * 4, spec)) == (264, 1024)


def test_threads_that_read_apart_take_a_pass_for_each_line() -> None:
    spec = h200()
    moved, copied = [
        grid_of(layer(graph), spec)
        for graph in (operator("Transpose", (4096, 1024), perm=[1, 0]), operator("Add", (64, 16, 16), (64, 1, 1)))
    ]

    assert moved is not None
    assert copied is not None
    assert moved.passes == 4 * 31
    assert copied.passes == 0
    assert 20e6 < took_ps(moved, spec, 0, 0) < 35e6  # measured: 28 us


def test_a_block_that_is_not_full_goes_round_less_often() -> None:
    few, many = [
        grid_of(layer(operator("Mul", (1, rows, 32), (1, 1, 32))), h200()) for rows in (8, 64)
    ]

    assert few is not None
    assert many is not None
    assert (few.waits, many.waits) == (2, 4)


def test_nothing_is_known_of_parts_that_are_passed_on_and_of_softmax() -> None:
    spec = h200()

    assert grid_of(layer(operator("Softmax", (64, 64))), spec) is None
    assert grid_of(layer(operator("Split", (4, 64, 64), axis=1, num_outputs=2)), spec) is None


def test_pytorchs_own_kernels_are_those_of_functions_alone() -> None:
    spec = h200().launched_in_graphs
    maximum = layer(operator("MaxPool", (1, 64, 112, 112), kernel_shape=[3, 3], strides=[2, 2]))
    view = GpuView(spec, "fp16", GRAPHS)

    assert library_ps(maximum, view.of(maximum), 0) == 0
    assert library_ps(maximum, view.of(maximum), 0, is_function=True) > 10e6  # measured: 20 us


def test_steps_of_a_convolution_do_not_mix_positions_of_the_window() -> None:
    spec = h200().launched_in_graphs
    times = [
        library_ps(each, GpuView(spec, "fp16", GRAPHS).of(each), 0)
        for channels in (17, 24, 32, 64)
        for each in [layer(operator("Conv", (1, channels, 56, 56), (64, channels, 3, 3), pads=[1, 1, 1, 1]))]
    ]

    assert times[1] == times[2]
    assert times[2] < times[3]
    assert times[0] > times[2]  # rows of 34 B: padded by a kernel of its own, or copied in pieces


GRIDS = st.builds(
    Grid, blocks=st.integers(1, 100_000), threads=st.sampled_from([32, 128, 256, 1024]), waits=st.integers(0, 100),
    instructions=st.integers(1, 10_000), hits=st.integers(0, 100), chains=st.sampled_from([1, 4, 16]),
    passes=st.integers(0, 200), before=st.integers(0, 2),
)  # fmt: skip


@settings(max_examples=examples(40), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(grid=GRIDS, latencies=st.tuples(st.integers(0, 500_000), st.integers(0, 500_000)))
def test_more_of_anything_is_never_slower(grid: Grid, latencies: tuple[int, int]) -> None:
    spec = h200()
    low, high = sorted(latencies)
    better = with_values(spec, {"sms.count": 200, "sms.clock": "2.5 GHz"})
    assert isinstance(better, Gpu)

    taken = took_ps(grid, spec, high, low)
    assert took_ps(grid, better, high, low) <= taken * (1 + 1e-9)
    assert took_ps(grid, spec, low, low) <= taken
    assert taken >= spec.launch_ps + math.ceil(grid.blocks / spec.sms.count / 64) * grid.waits * low
