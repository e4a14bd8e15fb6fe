"""What a block issues and what a grid moves, worked out by hand for a product of 64 x 64 x 64 in FP16."""

import pytest

from dsascape.hw_models.caches.lines import CacheShape
from dsascape.hw_models.gpu.occupancy import BlockNeeds
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.residency import Found, found_in_l2
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.traffic import l2_bytes, off_chip
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import kernel_work, tile_classes
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.hw_models.gpu.gpus import TENSOR, gpu, sms
from tests.scheduler.gpu.running import grid_in

SECTOR = 32
ON_LANES = GpuTiles((32, 32), (0, 1), (4, 4), 1, 16, 2, "lanes")
ON_TENSOR = GpuTiles((32, 32), (0, 1), (32, 16), 1, 16, 2, "tensor")


def layer(graph: Graph) -> Layer:
    found = layer_of(Analysis(graph), range(len(graph.ops)))
    assert found is not None
    return found


def product(rows: int = 64, columns: int = 64, depth: int = 64) -> Layer:
    net = Net("product")
    return layer(net.graph(net.matmul(net.input(rows, depth), net.weight(depth, columns))))


def view() -> GpuView:
    return GpuView(gpu(), "fp16")


class TestCode:
    def test_lanes_do_two_multiply_accumulates_in_one_instruction(self) -> None:
        """32 x 32 x 64 of them; 32 threads do as many at once, each two."""
        assert grid_in(product(), ON_LANES, view()).code.issued.fma == 32 * 32 * 64 // 64

    def test_tensor_units_take_whole_instructions(self) -> None:
        """16 x 8 x 16 each: two rows, two columns, four steps of the depth, for two warps."""
        assert grid_in(product(), ON_TENSOR, view()).code.issued.matrix == 2 * 2 * 2 * 4

    def test_sides_that_fill_no_instruction_are_padded(self) -> None:
        """Of 16 x 8 x 16: nine columns fill one side of 16, 17 rows three of 8, 17 of depth two."""
        ragged = GpuTiles((17, 9), (0, 1), (17, 9), 1, 16, 2, "tensor")

        assert grid_in(product(17, 9, 17), ragged, view()).code.issued.matrix == 1 * 3 * 2

    def test_operands_are_staged_once_and_read_for_each_row_and_column_of_a_warp(self) -> None:
        """64 threads in two warps of 4 x 8 parts: 16 rows, 32 columns each.

        Staged: (32 + 32) x 64 elements. Of the left operand each warp reads its 16 rows, of the right its 32 columns.
        """
        read = 2 * (16 + 32) * 64

        assert grid_in(product(), ON_LANES, view()).code.shared_bytes == 2 * (2 * 32 * 64 + read)

    def test_warps_that_work_together_read_one_operand_once(self) -> None:
        """Two warps of 32 x 16: each reads 32 rows, and 16 columns, of which a group reads half each."""
        staged = 2 * 2 * 32 * 64
        machines = [gpu(sms=sms(tensor={"fp16": TENSOR | {"warps": warps}})) for warps in (1, 4)]
        apart, together = [grid_in(product(), ON_TENSOR, GpuView(machine, "fp16")).code for machine in machines]

        assert apart.shared_bytes == staged + 2 * 2 * (32 + 16) * 64
        assert together.shared_bytes == staged + 2 * 2 * (32 + 8) * 64

    def test_a_block_takes_its_stages_and_its_sums(self) -> None:
        # two stages of 16 x (32 + 32) elements; 16 sums and 4 + 4 operands beside 24 registers
        assert grid_in(product(), ON_LANES, view()).needs == BlockNeeds(64, 48, 2 * 16 * 64 * 2)

    def test_threads_that_split_a_reduction_leave_sums_in_shared_memory(self) -> None:
        split = GpuTiles((32, 32), (0, 1), (4, 4), 4, None, 1, "lanes")

        assert grid_in(product(), split, view()).needs == BlockNeeds(256, 48, 4 * 32 * 32 * 2)

    def test_steps_are_waited_for_and_asked_for_ahead(self) -> None:
        issued = grid_in(product(), ON_LANES, view()).code.issued

        assert (issued.waits, issued.ahead) == (4, 2)

    def test_every_sum_is_a_chain_of_its_own(self) -> None:
        on_lanes, on_tensor = [grid_in(product(), tiles, view()).code.issued for tiles in (ON_LANES, ON_TENSOR)]

        assert on_lanes.accumulators == 2 * 16 // 2  # two warps, packed in pairs
        assert on_tensor.accumulators == 2 * 4

    def test_what_follows_is_computed_on_the_sums(self) -> None:
        net = Net("followed")
        followed = layer(net.graph(net.relu(net.bias(net.matmul(net.input(64, 64), net.weight(64, 64))))))
        places = [nest.writes for nest in nests_of(followed).nests]

        assert places == ["registers", "registers", "outside"]
        assert grid_in(followed, ON_LANES, view()).needs.shared_bytes == 2 * 16 * 64 * 2

    def test_statistics_of_rows_lie_in_shared_memory(self) -> None:
        net = Net("rows")
        found = nests_of(layer(net.graph(net.softmax(net.input(64, 128)))))

        assert {nest.writes for nest in found.nests} == {"shared", "registers", "outside"}

    def test_padding_is_staged(self) -> None:
        net = Net("padded")
        padded = net.op("Pad", [net.input(1, 16, 8, 8), net.integers(0, 0, 1, 1, 0, 0, 1, 1)], (1, 16, 10, 10))
        found = nests_of(layer(net.graph(net.conv(padded, 16, 3, pad=0))))

        assert found.nests[0].writes == "staged"
        assert [nest.is_of_block for nest in found.nests] == [True] + [False] * (len(found.nests) - 1)


class TestTraffic:
    """Four blocks of 32 x 32: each operand is 8 KiB, as is the result; a block reads 4 KiB of each, and writes 2."""

    def test_every_block_reads_its_part_of_the_operands(self) -> None:
        assert l2_bytes(product(), (32, 32), SECTOR) == 4096 + 4096 + 2048

    @pytest.mark.parametrize(
        ("concurrent", "l2_kib", "left", "right"),
        [
            (1, 1024, 8192, 8192),  # everything stays
            (1, 12, 8192, 16384),  # the rows stay for the next block, the columns not for the next row of blocks
            (1, 2, 16384, 16384),  # nothing stays
            (2, 12, 8192, 16384),  # a row of blocks at a time: its rows are fetched once
            (4, 6, 8192, 8192),  # all at once, step by step: each step, 4 KiB, is fetched once for all
        ],
    )
    def test_what_the_l2_passes_on(self, concurrent: int, l2_kib: int, left: int, right: int) -> None:
        depth_step = 16 if concurrent > 1 else None
        l2 = CacheShape(l2_kib * 1024 // SECTOR)
        moved = off_chip(product(), (32, 32), depth_step, (0, 1), concurrent, l2, SECTOR)

        assert moved.fetched == (left, right, 0)
        assert moved.written == (0, 0, 8192)
        assert moved.first == (8192, 8192, 0)

    def test_the_order_of_blocks_says_which_operand_stays(self) -> None:
        moved = off_chip(product(), (32, 32), None, (1, 0), 1, CacheShape(12 * 1024 // SECTOR), SECTOR)

        assert moved.fetched == (16384, 8192, 0)

    def test_what_is_found_does_not_come_from_dram(self) -> None:
        moved = off_chip(product(), ON_LANES.tile, ON_LANES.depth_step, (0, 1), 4, CacheShape(2**20), SECTOR)

        assert moved.total == 3 * 8192
        assert moved.left(Found(frozenset({0}), frozenset())) == 2 * 8192
        assert moved.left(Found(frozenset({0}), frozenset({2}))) == 8192


class TestGrids:
    def test_edges_have_what_is_left(self) -> None:
        assert list(tile_classes((70, 64), (32, 32))) == [(4, (32, 32)), (2, (6, 32))]

    def test_blocks_share_out_what_the_kernel_does(self) -> None:
        ragged = product(rows=70)
        grid = grid_in(ragged, ON_LANES, view())
        work = kernel_work(ragged, grid, 6000.0, view())
        moved = dict(work.payload.traffic)

        assert work.blocks == 6
        assert work.blocks * work.payload.macs == pytest.approx(70 * 64 * 64, abs=6)
        assert work.blocks * moved["dram"] == 6000
        assert grid.l2_bytes == 4 * (4096 + 4096 + 2048) + 2 * (6 * 128 + 4096 + 6 * 64)


class TestResidency:
    @staticmethod
    def chain() -> list[Layer]:
        """Three sums of 8 KiB tensors in a row: a + b, that + c, that + d."""
        net = Net("chain")
        total = net.input(64, 64)
        for _ in range(3):
            total = net.add(total, net.input(64, 64))
        analysis = Analysis(net.graph(total))
        return [found for op in range(3) if (found := layer_of(analysis, (op,))) is not None]

    def test_the_next_kernel_finds_what_fits_beside_what_passes(self) -> None:
        """Between the use of an element and the next pass one tensor itself and half of the others: 8 + 16 KiB."""
        read = [len(found.read) for found in found_in_l2(self.chain(), 24 * 1024, warm=False)]
        too_small = [len(found.read) for found in found_in_l2(self.chain(), 23 * 1024, warm=False)]

        assert read == [0, 1, 1]
        assert too_small == [0, 0, 0]

    def test_what_stays_is_not_written_but_for_the_result(self) -> None:
        written = [len(found.written) for found in found_in_l2(self.chain(), 2**20, warm=False)]

        assert written == [1, 1, 0]

    def test_a_warm_l2_has_what_the_run_before_has_read(self) -> None:
        assert [len(found.read) for found in found_in_l2(self.chain(), 2**20, warm=True)] == [2, 2, 2]
