"""What the cost model folds over is read off a program's tree, and is what the search has of its own tiles."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsascape.fusion.fixed_pattern import fixed_pattern_plan
from dsascape.hw_models import Cpu
from dsascape.scheduler import make_policy
from dsascape.scheduler.cpu.cost.estimate import estimate
from dsascape.scheduler.cpu.cost.tiled_kernel import TiledKernel
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.cpu.schedule.steps import program_of, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.chains import fronts_of
from dsascape.scheduler.cpu.structure.read_loops import read_loops
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import loops_of
from dsascape.scheduler.kernels.loops.steps import ComputeAt, Layout, Level, Steps, Tile, UnrollReduction
from dsascape.scheduler.kernels.structure.parts import parts_of
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.hw_models.cpu.cpus import cpu, cpus
from tests.tiers import examples

VIEW = CpuView(cpu(), CpuTuning())


@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"), spec=cpus())
def test_the_tree_costs_what_its_tiles_cost(graph: Graph, spec: Cpu) -> None:
    """Rows that no vector divides are single elements for the tiles, and the code's shorter vectors for the tree."""
    view = CpuView(spec)
    for kernel in kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(view, Analysis(graph), "fp32")).runs:
        layer, threads = kernel.layer, kernel.threads
        read = read_loops(layer, program_of(layer, kernel.tiles, view.lanes("fp32")))
        of_tree, of_tiles = [
            estimate(TiledKernel(layer, tiled, threads, "fp32", view)).time_ps for tiled in (read, kernel.tiled)
        ]
        assert of_tree == pytest.approx(of_tiles, rel=1e-2 if parts_of(layer) else 0.1)


@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(graph=networks(dtype="fp32"), spec=cpus())
def test_kernels_with_several_anchors_too(graph: Graph, spec: Cpu) -> None:
    view = CpuView(spec)
    costs = CpuCosts(view, Analysis(graph), "fp32")
    for kernel in kernel_by_kernel(make_policy("ago").plan(graph, costs), costs).runs:
        layer, threads = kernel.layer, kernel.threads
        if not parts_of(layer):
            continue
        read = read_loops(layer, program_of(layer, kernel.tiles, view.lanes("fp32")))
        of_tree, of_tiles = [
            estimate(TiledKernel(layer, tiled, threads, "fp32", view)).time_ps for tiled in (read, kernel.tiled)
        ]
        assert of_tree == pytest.approx(of_tiles, rel=1e-2)
        times = [[made.times for made in fronts_of(layer, tiled)] for tiled in (read, kernel.tiled)]
        assert times[0] == times[1]


class TestGroups:
    """Channels in groups are one dimension that two loops write: a tile inside of a group needs nothing of the others.

    The loops that tell groups apart are one level more at which operands may stay in caches.
    """

    @settings(max_examples=examples(25), deadline=None)
    @given(
        groups=st.sampled_from((2, 3, 8)), channels=st.sampled_from((8, 12, 24, 40, 48, 64)),
        kernel=st.sampled_from((1, 3)), spec=cpus(),
    )  # fmt: skip
    def test_cost_what_their_tiles_cost(self, groups: int, channels: int, kernel: int, spec: Cpu) -> None:
        net = Net("groups")
        graph = net.graph(
            net.conv(net.input(1, groups * channels, 14, 14), groups * channels, kernel, groups=groups), dtype="fp32"
        )  # fmt: skip
        view = CpuView(spec)
        (kernel_run,) = kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(view, Analysis(graph), "fp32")).runs
        layer, tiles = kernel_run.layer, kernel_run.tiles
        read = read_loops(layer, program_of(layer, tiles, view.lanes("fp32")))
        of_tree, of_tiles = [
            estimate(TiledKernel(layer, tiled, kernel_run.threads, "fp32", view)).time_ps
            for tiled in (read, tiles.tiled)
        ]

        assert of_tree == pytest.approx(of_tiles, rel=0.25)

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


def test_weights_that_lie_as_in_the_file_are_gathered_lane_by_lane() -> None:
    layer = convolution()
    steps = steps_of(layer, TILES, 4)
    plain = tuple([step for step in steps if not isinstance(step, Layout)])
    panels, in_file = [read_loops(layer, loop_program(NaiveProgram(layer), each)) for each in (steps, plain)]
    codes = [TiledKernel(layer, tiled, 1, "fp32", VIEW).codes[0].issued for tiled in (panels, in_file)]
    vectors = 64 * 64 * 9 * 32 * 32 // (4 * 4)  # of four output channels; a tile of four rows shares them

    assert (panels.has_panels, in_file.has_panels) == (True, False)
    assert codes[1].load - codes[0].load == 3 * vectors
    assert codes[0].fma == codes[1].fma


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


class TestLoops:
    def test_are_those_of_the_tiles_but_for_loops_of_one_iteration(self) -> None:
        read = read_loops(convolution(), program_of(convolution(), TILES, 4))

        assert read.loops == ((1, 16), (2, 8), (2, 1), (3, 4))
        assert (read.parallel, read.of_tile, read.register, read.vector_dim) == (1, 2, (1, 16, 1, 4), 1)

    def test_of_a_further_level_of_tiles_are_there_too(self) -> None:
        layer = convolution()
        steps = steps_of(layer, replace(TILES, parallel=0), 4)
        own = (1, 16, 8, 32), (1, 16, 4, 16), (1, 16, 1, 4)
        order = (1, 0, 2, 3)
        levels = [Level("space", order, tuple([sizes[dim] for dim in order])) for sizes in own]
        read = read_loops(layer, loop_program(NaiveProgram(layer), retiled(steps, "conv1", *levels)))

        assert read.loops == ((1, 16), (2, 8), (2, 4), (3, 16), (2, 1), (3, 4))

    def test_of_a_reduction_in_steps_take_partial_sums_up_again(self) -> None:
        read = read_loops(convolution(), program_of(convolution(), replace(TILES, depth_step=16), 4))

        assert read.loops == ((1, 16), (2, 8), (DEPTH, 16), (2, 1), (3, 4))
        assert read.passes(64) == 4


def test_iterations_of_a_reduction_that_are_written_out_spare_its_branches() -> None:
    layer = convolution()
    steps = (*steps_of(layer, TILES, 4), UnrollReduction("conv1.sum", 16))
    read = read_loops(layer, loop_program(NaiveProgram(layer), steps))
    codes = [
        TiledKernel(layer, tiled, 1, "fp32", VIEW).codes[0].issued for tiled in (read, replace(read, unrolled=1))
    ]

    assert read.unrolled == 16
    assert codes[0].scalar < codes[1].scalar
    assert (codes[0].fma, codes[0].load, codes[0].store) == (codes[1].fma, codes[1].load, codes[1].store)


def test_a_further_level_of_tiles_moves_less_where_it_fits_a_cache_and_the_outer_one_does_not() -> None:
    layer = convolution()
    view = CpuView(cpu(), CpuTuning())
    wide = replace(TILES, tile=(1, 64, 32, 32), parallel=0)
    steps = steps_of(layer, wide, 4)
    order = (1, 0, 2, 3)
    own = (1, 64, 32, 32), (1, 64, 4, 8), (1, 16, 1, 4)
    levels = [Level("space", order, tuple([sizes[dim] for dim in order])) for sizes in own]
    one, two = [
        estimate(TiledKernel(layer, read_loops(layer, loop_program(NaiveProgram(layer), each)), 1, "fp32", view))
        for each in (steps, retiled(steps, "conv1", *levels))
    ]

    assert sum(two.moved_bytes) != sum(one.moved_bytes)
