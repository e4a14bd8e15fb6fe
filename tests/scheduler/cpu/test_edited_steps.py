"""What a change of a kernel's steps does to its instructions and to what its caches pass on."""

from dataclasses import replace

import pytest

from dsascape.scheduler.cpu.cost.estimate import estimate
from dsascape.scheduler.cpu.cost.tiled_kernel import SplitKernel, kernel_of
from dsascape.scheduler.cpu.schedule.steps import program_of, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.nodes import loops_of
from dsascape.scheduler.kernels.loops.steps import (
    ComputeAt,
    Layout,
    Level,
    Parallel,
    Steps,
    Tile,
    UnrollReduction,
)
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.hw_models.cpu.cpus import cpu

VIEW = CpuView(cpu(), CpuTuning())


class TestGroups:
    """Channels in groups are one dimension that two loops write: a tile inside of a group needs nothing of the others.

    The loops that tell groups apart are one level more at which operands may stay in caches.
    """

    def test_of_which_a_tile_has_a_part_are_told_apart_by_two_loops(self) -> None:
        net = Net("groups")
        graph = net.graph(net.conv(net.input(1, 512, 7, 7), 512, 3, groups=4), dtype="fp32")
        layer = layer_of(Analysis(graph), (0,))
        assert layer is not None
        program = program_of(layer, LoopTiles((1, 32, 7, 7), (0, 2, 3, 1), 4, (1, 32, 1, 7), 1, 32), 16)
        (chunks,) = [loop for loop in loops_of(program.body) if loop.kind == "parallel"]
        copy, sums = [next(each for each in program.buffers if each.name.endswith(end)) for end in (".copy", ".sum")]

        assert [extent for _, extent in chunks.fused] == [4, 4]
        assert copy.shape == (1, 128, 9, 9)
        assert sorted(sums.shape) == [1, 7, 7, 32]


class TestPaddedCopies:
    """Padded copies of what neighbours along the vectors read lie next to each other, however the tensor lies."""

    @staticmethod
    def copy_shape(groups: int) -> tuple[int, ...]:
        net = Net("copies")
        graph = net.graph(net.conv(net.input(1, 32, 8, 8), 32, 3, groups=groups), dtype="fp32")
        layer = layer_of(Analysis(graph), (0,))
        assert layer is not None
        assert graph.tensors[layer.inputs[0]].order == (0, 1, 2, 3)
        program = program_of(layer, LoopTiles((1, 16, 8, 8), (0, 1, 2, 3), 0, (1, 16, 1, 4), 1, None), 16)
        return next(each.shape for each in program.buffers if each.name.endswith(".copy"))

    def test_of_a_depthwise_convolution_have_channels_innermost(self) -> None:
        assert self.copy_shape(groups=32) == (1, 10, 10, 16)

    def test_of_a_dense_convolution_lie_as_the_image_does(self) -> None:
        assert self.copy_shape(groups=1) == (1, 32, 10, 10)


def kernel(layer: Layer, steps: Steps, view: CpuView = VIEW) -> SplitKernel:
    return kernel_of(layer, steps, 1, "fp32", view)


def test_weights_that_lie_as_in_the_file_are_gathered_lane_by_lane() -> None:
    layer = convolution()
    steps = steps_of(layer, TILES, 4)
    plain = tuple([step for step in steps if not isinstance(step, Layout)])
    in_panels, in_file = [kernel(layer, each).codes[-1].issued for each in (steps, plain)]
    vectors = 64 * 64 * 9 * 32 * 32 // (4 * 4)  # of four output channels; a tile of four rows shares them

    assert in_file.load - in_panels.load == 3 * vectors
    assert in_panels.fma == in_file.fma


def convolution() -> Layer:
    net = Net()
    graph = net.graph(net.conv(net.input(1, 64, 32, 32), 64), dtype="fp32")
    layer = layer_of(Analysis(graph), (0,))
    assert layer is not None
    return layer


TILES = LoopTiles((1, 16, 8, 32), (1, 0, 2, 3), 1, (1, 16, 1, 4), 1, None)


def retiled(steps: Steps, stage: str, *levels: Level) -> Steps:
    """Return ``steps`` with other levels of one stage; its sums are computed inside of all of them."""
    whole = sum([len(level.order) for level in levels])
    changed = [
        replace(step, levels=levels) if isinstance(step, Tile) and step.stage == stage else step for step in steps
    ]
    return tuple([
        replace(step, loops=whole) if isinstance(step, ComputeAt) and step.scope == "register" else step
        for step in changed
    ])  # fmt: skip


def test_iterations_of_a_reduction_that_are_written_out_spare_its_branches() -> None:
    layer = convolution()
    steps = steps_of(layer, TILES, 4)
    plain, unrolled = [
        kernel(layer, each).codes[-1].issued for each in (steps, (*steps, UnrollReduction("conv1.sum", 16)))
    ]  # fmt: skip

    assert unrolled.scalar < plain.scalar
    assert (plain.fma, plain.store) == (unrolled.fma, unrolled.store)


def moved_bytes(layer: Layer, steps: Steps, view: CpuView = VIEW) -> tuple[float, ...]:
    """Return what passes behind each cache, the outermost first."""
    return estimate(kernel(layer, steps, view)).moved_bytes


def test_a_further_level_of_tiles_moves_less_behind_the_cache_that_it_fits() -> None:
    """Of 4 rows and 8 columns all channels fit the second cache, beside the weights; of all rows and columns not."""
    layer = convolution()
    steps = steps_of(layer, replace(TILES, tile=(1, 64, 32, 32), parallel=0), 4)
    order = (1, 0, 2, 3)
    own = (1, 64, 32, 32), (1, 64, 4, 8), (1, 16, 1, 4)
    levels = [Level("space", order, tuple([sizes[dim] for dim in order])) for sizes in own]
    _, whole, _ = moved_bytes(layer, steps)
    _, in_tiles, _ = moved_bytes(layer, retiled(steps, "conv1", *levels))

    assert in_tiles < 0.85 * whole


@pytest.mark.parametrize(("order", "times"), [((0, 1), 512 // 4), ((1, 0), 512 // 16)])
def test_an_order_of_loops_moves_what_its_outer_loop_goes_through_again(order: tuple[int, int], times: int) -> None:
    """A product of 512 x 512 in registers of 4 x 16: all weights, 1 MiB, for every 4 rows, or all data for 16 columns.

    The second cache holds 256 KiB of it.
    """
    net = Net()
    graph = net.graph(net.dense(net.input(512, 512), 512), dtype="fp32")
    layer = layer_of(Analysis(graph), (0,))
    assert layer is not None
    _, moved, _ = moved_bytes(layer, steps_of(layer, LoopTiles((512, 512), order, 0, (4, 16), 1, None), 4))

    assert times * (1 << 20) <= moved < times * (1 << 20) + 3 * (1 << 20)


def test_a_copy_further_out_is_made_less_often() -> None:
    layer = convolution()
    steps = steps_of(layer, replace(TILES, parallel=0), 4)
    further_out = tuple([
        replace(step, loops=1) if isinstance(step, ComputeAt) and step.stage.endswith(".copy") else step
        for step in steps
    ])  # fmt: skip
    inside, outside = [kernel(layer, each).codes[0].issued for each in (steps, further_out)]

    assert further_out != steps
    assert outside.store < inside.store
    assert moved_bytes(layer, further_out) != moved_bytes(layer, steps)  # a larger copy, less often


def test_without_a_copy_its_array_is_neither_written_nor_read() -> None:
    layer = convolution()
    steps = steps_of(layer, replace(TILES, parallel=0), 4)
    plain = tuple([step for step in steps if getattr(step, "stage", "") != "in1.copy"])

    assert plain != steps
    assert kernel(layer, steps).traffic.scratch_bytes > 0
    assert kernel(layer, plain).traffic.scratch_bytes == 0


def test_without_parallel_loops_one_thread_does_all() -> None:
    layer = convolution()
    steps = steps_of(layer, TILES, 4)
    serial = tuple([replace(step, loops=0) if isinstance(step, Parallel) else step for step in steps])
    parallel, alone = [kernel_of(layer, each, 2, "fp32", VIEW) for each in (steps, serial)]

    assert (parallel.threads, alone.threads) == (2, 1)
    assert estimate(parallel).time_ps < estimate(alone).time_ps
