"""Data for the page's script: the points with their figures and commands, and the timelines."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import pandas as pd

from dsascape.experiments.report.canvas import Looks
from dsascape.experiments.report.critical import pace_shares
from dsascape.experiments.report.frames import numbers, texts
from dsascape.experiments.report.gantt import Drawn
from dsascape.experiments.report.layout import Evaluation
from dsascape.experiments.report.looks import kind_looks
from dsascape.experiments.report.roofline import rooflines
from dsascape.experiments.report.words import SIMULATED, TIMES, meaning, scale_of

_DIGITS = 5
_FIGURES = ("latency_s", "throughput_per_s", "energy_j", "area_mm2")
Column = dict[str, Any]


def explorer_data(evaluation: Evaluation) -> dict[str, Any]:
    """Return the embedded points column by column; numbers are in the unit of the column's label."""
    points = evaluation.embedded
    shares = pace_shares(points)
    looks = kind_looks(map(str, shares))
    return {
        "total": len(evaluation.every),
        "numbers": [int(number) for number in points.index],
        "columns": _columns(evaluation, points),
        "commands": _names(texts(points, "command")),
        "errors": _names(texts(points, "error")),
        "policies": {name: {"colour": look.css, "glyph": look.glyph} for name, look in evaluation.looks.items()},
        "pace": [{"name": name, "colour": look.css, "shares": _figures(shares[name])} for name, look in looks.items()],
    }


def timeline_data(drawn: Sequence[Drawn], looks: Looks) -> list[dict[str, Any]]:
    """Return the timelines; each span is (start, length, kind, label), the last two as positions in lists."""
    kinds = list(looks)
    return [
        {
            "title": each.timeline.title,
            "makespan": each.timeline.makespan_ps,
            "kinds": [{"name": name, "colour": look.css, "on": look.css_on} for name, look in looks.items()],
            **_lanes(each, kinds),
        }
        for each in drawn
    ]


def _lanes(drawn: Drawn, kinds: Sequence[str]) -> dict[str, Any]:
    labels: dict[str, int] = {}
    lanes = [
        {
            "name": lane,
            "spans": [
                [span.start_ps, span.end_ps - span.start_ps, kinds.index(span.category),
                 labels.setdefault(span.label, len(labels))]
                for span in spans
            ],
        }
        for lane, spans in drawn.detailed
    ]  # fmt: skip
    return {"lanes": lanes, "labels": list(labels)}


def _columns(evaluation: Evaluation, points: pd.DataFrame) -> list[Column]:
    names = [_text("network", points["network"]), _text("policy", points["policy"])]
    names += [_text(axis, points[axis]) for axis in evaluation.axes]
    wanted = [*_FIGURES, *(name for name in evaluation.study.objectives if name not in _FIGURES)]
    numeric = [name for name in wanted if name in points and pd.api.types.is_numeric_dtype(points[name])]
    measured = [_number(*meaning(name, SIMULATED), points[name]) for name in numeric if points[name].notna().any()]
    ratio = evaluation.against_base.reindex(points.index)
    if ratio.notna().any():
        measured.insert(1, _number("speed-up over base", TIMES, ratio))
    roofs = rooflines(points)
    if len(roofs):
        measured.append(_number("of roofline", "%", 100 * roofs["share"].reindex(points.index)))
    beyond = [_text("beyond", points["violates"])] if evaluation.study.constraints else []
    return [*names, *measured, *beyond, _text("bound by", points["bottleneck"])]


def _text(label: str, values: pd.Series) -> Column:
    return {"label": label, **_names([str(value) for value in values])}


def _names(values: Sequence[str]) -> Mapping[str, Any]:
    """Return texts as positions in a list of the distinct ones."""
    names = list(dict.fromkeys(values))
    place = {name: number for number, name in enumerate(names)}
    return {"names": names, "values": [place[value] for value in values]}


def _number(label: str, unit: str, values: pd.Series) -> Column:
    divisor, prefixed = scale_of(values, unit) if unit not in ("%", TIMES) else (1.0, unit)
    return {"label": label, "unit": prefixed, "values": _figures(values / divisor)}


def _figures(values: pd.Series) -> list[float | None]:
    column = numbers(values.to_frame("value"), "value")
    return [float(f"{value:.{_DIGITS}g}") if isfinite(value) else None for value in column]
