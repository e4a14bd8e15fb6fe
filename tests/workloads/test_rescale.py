"""Shape constants written for one sequence length are adapted to another."""

import pytest

from dsascape.workloads.rescale import RescaleError, aligned_runs, broadcast_conflict, rescaled_like, rescaled_reshape


@pytest.mark.parametrize(
    ("source", "target", "now", "expected"),
    [
        ((1, 384, 768), (1, 384, 12, 64), (1, 128, 768), (1, 128, 12, 64)),
        ((1, 384, 768), (384, 768), (1, 128, 768), (128, 768)),
        ((384, 768), (1, 384, 768), (128, 768), (1, 128, 768)),
        ((1, 3, 8, 8), (1, 192), (1, 3, 16, 16), (1, 768)),
    ],
)
def test_a_reshape_follows_its_input(
    source: tuple[int, ...], target: tuple[int, ...], now: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert rescaled_reshape(source, target, now) == expected


def test_a_reshape_that_cannot_follow_says_so() -> None:
    with pytest.raises(RescaleError, match="cannot follow"):
        rescaled_reshape((4,), (2, 2), (5,))


def test_runs_of_equal_products_are_as_short_as_possible() -> None:
    runs = aligned_runs((2, 6, 4, 5), (2, 3, 8, 5))

    assert [(list(left), list(right)) for left, right in runs] == [([0], [0]), ([1, 2], [1, 2]), ([3], [3])]


def test_different_numbers_of_elements_do_not_align() -> None:
    with pytest.raises(RescaleError, match="different numbers of elements"):
        aligned_runs((2, 3), (7,))


def test_a_target_follows_the_dimensions_that_it_had_in_common() -> None:
    assert rescaled_like((1, 8, 8), (4, 8, 8), (3, 1, 8, 8)) == (3, 4, 8, 8)


def test_a_position_table_is_cut_to_the_length() -> None:
    assert broadcast_conflict([(1, 384, 768), (1, 384, 768)], [(1, 128, 768), (1, 384, 768)], 1) == (
        1,
        128,
        768,
    )
    assert broadcast_conflict([(1, 384, 768), (768,)], [(4, 384, 768), (768,)], 1) is None


def test_a_causal_mask_stays_square() -> None:
    assert broadcast_conflict([(384, 384), (1, 1, 1, 384)], [(384, 384), (1, 1, 1, 192)], 0) == (192, 192)
    assert broadcast_conflict([(384, 384), (384, 384)], [(384, 384), (384, 192)], 0) == (384, 192)
