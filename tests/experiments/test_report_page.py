"""A report is one offline page that escapes names from data and shows the numbers behind its charts."""

import os
import re
import subprocess
import sys
from base64 import b64decode
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd

from dsascape.experiments.report.page import SCRIPTS, TEMPLATES, render_report
from dsascape.experiments.report.study import Study
from dsascape.experiments.results.timeline import Span, Timeline
from tests.experiments.studies import BUFFERS, Reader, drawn_study, failure, grid, point, study, two_by_two

HOSTILE = (
    "<script>alert(1)</script>",
    "$x^2$",
    "\"&'<u>",
    "a--><img src=x onerror=alert(1)>",
    "#fe0001 $\\frac{1}$",
)


@cache
def drawn_page() -> str:
    return render_report(drawn_study())


class TestPage:
    def test_the_page_needs_no_other_file(self) -> None:
        page = drawn_page()

        assert "http:" not in page
        assert "https:" not in page
        own = [(TEMPLATES / name).read_text(encoding="utf-8") for name in SCRIPTS]
        assert Reader(page).scripts[2:] == own
        for tag, attributes in Reader(page).elements:
            assert tag not in {"img", "iframe", "object", "embed"}
            assert "src" not in attributes
            assert (attributes.get("href") or "#").startswith(("#", "data:"))

    def test_ids_are_unique_and_every_reference_has_its_target(self) -> None:
        page = drawn_page()

        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) <= set(ids)

    def test_colours_follow_the_page(self) -> None:
        page = render_report(study(two_by_two()))

        assert "#fe0" not in page
        assert "prefers-color-scheme:dark" in page
        assert "fill: var(--s2)" in page or "stroke: var(--s2)" in page

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

        assert not {"u", "img"} & {tag for tag, _ in seen.elements}
        assert len(seen.scripts) == 2 + len(SCRIPTS)
        assert seen.data["columns"][0]["names"][:2] == [script, quotes]
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
        page = drawn_page()

        figures = re.findall(r"<figure>.*?</figure>", page, flags=re.DOTALL)
        assert len(figures) > 9
        assert [figure for figure in figures if "<table" not in figure and "do not say which" not in figure] == []
        assert all("<details>" in figure for figure in figures if "<svg" in figure)

    def test_swept_values_are_marked_in_the_machine(self) -> None:
        page = render_report(study(two_by_two(), BUFFERS | {"dma.channels": ("1", "2")}))

        marked = re.findall(r'<tr class="varied"><th scope="row">(\w+)</th><td><b>(.*?)</b>', page)
        assert marked == [
            ("channels", "1, 2"),
            ("capacity", "64\N{NO-BREAK SPACE}KiB, 1\N{NO-BREAK SPACE}MiB"),
        ]

    def test_messages_of_failed_points_are_shown(self) -> None:
        page = render_report(study([*two_by_two(), failure("astitch", "a slice needs 393216 bytes")]))

        assert "a slice needs 393216 bytes" in page

    def test_one_network_is_one_even_if_a_point_failed_before_its_sizes_were_known(self) -> None:
        rows = [point("graphturbo", 0.1), failure("unfused", "x", batch=None, dtype=None)]
        seen = Reader(render_report(study(rows, {})))

        assert "1 network " in seen.text
        assert "resnet50 (" not in seen.text

    def test_one_network_with_two_batches_is_one(self) -> None:
        page = render_report(study([point("graphturbo", 0.1, batch=1), point("graphturbo", 0.2, batch=8)], {}))

        assert "1 network " in Reader(page).text

    def test_a_report_of_failures_says_what_failed_and_why(self) -> None:
        rows = [failure("unfused", "too large"), failure("fixed-pattern", "too large"), failure("ago", "too slow")]
        text = " ".join(Reader(render_report(study(rows, {}))).text.split())

        assert "3 design points tried, none with a figure" in text
        assert "The commonest reason (2 of 3): too large" in text
        assert re.search("ago.{1,5}too slow", text)

    def test_a_run_that_has_not_ended_says_how_far_it_is(self) -> None:
        page = render_report(replace(study(two_by_two()), planned=9))

        assert "4 of 9 design points so far" in Reader(page).text

    def test_points_that_differ_in_more_than_the_axis_are_not_joined(self) -> None:
        swept = {"clusters": ("2", "4"), "clock": ("1 GHz", "2 GHz", "3 GHz")}
        whole = grid(["net"], ["graphturbo"], swept)
        pages = {count: render_report(study(whole[:count], swept)) for count in (6, 5)}
        said = {n: page.partition('<section id="sweep">')[2].partition("</section>")[0] for n, page in pages.items()}

        assert "Held: clock = 2 GHz." in said[6]
        assert "Held" not in said[5]
        assert "The rest is not held" in said[5]
        assert len(re.findall("stroke-width: 2[;\"]", said[6])) > len(re.findall("stroke-width: 2[;\"]", said[5]))

    def test_the_same_study_gives_the_same_page_in_another_process(self) -> None:
        program = (
            "from dsascape.experiments.report.page import render_report;"
            " from tests.experiments.studies import drawn_study;"
            " print(render_report(drawn_study()), end='')"
        )

        there = subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parents[2],
            env=dict(os.environ) | {"PYTHONHASHSEED": "7", "PYTHONPATH": ".", "PYTHONIOENCODING": "utf-8"},
            check=True,
            capture_output=True,
            encoding="utf-8",
        )

        assert there.stdout == drawn_page()
