"""Cache lines of boxes, and hit rates of working sets, on small numbers."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models.caches.lines import (
    Array,
    CacheShape,
    Lines,
    box_lines,
    random_placement_hit_rate,
    random_replacement_hit_rate,
)
from tests.hw_models.caches.nests import ELEMENT_BYTES, array

LINE_BYTES = 64


class TestBoxes:
    """A line has sixteen elements."""

    def test_a_row_of_a_tile_takes_the_lines_that_it_covers(self) -> None:
        assert box_lines(array(8, 64), (1, 32), LINE_BYTES) == Lines(2.0)
        assert box_lines(array(8, 64), (3, 16), LINE_BYTES) == Lines(3.0, runs=3, pitch_lines=4, jumps=3)

    def test_lines_of_rows_that_leave_some_out_do_not_follow_each_other(self) -> None:
        assert box_lines(array(8, 64), (3, 32), LINE_BYTES).jumps == 3  # of six lines, one of each row
        assert box_lines(array(8, 64), (3, 64), LINE_BYTES).jumps == 0
        assert box_lines(array(64, 8), (3, 4), LINE_BYTES).jumps == 0  # rows of half a line

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
    """With random replacement, part of a cyclic working set larger than the cache still hits."""

    def test_a_working_set_that_fits_always_hits(self) -> None:
        assert random_replacement_hit_rate(0.5) == random_replacement_hit_rate(1.0) == 1

    @given(times=st.floats(1.05, 20))
    def test_a_line_survives_as_many_replacements_as_there_are_misses(self, times: float) -> None:
        share = random_replacement_hit_rate(times)

        assert 0 <= share < 1
        assert share == pytest.approx(math.exp(-(1 - share) * times), abs=1e-3)

    def test_a_working_set_of_twice_the_capacity_hits_a_fifth(self) -> None:
        assert random_replacement_hit_rate(2.0) == pytest.approx(0.2032, abs=1e-4)

    @given(times=st.floats(0, 20), more=st.floats(0, 20))
    def test_hit_rates_fall_with_the_working_set_under_random_placement(self, times: float, more: float) -> None:
        rate = random_placement_hit_rate(times)

        assert 0 <= random_placement_hit_rate(times + more) <= rate <= random_placement_hit_rate(0) == 1

    def test_lines_by_chance_are_lost_before_the_cache_is_full(self) -> None:
        # the sixteen ways of a set get sixteen lines or fewer besides one with Poisson's chance: 0.467 of the lines
        draws = random.Random(1)
        times, sets, ways = 1.0, 4000, 16
        filled = [0] * sets
        for _ in range(round(times * sets * ways)):
            filled[draws.randrange(sets)] += 1
        kept = sum([lines * random_replacement_hit_rate(lines / ways) ** 3 for lines in filled]) / (sets * ways * times)

        assert random_placement_hit_rate(times) == pytest.approx(kept, abs=0.01)
        assert random_placement_hit_rate(0.25) == 1

    def test_rows_in_too_few_sets_push_out_a_part_of_each_other(self) -> None:
        # 14 rows of a line, all in one set of 12 ways
        rows = Lines(14.0, runs=14, pitch_lines=64)

        assert rows.conflict_share(CacheShape(768, 64)) == 1
        assert rows.conflict_share(CacheShape(768, 64, is_lru=False)) == pytest.approx(0.27, abs=0.01)
        assert Lines(12.0, runs=12, pitch_lines=64).conflict_share(CacheShape(768, 64)) == 0
