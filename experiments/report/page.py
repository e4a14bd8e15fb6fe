"""The report page: figures, tables and sentences of a study rendered into the HTML template."""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from dsascape.experiments.report.best_of_study import best_sentence, notes_of
from dsascape.experiments.report.explorer import explorer_data, timeline_data
from dsascape.experiments.report.frames import (
    Axes,
    against_base,
    axes_of,
    failed,
    names_in,
    policies_in,
    prepared,
    usable,
)
from dsascape.experiments.report.gantt import categories_in
from dsascape.experiments.report.headline import verdict
from dsascape.experiments.report.layout import Evaluation
from dsascape.experiments.report.leading import leading, source_of
from dsascape.experiments.report.looks import policy_looks
from dsascape.experiments.report.machines import machine_sentence
from dsascape.experiments.report.measured_section import measured_notes
from dsascape.experiments.report.run_sections import timelines_drawn
from dsascape.experiments.report.sample import MOST_POINTS, listed, within_chart_limits
from dsascape.experiments.report.sections import sections_of
from dsascape.experiments.report.study import Study
from dsascape.experiments.report.words import answer, setting
from dsascape.experiments.results.frame import CSV, csv_text
from dsascape.wording import count

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
SCRIPTS = ("points.js", "timeline.js")
_MOST_FAILURES = 200
_MACHINES = re.compile(
    r"\b(machine|hardware|gpu|cpu|npu|tpu|dsa|accelerator|chip|device|processor|board|phone|soc|preset)s?\b",
    re.IGNORECASE,
)
"""Words by which a question asks about machines."""


def render_report(study: Study) -> str:
    """Return the report as one self-contained HTML page; equal studies give equal text.

    With more than ``MOST_POINTS`` points the page has a sample, and refers to the CSV file for the rest.
    """
    points = prepared(study.frame, study.swept)
    axes = axes_of(points, study.swept)
    drawn, drawn_axes, left_out = within_chart_limits(points, axes)
    embedded = listed(points, drawn, drawn_axes, study.objectives)
    looks = policy_looks(policies_in(drawn))
    evaluation = Evaluation(study, drawn, drawn_axes, looks, points, embedded, against_base(points))
    missing = failed(points)
    headline, told = _headline(study, points, axes)
    standing = _standing(study, points)
    timelines = timelines_drawn(study.timelines, study.units)
    scripts = [_script(name) for name in SCRIPTS]
    return template("report.html.j2").render(
        study=study,
        headline=headline,
        standing=standing,
        facts=_facts(points, axes, study.planned),
        answer=told,
        remarks=[*study.remarks, *([left_out] if left_out else [])],
        machine=_machine(study),
        described=_described(study, points),
        sections=sections_of(evaluation),
        failures=[(row, setting(row, axes)) for _, row in missing.head(_MOST_FAILURES).iterrows()],
        failed=len(missing),
        tried=len(points),
        embedded=len(embedded),
        csv=_csv_link(study) if len(points) <= MOST_POINTS else CSV,
        explorer=explorer_data(evaluation) if len(points) else None,
        timelines=timeline_data(timelines, categories_in([each.detailed for each in timelines])),
        scripts=scripts,
        script_hashes=[b64encode(sha256(text.encode()).digest()).decode("ascii") for text in scripts],
    )


def headline_of(study: Study) -> str:
    """Return the headline of the study's report, with the source of its figures."""
    points = prepared(study.frame, study.swept)
    headline, _ = _headline(study, points, axes_of(points, study.swept))
    standing = _standing(study, points)
    return f"{headline} ({standing})" if standing else headline


def _headline(study: Study, points: pd.DataFrame, axes: Axes) -> tuple[str, list[str]]:
    """Return the headline that answers the question, and the sentences that follow."""
    measured, points = measured_notes(points), leading(points)
    told = answer(points, axes)
    headline = best_sentence(study, points, axes) or verdict(study.question, points, axes)
    machines = "" if study.together is not None else machine_sentence(points, axes)
    if machines and not headline and (len(policies_in(points)) == 1 or _MACHINES.search(study.question)):
        headline, machines = machines, ""
    headline, *rest = [headline, *told] if headline else told
    return headline, [*measured, *notes_of(study, points), *([machines] if machines else []), *rest]


def _standing(study: Study, points: pd.DataFrame) -> str:
    """Return the words behind the headline: the source of its figures, and whether more points are to come."""
    if usable(leading(points)).empty:
        return ""
    return f"{source_of(points)}, so far" if study.planned > len(points) else source_of(points)


@cache
def _script(name: str) -> Markup:
    """Return one of the page's scripts, checked not to end its element early."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    assert "</script" not in text
    return Markup(text)


@cache
def template(name: str) -> Template:
    """Return the template of a page, which may show figures as a report does."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    environment.filters["counted"] = count
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.get_template(name)


def _breakable(text: str, longest: int = 22) -> Markup:
    """Return text with break opportunities after dots and underscores of words longer than ``longest``."""
    parts = [re.split(r"(?<=[._])(?=\w)", word) if len(word) > longest else [word] for word in re.split(r"(\s)", text)]
    return Markup("").join(Markup("<wbr>").join(map(escape, word)) for word in parts)


def _facts(points: pd.DataFrame, axes: Axes, planned: int) -> list[str]:
    """Return the size of the study as phrases for the line below the headline."""
    return [
        _tried(len(points), planned),
        count(points["model"].nunique(), "network"),
        count(points["policy"].nunique(), "policy"),
        *([count(len(axes), "swept quantity")] if axes else []),
    ]


def _tried(number: int, planned: int) -> str:
    points = count(max(number, planned), "design point")
    return f"{number:,} of {points} so far" if planned > number else points


def _machine(study: Study) -> list[tuple[str, list[tuple[str, str, tuple[str, ...]]]]]:
    """Return the rows of the machine's table (key, value, values tried), grouped by the first part of the key."""
    listed = dict(study.hardware_rows)
    rows = {**{path: "" for path in study.swept if path not in listed}, **listed}
    groups: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {}
    for key, value in rows.items():
        head, _, rest = key.partition(".")
        groups.setdefault(head if rest else "", []).append((rest or head, value, study.swept.get(key, ())))
    return list(groups.items())


def _described(study: Study, points: pd.DataFrame) -> str:
    """Return which machine the page's table is about: of several the first, whose values are noted."""
    first = dict(study.hardware_rows).get("name", "")
    several = names_in(points, "hardware")
    return f"{first}, the first of {count(len(several), 'machine')}" if first and several[1:] else study.hardware_name


def _csv_link(study: Study) -> Markup:
    """Return all points as CSV, in a data link."""
    encoded = b64encode(csv_text(study.frame).encode()).decode("ascii")
    return Markup(f"data:text/csv;charset=utf-8;base64,{encoded}")
