"""What the search for tiles leaves out hardly wins, and bounds on what a kernel takes hold."""

import math
from operator import attrgetter

from hypothesis import given, settings

from dsascape.hw_models import Cpu
from dsascape.scheduler import make_policy
from dsascape.scheduler.cpu.cost.estimate import estimate
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.search.tiling import best_of, candidates
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.workloads import Graph
from tests.graphs import Net, networks
from tests.hw_models.cpu.cpus import big_and_little, cpus
from tests.scheduler.cpu.running import codes_of, costs_of, planned, sizes_of
from tests.scheduler.small import convolution
from tests.tiers import examples


@given(graph=networks(), spec=cpus())
@settings(max_examples=examples(20))
def test_the_tiles_found_are_close_to_the_best_of_all_that_are_tried(graph: Graph, spec: Cpu) -> None:
    """Rough times say which few are costed; the best of these takes at most a tenth longer than the best of all."""
    costs = costs_of(graph.with_dtype("fp32"), spec)
    view, most = costs.view, costs.view.thread_counts[0]
    for kernel in planned(costs, "fixed-pattern").runs:
        tried = candidates(kernel.layer, costs.dtype, view)
        every = [estimate(kernel_of(kernel.layer, cut, most, costs.dtype, view)).apart_ps for cut in tried]
        found = best_of(kernel.layer, tried, costs.dtype, view)

        assert len(found) <= view.tuning.costed
        assert found == sorted(found, key=attrgetter("rank"))
        assert found[0].estimate.apart_ps <= 1.1 * min(every)


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


def test_registers_hold_the_operands_of_a_window_beside_its_sums() -> None:
    # 32 registers: a depthwise sum, and the vectors that a window of three reads for it, take four of them
    net = Net("depthwise")
    graph = net.graph(net.depthwise(net.input(1, 32, 28, 28)), dtype="fp32")
    view = costs_of(graph, big_and_little()).view
    (kernel,) = planned(costs_of(graph, big_and_little()), "fixed-pattern").runs
    sums = math.prod(sizes_of(kernel).register) // view.lanes("fp32")

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
        return sum([code.issued.load for code in codes_of(layer, tiles, "fp32", costs.view.code)])

    # 64 x 48 elements for each further tile, one by one
    assert loads(16) - loads(32) == 64 * 48
    assert loads(8) - loads(16) == 2 * 64 * 48
