"""Roofline chart: operations per second over operations per byte of off-chip traffic, below the machine's bounds."""

from collections.abc import Iterable, Sequence
from math import atan2, degrees, log10

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from dsascape.experiments.report.canvas import (
    INK,
    MUTED,
    PAPER,
    Looks,
    Margins,
    clipped,
    house_style,
    marker_entry,
    panel_width,
    panels,
    spots_along,
    to_panels,
)
from dsascape.experiments.report.frames import usable
from dsascape.experiments.report.words import quantity, scale_of

OPERATIONS_PER_MAC = 2
_OFF_CHIP = ("traffic_bytes.ddr", "traffic_bytes.dram")
_COLUMNS = 3
_LABEL_PX = 11
"""Height of a roof's label, in pixels."""
MOST_ROOFS = 6
"""Largest number of rooflines drawn for one network."""


def rooflines(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with a roofline: ``intensity`` (operations per byte), ``operations_per_s`` and their bound.

    ``bound_per_s`` is the lesser of the machine's peak and what its off-chip bandwidth allows at this intensity;
    ``share`` is the fraction of it that is reached, ``limit`` the name of the lesser. A multiply-accumulate is two
    operations.
    """
    ran = usable(points)
    traffic = next((ran[name] for name in _OFF_CHIP if name in ran), pd.Series(np.nan, index=ran.index))
    complete = (ran["macs"] > 0) & (traffic > 0) & (ran["peak_macs_per_s"] > 0) & (ran["off_chip_bytes_per_s"] > 0)
    own, moved = ran.loc[complete], traffic.loc[complete]
    operations = own["macs"] * OPERATIONS_PER_MAC
    intensity = operations / moved
    by_memory = intensity * own["off_chip_bytes_per_s"]
    peak = own["peak_macs_per_s"] * OPERATIONS_PER_MAC
    reached = operations / own["latency_s"]
    return own.assign(
        intensity=intensity,
        operations_per_s=reached,
        bound_per_s=np.minimum(by_memory, peak),
        share=reached / np.minimum(by_memory, peak),
        limit=np.where(by_memory < peak, "off-chip bandwidth", "arithmetic"),
        peak_per_s=peak,
    )


@house_style
def roofline_chart(points: pd.DataFrame, looks: Looks, figure_id: str) -> Markup:
    """Draw the points of `rooflines` under their machines' roofs, a panel per network, on common axes."""
    networks = [str(name) for name in points["network"].unique()]
    policies = [policy for policy in looks if (points["policy"] == policy).any()]
    columns = min(_COLUMNS, len(networks))
    size = panel_width(columns)
    margins = Margins(left=66, bottom=50)
    figure, all_axes = panels(
        len(networks), columns, (size, 290), margins, [marker_entry(looks[p], p) for p in policies]
    )
    divisor, unit = scale_of(points["peak_per_s"], "op/s")
    ridge = points["peak_per_s"] / points["off_chip_bytes_per_s"]
    x_ends = min(points["intensity"].min(), ridge.min()) / 2, max(points["intensity"].max(), ridge.max()) * 2
    y_ends = points["operations_per_s"].min() / divisor / 2, points["peak_per_s"].max() / divisor * 2
    spots = []
    for axes, network in zip(all_axes, networks, strict=True):
        own = points.loc[points["network"] == network]
        roofs = roofs_of(own)
        for peak, bandwidth in roofs:
            intensity = np.array([x_ends[0], peak / bandwidth, x_ends[1]])
            bound = np.minimum(intensity * bandwidth, peak) / divisor
            axes.plot(intensity, bound, color=MUTED, linewidth=1.2, zorder=1)
        _label_roofs(axes, roofs, x_ends, y_ends, divisor)
        for policy in policies:
            chosen = own.loc[own["policy"] == policy]
            axes.plot(
                chosen["intensity"].to_numpy(), (chosen["operations_per_s"] / divisor).to_numpy(), linestyle="none",
                color=looks[policy].colour, marker=looks[policy].marker, markersize=8, markeredgecolor=PAPER, zorder=2,
            )  # fmt: skip
        spots += spots_along(axes, own["intensity"], own["operations_per_s"] / divisor)
        axes.set(xscale="log", yscale="log", xlim=x_ends, ylim=y_ends)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(numticks=7))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes.tick_params(axis="x", labelcolor=INK)
        axes.set_title(clipped(network, 40))
        axes.set_ylabel(f"operations per second [{unit}]")
        axes.set_xlabel("operations per byte of off-chip traffic [op/B]")
    about = "Operations per second over operations per byte, for each network"
    return to_panels(figure, margins, figure_id, about, spots)


def _label_roofs(
    axes: Axes, roofs: Sequence[tuple[float, float]], x_ends: tuple[float, float], y_ends: tuple[float, float],
    divisor: float,
) -> None:  # fmt: skip
    """Write the bandwidth along each slope and the peak above each level, unless a label is there already."""
    box = axes.get_window_extent()
    px_up = box.height / log10(y_ends[1] / y_ends[0])
    angle = degrees(atan2(px_up, box.width / log10(x_ends[1] / x_ends[0])))
    bandwidths = _apart((bandwidth for _, bandwidth in roofs), px_up)
    for bandwidth in bandwidths:
        start = max(x_ends[0], y_ends[0] * divisor / bandwidth)
        axes.annotate(
            quantity(bandwidth, "B/s"), (start, start * bandwidth / divisor), (_LABEL_PX * 0.7, _LABEL_PX),
            textcoords="offset points", rotation=angle, rotation_mode="anchor", fontsize=9.5, color=INK,
        )  # fmt: skip
    for peak in _apart((peak for peak, _ in roofs), px_up):
        axes.annotate(
            quantity(peak, "op/s"), (x_ends[1], peak / divisor), (-1, 3), textcoords="offset points", ha="right",
            fontsize=9.5, color=INK,
        )  # fmt: skip


def _apart(values: Iterable[float], px_per_decade: float) -> list[float]:
    """Return the distinct values, the largest first, without those too close to the one before for a label."""
    kept: list[float] = []
    for value in sorted(set(values), reverse=True):
        if not kept or log10(kept[-1] / value) * px_per_decade >= _LABEL_PX:
            kept.append(value)
    return kept


def roofs_of(points: pd.DataFrame) -> Sequence[tuple[float, float]]:
    """Return the distinct (peak, bandwidth) of the machines; of many only the least and the greatest."""
    roofs = ["peak_per_s", "off_chip_bytes_per_s"]
    pairs = points[roofs].drop_duplicates().sort_values(roofs).itertuples(index=False, name=None)
    distinct = [(float(peak), float(bandwidth)) for peak, bandwidth in pairs]
    return distinct if len(distinct) <= MOST_ROOFS else [distinct[0], distinct[-1]]
