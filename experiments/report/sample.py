"""Sampling of large studies: what is drawn and listed point by point, to keep the page small enough for a browser."""

from collections.abc import Iterator, Sequence

import pandas as pd

from dsascape.experiments.report.frames import (
    Axes,
    best_points,
    cut,
    evenly,
    failed,
    names_in,
    pareto_front,
    policies_in,
    usable,
)
from dsascape.experiments.report.words import enumeration
from dsascape.wording import count

MOST_POINTS = 2000
"""Largest number of points listed one by one on a page."""
MOST_NETWORKS = 12
MOST_POLICIES = 20
MOST_VALUES = 24
"""Largest number of values of one swept quantity in charts."""
_SHARE_OF_FRONT = 0.25


def within_chart_limits(points: pd.DataFrame, axes: Axes) -> tuple[pd.DataFrame, Axes, str]:
    """Return (points, axes, sentence on what is left out) reduced to what charts can show."""
    networks, policies = names_in(points, "network"), policies_in(points)
    left_out = []
    if len(networks) > MOST_NETWORKS:
        points = points.loc[points["network"].isin(networks[:MOST_NETWORKS])]
        left_out.append(f"the first {MOST_NETWORKS} of {count(len(networks), 'network')}")
    if len(policies) > MOST_POLICIES:
        points = points.loc[points["policy"].isin(policies[:MOST_POLICIES])]
        left_out.append(f"the first {MOST_POLICIES} of {count(len(policies), 'policy')}")
    kept = {axis: tuple(values[place] for place in evenly(len(values), MOST_VALUES)) for axis, values in axes.items()}
    for axis, values in kept.items():
        if len(values) < len(axes[axis]):
            points = points.loc[points[axis].isin((*values, ""))]
            left_out.append(f"{len(values)} of {count(len(axes[axis]), 'value')} of {axis}")
    if not left_out:
        return points, axes, ""
    which = "Charts, but for the ranking of machines," if len(kept.get("hardware", ())) > 1 else "Charts"
    return points, kept, f"{which} show {enumeration(left_out)}; the sentences above are about all."


def listed(points: pd.DataFrame, drawn: pd.DataFrame, axes: Axes, objectives: Sequence[str]) -> pd.DataFrame:
    """Return at most ``MOST_POINTS`` of the points, by their numbers.

    Beyond that it prefers what the page mentions: the fastest of each network and policy, fronts, points of the base
    machine, points on curves; the rest is evenly spread.
    """
    if len(points) <= MOST_POINTS:
        return points
    chosen: dict[object, None] = {}
    for several in _spoken_of(points, drawn, axes, objectives):
        room = min(int(MOST_POINTS * _SHARE_OF_FRONT), MOST_POINTS - len(chosen))
        chosen |= dict.fromkeys(several[place] for place in evenly(len(several), room))
    rest = points.index.difference(pd.Index(list(chosen)))
    chosen |= dict.fromkeys(rest[place] for place in evenly(len(rest), MOST_POINTS - len(chosen)))
    return points.loc[points.index.isin(list(chosen))].sort_index()


def _spoken_of(points: pd.DataFrame, drawn: pd.DataFrame, axes: Axes, objectives: Sequence[str]) -> Iterator[pd.Index]:
    ran = usable(points)
    yield best_points(points).index
    compared = [name for name in objectives if name in ran]
    for together in dict.fromkeys([tuple(compared), *((compared[0], b) for b in compared[1:])] if compared else []):
        for _, own in ran.groupby("network", sort=False):
            yield own.index[pareto_front(own, together)]
    yield ran.sort_values("latency_s", kind="stable").drop_duplicates(["network", "policy"]).index
    yield ran.index[ran["is_base"] == 1]
    for axis in axes:
        yield cut(drawn, axes, [axis]).index
    yield failed(points).index
