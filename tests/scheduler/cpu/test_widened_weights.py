"""Weights of a few bits are widened where a product on a CPU loads them: in vectors, from panels, once for a tile."""

import pytest

from dsascape.scheduler.cpu.schedule.steps import cpu_limits, program_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.search.tiling import candidates
from dsascape.scheduler.cpu.structure.widened import widening_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.nodes import SUMS, statements_of
from dsascape.scheduler.kernels.loops.steps import Layout
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from tests.quantised_models import product_of_few_bits
from tests.scheduler.cpu.running import codes_of
from tests.scheduler.cpu.test_rows_between_products import VIEW, layer

LANES = VIEW.lanes("fp32")


def product(rows: int) -> Layer:
    """Return the product of rows of 128 with 128 x 64 weights of 4 bits, in blocks of 32 with zero points."""
    return layer(product_of_few_bits(rows, 128, 64))


def tiles_of(whole: Layer) -> LoopTiles:
    """Return one cache tile, register tiles of 4 rows, or one, and 2 vectors."""
    rows = whole.sink.shape[0]
    return LoopTiles((rows, 64), (0, 1), 0, (min(rows, 4), 8), 1, None)


def test_weights_scales_and_zero_points_are_what_it_is_made_of() -> None:
    whole = product(1)
    anchor = anchored_nest(whole)
    assert anchor is not None
    widening = widening_of(whole, anchor)

    assert widening is not None
    assert [read.tensor for read in widening.reads] == ["b", "s", "z"]


def test_all_of_them_lie_in_panels_and_blocks_are_outside_of_their_weights() -> None:
    whole = product(4)
    program = program_of(whole, tiles_of(whole), LANES)
    panels = {step.tensor: (step.dim, step.panel) for step in program.steps if isinstance(step, Layout)}
    around = next(loops for loops, each in statements_of(program.body)
                  if each.stage.endswith(SUMS) and each.role == "update")  # fmt: skip

    assert panels == {"b": (0, 8), "s": (0, 8), "z": (0, 8)}
    assert [loop.name[0] for loop in around][:3] == ["n", "b", "k"]
    assert illegal(program, cpu_limits(VIEW)) == ()


def test_instructions_of_a_vector_are_counted_once_for_a_register_tile() -> None:
    """128 x 16 vectors of weights: a load each, and 2 for each 32 of a block; a factor of the data for every 2 of them.

    Each takes a subtraction and a product, is split off its byte by 2 instructions and converted; a block's zero point
    is split off and converted, too.
    """
    vectors = 128 * 16
    (code,) = codes_of(product(1), tiles_of(product(1)), "fp32", VIEW.code)
    (of_four,) = codes_of(product(4), tiles_of(product(4)), "fp32", VIEW.code)
    (of_eight,) = codes_of(product(8), tiles_of(product(8)), "fp32", VIEW.code)

    assert code.issued.fma == vectors
    assert code.issued.arithmetic == vectors * (2 + 3) + 3 * vectors // 32 == of_four.issued.arithmetic
    assert of_eight.issued.arithmetic == 2 * code.issued.arithmetic
    assert of_four.issued.fma == 4 * vectors
    assert of_four.issued.load - code.issued.load == 3 * (code.issued.load - vectors - 2 * vectors // 32)


@pytest.mark.parametrize("rows", [1, 4, 64])
def test_nothing_of_it_is_stored_but_results(rows: int) -> None:
    whole = product(rows)
    for tiles in candidates(whole, "fp32", VIEW):
        if tiles.depth_step is None:
            (code,) = codes_of(whole, tiles, "fp32", VIEW.code)
            assert code.issued.store == rows * 64 // LANES
