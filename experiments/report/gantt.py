"""Timelines of units and of the critical path: from spans to SVG, and to lanes for zooming."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from dsascape.experiments.report.canvas import (
    HATCH,
    INK,
    MUTED,
    WIDTH,
    Look,
    Looks,
    Margins,
    clipped,
    house_style,
    panels,
    patch_entry,
    text_width,
    to_svg,
)
from dsascape.experiments.report.looks import Units, kind_looks, kind_of_pace
from dsascape.experiments.results.timeline import Span, Timeline

Lanes = tuple[tuple[str, tuple[Span, ...]], ...]
CRITICAL = "critical path"
"""Name of the lane with the limiting resources."""

RECTANGLES = 2000
"""Largest number of spans drawn for one timeline."""
DETAILS = 6000
"""Largest number of spans available for zooming into one timeline."""
READABLE = 500
"""Number of spans drawn of a timeline that has to be cut off."""

_MOST_IDLE_HIDDEN = 0.1
"""Largest relative increase in busy time that merging may cause."""
_FINEST = 100_000
"""Gaps below this fraction of the makespan are the first to be merged for zooming."""
_LANE_PX = 30
_PS_PER_UNIT = ((1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns"), (1.0, "ps"))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A timeline thinned out to what can be seen at once, with more spans for zooming."""

    timeline: Timeline
    lanes: Lanes
    """Lanes thinned out to what can be seen, up to ``until_ps``."""
    until_ps: int
    detailed: Lanes
    merged: bool
    """Whether neighbours of one category were drawn as one rectangle."""
    zoomed: bool
    """Whether only the first part is drawn."""
    detail_until_ps: int
    """End of the detailed lanes; the makespan unless there are too many spans."""


def drawn(timeline: Timeline, units: Units | None = None) -> Drawn:
    """Return the timeline with at most ``RECTANGLES`` spans to draw, and at most ``DETAILS`` for zooming.

    Above that, neighbours of one category less than a pixel apart are merged, unless that would hide much idle time.
    Where this is not enough, only the time until ``READABLE`` spans have begun is drawn.
    """
    lanes = timeline.lanes
    if timeline.critical:
        paced = tuple(replace(span, category=kind_of_pace(span.category, units)) for span in timeline.critical)
        lanes = ((CRITICAL, paced), *lanes)
    makespan_ps = timeline.makespan_ps
    detailed, detail_until_ps = _detailed(lanes, makespan_ps)
    merged = _merged(lanes, makespan_ps / WIDTH) if _span_count(lanes) > RECTANGLES else lanes
    if _span_count(merged) <= RECTANGLES and _busy_ps(merged) <= (1 + _MOST_IDLE_HIDDEN) * _busy_ps(lanes):
        return Drawn(
            timeline, merged, makespan_ps, detailed,
            merged=merged != lanes, zoomed=False, detail_until_ps=detail_until_ps,
        )  # fmt: skip
    end_ps = max(1, _start_of_span(lanes, READABLE))
    return Drawn(
        timeline, _before(end_ps, lanes), end_ps, detailed, merged=False, zoomed=True, detail_until_ps=detail_until_ps
    )


def _detailed(lanes: Lanes, makespan_ps: int) -> tuple[Lanes, int]:
    """Return (at most ``DETAILS`` spans, merged as little as that allows, the time up to which they reach)."""
    merged, gap_ps = lanes, makespan_ps / _FINEST
    while _span_count(merged) > DETAILS and gap_ps < makespan_ps / WIDTH:
        merged, gap_ps = _merged(lanes, gap_ps), gap_ps * 2
    if _span_count(merged) <= DETAILS:
        return merged, makespan_ps
    end_ps = max(1, _start_of_span(lanes, DETAILS))
    return _before(end_ps, lanes), end_ps


def categories_in(lanes: Iterable[Lanes]) -> dict[str, Look]:
    """Return the look of each category, the same in every report."""
    return kind_looks({span.category for each in lanes for _, spans in each for span in spans})


def busy_shares(timelines: Iterable[Timeline]) -> pd.DataFrame:
    """Return, per timeline and unit, the fraction of the makespan spent on each category."""
    kept = list(timelines)
    categories = categories_in(timeline.lanes for timeline in kept)
    rows = []
    for timeline in kept:
        for lane, spans in timeline.lanes:
            busy_ps = dict.fromkeys(categories, 0)
            for span in spans:
                busy_ps[span.category] += span.end_ps - span.start_ps
            shares = {category: each / max(1, timeline.makespan_ps) for category, each in busy_ps.items()}
            rows.append({"timeline": timeline.title, "unit": lane, **shares})
    return pd.DataFrame(rows)


@house_style
def gantt_chart(shown: Drawn, looks: Looks, figure_id: str) -> Markup:
    """Draw one timeline on its own time scale: one lane per unit, the critical path on top."""
    timeline = shown.timeline
    names = [lane for lane, _ in shown.lanes]
    margins = Margins(left=min(200, 24 + max(map(text_width, names), default=0)), right=92, top=34, bottom=44)
    height = max(1, len(names)) * _LANE_PX + margins.top + margins.bottom
    legend = [patch_entry(look, category) for category, look in looks.items()]
    figure, (axes,) = panels(1, 1, (WIDTH, height), margins, legend)
    divisor, unit = next((pair for pair in _PS_PER_UNIT if shown.until_ps >= pair[0]), _PS_PER_UNIT[-1])
    px_per_unit = (WIDTH - margins.left - margins.right) * divisor / max(1, shown.until_ps)
    for row, (_, spans) in enumerate(shown.lanes):
        _draw_lane(axes, row, spans, divisor, px_per_unit, looks)
    whole = f"{timeline.makespan_ps / divisor:,.4g} {unit}"
    if shown.zoomed:
        whole = f"of {whole}"
    else:
        axes.axvline(timeline.makespan_ps / divisor, color=INK, linewidth=1.2)
    axes.annotate(
        whole, (shown.until_ps / divisor, -0.5), (6, 0), textcoords="offset points", va="top", fontweight="bold"
    )
    axes.set(xlim=(0, max(1, shown.until_ps) / divisor), ylim=(max(1, len(names)) - 0.4, -0.6))
    axes.set_yticks(range(len(names)), [clipped(lane, 26) for lane in names], color=INK)
    axes.grid(visible=False, axis="y")
    axes.set_title(clipped(timeline.title, 110))
    axes.set_xlabel(f"simulated time [{unit}]", color=MUTED)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    return to_svg(figure, figure_id, f"Timeline of the units: {timeline.title}")


def _draw_lane(
    axes: Axes, row: int, spans: Sequence[Span], divisor: float, px_per_unit: float, looks: Looks
) -> None:
    """Draw the spans of a lane, one path per category."""
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


def _merged(lanes: Lanes, gap_ps: float) -> Lanes:
    """Return lanes with neighbours of one category merged where the gap is below ``gap_ps``."""
    merged = []
    for lane, spans in lanes:
        joined: list[Span] = []
        for span in spans:
            last = joined[-1] if joined else None
            if last and last.category == span.category and span.start_ps - last.end_ps < gap_ps:
                label = last.label if last.label == span.label else ""
                joined[-1] = Span(last.start_ps, max(last.end_ps, span.end_ps), label, span.category)
            else:
                joined.append(span)
        merged.append((lane, tuple(joined)))
    return tuple(merged)


def _before(end_ps: int, lanes: Lanes) -> Lanes:
    return tuple((lane, tuple(span for span in spans if span.start_ps < end_ps)) for lane, spans in lanes)


def _busy_ps(lanes: Lanes) -> int:
    return sum(span.end_ps - span.start_ps for _, spans in lanes for span in spans)


def _span_count(lanes: Lanes) -> int:
    return sum(len(spans) for _, spans in lanes)


def _start_of_span(lanes: Lanes, number: int) -> int:
    return sorted(span.start_ps for _, spans in lanes for span in spans)[number]
