"""Lines of the first cache that a warp touches at a time cost a pass each; elements of a window are loaded once."""

from dataclasses import replace

import pytest

from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.coalescing import copied_at_once, copied_lines, further_lines, loaded_shares
from dsascape.scheduler.gpu.conflicts import Threads, threads_of
from dsascape.scheduler.gpu.fronts import depth_step
from dsascape.scheduler.gpu.nests import BlockNest, nests_of
from dsascape.scheduler.gpu.parts import Parts, parts_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.steps import RowPadding
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

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


def anchor(layer: Layer, tiles: GpuTiles) -> tuple[BlockNest, Threads, Parts | None]:
    nests = nests_of(layer)
    nest, threads = nests.nests[nests.anchor], threads_of(nests.nests[nests.anchor], nests.anchor, layer, tiles)
    assert threads is not None
    return nest, threads, parts_of(nests, nests.anchor, layer, tiles, 32)


@pytest.mark.parametrize(("tile", "lines"), [
    ((1, 64, 1, 28), 0),  # 32 threads take 32 channels of a pixel: one line
    ((1, 4, 1, 28), (3 * 7 + 3) / 4),  # four channels of eight pixels, of the four that are left in the last warp
    ((1, 1, 28, 28), (24 * 31 + 15) / 25),  # one channel of 32 pixels, of 16 in the last of 25 warps
])  # fmt: skip
def test_a_warp_that_reads_channels_last_takes_a_pass_for_each_pixel(tile: tuple[int, ...], lines: float) -> None:
    tiles = GpuTiles(tile, ORDER, (1, 1, 1, 1), 1, None, 1, "lanes")
    nest, threads, _ = anchor(convolution(groups=64), tiles)
    data, read = nest.compiled.nest.reads[0], nest.reads[0]

    assert read.order == ORDER
    assert further_lines(nest, data, read.order, threads, 1, 4, VIEW) == pytest.approx(lines, abs=0.01)


def test_copies_take_four_neighbours_where_rows_of_both_memories_are_whole_multiples() -> None:
    tiles = GpuTiles((1, 16, 2, 28), ORDER, (1, 4, 1, 7), 4, 8, 3, "lanes")
    nest, _, parts = anchor(convolution(), tiles)
    assert parts is not None

    def at_once(operand: int, rows: RowPadding | None, own: Parts = parts) -> float:
        return copied_at_once(nest, operand, own, rows, VIEW)

    assert [at_once(0, None), at_once(1, None)] == [16, 16]  # eight channels; 8 x 9 weights of a filter
    assert at_once(1, RowPadding(1, 3)) == 4  # rows of 73
    assert at_once(1, RowPadding(2, 3)) == 8
    assert at_once(1, RowPadding(4, 3)) == 16
    assert at_once(0, None, replace(parts, depth_step=7)) == 4
    assert at_once(0, None, replace(parts, depth_step=6)) == 8
    # seven warps copy eight channels of 16 pixels, 256 B apart: 16 lines with the bytes of four; one those of 8 pixels;
    # behind each of three rows follow two pixels of padding, in the lines of the next row's first two
    assert copied_lines(nest, 0, parts, None, VIEW) == (7 * 12 + 4 - 3 * 2) / 8


def test_elements_that_several_taps_need_are_loaded_once() -> None:
    tiles = GpuTiles((1, 16, 2, 28), ORDER, (1, 4, 1, 7), 4, 8, 3, "lanes")
    nest, threads, parts = anchor(convolution(), tiles)
    assert parts is not None

    # seven neighbours with three taps each need nine elements; each tap has a weight of its own
    assert loaded_shares(nest, threads, parts) == pytest.approx((9 / 21, 1))
    # one thread takes all eight channels: 672 multiply-accumulates are not written out
    assert loaded_shares(nest, replace(threads, sharing=1), parts) == (1, 1)


@pytest.mark.parametrize(("split", "step"), [(1, 8), (4, 8), (16, 32)])
def test_all_who_share_a_reduction_have_equal_parts_of_each_step(split: int, step: int) -> None:
    layer = convolution()
    nests = nests_of(layer)

    assert depth_step(nests.nests[nests.anchor], VIEW, split) == step
