"""Transforms of minimal filtering filter exactly, with as many products as Winograd's formula says."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.workloads.winograd.transforms import POINTS, Matrix, transforms
from tests.tiers import examples

NUMBERS = st.fractions(min_value=-8, max_value=8, max_denominator=8)


def applied(matrix: Matrix, values: Sequence[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, values, strict=True)), Fraction(0)) for row in matrix]


def transposed(rows: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
    return [list(column) for column in zip(*rows, strict=True)]


def on_both_sides(matrix: Matrix, rows: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
    """Return ``matrix @ rows @ matrix.T``."""
    columns = [applied(matrix, column) for column in transposed(rows)]
    return [applied(matrix, row) for row in transposed(columns)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int]:
    taps = draw(st.integers(1, 5))
    return draw(st.integers(1, len(POINTS) + 2 - taps)), taps


@given(case=cases(), data=st.data())
def test_filters_of_any_size_compute_what_direct_ones_do(case: tuple[int, int], data: st.DataObject) -> None:
    outputs, taps = case
    size = outputs + taps - 1
    pixels = data.draw(st.lists(NUMBERS, min_size=size, max_size=size))
    weights = data.draw(st.lists(NUMBERS, min_size=taps, max_size=taps))
    own = transforms(outputs, taps)
    products = [a * b for a, b in zip(applied(own.weight, weights), applied(own.data, pixels), strict=True)]

    direct = [sum((pixels[n + k] * weights[k] for k in range(taps)), Fraction(0)) for n in range(outputs)]
    assert applied(own.output, products) == direct


@pytest.mark.parametrize("outputs", [2, 4, 6])
@settings(max_examples=examples(40, few=6))
@given(data=st.data())
def test_in_two_dimensions_too(outputs: int, data: st.DataObject) -> None:
    size = outputs + 2
    rows = data.draw(st.lists(st.lists(NUMBERS, min_size=size, max_size=size), min_size=size, max_size=size))
    taps = data.draw(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=3, max_size=3))
    own = transforms(outputs, 3)
    weights, pixels = on_both_sides(own.weight, taps), on_both_sides(own.data, rows)
    products = [[a * b for a, b in zip(*pair, strict=True)] for pair in zip(weights, pixels, strict=True)]

    def at(y: int, x: int) -> Fraction:
        return sum((rows[y + i][x + j] * taps[i][j] for i in range(3) for j in range(3)), Fraction(0))

    direct = [[at(y, x) for x in range(outputs)] for y in range(outputs)]
    assert on_both_sides(own.output, products) == direct


@given(case=cases())
def test_products_are_as_many_as_winograds_formula_says(case: tuple[int, int]) -> None:
    outputs, taps = case
    own = transforms(outputs, taps)
    assert own.products == outputs + taps - 1
    assert [len(own.output), len(own.weight), len(own.data)] == [outputs, own.products, own.products]
    assert [len(own.output[0]), len(own.weight[0]), len(own.data[0])] == [own.products, taps, own.products]


def test_four_outputs_have_the_matrices_of_lavin_and_gray() -> None:
    own = transforms(4, 3)
    assert [list(map(str, row)) for row in own.weight[:2]] == [["1/4", "0", "0"], ["-1/6", "-1/6", "-1/6"]]
    assert [list(map(int, row)) for row in own.data[:2]] == [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0]]
    assert [list(map(int, row)) for row in own.output[2:]] == [[0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]


@pytest.mark.parametrize(("outputs", "taps"), [(0, 3), (2, 0), (7, 3)])
def test_sizes_without_points_are_refused(outputs: int, taps: int) -> None:
    with pytest.raises(ValueError, match=rf"F\({outputs}, {taps}\) needs .* no more than 8 products"):
        transforms(outputs, taps)
