"""What a study found to be best, for the headline of its report, for a terminal and as data."""

from dataclasses import dataclass, field
from math import isfinite

import pandas as pd

from dsascape.experiments.report.best import (
    best_machine,
    dtypes_warning,
    front_of,
    front_sentence,
    how_combined,
    infeasible_sentence,
    nothing_feasible,
)
from dsascape.experiments.report.frames import Axes, axes_of, names_in, prepared, usable
from dsascape.experiments.report.leading import leading
from dsascape.experiments.report.study import Study
from dsascape.experiments.report.words import meaning, quantity, setting
from dsascape.wording import count

_GRID = "grid"
_MOST_LINES = 8
"""Most points of the front that a terminal shows."""
_MOST_BEST = 1000
"""Most points of the front in the data of a run."""


@dataclass(frozen=True, slots=True)
class Best:
    """Answer of a study that asks which is best."""

    sentence: str = ""
    """Empty for a study that compares policies."""
    front: tuple[str, ...] = ()
    """Lines of text on the points of the front; empty where the sentence has all of it."""
    warning: str = ""
    infeasible: int = 0
    """Number of points that ran and do not keep a constraint."""
    points: list[dict[str, object]] = field(default_factory=list)
    """Points or designs of the front: what they are, and their objectives."""


def best_sentence(study: Study, points: pd.DataFrame, axes: Axes) -> str:
    """Return the sentence on what is best, where the study asks for that; empty where it compares policies."""
    if study.together is not None:
        return best_machine(study.together, study.objectives, study.constraints)
    if study.search == _GRID and not study.constraints and study.objectives[0] == "latency_s":
        return ""
    nothing = nothing_feasible(points, study.constraints, axes)
    return nothing or front_sentence(points, study.objectives, axes, study.constraints)


def notes_of(study: Study, points: pd.DataFrame) -> list[str]:
    """Return sentences on points beyond constraints, machines of different dtypes, and how networks are combined."""
    notes = [infeasible_sentence(points, study.constraints), dtypes_warning(points)]
    notes += [how_combined(study.together)] if study.together is not None else []
    return [note for note in notes if note]


def best_of(study: Study) -> Best:
    """Return the answer of a study from its stored points."""
    every = prepared(study.frame, study.swept)
    axes = axes_of(every, study.swept)
    points = leading(every)
    ran = usable(points)
    warning, infeasible = dtypes_warning(points), int((ran["violates"] != "").sum())
    sentence = best_sentence(study, points, axes)
    if not sentence or ran.empty:
        return Best(warning=warning, infeasible=infeasible)
    objectives = list(study.objectives)
    if study.together is not None:
        fronts = [front_of(study.together.designs, objectives)]
        names = ["hardware", *study.together.axes]
    else:
        own = [ran.loc[ran["network"] == network] for network in names_in(ran, "network")]
        fronts = [front_of(each, objectives) for each in own]
        names = list(dict.fromkeys(["network", "hardware", *axes]))
    front = pd.concat(fronts)
    several = max(map(len, fronts), default=0) > 1
    lines = [_line(row, names, objectives) for _, row in front.head(_MOST_LINES).iterrows()] if several else []
    if len(front) > len(lines) > 0:
        lines.append(f"  and {count(len(front) - len(lines), 'more point')} of the front, which the report names")
    best = [_best(row, [*names, "policy"], objectives) for _, row in front.head(_MOST_BEST).iterrows()]
    return Best(sentence, tuple(lines), warning, infeasible, best)


def _line(row: pd.Series, names: list[str], objectives: list[str]) -> str:
    figures = [quantity(float(row[name]), meaning(name)[1]) for name in objectives]
    fixed = [str(row[name]) for name in ("network", "hardware") if name in names]
    where = setting(row, [name for name in names if name not in ("network", "hardware") and isinstance(row[name], str)])
    return f"  {', '.join(figures)}: {' on '.join(fixed)}{f' with {where}' if where else ''} under {row['policy']}"


def _best(row: pd.Series, names: list[str], objectives: list[str]) -> dict[str, object]:
    told = {name: row[name] for name in names if isinstance(row[name], str) and row[name]}
    return told | {name: float(row[name]) for name in objectives if isfinite(row[name])}
