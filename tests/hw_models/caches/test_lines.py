"""Lines of boxes, and what a cache still has of them, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw_models.caches.lines import Array, CacheShape, Lines, box_lines, found_again
from tests.hw_models.caches.nests import ELEMENT_BYTES, array

LINE_BYTES = 64


class TestBoxes:
    """A line has sixteen elements."""

    def test_a_row_of_a_tile_takes_the_lines_that_it_covers(self) -> None:
        assert box_lines(array(8, 64), (1, 32), LINE_BYTES) == Lines(2.0)
        assert box_lines(array(8, 64), (3, 16), LINE_BYTES) == Lines(3.0, runs=3, pitch_lines=4)

    def test_whole_rows_are_one_run(self) -> None:
        assert box_lines(array(8, 24), (4, 24), LINE_BYTES).count == 6.0

    def test_boxes_that_begin_inside_lines_take_one_more_now_and_then(self) -> None:
        # eight elements begin with a line or in its middle: never across; twelve at four places, two of them across
        assert box_lines(array(4, 64), (1, 8), LINE_BYTES).count == 1.0
        assert box_lines(array(4, 60), (1, 12), LINE_BYTES).count == 1.5

    def test_packed_arrays_take_their_bytes(self) -> None:
        packed = Array((64, 64), ELEMENT_BYTES, is_packed=True)

        assert box_lines(packed, (64, 8), LINE_BYTES).count == 32.0


class TestCachesThatReplaceAnyLine:
    """What is used in turns and is more than a cache holds is not all gone."""

    def test_what_fits_is_found(self) -> None:
        assert found_again(0.5) == found_again(1.0) == 1

    @given(times=st.floats(1.05, 20))
    def test_a_line_survives_as_many_replacements_as_there_are_misses(self, times: float) -> None:
        share = found_again(times)

        assert 0 <= share < 1
        assert share == pytest.approx(math.exp(-(1 - share) * times), abs=1e-3)

    def test_of_twice_as_much_a_fifth_is_found(self) -> None:
        assert found_again(2.0) == pytest.approx(0.2032, abs=1e-4)

    def test_rows_in_too_few_sets_push_out_a_part_of_each_other(self) -> None:
        # 14 rows of a line, all in one set of 12 ways
        rows = Lines(14.0, runs=14, pitch_lines=64)

        assert rows.pushed_out(CacheShape(768, 64)) == 1
        assert rows.pushed_out(CacheShape(768, 64, forgets_oldest=False)) == pytest.approx(0.27, abs=0.01)
        assert Lines(12.0, runs=12, pitch_lines=64).pushed_out(CacheShape(768, 64)) == 0
