"""Picture of a plan: the network's operators in the order of kernels, each kernel a coloured box.

Boxes flow down columns, left to right. Lines lead from a kernel to the readers of its results, an arrow to the one
directly below. Colours only tell neighbours apart, in tones that the colour-blind can distinguish.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import escape

from dsascape.experiments.report.canvas import SERIES, Look, clipped
from dsascape.experiments.report.kinds import standalone
from dsascape.experiments.report.words import TIMES
from dsascape.fusion.layer_names import kernel_layer_name
from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models.text.quantities import format_bytes

_ROW, _PAD, _GAP, _WIDTH, _GUTTER, _TOP = 17, 6, 14, 250, 70, 60
_ASPECT = 1.5
"""Aspect ratio (width by height) that the number of columns aims at."""
_LANES = 5
_LONGEST_ROW, _LONGEST_FIRST, _LONGEST_TITLE = 38, 32, 120


@dataclass(frozen=True, slots=True)
class _Box:
    """Position of a kernel's box, in pixels."""

    group: int
    column: int
    left: int
    top: int
    height: int

    @property
    def bottom(self) -> int:
        return self.top + self.height


def plan_picture(title: str, plan: FusionPlan) -> str:
    """Return a standalone SVG of ``plan``; boxes and lines have descriptions to hover over."""
    boxes = _placed(plan)
    width = max(box.left for box in boxes) + _WIDTH + _GUTTER // 2
    height = max(box.bottom for box in boxes) + _GAP
    lines = _edges(plan, boxes)
    drawn = [part for box in boxes for part in _drawn(plan, box)]
    heading = f'<text x="12" y="30" font-size="16" font-weight="bold">{escape(clipped(title, _LONGEST_TITLE))}</text>'
    arrow = (
        '<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="var(--muted)"/></marker></defs>'
    )
    style = 'font-family="DejaVu Sans, sans-serif" font-size="11" fill="var(--ink)"'
    opening = f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" {style}>'
    return standalone("".join([opening, f"<title>{escape(title)}</title>", arrow, heading, *lines, *drawn, "</svg>"]))


def _placed(plan: FusionPlan) -> list[_Box]:
    """Return the boxes in columns of about equal height."""
    heights = [len(group.ops) * _ROW + 2 * _PAD for group in plan.groups]
    total = sum(heights) + _GAP * len(heights)
    columns = max(round(math.sqrt(_ASPECT * total / (_WIDTH + _GUTTER))), 1)
    most = max(total / columns, *heights)
    boxes = []
    column, top = 0, _TOP
    for number, height in enumerate(heights):
        if top > _TOP and top + height - _TOP > most:
            column, top = column + 1, _TOP
        boxes.append(_Box(number, column, _GUTTER + column * (_WIDTH + _GUTTER), top, height))
        top += height + _GAP
    return boxes


def _drawn(plan: FusionPlan, box: _Box) -> list[str]:
    """Return the SVG of one kernel: its box with its number, and a line of text per operator; views are slanted."""
    graph, group = plan.graph, plan.groups[box.group]
    look = Look(box.group % len(SERIES), 0)
    name = kernel_layer_name(plan, box.group)
    about = f"{name}: {group.boundary_reason if plan.is_kernel(box.group) else 'renames elements only'}"
    parts = [
        f'<g id="kernel-{box.group}" fill="{look.css_on}"><title>{escape(about)}</title>'
        f'<rect x="{box.left}" y="{box.top}" width="{_WIDTH}" height="{box.height}" rx="5" fill="{look.css}"/>'
    ]
    for row, position in enumerate(group.ops):
        op = graph.ops[position]
        shape = TIMES.join(map(str, graph.tensors[op.outputs[0]].shape))
        slant = ' font-style="italic"' if op.is_view else ""
        weight = ' font-weight="bold"' if op.operations.macs else ""
        y = box.top + _PAD + row * _ROW + 12
        text = escape(clipped(f"{op.kind}  {shape}", _LONGEST_ROW if row else _LONGEST_FIRST))
        parts.append(f'<text x="{box.left + 8}" y="{y}"{slant}{weight}>{text}<title>{escape(op.name)}</title></text>')
    number = f'<text x="{box.left + _WIDTH - 8}" y="{box.top + _PAD + 12}" text-anchor="end" fill="{look.css_on}">'
    return [*parts, "</g>", f"{number}#{box.group}</text>"]


def _edges(plan: FusionPlan, boxes: Sequence[_Box]) -> list[str]:
    """Return the SVG of the lines from each kernel to its readers."""
    graph = plan.graph
    tensors_between: dict[tuple[int, int], list[str]] = {}
    for position, op in enumerate(graph.ops):
        for name in op.inputs:
            producer = graph.producer.get(name)
            ends = (plan.group_of[producer], plan.group_of[position]) if producer is not None else (0, 0)
            if ends[0] != ends[1]:
                tensors_between.setdefault(ends, []).append(name)
    lines = []
    for number, ((source, reader), names) in enumerate(sorted(tensors_between.items())):
        tensors = [graph.tensors[name] for name in dict.fromkeys(names)]
        about = "; ".join(f"{tensor.name}, {format_bytes(tensor.size_bytes)}" for tensor in tensors)
        path = _path(boxes[source], boxes[reader], number % _LANES)
        lines.append(
            f'<path d="{path}" fill="none" stroke="var(--muted)" stroke-width="1.3" marker-end="url(#to)">'
            f"<title>{escape(about)}</title></path>"
        )
    return lines


def _path(source: _Box, reader: _Box, lane: int) -> str:
    """Return the SVG path of a line: straight down, round the left of a column, or over to another column."""
    middle = source.left + _WIDTH // 2
    if source.column == reader.column and reader.top - source.bottom == _GAP:
        return f"M{middle} {source.bottom}V{reader.top}"
    start, end = source.bottom - _PAD, reader.top + _PAD
    if source.column == reader.column:
        x = source.left - 12 - lane * 9
        down = f"H{x + 5}Q{x} {start} {x} {start + 5}V{end - 5}Q{x} {end} {x + 5} {end}"
        return f"M{source.left} {start}{down}H{reader.left}"
    left, right = source.left + _WIDTH, reader.left
    bend = 20 + lane * 8
    return f"M{left} {start}C{left + bend} {start} {right - bend} {end} {right} {end}"
