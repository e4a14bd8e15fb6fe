"""Bar charts of speed-ups, traffic and bottlenecks, from frames to SVG."""

from collections.abc import Mapping, Sequence
from math import isfinite

import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from dsascape.experiments.report.canvas import (
    GRID,
    HATCH,
    INK,
    PAPER,
    WIDTH,
    Looks,
    Margins,
    clipped,
    house_style,
    name_ticks,
    panel_width,
    panels,
    patch_entry,
    slant_room,
    slanted,
    text_width,
    to_panels,
    to_svg,
)
from dsascape.experiments.report.frames import numbers, texts
from dsascape.experiments.report.words import TIMES, scale_of, significant

Heights = Mapping[tuple[str, str], tuple[float, float, float]]
"""(height, lower and upper end of the whisker) by (group, policy)."""

_LEVEL_LABEL_PX = 36
_UPRIGHT_LABEL_PX = 13
_LOG_FROM_RATIO = 60
_ROW_PX, _BAND_PX = 24, 30
_MOST_ON_ONE_ROW = 12


@house_style
def speedup_bars(
    summary: pd.DataFrame,
    networks: Sequence[str],
    policies: Sequence[str],
    looks: Looks,
    over: str,
    figure_id: str,
    width: float = WIDTH,
) -> Markup:
    """Draw the geometric mean speed-up of each policy on each network, with whiskers from least to greatest.

    ``summary`` has the columns network, policy, geomean, least and greatest; ``over`` says what the speed-up is, such
    as "simulated speed-up over unfused". The drawing is wider than ``width`` pixels if its bars need that.
    """
    heights = _heights(summary, ("geomean", "least", "greatest"))
    width = max(width, 90 + len(networks) * (18 * len(policies) + 22))
    margins = Margins(
        left=70,
        top=12,
        bottom=34 + (slant_room(networks) if slanted(networks, (width - 84) / len(networks)) else 0),
    )
    figure, (axes,) = panels(
        1,
        1,
        (width, 300 + margins.bottom),
        margins,
        [patch_entry(looks[policy], policy) for policy in policies],
    )
    _grouped_bars(
        axes, (networks, policies), heights, looks, width - margins.left - margins.right, logarithmic=_is_wide(heights)
    )
    axes.axhline(1, color=INK, linewidth=1.2)
    axes.set_ylabel(over)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}{TIMES}")
    return to_svg(figure, figure_id, f"{over}, of each policy on each network")


@house_style
def traffic_bars(
    traffic: pd.DataFrame, networks: Sequence[str], policies: Sequence[str], looks: Looks, figure_id: str
) -> Markup:
    """Draw the bytes moved at each memory: a panel per memory, groups of bars per network.

    ``traffic`` has the columns network and policy, and one of mean bytes per memory.
    """
    memories = [str(name) for name in traffic if name not in ("network", "policy")]
    columns = len(memories) if len(networks) * len(policies) <= _MOST_ON_ONE_ROW else 1
    columns = min(columns, 3)
    width = max(panel_width(columns), 90 + len(networks) * (12 * len(policies) + 14))
    room = (width - 86) / len(networks)
    margins = Margins(left=70, top=34, bottom=30 + (slant_room(networks) if slanted(networks, room) else 0))
    figure, all_axes = panels(
        len(memories),
        columns,
        (width, 210 + margins.bottom),
        margins,
        [patch_entry(looks[policy], policy) for policy in policies],
    )
    every = {memory: _heights(traffic, (memory, memory, memory)) for memory in memories}
    logarithmic = any(map(_is_wide, every.values()))
    for axes, memory in zip(all_axes, memories, strict=True):
        divisor, unit = scale_of(traffic[memory], "B")
        heights = _heights(traffic.assign(**{memory: traffic[memory] / divisor}), (memory, memory, memory))
        axes.set_title(clipped(memory, 40))
        axes.set_ylabel(f"traffic [{unit}]")
        room = width - margins.left - margins.right
        _grouped_bars(axes, (networks, policies), heights, looks, room, logarithmic=logarithmic)
    return to_panels(figure, margins, figure_id, "Bytes moved at each memory, by network and policy")


@house_style
def bound_bars(
    groups: Sequence[tuple[str, pd.DataFrame]], looks: Looks, figure_id: str, width: float = WIDTH
) -> Markup:
    """Draw the shares of points per bottleneck: titled groups of counts, a bar for each of their rows."""
    longest = 36 if width >= WIDTH else 18
    names = [clipped(str(name), longest) for _, counts in groups for name in counts.index]
    margins = Margins(left=min(270, 24 + max(map(text_width, names))), right=16, top=6, bottom=40)
    rows = sum(len(counts) for _, counts in groups)
    height = rows * _ROW_PX + len(groups) * _BAND_PX + margins.top + margins.bottom
    figure, (axes,) = panels(
        1, 1, (width, height), margins, [patch_entry(look, kind) for kind, look in looks.items()]
    )
    inner = width - margins.left - margins.right
    top = 0.0
    for title, counts in groups:
        axes.text(0, top + 0.72 * _BAND_PX, clipped(title, 60), fontweight="bold", va="center")
        top += _BAND_PX
        for name, row in counts.iterrows():
            middle, start, total = top + _ROW_PX / 2, 0.0, float(row.sum())
            axes.text(-8 / inner, middle, clipped(str(name), longest), ha="right", va="center")
            for kind, number in row.items():
                share = number / total if total else 0.0
                look = looks[str(kind)]
                axes.barh(
                    middle,
                    share,
                    _ROW_PX - 7,
                    start,
                    color=look.colour,
                    edgecolor=HATCH,
                    hatch=look.hatch,
                    linewidth=0.8,
                )
                if share * inner > text_width(f"{number:,}") + 12:
                    axes.text(
                        start + share / 2,
                        middle,
                        f"{number:,}",
                        color=look.on_colour,
                        ha="center",
                        va="center_baseline",
                        fontsize=11,
                        bbox={"facecolor": look.colour, "edgecolor": "none", "pad": 1.5},
                    )
                start += share
            top += _ROW_PX
    axes.set(xlim=(0, 1), ylim=(top, 0), xlabel="share of points", yticks=[])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return to_svg(figure, figure_id, "What the points were bound by")


def _heights(frame: pd.DataFrame, columns: tuple[str, str, str]) -> Heights:
    """Return (height, lower, upper) of each bar from three columns; rows without a height have no bar."""
    keys = zip(texts(frame, "network"), texts(frame, "policy"), strict=True)
    ends = zip(*(numbers(frame, name) for name in columns), strict=True)
    return {key: (height, low, high) for key, (height, low, high) in zip(keys, ends, strict=True) if isfinite(height)}


def _is_wide(heights: Heights) -> bool:
    """Return whether only a logarithmic axis would show the smallest bars."""
    shown = [end for _, *ends in heights.values() for end in ends if end > 0]
    return bool(shown) and max(shown) / min(shown) > _LOG_FROM_RATIO


def _grouped_bars(
    axes: Axes,
    groups: tuple[Sequence[str], Sequence[str]],
    heights: Heights,
    looks: Looks,
    width: float,
    *,
    logarithmic: bool,
) -> None:
    """Draw bars of policies side by side per network, with whiskers, and values where they fit."""
    networks, policies = groups
    thick = 0.82 / len(policies)
    thick = min(thick, 70 * len(networks) / width)
    tops = [high for _, _, high in heights.values()]
    shown = [end for _, *ends in heights.values() for end in ends if end > 0]
    logarithmic = logarithmic and bool(shown)
    floor = 10 ** _floor_exponent(min(shown)) if logarithmic else 0.0
    for place, policy in enumerate(policies):
        look = looks[policy]
        for group, network in enumerate(networks):
            if (network, policy) not in heights:
                continue
            height, low, high = heights[network, policy]
            x = group + (place - (len(policies) - 1) / 2) * thick
            axes.bar(
                x,
                height - floor,
                thick,
                floor,
                color=look.colour,
                edgecolor=HATCH,
                hatch=look.hatch,
                linewidth=0.8,
            )
            if high > low:
                axes.errorbar(
                    x, height, [[height - low], [high - height]], color=INK, capsize=3, linewidth=1.1
                )
            beside = high > low and thick / len(networks) * width >= 1.5 * _LEVEL_LABEL_PX
            top = height if beside else high
            _value_label(axes, x, top, significant(height), thick / len(networks) * width, beside=beside)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylim(floor, floor * (max(tops) / floor) ** 1.35)
    else:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        upright = _UPRIGHT_LABEL_PX <= thick / len(networks) * width < _LEVEL_LABEL_PX
        axes.set_ylim(0, (1.3 if upright else 1.16) * max([*tops, 1e-12]))
    axes.set_xlim(-0.5, len(networks) - 0.5)
    name_ticks(axes, networks, width / len(networks))
    axes.grid(visible=True, axis="y", color=GRID)


def _value_label(axes: Axes, x: float, top: float, text: str, room: float, *, beside: bool) -> None:
    """Write a bar's value above it or beside its whisker, on a background."""
    if room >= _UPRIGHT_LABEL_PX:
        axes.annotate(
            text,
            (x, top),
            (5 if beside else 0, 4),
            textcoords="offset points",
            ha="left" if beside else "center",
            va="bottom",
            fontsize=11,
            rotation=0 if room >= _LEVEL_LABEL_PX else 90,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.5},
            zorder=3,
        )


def _floor_exponent(smallest: float) -> int:
    return int(f"{smallest:e}".split("e")[1])
