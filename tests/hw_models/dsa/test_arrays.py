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


def cycles(unit: MatrixUnit, rows: int, columns: int, depth: int, count: int = 1) -> float:
    return product_cycles(unit, MatrixShape(rows, columns, depth, count), unit.macs_per_cycle["fp16"])


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
