"""Sentences in a report state the right numbers, with three digits and a unit prefix."""

import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.experiments.report.frames import influence, prepared
from dsascape.experiments.report.words import HELD_BYTES, TIMES, answer, quantity, significant, speed_words
from dsascape.hw_models.text.quantities import BYTES
from tests.experiments.studies import BUFFERS, failure, point, two_by_two


class TestWords:
    def test_the_answer_compares_policies_and_names_the_extremes(self) -> None:
        points = prepared(pd.DataFrame(two_by_two()), BUFFERS)

        assert answer(points, BUFFERS) == [
            "graphturbo is 4.00 times as fast as fixed-pattern in the geometric mean"
            " (2.00 to 8.00 over 2 cases).",
            f"The gain of graphturbo is largest for resnet50 at local_buffer.capacity = 1 MiB (8.00{TIMES})"
            f" and smallest for resnet50 at local_buffer.capacity = 64 KiB (2.00{TIMES}).",
            "As local_buffer.capacity goes from 64 KiB to 1 MiB, its lead grows"
            f" (2.00{TIMES} to 8.00{TIMES}).",
            f"Mean latency changes most with local_buffer.capacity (2.00{TIMES}).",
            "The largest share of points is bound by ddr (2 of 4).",
        ]

    def test_a_baseline_that_nothing_beats_is_said_to_be_the_fastest(self) -> None:
        rows = [point("fixed-pattern", 1.0), point("unfused", 4.0), point("astitch", 2.0)]

        assert answer(prepared(pd.DataFrame(rows), ()), {})[0] == (
            "On the whole no policy beats fixed-pattern: astitch is 2.00 times slower than fixed-pattern"
            " and unfused is 4.00 times slower than it."
        )

    @pytest.mark.parametrize(
        ("unfused_s", "sentence"),
        [
            ((2.0, 4.0), f"The gain of astitch is largest for b (4.00{TIMES}) and smallest for a (2.00{TIMES})."),
            ((0.5, 4.0), f"Most is gained by astitch for b (4.00{TIMES}), and most lost for a (0.500{TIMES})."),
            ((0.5, 0.8), f"Least is lost by astitch for b (0.800{TIMES}), and most for a (0.500{TIMES})."),
        ],
    )
    def test_a_loss_is_not_called_a_gain(self, unfused_s: tuple[float, float], sentence: str) -> None:
        rows = [
            point(policy, latency_s, model)
            for model, slow_s in zip("ab", unfused_s, strict=True)
            for policy, latency_s in (("unfused", slow_s), ("astitch", 1.0))
        ]

        assert sentence in answer(prepared(pd.DataFrame(rows), ()), {})

    def test_failures_are_counted(self) -> None:
        points = prepared(pd.DataFrame([*two_by_two(), failure("astitch", "too large")]), BUFFERS)

        assert answer(points, BUFFERS)[-1] == "1 of 5 points gave no figures and is left out."

    def test_one_valid_point_says_nothing_about_what_was_swept(self) -> None:
        rows = [
            point("unfused", 1.0, **{"local_buffer.capacity": "1 MiB"}),
            failure("unfused", "too large", **{"local_buffer.capacity": "64 KiB"}),
        ]

        assert not [text for text in answer(prepared(pd.DataFrame(rows), BUFFERS), BUFFERS) if "depends" in text]

    def test_points_that_differ_in_two_quantities_say_nothing_about_either(self) -> None:
        axes = {"clusters": ("1", "2"), "clock": ("1 GHz", "2 GHz")}
        rows = [point("a", 1.0, clusters="1", clock="1 GHz"), point("a", 4.0, clusters="2", clock="2 GHz")]

        assert not [text for text in answer(prepared(pd.DataFrame(rows), axes), axes) if "latency" in text]
        assert influence(prepared(pd.DataFrame(rows), axes), axes) == {}

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0.00124, "1.24 ms"), (3.0, "3.00 s"), (0.0, "0 s"), (2.5e-7, "250 ns"), (1500.0, "1.50 ks")],
    )
    def test_quantities_have_three_digits_and_a_prefix(self, value: float, text: str) -> None:
        assert quantity(value, "s") == text

    @pytest.mark.parametrize(
        ("least", "greatest", "text"),
        [
            (2, 8, "2.00 to 8.00 times as fast as A"),
            (0.0215, 0.0508, "19.7 to 46.5 times slower than A"),
            (0.5, 3, "from 2.00 times slower to 3.00 times as fast as A"),
            (1, 1, "as fast as A"),
            (0.9999, 1.0001, "as fast as A"),
            (0.25, 0.25, "4.00 times slower than A"),
            (1, 2, "1.00 to 2.00 times as fast as A"),
        ],
    )
    def test_speed_ups_below_one_are_factors_of_slowness(self, least: float, greatest: float, text: str) -> None:
        assert speed_words(least, greatest, "A") == text

    @given(st.lists(st.floats(1e-5, 1e5), min_size=2, max_size=2).map(sorted))
    def test_no_factor_of_speed_is_below_one(self, ends: list[float]) -> None:
        told = re.findall(r"[\d.,e+-]*\d[\d.,e+]*", speed_words(ends[0], ends[1], "A"))

        assert all(float(factor.replace(",", "")) >= 1 for factor in told)

    @given(st.floats(1, 2**45))
    def test_bytes_held_are_in_binary_units_and_bytes_moved_in_decimal_ones(self, size: float) -> None:
        held, moved = quantity(size, HELD_BYTES), quantity(size, "B")

        assert re.fullmatch(r"[\d.,e+]+ ([KMG]i)?B", held)
        assert re.fullmatch(r"[\d.,e+]+ [kMGT]?B", moved)
        assert float(held.split()[0].replace(",", "")) * BYTES[held.split()[1]] == pytest.approx(size, rel=0.01)

    def test_large_numbers_are_grouped(self) -> None:
        assert significant(1234567.0) == "1,234,567"
