"""Accuracy measures of predictions (MAPE, rank correlations, regret) on numbers that can be checked by hand."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.experiments.real.accuracy import kendall, mape, regret, spearman

TIMES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=12)


def test_the_mean_error_is_by_the_measurement() -> None:
    assert mape([1.5, 3.0], [1.0, 4.0]) == pytest.approx((0.5 + 0.25) / 2)
    assert mape([], []) is None


def test_ranks_in_the_same_order_correlate_fully_whatever_the_values() -> None:
    assert spearman([1, 2, 30], [5, 6, 7]) == pytest.approx(1)
    assert kendall([1, 2, 30], [7, 6, 5]) == pytest.approx(-1)


def test_equal_values_share_their_rank() -> None:
    # ranks 1.5, 1.5, 3 against 1, 2, 3; two pairs in order, one undecided: 2 / sqrt(2 x 3)
    assert spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(0.866, abs=1e-3)
    assert kendall([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / 6**0.5)


def test_nothing_is_said_of_values_that_are_all_the_same() -> None:
    assert spearman([1, 1], [1, 2]) is None
    assert kendall([1, 1], [1, 2]) is None


@given(pairs=TIMES)
def test_correlations_are_symmetric_and_within_one(pairs: list[tuple[int, int]]) -> None:
    first, second = zip(*pairs, strict=True)
    for correlation in (spearman, kendall):
        one, other = correlation(first, second), correlation(second, first)
        assert (one is None) == (other is None)
        if one is not None:
            assert one == pytest.approx(other)
            assert -1 - 1e-9 <= one <= 1 + 1e-9


def test_regret_is_what_the_chosen_plan_takes_more_than_the_fastest() -> None:
    assert regret({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 2.0}) == pytest.approx(0.5)
    assert regret({"a": 1.0, "b": 2.0}, {"a": 1.5, "b": 2.0}) == 0
    assert regret({"a": 1.0}, {"b": 1.0}) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=150))
def test_kendall_counts_what_comparing_all_pairs_counts(pairs: list[tuple[int, int]]) -> None:
    signs = [
        ((a > b) - (a < b), (c > d) - (c < d)) for (a, c), (b, d) in combinations(pairs, 2)
    ]  # fmt: skip
    unequal = [sum(abs(sign[side]) for sign in signs) for side in (0, 1)]
    expected = sum(one * other for one, other in signs) / (unequal[0] * unequal[1]) ** 0.5 if all(unequal) else None

    first, second = zip(*pairs, strict=True)
    assert kendall(first, second) == (None if expected is None else pytest.approx(expected))


def test_kendall_of_many_kernels_needs_no_table_of_all_pairs() -> None:
    many = 200_000  # of which a table of all pairs would take 160 GB
    assert kendall(range(many), range(many, 0, -1)) == -1
