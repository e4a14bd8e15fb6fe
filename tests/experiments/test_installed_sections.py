"""Sections of installed packages are part of every report, and one that is broken takes nothing else with it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dsascape.experiments.report.page import render_report
from tests import packages
from tests.experiments.studies import BUFFERS, grid, study

OWN = {
    "own_sections": (
        "from dsascape.experiments.report.installed_sections import ReportSection\n"
        "from dsascape.experiments.report.layout import Figure\n"
        "GOOD = ReportSection('Of my own', lambda evaluation: [Figure(f'{len(evaluation.points)} <points>')])\n"
        "NONE = ReportSection('Empty', lambda evaluation: [])\n"
        "FAILS = ReportSection('It fails', lambda evaluation: [1 / 0])\n"
        "TEXT = 'text'\n"
    ),
    "own_raises": "1 / 0\n",
}


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, offered: Mapping[str, str]) -> None:
    """Install a package that offers report sections: the name of each and its place."""
    packages.install(folder, monkeypatch, "dsascape.report_sections", offered, OWN)


ROWS = grid(["net"], ["graphturbo"], BUFFERS)


def test_a_section_stands_under_its_title_with_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"own": "own_sections:GOOD", "empty": "own_sections:NONE"})

    text = render_report(study(ROWS, BUFFERS))
    assert f"{len(ROWS)} &lt;points&gt;" in text
    assert '<section id="section-own">' in text
    assert "section-empty" not in text


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("own_sections:FAILS", "fails: ZeroDivisionError"),
        ("own_sections:TEXT", "is a str; needs a dsascape.experiments.report.installed_sections.ReportSection"),
        ("own_sections:ABSENT", "cannot be imported: AttributeError"),
        ("own_raises:GOOD", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_a_broken_section_says_so_in_its_place(
    place: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"broken": place, "own": "own_sections:GOOD"})

    text = render_report(study(ROWS, BUFFERS))
    assert reason in text
    assert "package theirs" in text
    assert '<section id="section-own">' in text
    assert '<section id="critical">' in text or '<section id="traffic">' in text
