"""Bar chart of where latency goes: one bar per point, divided by limiting resource."""

from collections.abc import Mapping

import pandas as pd
from markupsafe import Markup

from dsascape.experiments.report.canvas import (
    BAR_PX,
    HATCH,
    INK,
    WIDTH,
    Looks,
    Margins,
    Spot,
    clipped,
    house_style,
    panels,
    patch_entry,
    text_width,
    to_svg,
)
from dsascape.experiments.report.frames import evenly
from dsascape.experiments.report.looks import Units, kind_of_pace
from dsascape.experiments.report.words import quantity, scale_of

_ROW_PX, _TALL_ROW_PX = 22, 42
_LONGEST_LABEL, _LONGEST_ABOVE = 52, 46
PREFIX = "critical."


def pace_shares(points: pd.DataFrame, units: Units | None = None) -> pd.DataFrame:
    """Return the fraction of each point's latency per kind of limiting resource, one column per kind."""
    columns = [str(name) for name in points if str(name).startswith(PREFIX)]
    by_column = points[columns].fillna(0.0).T
    shares = by_column.groupby(lambda name: kind_of_pace(str(name).removeprefix(PREFIX), units)).sum().T
    return shares.loc[:, (shares > 0).any()]


@house_style
def critical_bars(
    points: pd.DataFrame, shares: pd.DataFrame, labels: Mapping[int, str], looks: Looks, figure_id: str,
    width: float = WIDTH,
) -> Markup:  # fmt: skip
    """Draw the simulated latency of each point as a stacked bar, the shortest first.

    ``shares`` (fractions of the latency, one column per resource) and ``labels`` have the index of ``points``. Labels
    are in front of the bars, or above them if the drawing is narrower than the page.
    """
    above = width < WIDTH
    row_px = _TALL_ROW_PX if above else _ROW_PX
    by_latency = points.sort_values("latency_s", kind="stable")
    divisor, unit = scale_of(by_latency["latency_s"], "s")
    drawn = [clipped(labels[int(number)], _LONGEST_ABOVE if above else _LONGEST_LABEL) for number in by_latency.index]
    left = 10 if above else 24 + min(400, max(map(text_width, drawn)))
    margins = Margins(left=left, right=80, top=8, bottom=44)
    height = len(by_latency) * row_px + margins.top + margins.bottom
    legend = [patch_entry(look, name) for name, look in looks.items()]
    figure, (axes,) = panels(1, 1, (width, height), margins, legend)
    spots = []
    for row, (number, latency_s) in enumerate(zip(by_latency.index, by_latency["latency_s"], strict=True)):
        start = 0.0
        for kind, look in looks.items():
            length = float(shares.loc[number, kind]) * latency_s / divisor
            axes.barh(
                row, length, BAR_PX / row_px, start, color=look.colour, edgecolor=HATCH, hatch=look.hatch, linewidth=0
            )
            start += length
        axes.annotate(
            quantity(latency_s, "s"), (latency_s / divisor, row), (6, 0),
            textcoords="offset points", va="center_baseline",
        )  # fmt: skip
        spots.append(Spot(axes, 0.0, row, int(number), latency_s / divisor))
    if above:
        axes.set_yticks([])
        for row, label in enumerate(drawn):
            axes.annotate(label, (0, row), (0, BAR_PX / 2 + 4), textcoords="offset points", va="baseline")
    else:
        axes.set_yticks(range(len(drawn)), drawn)
        axes.tick_params(axis="y", labelcolor=INK)
    axes.set(xlim=(0, float(by_latency["latency_s"].max()) / divisor), ylim=(len(drawn) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"simulated latency [{unit}]")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    return to_svg(figure, figure_id, "Where the simulated latency of each point goes", spots)


def representative_points(points: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return at most ``most`` points: the fastest of each policy, the rest evenly spread by latency."""
    by_latency = points.sort_values("latency_s", kind="stable")
    first = by_latency.drop_duplicates("policy").head(most)
    rest = by_latency.drop(first.index)
    room = most - len(first)
    return pd.concat([first, rest.iloc[evenly(len(rest), room)]])
