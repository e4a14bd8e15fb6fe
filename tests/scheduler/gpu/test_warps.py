"""What one access of the warps of a block takes: bytes, passes of shared memory, lines of the first cache."""

import pytest
from hypothesis import HealthCheck, assume, given, settings

from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.checked import gpu_limits
from dsascape.scheduler.gpu.cost.counted import Counted
from dsascape.scheduler.gpu.cost.pattern import patterns_of
from dsascape.scheduler.gpu.cost.shape import shape_of
from dsascape.scheduler.gpu.cost.warps import Access, access_of
from dsascape.scheduler.gpu.fronts import depth_step
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.steps import program_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cost.counted import Move
from dsascape.scheduler.kernels.cost.reads import Reads
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.counting import CountedMachine, Counts
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.interpreter import interpret
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import Extents
from tests.graphs import Net
from tests.scheduler.kernels.drawn import (
    GRID,
    GRIDS,
    Rows,
    any_tiles,
    grid_program,
    reference_values,
    varied,
    whole_layer,
)
from tests.tiers import examples

WARP, BANKS, WORD_BYTES = 32, 32, 4
CODE = GpuTuning(tensor_units=False, shared_reductions=False, vector_bytes=4, as_generated=True)
VIEW = GpuView(load_hardware("h100", Gpu), "fp32", CODE)
ORDER = (0, 2, 3, 1)


def convolution(channels: int = 64, groups: int = 1) -> Layer:
    """Return a 3 x 3 convolution of 28 x 28 pixels, whose input lies channels last as another one has written it."""
    net = Net()
    before = net.conv(net.input(1, channels, 28, 28), channels, kernel=1)
    graph = net.graph(net.conv(before, channels, kernel=3, groups=groups), dtype="fp32")
    layer = layer_of(Analysis(graph), (1,))
    assert layer is not None
    return layer


def counted(layer: Layer, program: LoopProgram) -> Counted:
    return Counted(Reads(NaiveProgram(layer), program), shape_of(layer, program), VIEW)


def moves(counted: Counted, stage: str, array: str) -> list[Move]:
    """Return the loads of an array by the sums of a stage."""
    return counted.costs[stage, "update"].loads[array].moves


def access(move: Move) -> Access:
    """Return an access of a warp whose threads take single elements."""
    (pattern,) = patterns_of(move, 1)
    return access_of(pattern, 1, move.element_bytes, WARP, BANKS)


@pytest.mark.parametrize(("tile", "lines"), [
    ((1, 64, 1, 28), 0),  # 32 threads take 32 channels of a pixel: one line
    ((1, 4, 1, 28), (3 * 7 + 3) / 4),  # four channels of eight pixels, of the four that are left in the last warp
    ((1, 1, 28, 28), (24 * 31 + 15) / 25),  # one channel of 32 pixels, of 16 in the last of 25 warps
])  # fmt: skip
def test_a_warp_that_reads_channels_last_takes_a_pass_for_each_pixel(tile: tuple[int, ...], lines: float) -> None:
    layer = convolution(groups=64)
    tiles = GpuTiles(tile, ORDER, (1, 1, 1, 1), 1, None, 1, "lanes")
    data = layer.inputs[0]
    (move, *_) = moves(counted(layer, program_of(layer, tiles, WARP)), f"{layer.sink.name}.sum", data)

    assert access(move).further_lines == pytest.approx(lines, abs=0.01)


def test_elements_that_several_taps_need_are_loaded_once() -> None:
    """Seven neighbours with three taps each need nine elements; each tap has four weights of its own.

    That is where the taps along a row are written out: with four threads that share eight channels, 168
    multiply-accumulates each. One thread that takes all of them has 672, which are not.
    """
    layer = convolution()
    for split, loads in ((4, 9), (1, 21)):
        tiles = GpuTiles((1, 16, 2, 28), ORDER, (1, 4, 1, 7), split, 8, 3, "lanes")
        own = counted(layer, program_of(layer, tiles, WARP))
        stage = f"{layer.sink.name}.sum"
        data, weight = [sum([move.registers for move in moves(own, stage, f"{stage}.staged{n}")]) for n in (0, 1)]
        threads = own.shape.blocks * own.shape.threads

        assert data == threads * loads * 3 * 64 / split  # of three rows, for each channel
        assert weight == threads * 4 * 9 * 64 / split


@pytest.mark.parametrize(("split", "step"), [(1, 8), (4, 8), (16, 32)])
def test_all_who_share_a_reduction_have_equal_parts_of_each_step(split: int, step: int) -> None:
    layer = convolution()
    nests = nests_of(layer)

    assert depth_step(nests.nests[nests.anchor], VIEW, split) == step


TOLERANCE = 1.02


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(48, few=6))
@given(drawn=any_tiles(("convolution", "product")))
def test_conflicts_of_staged_operands_are_those_that_are_counted(drawn: tuple[str, GpuTiles, Rows]) -> None:
    """Single elements: threads that take several neighbours at once are the compiler's choice, not the tree's."""
    name, tiles, rows = drawn
    net = Net()
    graph = net.graph(GRIDS[name](net), dtype="fp32")
    layer, network = whole_layer(graph), varied(graph)
    program = grid_program(layer, tiles, WARP, rows)
    assume(tiles.depth_step is not None and not illegal(program, gpu_limits(GRID)))
    counts = Counts(CountedMachine(warp=WARP, banks=BANKS, bank_bytes=WORD_BYTES))
    interpret(program, layer, network, reference_values(network), counts)
    own = counted(layer, program)
    depth = nests_of(layer).depth

    for (part, array), moved in counts.finish().loads.items():
        if part[1] == "update" and ".staged" in array:
            own_moves = own.costs[part].loads[array].moves
            passes = 1 + max([access(move).further_passes for move in own_moves])
            seen = moved.transactions / moved.requests

            assert seen <= passes * TOLERANCE
            assert not is_filled(layer.sink.shape, tiles, depth) or passes <= seen * TOLERANCE


def is_filled(shape: Extents, tiles: GpuTiles, depth: int) -> bool:
    """Whether all threads have an access at all times: where tiles or steps stick out, some have none."""
    sizes = zip(shape, tiles.tile, tiles.part, strict=True)
    return all(size % tile == tile % part == 0 for size, tile, part in sizes) and depth % (tiles.depth_step or 1) == 0
