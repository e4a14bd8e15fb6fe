"""Timelines: which unit did what when, on one scale of time. From spans to SVG."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from experiments.report.canvas import (
    HATCH, INK, MUTED, WIDTH, Look, Looks, Margins, clipped, house_style, looks_for, panels, patch_entry, text_width,
    to_svg,
)  # fmt: skip
from experiments.report.study import Span, Timeline

RECTANGLES = 2000
"""At most so many are drawn for one timeline."""

_USUAL = ("matrix", "vector", "load", "store", "launch")
_LANE_PX = 30
_PS_PER_UNIT = ((1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns"), (1.0, "ps"))


@dataclass(frozen=True, slots=True)
class Shown:
    """What is drawn of timelines: lanes thinned out to what can be seen, up to a time."""

    timelines: tuple[Timeline, ...]
    until_ps: int
    merged: bool
    """Neighbours of one category were drawn as one rectangle."""
    zoomed: bool
    """Only the first part is drawn."""


def thinned(timelines: Sequence[Timeline]) -> Shown:
    """Timelines with at most ``RECTANGLES`` spans each.

    Beyond that, neighbours of one category that lie less than a pixel apart become one; where that is not enough,
    every timeline ends where the first of them reaches the limit.
    """
    until_ps = max((timeline.makespan_ps for timeline in timelines), default=0)
    crowded = [_span_count(timeline) > RECTANGLES for timeline in timelines]
    gap_ps = until_ps / WIDTH
    kept = tuple(
        Timeline(timeline.title, tuple((lane, _merged(spans, gap_ps)) for lane, spans in timeline.lanes), timeline.makespan_ps)
        if many else timeline
        for timeline, many in zip(timelines, crowded, strict=True)
    )  # fmt: skip
    ends = [_start_of_span(timeline, RECTANGLES) for timeline in kept if _span_count(timeline) > RECTANGLES]
    if not ends:
        return Shown(kept, until_ps, merged=any(crowded), zoomed=False)
    end_ps = max(1, min(ends))
    first = tuple(
        Timeline(
            timeline.title,
            tuple((lane, tuple(span for span in spans if span.start_ps < end_ps)) for lane, spans in timeline.lanes),
            timeline.makespan_ps,
        )
        for timeline in kept
    )
    return Shown(first, end_ps, merged=True, zoomed=True)


def categories_in(timelines: Iterable[Timeline]) -> dict[str, Look]:
    """Looks of the categories: the usual ones always the same, others behind them in order of the alphabet."""
    found = {span.category for timeline in timelines for _, spans in timeline.lanes for span in spans}
    looks = looks_for([*_USUAL, *sorted(found.difference(_USUAL))])
    return {category: look for category, look in looks.items() if category in found}


def busy_shares(timelines: Iterable[Timeline]) -> pd.DataFrame:
    """Share of the makespan that each unit spent on each category, in columns timeline, unit and the categories."""
    kept = list(timelines)
    rows = []
    for timeline in kept:
        for lane, spans in timeline.lanes:
            busy_ps = dict.fromkeys(categories_in(kept), 0)
            for span in spans:
                busy_ps[span.category] += span.end_ps - span.start_ps
            shares = {category: each / max(1, timeline.makespan_ps) for category, each in busy_ps.items()}
            rows.append({"timeline": timeline.title, "unit": lane, **shares})
    return pd.DataFrame(rows)


@house_style
def gantt_chart(shown: Shown, looks: Looks, figure_id: str) -> Markup:
    """One panel per timeline, one above the other; lanes are units."""
    lanes = [lane for timeline in shown.timelines for lane, _ in timeline.lanes]
    most = max(1, *(len(timeline.lanes) for timeline in shown.timelines))
    margins = Margins(left=min(200, 24 + max(map(text_width, lanes), default=0)), right=74, top=34, bottom=44)
    figure, all_axes = panels(
        len(shown.timelines), 1, (WIDTH, most * _LANE_PX + margins.top + margins.bottom), margins,
        [patch_entry(look, category) for category, look in looks.items()],
    )  # fmt: skip
    divisor, unit = next((pair for pair in _PS_PER_UNIT if shown.until_ps >= pair[0]), _PS_PER_UNIT[-1])
    px_per_unit = (WIDTH - margins.left - margins.right) * divisor / max(1, shown.until_ps)
    for axes, timeline in zip(all_axes, shown.timelines, strict=True):
        for row, (_, spans) in enumerate(timeline.lanes):
            _draw_lane(axes, row, spans, divisor, px_per_unit, looks)
        end = timeline.makespan_ps / divisor
        if timeline.makespan_ps <= shown.until_ps:
            axes.axvline(end, color=INK, linewidth=1.2)
            axes.annotate(
                f"{end:,.4g} {unit}", (end, -0.5), (6, 0), textcoords="offset points", va="top", fontweight="bold"
            )
        axes.set(xlim=(0, max(1, shown.until_ps) / divisor), ylim=(most - 0.4, -0.6))
        axes.set_yticks(range(len(timeline.lanes)), [clipped(lane, 26) for lane, _ in timeline.lanes], color=INK)
        axes.grid(visible=False, axis="y")
        axes.set_title(clipped(timeline.title, 110))
        axes.set_xlabel(f"simulated time [{unit}]", color=MUTED)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    return to_svg(figure, figure_id, "Timeline of the units: " + "; ".join(one.title for one in shown.timelines))


def _draw_lane(
    axes: Axes, row: int, spans: Sequence[Span], divisor: float, px_per_unit: float, looks: Looks
) -> None:
    """The spans of a lane, one path for each category."""
    for category, look in looks.items():
        own = [(span.start_ps / divisor, span.end_ps / divisor, span.label) for span in spans if span.category == category]
        if not own:
            continue
        boxes = [
            Path([(start, row - 0.36), (end, row - 0.36), (end, row + 0.36), (start, row + 0.36), (start, row - 0.36)], closed=True)
            for start, end, _ in own
        ]
        typical = sorted(end - start for start, end, _ in own)[len(own) // 2] * px_per_unit
        axes.add_patch(PathPatch(
            Path.make_compound_path(*boxes), facecolor=look.colour, edgecolor=HATCH, hatch=look.hatch,
            linewidth=min(0.8, typical / 10),
        ))  # fmt: skip
        for start, end, label in own:
            if label and (end - start) * px_per_unit > text_width(label) + 14:
                axes.text(
                    (start + end) / 2, row, label, ha="center", va="center_baseline", fontsize=10.5, color=look.on_colour,
                    clip_on=True, bbox={"facecolor": look.colour, "edgecolor": "none", "pad": 1.5},
                )  # fmt: skip


def _merged(spans: Sequence[Span], gap_ps: float) -> tuple[Span, ...]:
    """Spans with neighbours of one category joined where less than ``gap_ps`` lies between them."""
    joined: list[Span] = []
    for span in spans:
        last = joined[-1] if joined else None
        if last and last.category == span.category and span.start_ps - last.end_ps < gap_ps:
            joined[-1] = Span(last.start_ps, max(last.end_ps, span.end_ps), "", span.category)
        else:
            joined.append(span)
    return tuple(joined)


def _span_count(timeline: Timeline) -> int:
    return sum(len(spans) for _, spans in timeline.lanes)


def _start_of_span(timeline: Timeline, number: int) -> int:
    return sorted(span.start_ps for _, spans in timeline.lanes for span in spans)[number]
