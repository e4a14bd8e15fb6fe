"""Figures of searches: the front of designs over all networks, and hypervolume against the number of trials."""

from collections.abc import Iterator, Sequence

import pandas as pd
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from dsascape.experiments.question.combined import WORDS
from dsascape.experiments.report.best import front_of, how_combined
from dsascape.experiments.report.canvas import (
    Look,
    Margins,
    clipped,
    house_style,
    line_entry,
    panel_width,
    panels,
    to_svg,
)
from dsascape.experiments.report.curves import trade_offs
from dsascape.experiments.report.frames import evenly, usable
from dsascape.experiments.report.hypervolume import hypervolumes
from dsascape.experiments.report.layout import Evaluation, Figure
from dsascape.experiments.report.leading import source_of
from dsascape.experiments.report.tables import figure_formats, quantity_formats, table_of
from dsascape.experiments.report.together import FIGURES, Course
from dsascape.experiments.report.words import enumeration, meaning, percent
from dsascape.wording import count

_MOST_OF_FRONT = 200
_MOST_TRIALS = 2000
"""Most trials of a search that its curve follows."""
_BEYOND_WORST = 1.1
"""Reference point of the hypervolume, with 0 at the best and 1 at the worst value of an objective; beyond 1, so that
the best point in one objective counts although it is the worst in another."""
_COLUMNS = 2
_LOOKS = {"random": Look(7, 2), "tpe": Look(0, 0), "nsga2": Look(1, 1)}
"""Looks of the search methods."""
_MARKED = 8
"""Markers along a curve."""


def best_machine_figures(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the front of designs over all networks, as a table and a drawing for each pair of objectives."""
    together = evaluation.study.together
    if together is None or together.designs.empty:
        return
    designs = together.designs.assign(network="all networks")
    objectives = list(evaluation.study.objectives)
    front = front_of(designs, objectives)
    figures = [*objectives, *(name for name in FIGURES if name not in objectives)]
    source = source_of(evaluation.every)
    table = front.iloc[evenly(len(front), _MOST_OF_FRONT)][["hardware", "policy", *together.axes, *figures]]
    infeasible = int((designs["violates"] != "").sum())
    limits = f" {infeasible:,} do not keep the constraints." if infeasible else ""
    yield Figure(
        f"Designs that no other beats in {enumeration([meaning(name, source)[0] for name in objectives])}, each the"
        f" {WORDS[together.how]} over {count(len(together.weights), 'network')}: {len(front):,} of"
        f" {count(len(designs), 'design')}.{limits} {how_combined(together)}",
        tables=(table_of(table.fillna(dict.fromkeys(together.axes, "")), figure_formats(table, figures, source)),),
    )
    ran = designs.loc[designs["error"] == ""]
    for number, other in enumerate(objectives[1:]):
        pair = (objectives[0], other)
        shown = ran.dropna(subset=list(pair))
        if shown[other].nunique() > 1:
            words = [meaning(name, source)[0] for name in pair]
            yield Figure(
                f"{words[0].capitalize()} against {words[1]} of every design that ran, over all networks. Ringed and"
                " joined: the front of the two.",
                svg=trade_offs(shown, pair, evaluation.looks, f"best{number}", words, with_spots=False),
            )


def search_figures(evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the hypervolume of each search against its number of trials."""
    courses = [course for course in evaluation.study.courses if course.method != "grid"]
    lines = _shares(courses)
    if not lines or usable(evaluation.every).empty:
        return
    objectives = [meaning(name)[0] for name in evaluation.study.objectives]
    methods = list(dict.fromkeys(course.method for course in courses))
    compared = f" {enumeration(methods)} had the same budget." if len(methods) > 1 else ""
    cut = f" The first {_MOST_TRIALS:,} trials are drawn." if any(len(c.costs) > _MOST_TRIALS for c in courses) else ""
    table = pd.DataFrame(
        [
            {"network": network or "all networks", "search": method, "trials": len(shares),
             "half": _first(shares, 0.5), "most": _first(shares, 0.9), "share": shares[-1]}
            for (network, method), shares in lines.items()
        ]
    )  # fmt: skip
    formats = {
        **quantity_formats(table, ["trials", "half", "most"], ""), "trials": ("trials", _whole),
        "half": ("trials to 50 %", _whole), "most": ("trials to 90 %", _whole), "share": ("at the end", percent),
    }  # fmt: skip
    yield Figure(
        f"Hypervolume of {enumeration(objectives)} that the designs tried so far dominate, as a share of what all"
        f" searches together reach; a trial is a design evaluated.{compared} Objectives run from the best (0) to the"
        f" worst (1) value found within the constraints, the reference is {_BEYOND_WORST}.{cut}",
        svg=hypervolume_curves(lines, "hypervolume"),
        numbers=table_of(table, formats),
    )


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _first(shares: Sequence[float], least: float) -> float:
    """Return the number of trials after which the share is at least ``least``; not a number if it never is."""
    return next((float(number) for number, share in enumerate(shares, 1) if share >= least), float("nan"))


def _shares(courses: Sequence[Course]) -> dict[tuple[str, str], list[float]]:
    """Return, by (network, method), the hypervolume after each trial over that of all of the network's searches."""
    lines = {}
    for network in dict.fromkeys(course.network for course in courses):
        own = [course for course in courses if course.network == network]
        known = [cost for course in own for cost in course.costs[:_MOST_TRIALS] if cost]
        if not known:
            continue
        ends = [(min(values), max(values)) for values in zip(*known, strict=True)]
        worst = [_BEYOND_WORST] * len(ends)
        points = {course.method: [_scaled(cost, ends) for cost in course.costs[:_MOST_TRIALS]] for course in own}
        total = hypervolumes([point for several in points.values() for point in several], worst)[-1]
        for method, several in points.items():
            lines[network, method] = [volume / total for volume in hypervolumes(several, worst)]
    return lines


def _scaled(cost: Sequence[float], ends: Sequence[tuple[float, float]]) -> list[float]:
    return [
        (value - least) / (most - least) if most > least else 0.0
        for value, (least, most) in zip(cost, ends, strict=False)
    ]


@house_style
def hypervolume_curves(lines: dict[tuple[str, str], list[float]], figure_id: str) -> Markup:
    """Draw the share of the hypervolume over trials: a panel per network, a line per search method."""
    networks = list(dict.fromkeys(network for network, _ in lines))
    methods = list(dict.fromkeys(method for _, method in lines))
    columns = min(_COLUMNS, len(networks))
    size = panel_width(columns)
    figure, all_axes = panels(
        len(networks), columns, (size, 290), Margins(bottom=52), [line_entry(_LOOKS[name], name) for name in methods]
    )
    for axes, network in zip(all_axes, networks, strict=True):
        longest = 1
        for method in methods:
            shares = lines.get((network, method), [])
            longest = max(longest, len(shares))
            look = _LOOKS[method]
            axes.step(
                range(1, len(shares) + 1), [100 * share for share in shares], where="post", color=look.colour,
                linestyle=look.dash, linewidth=2, marker=look.marker, markersize=7, markeredgecolor="none",
                markevery=max(1, len(shares) // _MARKED), clip_on=False,
            )  # fmt: skip
        axes.set(ylim=(0, 105), xlim=(0, longest + 0.5))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel("trials")
        axes.set_ylabel("hypervolume [%]")
        axes.set_title(clipped(network, 40) if network else "all networks together")
    return to_svg(figure, figure_id, "Hypervolume over the number of trials for each search method")
