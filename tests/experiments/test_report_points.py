"""What a report shows of single points: looks, rooflines, critical-path shares, the base machine, samples."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.experiments.report.build import unit_kinds
from dsascape.experiments.report.critical import pace_shares, representative_points
from dsascape.experiments.report.frames import against_base, axes_of, evenly, pareto_front, prepared
from dsascape.experiments.report.looks import STARTUP, kind_looks, kind_of_pace, policy_looks
from dsascape.experiments.report.page import render_report
from dsascape.experiments.report.roofline import rooflines
from dsascape.experiments.report.sample import MOST_POINTS, listed, within_chart_limits
from dsascape.experiments.report.tables import winner_heats
from dsascape.hw_models import ClusteredDsa, load_hardware
from tests.experiments.studies import BUFFERS, Reader, drawn_study, failure, point, study, two_by_two

UNITS = ("matrix", "vector", "scalar")
SMALL, LARGE = ({"local_buffer.capacity": value} for value in BUFFERS["local_buffer.capacity"])


class TestLooks:
    def test_a_policy_has_the_same_look_whatever_else_is_there(self) -> None:
        alone = policy_looks(["graphturbo"])["graphturbo"]
        every = policy_looks(["unfused", "fixed-pattern", "astitch", "graphturbo(order=bfs)", "graphturbo", "mine"])

        assert every["graphturbo"] == alone
        assert policy_looks(["mine"])["mine"] == every["mine"]

    def test_options_keep_the_colour_and_change_the_marker(self) -> None:
        names = ["graphturbo", "graphturbo(order=bfs)", "graphturbo(order=dfs)"]
        looks = policy_looks(names)

        assert {look.colour for look in looks.values()} == {looks["graphturbo"].colour}
        assert len({look.marker for look in looks.values()}) == 3
        assert policy_looks(names[1:2])[names[1]] == looks[names[1]]

    def test_looks_of_further_policies_differ_in_colour_and_marker(self) -> None:
        looks = policy_looks(["unfused", "fixed-pattern", "astitch", "graphturbo"])

        assert len({look.colour for look in looks.values()}) == len({look.marker for look in looks.values()}) == 4

    def test_resources_keep_theirs_too(self) -> None:
        assert kind_looks(["matrix", "ddr"])["ddr"] == kind_looks(["ddr", "odd", "launch"])["ddr"]
        assert list(kind_looks(["odd", "matrix", "ddr"])) == ["ddr", "matrix", "odd"]

    @given(units=st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True), st.sampled_from(UNITS)))
    def test_units_of_any_name_have_the_colour_of_their_kind(self, units: dict[str, str]) -> None:
        looks = kind_looks([*units, "ddr"], units)

        assert {name: looks[name].colour for name in units} == {
            name: kind_looks([kind])[kind].colour for name, kind in units.items()
        }

    @given(name=st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True))
    def test_no_resource_is_grey(self, name: str) -> None:
        assert kind_looks([name])[name].colour != policy_looks(["unfused"])["unfused"].colour
        assert kind_of_pace(name) != "other"

    def test_two_units_of_one_kind_differ_in_their_hatch(self) -> None:
        looks = kind_looks(["left", "right"], {"left": "vector", "right": "vector"})

        assert looks["left"].colour == looks["right"].colour
        assert looks["left"].hatch != looks["right"].hatch


def test_shares_of_units_are_shown_under_their_kinds() -> None:
    row = point("a", 0.001) | {"critical.matrix": np.nan, "critical.pe_grid": 0.2}
    shares = pace_shares(prepared(pd.DataFrame([row]), ()), {"pe_grid": "matrix"})

    assert shares.iloc[0].to_dict() == {"ddr": 0.7, "matrix": 0.2, STARTUP: 0.1}


def test_a_name_with_two_kinds_has_none() -> None:
    """Unit ``x`` is a matrix unit of one machine and a vector unit of the other."""
    spec = load_hardware("stcp920", ClusteredDsa)
    matrix, vector = spec.units["matrix"], spec.units["vector"]
    one, other = (
        spec.model_copy(update={"units": units}) for units in ({"x": matrix, "y": vector}, {"x": vector, "z": matrix})
    )

    assert unit_kinds([one, other]) == {"y": "vector", "z": "matrix"}


def test_a_roofline_by_hand() -> None:
    """A thousand million multiply-accumulates over 100 MB are 20 operations a byte.

    At 100 GB/s memory allows 2 Top/s, less than the peak of 20; done in 2 ms they are 1 Top/s, half of that.
    """
    (row,) = rooflines(prepared(pd.DataFrame([point("a", 0.002)]), ())).to_dict("records")

    assert row["intensity"] == pytest.approx(20)
    assert row["operations_per_s"] == pytest.approx(1e12)
    assert (row["bound_per_s"], row["limit"]) == (pytest.approx(2e12), "off-chip bandwidth")
    assert row["share"] == pytest.approx(0.5)
    little = point("a", 0.002) | {"traffic_bytes.ddr": 1e6}
    (dense,) = rooflines(prepared(pd.DataFrame([little]), ())).to_dict("records")
    assert (dense["bound_per_s"], dense["limit"]) == (pytest.approx(2e13), "arithmetic")


def test_results_without_what_a_roofline_needs_have_none() -> None:
    rows = [{name: value for name, value in row.items() if name != "macs"} for row in two_by_two()]

    assert rooflines(prepared(pd.DataFrame(rows), BUFFERS)).empty
    assert "Roofline" not in Reader(render_report(study(rows))).text


def test_shares_of_the_critical_path_are_grouped_and_sum_to_one() -> None:
    row = point("a", 0.001) | {"critical.ddr": 0.5, "critical.matrix": np.nan, "critical.dma_load-startup": 0.25}
    row |= {"critical.dma_store-startup": 0.125, "critical.odd": 0.125}
    shares = pace_shares(prepared(pd.DataFrame([row]), ()))

    assert shares.iloc[0].to_dict() == {"ddr": 0.5, STARTUP: 0.375, "odd": 0.125}


def test_bars_are_of_the_fastest_point_of_each_policy_and_of_others_evenly() -> None:
    made = [point("a", float(n)) for n in range(1, 31)] + [point("b", 99.0)]
    chosen = representative_points(prepared(pd.DataFrame(made), ()), 6)

    assert sorted(chosen["latency_s"]) == [1.0, 2.0, 11.0, 21.0, 30.0, 99.0]


class TestTies:
    def test_points_as_fast_as_the_fastest_are_counted(self) -> None:
        made = [point("a", 1.0), point("b", 1.0), point("c", 2.0), point("a", 1.0, "bert")]
        page = render_report(study(made, {}))

        assert "tied with" in page
        assert re.findall(r"<td class=\"n\">(1 other point|none)</td>", page) == ["1 other point", "none"]
        assert "tied with" not in render_report(study([*made[1:]], {}))

    def test_a_tie_has_the_marks_of_all_winners(self) -> None:
        axes = {"x": ("1", "2"), "y": ("1", "2")}
        made = [point(p, 1.0, x=x, y=y) for p in ("fixed-pattern", "astitch") for x in "12" for y in "12"]
        looks = policy_looks(["fixed-pattern", "astitch"])
        points = prepared(pd.DataFrame(made), axes)

        (table,) = winner_heats(points, ("x", "y"), "fixed-pattern", axes, looks, "simulated")

        marks = "".join(look.glyph for look in looks.values())
        assert {cell.text.split()[0] for row in table.rows for cell in row[1:]} == {marks}
        assert {cell.look for row in table.rows for cell in row[1:]} == {None}


class TestCharts:
    def test_every_axis_has_a_label_and_those_of_figures_a_unit(self) -> None:
        muted = r"<text[^>]*fill: var\(--muted\)[^>]*>([^<]*[a-z]{3}[^<]*)</text>"
        labels = re.findall(muted, render_report(drawn_study()))
        figure = re.compile("latency|energy|area|traffic|time|operations")

        assert len(labels) > 15
        assert [each for each in labels if figure.search(each) and "[" not in each] == []

    def test_panels_of_one_row_are_all_logarithmic_or_none_is(self) -> None:
        """Latencies of 1, 10 and 100 ms stand evenly on a logarithmic axis only; those of a hundredfold ask for one."""
        swept = {"clusters": ("1", "2", "3")}
        calm = [point("a", 2.0**n, "calm", clusters=str(n + 1)) for n in range(3)]
        wild = [point("a", 10.0**n, "wild", clusters=str(n + 1)) for n in range(3)]

        assert even_steps(render_report(study([*calm, *wild], swept)), (0, 1, 2))
        assert even_steps(render_report(study([*calm, *wild], swept)), (3, 4, 5))
        assert not even_steps(render_report(study(calm, swept)), (0, 1, 2))

    def test_categories_stand_by_value(self) -> None:
        """The network that gains most stands first, and so does the policy."""
        made = [point(policy, latency, model) for model, pace in (("calm", 2.0), ("wild", 9.0)) for policy, latency in
                (("fixed-pattern", 9.0), ("a", 8.0), ("b", 9.0 / pace))]  # fmt: skip
        chart = render_report(study(made, {})).partition('<section id="speedup">')[2].partition("</svg>")[0]
        words = re.findall(r"<text[^>]*>([^<]+)</text>", chart)

        assert [word for word in words if word in ("calm", "wild")] == ["wild", "calm"]
        assert [word for word in words if word in ("a", "b")] == ["b", "a"]


def even_steps(page: str, points: tuple[int, int, int]) -> bool:
    """Whether three points stand at equal distances above each other in the chart over the sweep."""
    chart = page.partition('<section id="sweep">')[2].partition("</figure>")[0]
    heights = dict(re.findall(r'<circle class="spot" data-point="(\d+)" cx="[^"]+" cy="([^"]+)"', chart))
    low, middle, high = (float(heights[str(number)]) for number in points)
    return abs((low - middle) - (middle - high)) < 1


class TestBaseMachine:
    def test_points_are_compared_with_the_same_network_and_policy(self) -> None:
        rows = [row | {"is_base": int(row["local_buffer.capacity"] == "64 KiB")} for row in two_by_two()]

        assert list(against_base(prepared(pd.DataFrame(rows), BUFFERS))) == [1.0, 1.0, 4.0, 1.0]

    def test_of_two_batches_each_has_its_own_base(self) -> None:
        rows = [point("a", latency, batch=batch, is_base=base) for latency, batch, base in
                ((1.0, 1, 1), (4.0, 8, 1), (0.5, 1, 0), (1.0, 8, 0))]  # fmt: skip

        assert list(against_base(prepared(pd.DataFrame(rows), ()))) == [1.0, 1.0, 2.0, 4.0]

    def test_failed_ones_compare_with_nothing(self) -> None:
        rows = [failure("a", "x", is_base=1, **SMALL), point("a", 1.0, is_base=0, **LARGE)]

        assert list(against_base(prepared(pd.DataFrame(rows), BUFFERS)).isna()) == [True]

    @pytest.mark.parametrize(
        ("base", "said"),
        [(0, "is not among the points that ran"), (None, "do not say which points are on the unmodified base machine")],
    )
    def test_the_page_says_if_it_is_not_among_the_points(self, base: int | None, said: str) -> None:
        rows = [row | ({} if base is None else {"is_base": base}) for row in two_by_two()]

        assert said in Reader(render_report(study(rows))).text


class TestLargeStudies:
    def test_a_sample_has_what_the_page_speaks_of(self) -> None:
        random = np.random.default_rng(0)
        rows = [
            point(f"p{n % 4}", float(latency), energy_j=float(energy), **{"local_buffer.capacity": f"{n % 9} KiB"})
            for n, (latency, energy) in enumerate(random.uniform(1, 2, (MOST_POINTS * 3, 2)))
        ]
        points = prepared(pd.DataFrame(rows), BUFFERS)
        axes = axes_of(points, BUFFERS)
        chosen = listed(points, points, axes, ("latency_s", "energy_j"))

        assert len(chosen) == MOST_POINTS
        assert set(points.index[pareto_front(points, ("latency_s", "energy_j"))]) <= set(chosen.index)
        assert set(points.groupby("policy")["latency_s"].idxmin()) <= set(chosen.index)
        assert list(chosen.index) == sorted(chosen.index)

    def test_a_small_study_is_there_whole(self) -> None:
        points = prepared(pd.DataFrame(two_by_two()), BUFFERS)

        assert len(listed(points, points, BUFFERS, ("latency_s",))) == 4
        drawn, axes, left_out = within_chart_limits(points, BUFFERS)
        assert (len(drawn), axes, left_out) == (4, BUFFERS, "")

    def test_many_networks_and_values_are_drawn_in_part_and_said_to_be(self) -> None:
        values = {"local_buffer.capacity": tuple(f"{n} KiB" for n in range(1, 101))}
        sizes = [f"{n % 100 + 1} KiB" for n in range(400)]
        rows = [point("a", 1.0 + n, f"net{n % 40}", **{"local_buffer.capacity": size}) for n, size in enumerate(sizes)]
        page = render_report(study(rows, values))

        left_out = "Charts show the first 12 of 40 networks and 24 of 100 values of local_buffer.capacity"
        assert left_out in Reader(page).text
        assert len(page) < 2_000_000

    def test_positions_spread_evenly_have_both_ends(self) -> None:
        assert list(evenly(5, 9)) == [0, 1, 2, 3, 4]
        assert evenly(101, 3) == [0, 50, 100]
        assert evenly(10, 0) == []

    def test_the_front_is_the_points_that_none_dominates(self) -> None:
        random = np.random.default_rng(1)
        costs = random.integers(0, 6, (60, 3)).astype(float)
        costs[5, 1] = np.nan
        frame = pd.DataFrame(costs, columns=["a", "b", "c"])
        slow = [
            not np.isnan(cost).any()
            and not any((other <= cost).all() and (other < cost).any() for other in costs if not np.isnan(other).any())
            for cost in costs
        ]

        assert list(pareto_front(frame, ("a", "b", "c"))) == slow
