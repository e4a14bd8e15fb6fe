"""A report states the right numbers, escapes what comes from data, fetches nothing, and takes odd studies."""

import os
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
import pytest

from experiments.report import Span, Study, Timeline, render_report
from experiments.report.frames import (
    axes_of,
    best_points,
    bound_by,
    cut,
    failed,
    influence,
    is_grid,
    means,
    pareto_front,
    policies_in,
    prepared,
    ratio_summary,
    speedups,
    trend,
)
from experiments.report.gantt import READABLE, RECTANGLES, thinned
from experiments.report.words import TIMES, answer, quantity, significant

BUFFERS = {"local_buffer.capacity": ("64 KiB", "1 MiB")}
HOSTILE = (
    "<script>alert(1)</script>",
    "$x^2$",
    "\"&'<u>",
    "a--><img src=x onerror=alert(1)>",
    "#fe0001 $\\frac{1}$",
)


def point(policy: str, latency_s: float, model: str = "resnet50", **more: object) -> dict[str, object]:
    """One row as the experiments write it."""
    row: dict[str, object] = {
        "model": model,
        "hardware": "dsa",
        "policy": policy,
        "batch": 8,
        "dtype": "fp16",
        "latency_s": latency_s,
        "throughput_per_s": 8 / latency_s,
        "energy_j": latency_s * 10,
        "area_mm2": 100.0,
        "kernels": 20,
        "bottleneck": "ddr",
        "simulated_events": 1000,
        "wall_s": 0.1,
        "error": None,
        "traffic_bytes.ddr": 1e8,
        "traffic_bytes.local_buffer": 2e9,
        "utilisation.matrix": 0.4,
        "utilisation.dma_load": 0.9,
        "peak_occupancy_bytes.local_buffer": 6e4,
        "tensor_scopes.ddr": 12,
        "tensor_scopes.local_buffer": 4,
    }
    return row | more


def failure(policy: str, error: str, **more: object) -> dict[str, object]:
    blank = {key: np.nan for key, value in point(policy, 1.0).items() if isinstance(value, float)}
    return point(policy, 1.0) | blank | {"bottleneck": None, "error": error} | more


def study(rows: Sequence[dict[str, object]], swept: Mapping[str, tuple[str, ...]] = BUFFERS) -> Study:
    return Study(
        name="buffer-sweep",
        question="Does it pay?",
        hardware_name="dsa",
        hardware_rows=(("clusters", "4"), ("local_buffer.capacity", "256 KiB")),
        swept=swept,
        objectives=("latency_s", "energy_j", "area_mm2"),
        frame=pd.DataFrame(rows),
        timelines=(),
        provenance={"dsascape": "0.1.0", "git commit": "abc"},
    )


def grid(
    models: Sequence[str], policies: Sequence[str], swept: Mapping[str, tuple[str, ...]]
) -> list[dict[str, object]]:
    """Later policies and later values are faster."""
    return [
        point(policy, 0.08 / (1 + rank) / (1 + sum(place)), model, **dict(zip(swept, values, strict=True)))
        for model in models
        for place, values in zip(
            product(*(range(len(texts)) for texts in swept.values())), product(*swept.values()), strict=True
        )
        for rank, policy in enumerate(policies)
    ]


def two_by_two() -> list[dict[str, object]]:
    """Two policies over two buffers: twice as fast with the small one, eight times with the large one."""
    return [
        point("graphturbo", 0.004, **{"local_buffer.capacity": "64 KiB"}, bottleneck="matrix"),
        point("fixed-pattern", 0.008, **{"local_buffer.capacity": "64 KiB"}),
        point("graphturbo", 0.001, **{"local_buffer.capacity": "1 MiB"}, bottleneck="matrix"),
        point("fixed-pattern", 0.008, **{"local_buffer.capacity": "1 MiB"}),
    ]


class TestComparisons:
    points = prepared(pd.DataFrame(two_by_two()), BUFFERS)

    def test_the_fixed_pattern_is_the_baseline_wherever_it_stands(self) -> None:
        assert policies_in(self.points) == ("fixed-pattern", "graphturbo")

    def test_the_first_policy_with_figures_is_the_baseline_otherwise(self) -> None:
        rows = [failure("fixed-pattern", "too large"), point("b", 1.0), point("a", 1.0)]

        assert policies_in(prepared(pd.DataFrame(rows), ())) == ("b", "fixed-pattern", "a")

    def test_speedups_compare_within_a_case(self) -> None:
        ratios = speedups(self.points, "fixed-pattern", BUFFERS)

        assert ratios["speedup"].tolist() == [2.0, 1.0, 8.0, 1.0]

    def test_a_case_without_its_baseline_has_no_speedup(self) -> None:
        assert len(speedups(self.points.iloc[:3], "fixed-pattern", BUFFERS)) == 2

    def test_a_summary_is_geometric(self) -> None:
        summary = ratio_summary(speedups(self.points, "fixed-pattern", BUFFERS), ["network", "policy"])

        turbo = summary.loc[summary["policy"] == "graphturbo"].iloc[0]
        assert turbo["geomean"] == pytest.approx(4.0)
        assert (turbo["least"], turbo["greatest"], turbo["points"]) == (2.0, 8.0, 2)

    def test_a_trend_reads_both_ends_of_an_axis(self) -> None:
        ratios = speedups(self.points, "fixed-pattern", BUFFERS)

        ends = trend(ratios.loc[ratios["policy"] == "graphturbo"], "local_buffer.capacity", BUFFERS)

        assert ends == pytest.approx((2.0, 8.0))

    def test_influence_is_the_factor_between_mean_latencies(self) -> None:
        assert influence(self.points, BUFFERS) == pytest.approx({"local_buffer.capacity": 2.0})

    def test_the_best_point_is_the_fastest(self) -> None:
        assert best_points(self.points)["latency_s"].tolist() == [0.001]

    def test_bottlenecks_are_counted_per_group(self) -> None:
        counts = bound_by(self.points, "policy")

        assert counts.to_dict("index") == {
            "graphturbo": {"ddr": 0, "matrix": 2},
            "fixed-pattern": {"ddr": 2, "matrix": 0},
        }

    def test_means_flatten_a_dictionary(self) -> None:
        assert means(self.points, "utilisation.").iloc[0].to_dict() == {
            "network": "resnet50",
            "policy": "graphturbo",
            "matrix": 0.4,
            "dma_load": 0.9,
        }


class TestParetoFront:
    def test_points_that_another_beats_are_not_in_front(self) -> None:
        frame = pd.DataFrame({"latency_s": [1.0, 2.0, 3.0, 2.0], "energy_j": [3.0, 2.0, 1.0, 2.5]})

        assert pareto_front(frame, ["latency_s", "energy_j"]).tolist() == [True, True, True, False]

    def test_equal_points_are_in_front_together(self) -> None:
        frame = pd.DataFrame({"latency_s": [1.0, 1.0], "energy_j": [1.0, 1.0]})

        assert pareto_front(frame, ["latency_s", "energy_j"]).tolist() == [True, True]

    def test_throughput_is_to_be_large(self) -> None:
        frame = pd.DataFrame({"throughput_per_s": [10.0, 20.0], "energy_j": [1.0, 1.0]})

        assert pareto_front(frame, ["throughput_per_s", "energy_j"]).tolist() == [False, True]

    def test_a_point_without_figures_is_out_and_beats_nobody(self) -> None:
        frame = pd.DataFrame({"latency_s": [np.nan, 1.0], "energy_j": [0.0, 1.0]})

        assert pareto_front(frame, ["latency_s", "energy_j"]).tolist() == [False, True]


class TestPreparing:
    def test_a_model_run_with_several_batches_is_several_networks(self) -> None:
        rows = [point("a", 1.0, batch=1), point("a", 1.0, batch=8), point("a", 1.0, "bert", batch=8)]

        assert prepared(pd.DataFrame(rows), ())["network"].tolist() == [
            "resnet50 (batch 1)",
            "resnet50 (batch 8)",
            "bert",
        ]

    def test_a_swept_batch_is_no_part_of_the_network(self) -> None:
        swept = {"batch": ("1", "8")}
        points = prepared(pd.DataFrame([point("a", 1.0, batch=1), point("a", 1.0, batch=8)]), swept)

        assert set(points["network"]) == {"resnet50"}
        assert axes_of(points, swept) == swept

    def test_axes_keep_the_stated_order_and_drop_what_does_not_vary(self) -> None:
        swept = {"clusters": ("8", "2", "4"), "clock": ("1 GHz",)}
        rows = [point("a", 1.0, clusters=clusters, clock="1 GHz") for clusters in ("2", "4", "8")]

        assert axes_of(prepared(pd.DataFrame(rows), swept), swept) == {"clusters": ("8", "2", "4")}

    def test_machines_that_differ_in_nothing_swept_are_an_axis(self) -> None:
        points = prepared(pd.DataFrame([point("a", 1.0), point("a", 2.0, hardware="gpu")]), ())

        assert axes_of(points, {}) == {"hardware": ("dsa", "gpu")}

    def test_infinite_and_missing_latencies_count_as_failed(self) -> None:
        points = prepared(pd.DataFrame([point("a", np.inf), point("a", np.nan), point("a", 1.0)]), ())

        assert len(failed(points)) == 2

    def test_other_quantities_are_held_at_their_middle_value_on_a_grid(self) -> None:
        swept = {"clusters": ("2", "4"), "clock": ("1 GHz", "2 GHz", "3 GHz")}
        points = prepared(pd.DataFrame(grid(["net"], ["a"], swept)), swept)

        line = cut(points, swept, ["clusters"])

        assert is_grid(points, swept)
        assert line["clock"].tolist() == ["2 GHz", "2 GHz"]

    def test_the_fastest_point_stands_for_a_value_off_the_grid(self) -> None:
        swept = {"clusters": ("2", "4"), "clock": ("1 GHz", "2 GHz", "3 GHz")}
        points = prepared(pd.DataFrame(grid(["net"], ["a"], swept)[:-1]), swept)

        line = cut(points, swept, ["clusters"])

        assert not is_grid(points, swept)
        assert line["clock"].tolist() == ["3 GHz", "2 GHz"]


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
            "On the whole no policy beats fixed-pattern: astitch is 0.500 times as fast as fixed-pattern"
            " and unfused 0.250 times."
        )

    def test_failures_are_counted(self) -> None:
        points = prepared(pd.DataFrame([*two_by_two(), failure("astitch", "too large")]), BUFFERS)

        assert answer(points, BUFFERS)[-1] == "1 of 5 points gave no figures and is left out."

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0.00124, "1.24 ms"), (3.0, "3.00 s"), (0.0, "0 s"), (2.5e-7, "250 ns"), (1500.0, "1.50 ks")],
    )
    def test_quantities_have_three_digits_and_a_prefix(self, value: float, text: str) -> None:
        assert quantity(value, "s") == text

    def test_large_numbers_are_grouped(self) -> None:
        assert significant(1234567.0) == "1,234,567"


class TestTimelines:
    def test_few_spans_are_drawn_as_they_are(self) -> None:
        timeline = comb(10, period_ps=100, busy_ps=50)

        assert thinned([timeline]).timelines == (timeline,)

    def test_neighbours_closer_than_a_pixel_are_merged(self) -> None:
        shown = thinned([comb(RECTANGLES + 1, period_ps=1000, busy_ps=990)])

        assert (shown.merged, shown.zoomed) == (True, False)
        assert len(shown.timelines[0].lanes[0][1]) == 1

    def test_idle_time_is_not_merged_away_but_cut_off(self) -> None:
        shown = thinned([comb(RECTANGLES + 1, period_ps=1000, busy_ps=300)])

        assert (shown.merged, shown.zoomed) == (False, True)
        assert shown.until_ps == READABLE * 1000

    def test_the_caption_says_what_is_left_out(self) -> None:
        page = render_report(replace(study(two_by_two()), timelines=(comb(RECTANGLES + 1, 1000, 300),)))

        assert "Only the first part is drawn" in page


def comb(teeth: int, period_ps: int, busy_ps: int) -> Timeline:
    """A lane that is busy at regular intervals."""
    spans = tuple(Span(i * period_ps, i * period_ps + busy_ps, f"tile{i}", "matrix") for i in range(teeth))
    return Timeline("fixed-pattern", (("matrix", spans),), teeth * period_ps)


def drawn_study() -> Study:
    """A study in which every kind of drawing occurs."""
    swept = BUFFERS | {"ddr.bandwidth": ("68 GB/s", "136 GB/s")}
    rows = grid(["resnet50", "bert-base"], ["fixed-pattern", "graphturbo"], swept)
    spread = [
        row | {"energy_j": place % 3 + 0.5, "area_mm2": 50.0 + place % 5} for place, row in enumerate(rows)
    ]
    return replace(study(spread, swept), timelines=(comb(5, 100, 50),))


class Reader(HTMLParser):
    """Collects what a browser would see: elements with their attributes, and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


class TestPage:
    def test_it_needs_nothing_beside_it(self) -> None:
        page = render_report(drawn_study())

        assert "http:" not in page
        assert "https:" not in page
        for tag, attributes in Reader(page).elements:
            assert tag not in {"script", "img", "iframe", "object", "embed"}
            assert "src" not in attributes
            assert (attributes.get("href") or "#").startswith(("#", "data:"))

    def test_ids_are_unique_and_every_reference_has_its_target(self) -> None:
        page = render_report(drawn_study())

        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) <= set(ids)

    def test_colours_follow_the_page(self) -> None:
        page = render_report(study(two_by_two()))

        assert "#fe0" not in page
        assert "prefers-color-scheme:dark" in page
        assert "fill: var(--s1)" in page or "stroke: var(--s1)" in page

    def test_names_from_data_stay_text(self) -> None:
        script, maths, quotes, comment, sentinel = HOSTILE
        swept = {maths: (quotes, script)}
        rows = [
            point(
                policy,
                0.001 * (1 + rank),
                model,
                bottleneck=script,
                **{maths: value, f"traffic_bytes.{script}": 5.0},
            )
            for model in (script, quotes)
            for value in swept[maths]
            for rank, policy in enumerate((comment, maths, sentinel))
        ]
        rows.append(failure(comment, script, **{maths: quotes}))
        span = Span(0, 1000, script, quotes)
        hostile = Study(
            name=quotes,
            question=script,
            hardware_name=maths,
            hardware_rows=((script, quotes), (maths, comment)),
            swept=swept,
            objectives=("latency_s", "energy_j", script),
            frame=pd.DataFrame(rows),
            timelines=(Timeline(comment, ((script, (span,)), (maths, (span,))), 1000),),
            provenance={script: comment},
        )

        page = render_report(hostile)
        seen = Reader(page)

        assert not {"script", "u", "img"} & {tag for tag, _ in seen.elements}
        assert not [attributes for _, attributes in seen.elements if "onerror" in attributes]
        drawn = "".join(re.findall(r"<text[^>]*>(.*?)</text>", page))
        assert "$x^2$" in drawn
        assert "&lt;script&gt;" in drawn
        assert "#fe0001 $" in drawn
        assert all(name in seen.text for name in HOSTILE)

    def test_all_points_can_be_downloaded(self) -> None:
        page = render_report(study(two_by_two()))

        found = re.search(r'href="data:text/csv;charset=utf-8;base64,([^"]+)"', page)
        assert found
        lines = b64decode(found[1]).decode().splitlines()
        assert len(lines) == 5
        assert lines[0].startswith("model,hardware,policy,batch")

    def test_every_drawing_has_its_numbers(self) -> None:
        page = render_report(drawn_study())

        figures = re.findall(r"<figure>.*?</figure>", page, flags=re.DOTALL)
        assert len(figures) > 9
        assert all("<table" in figure for figure in figures)
        assert all("<details>" in figure for figure in figures if "<svg" in figure)

    def test_what_varies_is_marked_in_the_machine(self) -> None:
        page = render_report(study(two_by_two(), BUFFERS | {"dma.channels": ("1", "2")}))

        marked = re.findall(r'<tr class="varied"><th scope="row">(\w+)</th><td><b>(.*?)</b>', page)
        assert marked == [
            ("channels", "1, 2"),
            ("capacity", "64\N{NO-BREAK SPACE}KiB, 1\N{NO-BREAK SPACE}MiB"),
        ]

    def test_messages_of_failed_points_are_shown(self) -> None:
        page = render_report(study([*two_by_two(), failure("astitch", "a slice needs 393216 bytes")]))

        assert "a slice needs 393216 bytes" in page

    def test_the_same_study_gives_the_same_page_in_another_process(self) -> None:
        program = "from tests.experiments.test_report import *; print(render_report(drawn_study()), end='')"

        there = subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parents[2],
            env=dict(os.environ) | {"PYTHONHASHSEED": "7", "PYTHONPATH": ".", "PYTHONIOENCODING": "utf-8"},
            check=True,
            capture_output=True,
            encoding="utf-8",
        )

        assert there.stdout == render_report(drawn_study())


FIVE = {
    "local_buffer.capacity": ("64 KiB", "1 MiB"),
    "ddr.bandwidth": ("68 GB/s", "136 GB/s"),
    "clusters": ("2", "4"),
    "clock": ("1 GHz", "2 GHz", "3 GHz"),
    "dma.channels": ("1", "2"),
}
EIGHT = {"local_buffer.capacity": tuple(f"{2**power} KiB" for power in range(5, 13))}
THREE_POLICIES = ("fixed-pattern", "astitch", "graphturbo(instruction_scheduling=false)")


class TestOddStudies:
    @pytest.mark.parametrize(
        ("rows", "swept"),
        [
            pytest.param([], {}, id="nothing was run"),
            pytest.param([point("graphturbo", 0.001)], {}, id="one point"),
            pytest.param([point("a", 0.001), point("b", 0.001)], {}, id="no sweep"),
            pytest.param(grid(["net"], ["graphturbo"], BUFFERS), BUFFERS, id="one policy"),
            pytest.param(grid(["net"], ["graphturbo"], FIVE), FIVE, id="one policy, five quantities"),
            pytest.param([failure("a", "x"), failure("b", "y")], {}, id="all failed"),
            pytest.param(
                [*two_by_two(), failure("fixed-pattern", "x", model="bert")], BUFFERS, id="no baseline"
            ),
            pytest.param(grid(["net"], THREE_POLICIES, FIVE), FIVE, id="five quantities"),
            pytest.param(grid(["net"], THREE_POLICIES, FIVE)[::7], FIVE, id="no full grid"),
            pytest.param(
                grid([f"net{i}" for i in range(12)], THREE_POLICIES, EIGHT), EIGHT, id="twelve networks"
            ),
            pytest.param(two_by_two(), {"never.seen": ("1", "2")}, id="swept path without a column"),
            pytest.param([{"model": "m", "policy": "p", "latency_s": 0.1}], {}, id="bare columns"),
            pytest.param(
                [
                    row | {"energy_j": np.nan, "utilisation.matrix": np.nan, "bottleneck": None}
                    for row in two_by_two()
                ],
                BUFFERS,
                id="columns without figures",
            ),
            pytest.param(
                [point(f"policy{i}", 0.001 + i) for i in range(20)], {}, id="more policies than colours"
            ),
            pytest.param([point("a", 1e-9), point("b", 1e3)], {}, id="twelve orders of magnitude"),
        ],
    )
    def test_it_renders(self, rows: list[dict[str, object]], swept: dict[str, tuple[str, ...]]) -> None:
        page = render_report(study(rows, swept))

        assert page.rstrip().endswith("</html>")
        assert not re.search(r"\bnan\b|\bNone\b", Reader(page).text.partition("Does it pay?")[2])

    @pytest.mark.parametrize(
        "timeline",
        [
            Timeline("no lanes", (), 0),
            Timeline("an idle lane", (("matrix", ()),), 1000),
            Timeline("no time", (("matrix", (Span(0, 0, "x", "odd"),)),), 0),
        ],
    )
    def test_odd_timelines_render(self, timeline: Timeline) -> None:
        assert render_report(replace(study(two_by_two()), timelines=(timeline,))).rstrip().endswith("</html>")

    def test_a_thousand_points_take_seconds(self) -> None:
        swept = EIGHT | {"ddr.bandwidth": ("1 GB/s", "2 GB/s", "3 GB/s", "4 GB/s")}
        rows = grid([f"net{i}" for i in range(11)], THREE_POLICIES, swept)
        start_s = perf_counter()

        render_report(study(rows, swept))

        assert len(rows) > 1000
        assert perf_counter() - start_s < 15
