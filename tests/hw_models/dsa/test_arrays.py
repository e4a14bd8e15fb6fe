"""A matrix product occupies an array for its blocks, for filling it and for draining the results."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models import MatrixShape, MatrixUnit, operands_read
from dsascape.hw_models.dsa.arrays import product_cycles


def array(kind: str, native: tuple[int, int, int] = (64, 32, 1), sets: int = 2, **more: Any) -> MatrixUnit:
    rows, columns, depth = native
    return MatrixUnit.model_validate({
        "kind": "matrix", "macs_per_cycle": {"fp16": rows * columns * depth}, "native_tile": list(native),
        "array": kind, "accumulator_sets": sets, **more,
    })  # fmt: skip


def cycles(unit: MatrixUnit, rows: int, columns: int, depth: int, count: int = 1, channels: int = 0) -> float:
    return product_cycles(unit, MatrixShape(rows, columns, depth, count, channels), unit.macs_per_cycle["fp16"])


class TestOneBlock:
    def test_a_systolic_array_takes_twice_its_rows_its_columns_and_the_depth_less_two(self) -> None:
        """Output stationary, Samajdar et al., ISPASS 2020: 2 S_R + S_C + T - 2."""
        assert cycles(array("systolic", (16, 8, 1)), 16, 8, 100) == 2 * 16 + 8 + 100 - 2
        assert cycles(array("systolic", (16, 8, 1), sets=1), 16, 8, 100) == 2 * 16 + 8 + 100 - 2

    def test_an_outer_product_array_is_drained_row_by_row(self) -> None:
        assert cycles(array("outer_product"), 64, 32, 100) == 100 + 64
        assert cycles(array("outer_product"), 49, 32, 100) == 100 + 49

    def test_a_dot_product_array_fills_its_trees_of_adders(self) -> None:
        assert cycles(array("dot_product", (16, 16, 16)), 16, 16, 160) == 10 + 4 + 1

    def test_an_ideal_array_takes_its_products_alone(self) -> None:
        assert cycles(array("ideal"), 64, 32, 100) == 100


class TestSeveralBlocks:
    def test_two_sets_of_accumulators_hide_all_drains_but_the_last(self) -> None:
        assert cycles(array("outer_product"), 640, 32, 100) == 10 * 100 + 64

    def test_one_set_drains_every_block_before_the_next(self) -> None:
        assert cycles(array("outer_product", sets=1), 640, 32, 100) == 10 * (100 + 64)

    def test_blocks_follow_each_other_no_faster_than_they_are_drained(self) -> None:
        assert cycles(array("outer_product"), 640, 32, 9) == 9 + 9 * 64 + 64
        assert cycles(array("outer_product"), 7, 7, 9, count=20) == 20 * 9 + 7

    def test_operands_are_swapped_where_that_is_faster(self) -> None:
        assert cycles(array("ideal"), 32, 64, 100) == 100
        assert cycles(array("outer_product"), 8, 640, 100) == min(20 * 100 + 8, 10 * 100 + 64)


class TestWeightStationary:
    """16 x 16 weights are held; rows are streamed past them, one a cycle, in instructions of 16 at the most."""

    @staticmethod
    def held(**more: Any) -> MatrixUnit:
        return array("weight_stationary", (16, 16, 16), macs_per_cycle={"fp16": 256}, **more)

    @staticmethod
    def cycles(unit: MatrixUnit, rows: int, columns: int, depth: int, run: int = 0, channels: int = 0) -> float:
        return product_cycles(unit, MatrixShape(rows, columns, depth, 1, channels, run), 256)

    def test_rows_follow_each_other_once_the_first_weights_are_loaded(self) -> None:
        assert self.cycles(self.held(), 32, 16, 16) == 16 + 32 + 30  # loading, rows, 16 + 16 - 2 through the array
        assert self.cycles(self.held(), 32, 48, 32) == 16 + 6 * 32 + 30  # six blocks of weights

    def test_few_rows_wait_for_the_next_weights(self) -> None:
        assert self.cycles(self.held(), 1, 160, 16) == 16 + 10 * 16 + 30
        assert self.cycles(self.held(sets=1), 32, 48, 32) == 16 + 6 * (32 + 16) + 30  # loading is exposed

    def test_an_instruction_streams_rows_of_one_run_and_takes_its_issue(self) -> None:
        """An image of 7 x 7: seven instructions of 7 rows, of 8 cycles each, the first of them of 16."""
        assert self.cycles(self.held(issue_cycles=8), 49, 32, 32, run=7) == 16 + 4 * (16 + 6 * 8) + 30
        assert self.cycles(self.held(), 49, 32, 32, run=7) == 16 + 4 * (16 + 6 * 7) + 30
        assert self.cycles(self.held(issue_cycles=8), 40, 16, 16, run=20) == 16 + 2 * (16 + 8) + 30  # 16 and 4 of 20

    def test_each_tap_has_weights_of_its_own_where_channels_are_added_up(self) -> None:
        taps = self.held(sums_over="channels")
        assert self.cycles(taps, 64, 16, 27, channels=3) == 16 + 9 * 64 + 30
        assert self.cycles(self.held(), 64, 16, 27, channels=3) == 16 + 2 * 64 + 30

    def test_taps_of_few_channels_fill_the_depth_together(self) -> None:
        """Five taps of three channels fill 15 of 16: 49 taps take ten steps. No more than four of them: thirteen."""
        five, four = (self.held(sums_over="channels", taps_together=most) for most in (14, 4))
        assert self.cycles(five, 64, 16, 147, channels=3) == 16 + 10 * 64 + 30
        assert self.cycles(four, 64, 16, 147, channels=3) == 16 + 13 * 64 + 30
        assert self.cycles(five, 64, 16, 9 * 16, channels=16) == 16 + 9 * 64 + 30

    def test_weights_are_read_once_and_rows_for_every_16_columns(self) -> None:
        unit = self.held(operand_reuse=[65536, 16])
        assert operands_read(unit, MatrixShape(100, 64, 32)) == (100 * 32 * 4, 64 * 32)


@given(*[st.integers(1, 200)] * 4, st.integers(1, 40), st.sampled_from([1, 2]))
def test_shorter_runs_and_slower_issue_are_never_faster(
    rows: int, columns: int, depth: int, run: int, issue: int, sets: int
) -> None:
    def cycles_with(run: int, issue: int) -> float:
        unit = TestWeightStationary.held(issue_cycles=issue, sets=sets)
        return TestWeightStationary.cycles(unit, rows, columns, depth, run)

    whole = cycles_with(0, 1)
    assert rows * columns * depth / 256 < whole <= cycles_with(run, 1) <= cycles_with(run, issue)


SIZES = st.integers(1, 200)


@given(st.sampled_from(["outer_product", "systolic", "dot_product"]), SIZES, SIZES, SIZES, st.integers(1, 5))
def test_no_array_is_faster_than_an_ideal_one_or_than_its_peak(
    kind: str, rows: int, columns: int, depth: int, count: int
) -> None:
    native = 16, 8, 4
    real, ideal = array(kind, native), array("ideal", native)

    least = cycles(ideal, rows, columns, depth, count)
    assert least >= rows * columns * depth * count / (16 * 8 * 4)
    slowest = cycles(array(kind, native, 1), rows, columns, depth, count)
    assert least < cycles(real, rows, columns, depth, count) <= slowest


class TestOperands:
    def test_are_read_once_per_block_that_needs_them(self) -> None:
        shape = MatrixShape(128, 96, 10)

        assert operands_read(array("ideal"), shape) == (128 * 10 * 3, 96 * 10 * 2)

    def test_are_shared_by_as_many_results_as_the_array_reuses_them_for(self) -> None:
        shape = MatrixShape(128, 96, 10)

        assert operands_read(array("ideal", operand_reuse=[128, 96]), shape) == (128 * 10, 96 * 10)

    def test_of_an_empty_product_take_no_time(self) -> None:
        assert cycles(array("systolic"), 0, 4, 4) == 0


@pytest.mark.parametrize(("key", "value"), [("array", "torus"), ("accumulator_sets", 3), ("operand_reuse", [0, 1])])
def test_an_array_that_makes_no_sense_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=key):
        MatrixUnit.model_validate(
            {"kind": "matrix", "macs_per_cycle": {"fp16": 64}, "native_tile": [8, 8, 1], key: value}
        )


class TestSeveralArrays:
    """256 x 256 x 256 on arrays of 128 x 128: four blocks of 256 steps each."""

    @pytest.mark.parametrize(("count", "rounds"), [(1, 4), (2, 2), (3, 2), (4, 1), (8, 1)])
    def test_blocks_are_computed_in_rounds_of_one_per_array(self, count: int, rounds: int) -> None:
        assert cycles(array("ideal", (128, 128, 1), count=count), 256, 256, 256) == rounds * 256

    def test_each_array_is_filled_and_drained_for_its_own_blocks(self) -> None:
        """Fill 254, four or one blocks of 256, the last drain 128."""
        assert cycles(array("systolic", (128, 128, 1)), 256, 256, 256) == 254 + 4 * 256 + 128
        assert cycles(array("systolic", (128, 128, 1), count=4), 256, 256, 256) == 254 + 256 + 128
        one_set = array("systolic", (128, 128, 1), sets=1, count=2)
        assert cycles(one_set, 256, 256, 256) == 2 * (254 + 256 + 128)

    def test_blocks_at_the_edge_come_last(self) -> None:
        """Three of 64 rows and one of 8: two arrays take two of the whole ones, or one and the one at the edge."""
        assert cycles(array("outer_product", count=2), 200, 32, 100) == 2 * 100 + 64
        assert cycles(array("outer_product", count=4), 200, 32, 100) == 100 + 64
        assert cycles(array("outer_product", count=2), 136, 32, 100) == 2 * 100 + 8

    def test_products_of_a_batch_go_to_different_arrays(self) -> None:
        assert cycles(array("outer_product", count=4), 64, 32, 100, count=4) == 100 + 64

    def test_a_single_block_uses_one_array(self) -> None:
        assert cycles(array("ideal", count=4), 64, 32, 1000) == 1000

    def test_all_of_them_count_for_the_rate(self) -> None:
        assert array("ideal", count=4).rates == {"fp16": 4 * 64 * 32}


@given(
    st.sampled_from(["outer_product", "systolic", "dot_product", "ideal"]), st.sampled_from([1, 2]), SIZES, SIZES,
    st.integers(1, 60), st.integers(1, 5), st.integers(1, 9),
)  # fmt: skip
def test_more_arrays_are_never_slower_nor_faster_than_their_number(
    kind: str, sets: int, rows: int, columns: int, depth: int, count: int, arrays: int
) -> None:
    native, sizes = (16, 8, 4), (rows, columns, depth, count)
    alone, one, more = (
        cycles(array(kind, native, sets, count=number), *sizes) for number in (1, arrays, arrays + 1)
    )  # fmt: skip

    assert alone / (arrays + 1) <= more <= one
    assert more >= rows * columns * depth * count / (16 * 8 * 4 * (arrays + 1))


class TestTapsOfAWindow:
    """A 7 x 7 convolution of 3 channels into 64, 112 x 112 positions: 49 taps of a depth of 3."""

    def test_are_products_of_their_own_where_only_channels_are_added_up(self) -> None:
        """784 x 4 blocks of 16 x 16; a tap's 3 cycles hide behind 16 in which the one before leaves the array."""
        mesh = array("systolic", (16, 16, 1), sums_over="channels")

        assert cycles(mesh, 112 * 112, 64, 49 * 3, channels=3) == (16 + 16 - 2) + 3 + 784 * 4 * 49 * 16

    def test_are_part_of_one_product_where_they_are_added_up_too(self) -> None:
        mesh = array("systolic", (16, 16, 1), sums_over="channels_and_taps")

        assert cycles(mesh, 112 * 112, 64, 49 * 3, channels=3) == (16 + 16 - 2) + 784 * 4 * 147 + 16

    def test_leave_most_of_a_tree_of_adders_idle(self) -> None:
        """A position and 32 kernels a cycle, whether 3 channels of a tap are added up or 64."""
        cells = array("dot_product", (1, 32, 64), sums_over="channels")

        few, many = (cycles(cells, 112 * 112, 64, 49 * channels, channels=channels) for channels in (3, 64))
        assert few == many == 6 + 112 * 112 * 2 * 49 + 1

    def test_one_set_of_accumulators_is_filled_and_drained_for_each(self) -> None:
        mesh = array("systolic", (16, 16, 1), sets=1, sums_over="channels")

        assert cycles(mesh, 16, 16, 27, channels=3) == 9 * (30 + 3 + 16)

    def test_of_one_block_use_one_array(self) -> None:
        mesh = array("ideal", (16, 16, 1), count=4, sums_over="channels")

        assert cycles(mesh, 16, 16, 27, channels=3) == 9 * 3

    def test_of_a_depthwise_convolution_fill_columns_only_where_these_are_separate(self) -> None:
        """3 x 3 taps of 16 channels at 8 positions: 9 cycles for 4 x 8 results, or for the 8 of one channel."""
        one_by_one, side_by_side = (
            array("ideal", (4, 8, 8), sums_over="channels", separate_columns=separate) for separate in (False, True)
        )

        assert cycles(one_by_one, 8, 1, 9, count=16, channels=1) == 9 * 16
        assert cycles(side_by_side, 8, 1, 9, count=16, channels=1) == 9 * 2 * 2
        assert cycles(side_by_side, 8, 1, 18, count=16, channels=2) == 9 * 16


@given(
    st.sampled_from(["outer_product", "systolic", "dot_product", "ideal"]), st.sampled_from([1, 2]), st.integers(1, 4),
    st.tuples(SIZES, SIZES, st.integers(1, 300), st.integers(1, 5)), st.integers(1, 40),
)  # fmt: skip
def test_adding_up_over_channels_alone_is_never_faster_and_the_same_at_a_single_tap(
    kind: str, sets: int, arrays: int, sizes: tuple[int, int, int, int], channels: int
) -> None:
    alone, together = (
        array(kind, (16, 8, 4), sets, count=arrays, sums_over=over) for over in ("channels", "channels_and_taps")
    )

    assert cycles(alone, *sizes, channels=channels) >= cycles(together, *sizes, channels=channels)
    assert cycles(together, *sizes, channels=channels) == cycles(together, *sizes)
    assert cycles(alone, *sizes, channels=sizes[2]) == cycles(together, *sizes)
