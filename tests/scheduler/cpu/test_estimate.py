"""What the search for tiles leaves out could not have won: bounds are never above the estimate they stand for."""

import math
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

from hypothesis import given, settings

from dsascape.hw_models import Cpu
from dsascape.scheduler import make_policy
from dsascape.scheduler.cpu.cost.estimate import bounds_apart_ps, estimate, least_time_ps
from dsascape.scheduler.cpu.cost.instructions import code_of, least_issued
from dsascape.scheduler.cpu.cost.tiled_kernel import TiledKernel
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.search.tiling import Candidate, Tiling, best_of, candidates
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.workloads import Graph
from tests.graphs import Net, networks
from tests.hw_models.cpu.cpus import big_and_little, cpus
from tests.scheduler.cpu.running import costs_of, planned
from tests.scheduler.small import convolution
from tests.tiers import examples


def kernels(costs: CpuCosts) -> Iterator[TiledKernel]:
    """Yield the kernels of a network in the tiles that were chosen, in smaller and in larger ones."""
    for kernel in planned(costs, "fixed-pattern").runs:
        tiles = kernel.tiles
        for tile in (tiles.tile, tiles.register, tiles.padded(kernel.layer.sink.shape)):
            for threads in costs.view.thread_counts:
                cut = replace(tiles, tile=tile, parallel=1 if threads > 1 else 0)
                yield TiledKernel(kernel.layer, cut.tiled, threads, costs.dtype, costs.view)


@given(graph=networks(), spec=cpus())
@settings(max_examples=examples(20))
def test_nothing_takes_less_than_its_bounds(graph: Graph, spec: Cpu) -> None:
    for kernel in kernels(costs_of(graph.with_dtype("fp32"), spec)):
        found = estimate(kernel)

        bounds = list(bounds_apart_ps(kernel))
        assert bounds == sorted(bounds)
        assert bounds[-1] <= found.apart_ps
        assert least_time_ps(kernel) <= found.time_ps


def test_the_last_bound_is_close() -> None:
    for kernel in kernels(costs_of(convolution(dtype="fp32"), big_and_little())):
        assert list(bounds_apart_ps(kernel))[-1] >= 0.99 * estimate(kernel).apart_ps


@given(graph=networks(), spec=cpus())
@settings(max_examples=10)
def test_the_tiles_found_are_the_best_of_all_that_are_tried(graph: Graph, spec: Cpu) -> None:
    costs = costs_of(graph.with_dtype("fp32"), spec)
    most = costs.view.thread_counts[0]
    for kernel in planned(costs, "fixed-pattern").runs:
        tried = [
            Candidate(kernel.layer, cut, most, costs.dtype, costs.view)
            for cut in candidates(kernel.layer, costs.dtype, costs.view)
        ]
        every = [Tiling(each.tiles, most, estimate(each)) for each in tried]

        assert best_of(tried, most) == sorted(every, key=attrgetter("rank"))[:2]


@given(graph=networks(), spec=cpus())
@settings(max_examples=examples(20))
def test_what_a_kernel_takes_is_within_its_bounds(graph: Graph, spec: Cpu) -> None:
    costs = costs_of(graph.with_dtype("fp32"), spec)
    for group in make_policy("fixed-pattern").plan(costs.analysis.graph, costs).groups:
        least_s, most_s = costs.least_s(group.ops), costs.most_s(group.ops)

        assert least_s * (1 - 1e-9) <= costs.kernel_s(group.ops) <= most_s


def test_the_bounds_of_a_convolution_are_within_a_factor_of_two() -> None:
    costs = costs_of(convolution(dtype="fp32"), big_and_little())

    assert costs.most_s((0,)) < 2 * costs.least_s((0,))


def padded() -> CpuKernel:
    net = Net("padded")
    graph = net.graph(net.relu(net.depthwise(net.input(1, 32, 28, 28))), dtype="fp32")
    (kernel,) = planned(costs_of(graph, big_and_little()), "fixed-pattern").runs
    return kernel


def test_copies_with_padding_come_on_top_of_the_least_that_is_issued() -> None:
    kernel, view = padded(), costs_of(convolution(dtype="fp32"), big_and_little()).view
    made = kernel.layer, kernel.tiles.tiled, "fp32", view.code
    least, issued = least_issued(*made), code_of(*made).issued

    assert all(few <= many for few, many in zip(least.counts, issued.counts, strict=True))
    assert least.fma == issued.fma
    assert least.load < issued.load


def test_registers_hold_the_operands_of_a_window_beside_its_sums() -> None:
    # 32 registers: a depthwise sum, and the vectors that a window of three reads for it, take four of them
    net = Net("depthwise")
    graph = net.graph(net.depthwise(net.input(1, 32, 28, 28)), dtype="fp32")
    view = costs_of(graph, big_and_little()).view
    (kernel,) = planned(costs_of(graph, big_and_little()), "fixed-pattern").runs
    sums = math.prod(kernel.tiles.register) // view.lanes("fp32")

    assert view.spec.simd.registers == 32
    assert 1 < sums < 32 / (1 + view.tuning.kept_operands)


def test_every_tile_copies_the_operand_that_is_rearranged_in_its_kernel() -> None:
    net = Net("rearranged")
    left, right = net.input(1, 1, 32, 64), net.input(1, 1, 48, 64)
    graph = net.graph(net.matmul(left, net.transpose(right, 0, 1, 3, 2)), dtype="fp32")
    costs = costs_of(graph, big_and_little())
    layer = layer_of(costs.analysis, (0, 1))
    assert layer is not None

    def loads(rows: int) -> int:
        tiles = LoopTiles((1, 1, rows, 48), (0, 1, 2, 3), 0, (1, 1, 4, 16), 3, None)
        return code_of(layer, tiles.tiled, "fp32", costs.view.code).issued.load

    # 64 x 48 elements for each further tile, one by one
    assert loads(16) - loads(32) == 64 * 48
    assert loads(8) - loads(16) == 2 * 64 * 48
