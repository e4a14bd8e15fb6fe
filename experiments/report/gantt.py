"""Timelines: which unit did what when, on one scale of time. From spans to SVG."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from experiments.report.canvas import (
    HATCH,
    INK,
    MUTED,
    WIDTH,
    Look,
    Looks,
    Margins,
    clipped,
    house_style,
    looks_for,
    panels,
    patch_entry,
    text_width,
    to_svg,
)
from experiments.report.study import Span, Timeline

RECTANGLES = 2000
"""At most so many are drawn for one timeline."""
READABLE = 500
"""As many are drawn of a timeline that has to be cut off."""

_MOST_IDLE_HIDDEN = 0.1
"""Merging may make units look busier by this share of their busy time."""
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

    Beyond that, neighbours of one category that lie less than a pixel apart become one, unless that would
    hide much idle time. Where this does not do, all end where the first has shown ``READABLE`` spans.
    """
    until_ps = max((timeline.makespan_ps for timeline in timelines), default=0)
    merged = tuple(
        _merged(timeline, until_ps / WIDTH) if _span_count(timeline) > RECTANGLES else timeline
        for timeline in timelines
    )
    if all(
        _span_count(after) <= RECTANGLES and _busy_ps(after) <= (1 + _MOST_IDLE_HIDDEN) * _busy_ps(before)
        for before, after in zip(timelines, merged, strict=True)
    ):
        return Shown(merged, until_ps, merged=merged != tuple(timelines), zoomed=False)
    end_ps = max(1, min(_start_of_span(one, READABLE) for one in timelines if _span_count(one) > RECTANGLES))
    first = tuple(
        Timeline(
            one.title, tuple((lane, _before(end_ps, spans)) for lane, spans in one.lanes), one.makespan_ps
        )
        for one in timelines
    )
    return Shown(first, end_ps, merged=False, zoomed=True)


def categories_in(timelines: Iterable[Timeline]) -> dict[str, Look]:
    """Give each category a look: always the same to the usual ones, then the others by the alphabet."""
    found = {span.category for timeline in timelines for _, spans in timeline.lanes for span in spans}
    looks = looks_for([*_USUAL, *sorted(found.difference(_USUAL))])
    return {category: look for category, look in looks.items() if category in found}


def busy_shares(timelines: Iterable[Timeline]) -> pd.DataFrame:
    """Return for each timeline and unit the share of the makespan it spent on each category."""
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
    margins = Margins(left=min(200, 24 + max(map(text_width, lanes), default=0)), right=92, top=34, bottom=44)
    figure, all_axes = panels(
        len(shown.timelines),
        1,
        (WIDTH, most * _LANE_PX + margins.top + margins.bottom),
        margins,
        [patch_entry(look, category) for category, look in looks.items()],
    )
    divisor, unit = next((pair for pair in _PS_PER_UNIT if shown.until_ps >= pair[0]), _PS_PER_UNIT[-1])
    px_per_unit = (WIDTH - margins.left - margins.right) * divisor / max(1, shown.until_ps)
    for axes, timeline in zip(all_axes, shown.timelines, strict=True):
        for row, (_, spans) in enumerate(timeline.lanes):
            _draw_lane(axes, row, spans, divisor, px_per_unit, looks)
        whole = f"{timeline.makespan_ps / divisor:,.4g} {unit}"
        if timeline.makespan_ps <= shown.until_ps:
            axes.axvline(timeline.makespan_ps / divisor, color=INK, linewidth=1.2)
        else:
            whole = f"of {whole}"
        end = min(timeline.makespan_ps, shown.until_ps) / divisor
        axes.annotate(whole, (end, -0.5), (6, 0), textcoords="offset points", va="top", fontweight="bold")
        axes.set(xlim=(0, max(1, shown.until_ps) / divisor), ylim=(most - 0.4, -0.6))
        axes.set_yticks(
            range(len(timeline.lanes)), [clipped(lane, 26) for lane, _ in timeline.lanes], color=INK
        )
        axes.grid(visible=False, axis="y")
        axes.set_title(clipped(timeline.title, 110))
        axes.set_xlabel(f"simulated time [{unit}]", color=MUTED)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    return to_svg(
        figure, figure_id, "Timeline of the units: " + "; ".join(one.title for one in shown.timelines)
    )


def _draw_lane(
    axes: Axes, row: int, spans: Sequence[Span], divisor: float, px_per_unit: float, looks: Looks
) -> None:
    """Draw the spans of a lane, one path for each category."""
    for category, look in looks.items():
        own = [
            (span.start_ps / divisor, span.end_ps / divisor, span.label)
            for span in spans
            if span.category == category
        ]
        if not own:
            continue
        boxes = [
            Path(
                [
                    (start, row - 0.36),
                    (end, row - 0.36),
                    (end, row + 0.36),
                    (start, row + 0.36),
                    (start, row - 0.36),
                ],
                closed=True,
            )
            for start, end, _ in own
        ]
        typical = sorted(end - start for start, end, _ in own)[len(own) // 2] * px_per_unit
        axes.add_patch(
            PathPatch(
                Path.make_compound_path(*boxes),
                facecolor=look.colour,
                edgecolor=HATCH,
                hatch=look.hatch,
                linewidth=min(0.8, typical / 10),
            )
        )
        for start, end, label in own:
            if label and (end - start) * px_per_unit > text_width(label) + 14:
                axes.text(
                    (start + end) / 2,
                    row,
                    label,
                    ha="center",
                    va="center_baseline",
                    fontsize=10.5,
                    color=look.on_colour,
                    clip_on=True,
                    bbox={"facecolor": look.colour, "edgecolor": "none", "pad": 1.5},
                )


def _merged(timeline: Timeline, gap_ps: float) -> Timeline:
    """Join neighbours of one category where less than ``gap_ps`` lies between them."""
    lanes = []
    for lane, spans in timeline.lanes:
        joined: list[Span] = []
        for span in spans:
            last = joined[-1] if joined else None
            if last and last.category == span.category and span.start_ps - last.end_ps < gap_ps:
                joined[-1] = Span(last.start_ps, max(last.end_ps, span.end_ps), "", span.category)
            else:
                joined.append(span)
        lanes.append((lane, tuple(joined)))
    return Timeline(timeline.title, tuple(lanes), timeline.makespan_ps)


def _before(end_ps: int, spans: Sequence[Span]) -> tuple[Span, ...]:
    return tuple(span for span in spans if span.start_ps < end_ps)


def _busy_ps(timeline: Timeline) -> int:
    return sum(span.end_ps - span.start_ps for _, spans in timeline.lanes for span in spans)


def _span_count(timeline: Timeline) -> int:
    return sum(len(spans) for _, spans in timeline.lanes)


def _start_of_span(timeline: Timeline, number: int) -> int:
    return sorted(span.start_ps for _, spans in timeline.lanes for span in spans)[number]
