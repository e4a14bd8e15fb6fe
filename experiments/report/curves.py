"""Curves over swept quantities and trade-offs between objectives, per network, from frames to SVG."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from dsascape.experiments.report.canvas import (
    INK,
    MUTED,
    PAPER,
    Looks,
    Margins,
    clipped,
    house_style,
    line_entry,
    marker_entry,
    name_ticks,
    panel_width,
    panels,
    slant_room,
    slanted,
    spots_along,
    to_panels,
)
from dsascape.experiments.report.frames import pareto_front
from dsascape.experiments.report.words import meaning, scale_of

BEYOND = "beyond a constraint"
"""Legend of points that do not keep the constraints."""
_BEYOND: dict[str, Any] = {
    "color": MUTED, "marker": "x", "linestyle": "none", "markersize": 8, "markeredgewidth": 1.6, "zorder": 1.5
}  # fmt: skip
_COLUMNS = 3
_LOG_FROM_RATIO = 20


@house_style
def latency_curves(
    points: pd.DataFrame, axis: str, values: Sequence[str], looks: Looks, figure_id: str, *, joined: bool = True,
    drawn: tuple[str, str] = ("latency_s", "simulated"),
) -> Markup:  # fmt: skip
    """Draw latency, or another figure, over the values of one axis: a panel per network, a line per policy.

    ``drawn`` is the column, and "simulated" or "measured". ``points`` has at most one row per network, policy and
    value. Points that differ in more than that value should not be ``joined`` by lines.
    """
    networks = [str(name) for name in points["network"].unique()]
    policies = [policy for policy in looks if (points["policy"] == policy).any()]
    size, columns = _panel_size(len(networks))
    room = (size - 90) / len(values)
    margins = Margins(bottom=50 + (slant_room(values) if slanted(values, room) else 0))
    figure, all_axes = panels(
        len(networks),
        columns,
        (size, 200 + margins.bottom),
        margins,
        [(line_entry if joined else marker_entry)(looks[name], name) for name in policies],
    )
    place = {value: number for number, value in enumerate(values)}
    spots = []
    column = drawn[0]
    logarithmic = any(spread(own[column]) > _LOG_FROM_RATIO for _, own in points.groupby("network"))
    words, base_unit = meaning(column, drawn[1])
    for axes, network in zip(all_axes, networks, strict=True):
        own = points.loc[points["network"] == network]
        divisor, unit = scale_of(own[column], base_unit)
        for policy in policies:
            line = own.loc[own["policy"] == policy].sort_values(axis, key=lambda column: column.map(place))
            look = looks[policy]
            x, y = line[axis].map(place), line[column] / divisor
            spots += spots_along(axes, x, y)
            axes.plot(
                x.to_numpy(),
                y.to_numpy(),
                color=look.colour,
                marker=look.marker,
                linestyle=look.dash if joined else "none",
                linewidth=2,
                markersize=9,
                markeredgecolor=PAPER,
                clip_on=False,
            )
        value_scale(axes, "y", own[column] / divisor, logarithmic=logarithmic, from_zero=True)
        name_ticks(axes, values, room)
        axes.set_xlim(-0.35, len(values) - 0.65)
        axes.set_title(clipped(network, 40))
        axes.set_ylabel(f"{words} [{unit}]")
        axes.set_xlabel(clipped(axis, 44))
    return to_panels(figure, margins, figure_id, f"{words.capitalize()} over {axis} for each network and policy", spots)


@house_style
def trade_offs(
    points: pd.DataFrame, objectives: tuple[str, str], looks: Looks, figure_id: str, names: Sequence[str], *,
    with_spots: bool = True,
) -> Markup:  # fmt: skip
    """Draw the points over two objectives called ``names``, a panel per network; Pareto fronts are joined.

    Points beyond a constraint are crosses, and on no front. ``with_spots``: the page's script finds the points.
    """
    networks = [str(name) for name in points["network"].unique()]
    beyond = points["violates"] != ""
    policies = [policy for policy in looks if ((points["policy"] == policy) & ~beyond).any()]
    size, columns = _panel_size(len(networks))
    entries = [marker_entry(looks[name], name) for name in policies]
    entries += [(Line2D([], [], **_BEYOND), BEYOND)] if beyond.any() else []
    margins = Margins(left=66, bottom=50)
    figure, all_axes = panels(len(networks), columns, (size, 280), margins, entries)
    groups = [own for _, own in points.groupby("network")]
    logarithmic = [any(spread(own[name]) > _LOG_FROM_RATIO for own in groups) for name in objectives]
    spots = []
    for axes, network in zip(all_axes, networks, strict=True):
        own = points.loc[points["network"] == network]
        kept = own["violates"] == ""
        front = pareto_front(own.loc[kept], objectives).reindex(own.index, fill_value=False)
        scales = [scale_of(own[name], meaning(name)[1]) for name in objectives]
        x, y = (own[name] / divisor for name, (divisor, _) in zip(objectives, scales, strict=True))
        order = x[front].sort_values(kind="stable").index
        axes.step(
            x[order].to_numpy(),
            y[order].to_numpy(),
            where="post",
            color=INK,
            linewidth=1,
            linestyle=":",
            zorder=1,
        )
        for policy in policies:
            for in_front in (False, True):
                chosen = (own["policy"] == policy) & (front == in_front) & kept
                axes.plot(
                    x[chosen].to_numpy(),
                    y[chosen].to_numpy(),
                    color=looks[policy].colour,
                    marker=looks[policy].marker,
                    linestyle="none",
                    markersize=9 if in_front else 7,
                    alpha=1 if in_front else 0.55,
                    markeredgecolor=INK if in_front else PAPER,
                    markeredgewidth=1.4 if in_front else 0.5,
                    zorder=3 if in_front else 2,
                )
        axes.plot(x[~kept].to_numpy(), y[~kept].to_numpy(), **_BEYOND)
        value_scale(axes, "x", x, logarithmic=logarithmic[0])
        value_scale(axes, "y", y, logarithmic=logarithmic[1])
        spots += spots_along(axes, x, y) if with_spots else []
        axes.grid(visible=True, axis="both")
        axes.set_title(clipped(network, 40))
        for place, name, (_, unit) in zip("xy", names, scales, strict=True):
            words = clipped(name, 30)
            axes.set(**{f"{place}label": f"{words} [{unit}]" if unit else words})
    words = " against ".join(meaning(name)[0] for name in objectives)
    return to_panels(figure, margins, figure_id, f"{words} for each network", spots)


def _panel_size(networks: int) -> tuple[float, int]:
    """Return (width of a panel, number of panels in a row)."""
    columns = min(_COLUMNS, networks)
    return panel_width(columns), columns


def spread(values: pd.Series) -> float:
    """Return the ratio of the largest to the smallest positive finite value; 1 without any."""
    positive = _positive(values)
    return 1.0 if positive.empty else float(positive.max() / positive.min())


def value_scale(axes: Axes, direction: str, values: pd.Series, *, logarithmic: bool, from_zero: bool = False) -> None:
    """Set an axis' scale, limits and plain labels: logarithmic, or linear from zero or around the values."""
    positive = _positive(values)
    if positive.empty:
        return
    low, high = float(positive.min()), float(positive.max())
    axis = axes.xaxis if direction == "x" else axes.yaxis
    if logarithmic:
        axes.set(**{f"{direction}scale": "log", f"{direction}lim": (low / 1.5, high * 1.5)})
        steps = (1.0, 2.0, 5.0) if high / low < 10 * _LOG_FROM_RATIO else (1.0,)
        axis.set_major_locator(LogLocator(subs=steps))
        axis.set_minor_locator(NullLocator())
    else:
        room = 0.1 * (high - low) or 0.1 * high
        axes.set(**{f"{direction}lim": (0, high * 1.1) if from_zero else (max(0, low - room), high + room)})
        axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def _positive(values: pd.Series) -> pd.Series:
    return values.loc[(values > 0) & (values < np.inf)]
