"""An extent is cut into equal parts, or into nearly equal ones, of which none is empty and the last is shorter."""

from hypothesis import given
from hypothesis import strategies as st

from dsascape.scheduler.dsa.placing.binding import plain_binding
from dsascape.scheduler.parts import filled, splits_evenly_enough

EXTENTS, PARTS, PADDINGS = st.integers(1, 400), st.integers(1, 64), st.floats(0, 1)


@given(EXTENTS, PARTS, PADDINGS)
def test_a_good_cut_has_no_empty_part_and_little_padding(extent: int, parts: int, most_padding: float) -> None:
    size = -(-extent // parts)
    sizes = [min(size, extent - place * size) for place in range(parts)]

    good = min(sizes) > 0 and sum([size] * parts) <= extent * (1 + most_padding)
    assert splits_evenly_enough(extent, parts, most_padding) is good


@given(EXTENTS, PARTS)
def test_without_padding_only_divisors_cut_well(extent: int, parts: int) -> None:
    assert splits_evenly_enough(extent, parts, 0.0) is (extent % parts == 0)


def test_197_tokens_go_to_eight_cores_25_at_a_time() -> None:
    binding = plain_binding((1, 197, 768), range(3), 8, most_padding=0.125)

    assert binding.factors == (1, 8, 1)
    assert binding.part_extents((1, 197, 768)) == (1, 25, 768)
    assert [binding.part(((0, 1), (0, 197), (0, 768)), core)[1] for core in (0, 6, 7)] == [
        (0, 25),
        (150, 175),
        (175, 197),
    ]
    assert plain_binding((1, 197, 768), range(3), 8).factors == (1, 1, 8)


def test_seven_rows_are_not_cut_among_eight_cores() -> None:
    assert plain_binding((7, 64), range(2), 8, most_padding=0.125).factors == (1, 8)


def test_filled_is_the_share_of_equal_parts_that_there_is() -> None:
    assert filled((197, 12), (25, 3)) == 197 / 200
    assert filled((), ()) == 1
