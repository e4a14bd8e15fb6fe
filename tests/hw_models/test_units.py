"""A unit takes its peak rate for what fills it, and as long for what does not."""

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw_models import VectorCompute, compute_ps, load_hardware, with_values
from tests.hw_models.story import SPEC, product, run


class TestProducts:
    """The matrix unit has 64 rows and 32 columns, and takes one step of depth per cycle."""

    @pytest.mark.parametrize(
        ("rows", "columns", "depth", "count", "time_ps"),
        [
            (64, 32, 10, 1, 10),
            (1, 1, 10, 1, 10),
            (65, 32, 10, 1, 20),
            (64, 33, 10, 1, 20),
            (32, 64, 10, 1, 10),
            (128, 64, 10, 3, 120),
            (64, 32, 0, 1, 0),
        ],
    )
    def test_a_tile_that_does_not_fill_the_array_costs_what_a_full_one_does(
        self, rows: int, columns: int, depth: int, count: int, time_ps: int
    ) -> None:
        assert run(product("mm", rows, columns, depth, count)).makespan_ps == time_ps

    @settings(deadline=None)
    @given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
    def test_no_tile_beats_the_peak_and_full_ones_reach_it(self, rows: int, columns: int, depth: int) -> None:
        unit = SPEC.units["matrix"]
        full = replace(product("mm", rows, columns, depth), rows=64 * rows, columns=32 * columns)

        assert compute_ps(SPEC, "matrix", unit, product("mm", rows, columns, depth)) >= ceil(
            rows * columns * depth / 2048
        )
        assert compute_ps(SPEC, "matrix", unit, full) == rows * columns * depth

    def test_narrower_numbers_go_faster(self) -> None:
        unit = SPEC.units["matrix"]

        assert compute_ps(SPEC, "matrix", unit, product("mm", 64, 32, 10)) == 10
        assert compute_ps(SPEC, "matrix", unit, replace(product("mm", 64, 32, 10), dtype="int8")) == 5

    def test_depth_is_padded_like_rows_and_columns(self) -> None:
        spec = load_hardware("ipu_mk1")
        unit = spec.units["matrix"]

        # 1 x 8 x 16 at 32 a cycle of 625 ps: four cycles a pass.
        assert compute_ps(spec, "matrix", unit, product("mm", 1, 8, 16)) == 4 * 625
        assert compute_ps(spec, "matrix", unit, product("mm", 1, 8, 17)) == 8 * 625

    def test_an_inefficient_unit_takes_longer(self) -> None:
        half = with_values(SPEC, {"units.matrix.efficiency": 0.5})

        assert compute_ps(half, "matrix", half.units["matrix"], product("mm", 64, 32, 10)) == 20

    def test_a_vector_unit_does_products_lane_by_lane(self) -> None:
        unit = SPEC.units["vector"]

        assert compute_ps(SPEC, "vector", unit, product("mm", 8, 8, 3)) == 3


class TestElements:
    """The vector unit has 64 lanes and needs two cycles for a special operation."""

    @pytest.mark.parametrize(
        ("macs", "simple", "special", "time_ps"),
        [(0, 64, 0, 1), (0, 65, 0, 2), (64, 64, 0, 2), (0, 0, 65, 4), (1, 1, 1, 4), (0, 0, 0, 0)],
    )
    def test_operations_go_through_the_lanes_kind_by_kind(
        self, macs: int, simple: int, special: int, time_ps: int
    ) -> None:
        work = VectorCompute(unit="vector", dtype="fp16", macs=macs, simple=simple, special=special)

        assert compute_ps(SPEC, "vector", SPEC.units["vector"], work) == time_ps
