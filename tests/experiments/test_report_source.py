"""Measured figures come first in a report that has any; headlines, headings and axes state which kind they show."""

import re

import pandas as pd

from dsascape.experiments.report.leading import leading, source_of
from dsascape.experiments.report.page import render_report
from tests.experiments.studies import headline, measured, study, two_by_two

Row = dict[str, object]


def headings(page: str) -> dict[str, str]:
    found = re.findall(r"<h2>([^<]*?)(?: <small>(\w+)</small>)?</h2>", page)
    return dict(found)


def test_a_simulated_report_says_so_everywhere() -> None:
    page = render_report(study(two_by_two()))

    assert headline(page)[1] == "simulated"
    assert "simulated latency [" in page
    assert {headings(page)[name] for name in ("Fastest points", "Policies compared", "Over the sweep")} == {"simulated"}


def test_measured_latencies_are_compared_where_there_are_any() -> None:
    simulated = two_by_two()
    page = render_report(study(measured(simulated)))

    assert headline(page)[1] == "measured"
    assert headline(page)[0] != headline(render_report(study(simulated)))[0]
    assert "measured latency [" in page
    assert headings(page)["Fastest points"] == "measured"
    assert headings(page)["All points"] == headings(page)["Where the latency goes"] == "simulated"
    assert "The point of least measured latency" in page


def test_every_axis_and_caption_about_latency_says_what_it_shows() -> None:
    rows = two_by_two()
    for page in (render_report(study(rows)), render_report(study(measured(rows)))):
        texts = re.findall(r"<(?:figcaption|text|th)[^>]*>\s*([^<]*)", page)
        about = [text for text in texts if re.search(r"latency( \[|:| over| of each)|speed-up over", text)]
        assert about
        assert not [text for text in about if not re.search(r"(?i)measured|simulated|base latency", text)]


def test_points_that_were_not_measured_are_not_compared_with_those_that_were() -> None:
    frame = pd.DataFrame(measured(two_by_two())).assign(error="")
    frame.loc[frame.index[0], "measured_s"] = float("nan")

    assert source_of(frame) == "measured"
    frame["batch"] = "1"
    assert list(leading(frame).index) == list(frame.index[1:])
    assert list(leading(frame)["latency_s"]) == list(frame["measured_s"].iloc[1:])
