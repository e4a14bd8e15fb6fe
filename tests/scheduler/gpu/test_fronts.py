"""Contractions in front of a kernel's last one: tiles of their own, worked out by hand for two products of 64^3."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from dsascape.fusion.plan import FusionPlan, Group
from dsascape.hw_models import Gpu, load_hardware
from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.scheduler import ScheduleError
from dsascape.scheduler.gpu.candidates import candidates
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.fronts import unit_of
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.schedule_json import read_schedule, schedule_json
from dsascape.scheduler.gpu.tiles import FrontTiles, GpuTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import grid_of
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.steps import Tensorise
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net, networks
from tests.hw_models.gpu.gpus import gpu, gpus, sms
from tests.scheduler.gpu.running import costs_of, grid_in, kernel_in, simulated
from tests.tiers import examples

FRONT = FrontTiles((4, 8), None, "lanes")
TILES = GpuTiles((32, 64), (0, 1), (4, 4), 1, None, 1, "lanes", fronts=(FRONT,))
"""Two blocks of 128 threads; of the first product a block needs 32 x 64 elements: 64 parts."""


def two_products(rows: int = 64) -> Graph:
    net = Net("pair")
    return net.graph(net.matmul(net.relu(net.matmul(net.input(rows, 64), net.weight(64, 64))), net.weight(64, 64)))


def view(dtype: str = "fp16") -> GpuView:
    return GpuView(gpu(), dtype)


def layer(graph: Graph) -> Layer:
    found = layer_of(Analysis(graph), range(len(graph.ops)))
    assert found is not None
    return found


def together(costs: GpuCosts) -> GpuSchedule:
    graph = costs.analysis.graph
    return kernel_by_kernel(FusionPlan(graph, (Group(tuple(range(len(graph.ops))), "together"),)), costs)


class TestNests:
    def test_the_anchor_is_the_last_contraction_however_small(self) -> None:
        net = Net("pair")
        nests = nests_of(layer(net.graph(net.conv(net.relu(net.conv(net.input(1, 8, 8, 8), 32, 3)), 4, 1))))

        assert [nest.is_anchor for nest in nests.nests] == [False, False, True]
        assert nests.fronts == (0,)
        assert nests.anchor_ends_last

    def test_what_is_handed_on_lies_in_shared_memory_once(self) -> None:
        places = [(nest.writes, nest.is_shared) for nest in nests_of(layer(two_products())).nests]

        assert places == [("registers", False), ("shared", True), ("outside", False)]

    def test_products_beside_each_other_meet_in_shared_memory(self) -> None:
        """Threads of the first have other elements than those of the last."""
        net = Net("beside")
        x = net.input(64, 64)
        first, last = net.matmul(x, net.weight(64, 64)), net.matmul(x, net.weight(64, 64))
        nests = nests_of(layer(net.graph(net.add(first, last))))

        assert [nest.is_shared for nest in nests.nests] == [True, False, False]

    def test_padding_before_a_front_is_staged_with_it(self) -> None:
        net = Net("padded")
        padded = net.op("Pad", [net.input(1, 16, 8, 8), net.integers(0, 0, 1, 1, 0, 0, 1, 1)], (1, 16, 10, 10))
        nests = nests_of(layer(net.graph(net.conv(net.conv(padded, 16, 3, pad=0), 16, 1))))

        assert nests.nests[0].writes == "staged"


class TestBlocks:
    def test_every_contraction_is_multiplied_once(self) -> None:
        """Two of 32 x 64 x 64, two multiply-accumulates an instruction of 32 threads."""
        assert grid_in(layer(two_products()), TILES, view()).code.issued.fma == 2 * 32 * 64 * 64 // 64

    def test_parts_at_edges_issue_what_whole_ones_do(self) -> None:
        """30 rows in eight parts of four: as many instructions as for 32 rows."""
        tiles = replace(TILES, tile=(30, 64))

        assert grid_in(layer(two_products()), tiles, view()).code.issued.fma == 2 * 32 * 64 * 64 // 64

    def test_a_block_holds_results_and_what_is_staged(self) -> None:
        """32 x 64 elements of two bytes; three stages of 16 x (32 + 64) elements at a time, or of the columns alone.

        A thread has 24 registers, 32 sums and 12 operands: the front needs more than the last.
        """
        staged = replace(TILES, stages=3, depth_step=16, fronts=(FrontTiles((4, 8), 16, "lanes"),))
        needs = [grid_in(layer(two_products()), tiles, view()).needs for tiles in (TILES, staged)]

        assert [each.shared_bytes for each in needs] == [32 * 64 * 2, 32 * 64 * 2 + 3 * 16 * 96 * 2]
        assert [each.registers_per_thread for each in needs] == [24 + 32 + 12] * 2
        assert [each.threads for each in needs] == [128, 128]

    def test_each_turn_stages_what_it_needs(self) -> None:
        """Four turns of 16 x 32, each with four steps of 16 x (16 + 32); the last product stages columns alone."""
        front = FrontTiles((2, 4), 16, "lanes", (16, 32))
        tiles = replace(TILES, stages=3, fronts=(front,))
        block = layer(two_products())

        assert grid_in(block, tiles, view()).needs.shared_bytes == 32 * 64 * 2 + 3 * 16 * 48 * 2
        assert grid_in(block, tiles, view()).code.issued.waits >= 4 * 4

    def test_units_may_differ(self) -> None:
        """The first on tensor units, of 16 x 8 x 16: 2 x 8 x 4 instructions."""
        tiles = replace(TILES, stages=2, fronts=(FrontTiles((32, 16), 16, "tensor"),))
        issued = grid_in(layer(two_products()), tiles, view()).code.issued

        assert issued.matrix == 2 * 8 * 4
        assert issued.fma == 32 * 64 * 64 // 64

    def test_a_depthwise_front_is_not_staged(self) -> None:
        net = Net("depthwise")
        graph = net.graph(net.conv(net.depthwise(net.input(1, 32, 28, 28)), 64, 1)).with_dtype("fp16")
        tried = list(candidates(layer(graph), view()))

        assert {tiles.unit for tiles in tried} == {"tensor"}
        assert {(front.unit, front.depth_step) for tiles in tried for front in tiles.fronts} == {("lanes", None)}


class TestTiles:
    @given(graph=networks(), spec=gpus())
    @settings(deadline=None, max_examples=examples(15))
    def test_parts_lie_in_what_is_computed_at_once_and_that_in_what_a_block_needs(
        self, graph: Graph, spec: Gpu
    ) -> None:
        whole = layer(graph)
        nests = nests_of(whole)
        for tiles in candidates(whole, GpuView(spec, "fp16")):
            works = nests.works(whole, tiles.tile)
            assert len(tiles.fronts) == len(nests.fronts)
            for number, front in zip(nests.fronts, tiles.fronts, strict=True):
                box = nests.nests[number].box(works[number].extents)
                at_once = front.at_once or box
                assert all(
                    0 < part <= size <= whole for part, size, whole in zip(front.part, at_once, box, strict=True)
                )

    @given(graph=networks(), spec=gpus())
    @settings(deadline=None, max_examples=examples(15))
    def test_whole_networks_as_one_kernel_fit_or_are_cut(self, graph: Graph, spec: Gpu) -> None:
        costs = costs_of(graph, spec)
        schedule = together(costs)

        for kernel in schedule.runs:
            assert occupancy(spec.sms, grid_of(kernel.layer, kernel.steps, costs.view).needs).blocks
        again = read_schedule(json.loads(json.dumps(schedule_json(schedule))), costs)
        assert again == schedule
        assert all(share <= 1 for share in simulated(schedule, costs).utilisation.values())

    def test_of_a_depthwise_sink_tiles_are_patches_with_channels(self) -> None:
        net = Net("inverted")
        graph = net.graph(net.depthwise(net.conv(net.input(1, 24, 56, 56), 96, 1)))
        kernel = together(costs_of(graph, gpu())).runs[0]
        _, channels, height, width = kernel.shape.tile

        assert any(isinstance(step, Tensorise) for step in kernel.steps)
        assert channels >= 16
        assert min(height, width) > 1


class TestFiles:
    def test_fronts_are_shown_in_the_loops(self) -> None:
        front = FrontTiles((4, 8), 16, "lanes", (16, 64))
        kernel = kernel_in(layer(two_products()), replace(TILES, stages=2, fronts=(front,)), view())

        assert "shared relu" in str(kernel.program)
        assert "matmul1.sum.staged0[16, 16] * 2 slots" in str(kernel.program)
        assert str(kernel).startswith("matmul2: 2 blocks of 32x64 of 64x64, grid d1 d0, 128 threads on lanes")

    def test_tensor_units_that_are_not_there_are_refused_of_fronts_too(self) -> None:
        costs = costs_of(two_products().with_dtype("fp16"), gpu())
        data = json.loads(json.dumps(schedule_json(together(costs))))
        without = costs_of(two_products().with_dtype("fp16"), gpu(sms=sms(tensor={})))

        assert any(step["step"] == "Tensorise" for step in data["kernels"][0]["steps"])
        with pytest.raises(ScheduleError, match="is tensor, which the machine has not"):
            read_schedule(data, without)


@pytest.mark.parametrize(("rows", "columns", "depth", "unit"), [
    (16, 8, 16, "tensor"),  # one whole instruction
    (4, 16, 16, "tensor"),  # half of one, whose rate is eight times that of lanes
    (2, 2, 16, "lanes"),  # 4 of 128 sums
    (4, 16, 2, "lanes"),  # half of the rows, an eighth of the depth
    (1, 4096, 4096, "lanes"),  # one row
])  # fmt: skip
def test_tensor_units_compute_what_fills_them_enough_to_be_no_slower(
    rows: int, columns: int, depth: int, unit: str
) -> None:
    view = GpuView(load_hardware("h100", Gpu), "fp16")
    assert view.tensor is not None
    assert view.tensor.macs_per_cycle == 8 * view.spec.lanes("fp16")

    assert unit_of(rows, columns, depth, view) == unit
