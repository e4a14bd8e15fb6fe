"""Features: their number, and small programs counted by hand."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import statements_of
from dsascape.scheduler.kernels.loops.steps import ComputeAt, Level, Parallel, Steps, Tile, Vectorise
from dsascape.tuner.search.accesses import Accesses, touched
from dsascape.tuner.search.features import FEATURES, features_of
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.tuner.search.space import Program
from tests.tuner.search import kernels
from tests.tuner.search.kernels import FOUR_CORES, SMALL

LINE = 64


def feature(row: NDArray[np.float64], name: str) -> float:
    """Return a feature without its logarithm."""
    return float(2 ** row[FEATURES.index(name)] - 1)


def tiled() -> tuple[NaiveProgram, Program]:
    """Return 16 x 32 products of 8: rows in parallel, columns in vectors of 8, sums in registers."""
    naive = kernels.matmul(16, 32, 8)
    steps: Steps = (
        Tile("matmul1", (Level("space", (0, 1), (1, 8)),)), Parallel("matmul1", 1), Vectorise("matmul1", 8),
        ComputeAt("matmul1.sum", "matmul1", 2, "register"), Tile("matmul1.sum", (Level("reduction", (2,), (1,)),)),
        Vectorise("matmul1.sum", 8),
    )  # fmt: skip
    found = CpuSpace(naive, FOUR_CORES).built(steps)
    assert found is not None
    return naive, found


def row_of(role: int) -> NDArray[np.float64]:
    naive, own = tiled()
    rows = features_of(naive, own.loops, LINE)
    assert len(rows) == 3  # first values, products, the store
    found: NDArray[np.float64] = rows[role]
    return found


def test_there_are_164_with_names_of_their_own() -> None:
    assert len(FEATURES) == len(set(FEATURES)) == 164


@pytest.mark.parametrize("naive", SMALL.values(), ids=SMALL.keys())
def test_every_program_has_one_row_for_each_statement(naive: Callable[[], NaiveProgram]) -> None:
    own = naive()
    space, rng = CpuSpace(own, FOUR_CORES), random.Random(0)
    for _ in range(5):
        rows = features_of(own, space.draw(rng).loops, LINE)
        assert rows.shape[1] == 164
        assert np.isfinite(rows).all()


def test_products_and_loops_are_counted() -> None:
    """16 rows, 4 vectors of 8 columns, 8 products each: 4,096 multiply-accumulates in four loops."""
    row = row_of(1)
    assert feature(row, "float_mad") == pytest.approx(4096)
    assert feature(row, "outer_product") == pytest.approx(4096)
    assert feature(row, "outer_loops") == pytest.approx(4)


def test_loops_of_a_kind_have_count_product_extent_and_position() -> None:
    row = row_of(1)
    assert feature(row, "vector_extent") == pytest.approx(8)
    assert feature(row, "vector_inner_spatial") == pytest.approx(1)
    assert feature(row, "parallel_extent") == pytest.approx(16)
    assert feature(row, "parallel_outer_spatial") == pytest.approx(1)
    assert feature(row, "unroll_none") == pytest.approx(1)
    assert feature(row, "is_gpu") == 0


def test_bytes_lines_and_reuse_of_each_buffer() -> None:
    """The weight: 8 x 32 elements of 4 bytes, 16 lines; the rows use it again, 4 x 8 x 8 iterations apart."""
    row = row_of(1)
    assert feature(row, "buffer0_unique_bytes") == pytest.approx(8 * 32 * 4)
    assert feature(row, "buffer0_unique_lines") == pytest.approx(16)
    assert feature(row, "buffer0_bytes") == pytest.approx(4096 * 4)
    assert feature(row, "buffer0_loop_reuse") == pytest.approx(1)
    assert feature(row, "buffer0_reuse_count") == pytest.approx(16)
    assert feature(row, "buffer0_reuse_distance_iterations") == pytest.approx(4 * 8 * 8)
    assert feature(row, "buffer0_bytes_by_reuse") == pytest.approx(4096 * 4 / 16)
    assert feature(row, "buffer0_stride") == pytest.approx(1)


def test_sums_in_registers_are_read_and_written_and_allocated_for_each_tile() -> None:
    row = row_of(1)
    assert feature(row, "allocated_bytes") == pytest.approx(8 * 4)
    assert feature(row, "allocations") == pytest.approx(16 * 4)
    assert feature(row, "iterations_of_an_allocation") == pytest.approx(8 * 8)
    assert sum([feature(row, f"buffer{number}_read_write") for number in range(3)]) == pytest.approx(1)


def test_intensity_goes_from_one_iteration_to_the_whole() -> None:
    """One product: 2 operations of 3 elements. All: 8,192 operations of what both operands and a tile's sums have."""
    row = row_of(1)
    assert feature(row, "intensity_0") == pytest.approx(2 / 12)
    touched_bytes = 4 * (16 * 8 + 8 * 32 + 8)
    assert feature(row, "intensity_9") == pytest.approx(8192 / touched_bytes)


def test_what_a_statement_touches_grows_with_each_loop() -> None:
    naive, own = tiled()
    accesses = Accesses(naive, own.loops)
    around, statement = list(statements_of(own.loops.body))[1]
    weight = next(each for each in accesses.of(around, statement).accesses if each.buffer == "w1")
    boxes = list(touched(weight, tuple(reversed(around)), own.loops.extents))
    assert boxes == [(1, 1), (1, 8), (8, 8), (8, 32), (8, 32)]
    assert math.prod(boxes[-1]) == 256
