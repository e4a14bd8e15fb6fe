"""The page: a study's figures, tables and sentences put into the HTML template."""

from base64 import b64encode
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from experiments.report.canvas import looks_for
from experiments.report.frames import axes_of, failed, policies_in, prepared
from experiments.report.layout import Evaluation
from experiments.report.sections import sections_of
from experiments.report.study import Study
from experiments.report.words import answer, count, setting
from experiments.results import csv_text

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


def render_report(study: Study) -> str:
    """Return the report as one HTML page that needs nothing beside it; the same study gives the same text."""
    points = prepared(study.frame, study.swept)
    axes = axes_of(points, study.swept)
    evaluation = Evaluation(study, points, axes, looks_for(policies_in(points)))
    missing = failed(points)
    return _template().render(
        study=study,
        headline=study.question.strip() or study.name,
        facts=_facts(evaluation),
        answer=answer(points, axes),
        machine=_machine(study),
        sections=sections_of(evaluation),
        failures=[(row, setting(row, axes)) for _, row in missing.iterrows()],
        tried=len(points),
        csv=_csv_link(study),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _facts(evaluation: Evaluation) -> list[str]:
    """Return the size of the study, for the line under the headline."""
    points = evaluation.points
    return [
        _tried(len(points), evaluation.study.planned),
        count(points["model"].nunique(), "network"),
        count(points["policy"].nunique(), "policy"),
        *([count(len(evaluation.axes), "swept quantity")] if evaluation.axes else []),
    ]


def _tried(number: int, planned: int) -> str:
    points = count(max(number, planned), "design point")
    return f"{number:,} of {points} so far" if planned > number else points


def _machine(study: Study) -> list[tuple[str, list[tuple[str, str, tuple[str, ...]]]]]:
    """Rows of the machine's table (key, value, values tried) by the first part of their key."""
    listed = dict(study.hardware_rows)
    rows = {**{path: "" for path in study.swept if path not in listed}, **listed}
    groups: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {}
    for key, value in rows.items():
        head, _, rest = key.partition(".")
        groups.setdefault(head if rest else "", []).append((rest or head, value, study.swept.get(key, ())))
    return list(groups.items())


def _csv_link(study: Study) -> Markup:
    """All points as they came, as a link that carries its own data."""
    encoded = b64encode(csv_text(study.frame).encode()).decode("ascii")
    return Markup(f"data:text/csv;charset=utf-8;base64,{encoded}")
