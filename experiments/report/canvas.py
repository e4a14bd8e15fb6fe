"""Drawing surface of the report: the house style, and SVG coloured by the page.

Figures are drawn in placeholder colours, each of which becomes a CSS variable in the output, so one drawing suits light
and dark pages. One unit of length is one CSS pixel. Text is never parsed as mathematics.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from typing import Literal

import pandas as pd
from markupsafe import Markup
from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

INK, MUTED, GRID, PAPER, HATCH = "#fe0001", "#fe0002", "#fe0003", "#fe0004", "#fe0005"
SERIES = tuple(f"#fe01{number:02x}" for number in range(8))
ON_SERIES = tuple(f"#fe02{number:02x}" for number in range(8))
"""Colours of text on top of each series colour."""

WIDTH = 1060
"""Width of a full figure, in pixels."""
BAR_PX = 16
"""Width of a bar that stands for one design point, in pixels."""

_STACKED_PX = 420
"""Width in pixels up to which a panel is shown whole on a phone; a wider one scrolls sideways."""
_NARROW_PX, _WIDE_PX = 280, 900
"""Least width in pixels to which a panel is shrunk, and a wide drawing: below it the text would be too small."""
_KEY_PX = 38
"""Width of a key of a legend with the gap behind it, in pixels."""
Box = tuple[int, int, int, int]

_VARIABLES = {
    INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", PAPER: "var(--paper)",
    HATCH: "var(--hatch)",
    **{colour: f"var(--s{number})" for number, colour in enumerate(SERIES)},
    **{colour: f"var(--on{number})" for number, colour in enumerate(ON_SERIES)},
}  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MARKS = len(_MARKERS)
"""Number of markers; there are no more hatches and dashes."""
_GLYPHS = ("●", "■", "▲", "◆", "▼", "✚", "✖")
_HATCHES = ("", "///", "\\\\\\", "|||", "xxx", "---", "+++")
_DASHES: tuple[tuple[float, tuple[float, ...]] | Literal["-"], ...] = (
    "-",
    (0, (8, 2)),
    (0, (4, 1.2)),
    (0, (8, 1.5, 1.5, 1.5)),
    (0, (1.5, 1.2)),
    (0, (5, 1.5, 1, 1.5, 1, 1.5)),
)

house_style = style.context([
    "default",
    {
        "figure.dpi": 72, "savefig.dpi": 72, "svg.fonttype": "none", "svg.hashsalt": "dsascape",
        "text.parse_math": False, "text.color": INK, "font.size": 12, "font.family": ["DejaVu Sans"],
        "axes.edgecolor": MUTED, "axes.labelcolor": MUTED, "axes.facecolor": "none", "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.linewidth": 1,
        "axes.titlelocation": "left", "axes.titlesize": 13, "axes.titleweight": "bold", "axes.titlepad": 8,
        "axes.titlecolor": INK, "axes.formatter.useoffset": False, "axes.grid": True, "grid.color": GRID,
        "xtick.color": MUTED, "xtick.labelcolor": INK, "xtick.major.size": 0, "xtick.minor.size": 0,
        "ytick.color": MUTED, "ytick.labelcolor": MUTED, "ytick.major.size": 0, "ytick.minor.size": 0,
        "hatch.linewidth": 1.1, "legend.fontsize": 12, "legend.labelcolor": INK, "figure.facecolor": "none",
    },
])  # fmt: skip
"""Decorator of drawing functions that sets the style; a user's matplotlibrc has no effect."""


@dataclass(frozen=True, slots=True)
class Look:
    """Appearance of one policy or category: a colour, and a marker, hatch and dash."""

    hue: int
    """Index of the series colour."""
    number: int
    """Index of marker, hatch and dash."""

    @property
    def colour(self) -> str:
        return SERIES[self.hue % len(SERIES)]

    @property
    def css(self) -> str:
        """CSS name of the colour."""
        return _VARIABLES[self.colour]

    @property
    def css_on(self) -> str:
        """CSS name of the colour of text on top."""
        return _VARIABLES[self.on_colour]

    @property
    def on_colour(self) -> str:
        return ON_SERIES[self.hue % len(ON_SERIES)]

    @property
    def marker(self) -> str:
        return _MARKERS[self.number % len(_MARKERS)]

    @property
    def glyph(self) -> str:
        """Marker as a character, for tables."""
        return _GLYPHS[self.number % len(_GLYPHS)]

    @property
    def hatch(self) -> str:
        return _HATCHES[self.number % len(_HATCHES)]

    @property
    def dash(self) -> tuple[float, tuple[float, ...]] | Literal["-"]:
        return _DASHES[self.number % len(_DASHES)]


Looks = Mapping[str, Look]


def looks_for(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for each name, in order."""
    return {name: Look(number, number) for number, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class Margins:
    """Pixels around a panel for title, tick labels and axis labels."""

    left: float = 62
    right: float = 14
    top: float = 34
    bottom: float = 48


def panels(
    count: int,
    columns: int,
    size: tuple[float, float],
    margins: Margins,
    legend: Sequence[tuple[Artist, str]] = (),
) -> tuple[Figure, list[Axes]]:
    """Return a figure of ``count`` panels below a legend; ``size`` is that of a panel with its margins, in pixels."""
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    width = columns * size[0]
    per_row, header = _legend_layout([label for _, label in legend], width)
    height = rows * size[1] + header
    figure = Figure(figsize=(width / 72, height / 72))
    axes = []
    for index in range(count):
        row, column = divmod(index, columns)
        left = column * size[0] + margins.left
        bottom = height - header - (row + 1) * size[1] + margins.bottom
        inner = (size[0] - margins.left - margins.right, size[1] - margins.top - margins.bottom)
        axes.append(figure.add_axes((left / width, bottom / height, inner[0] / width, inner[1] / height)))
    if legend:
        figure.legend(
            [handle for handle, _ in legend],
            [clipped(label, 60) for _, label in legend],
            loc="upper left",
            bbox_to_anchor=(0, 1),
            ncols=per_row,
            frameon=False,
            borderpad=0,
            borderaxespad=0.2,
            handlelength=2.4,
            columnspacing=2.2,
        )
    return figure, axes


def panel_width(columns: int) -> float:
    """Return the width in pixels of each of several panels in a row: no more than what a phone shows whole."""
    return min(WIDTH / columns, _STACKED_PX)


def patch_entry(look: Look, label: str) -> tuple[Artist, str]:
    """Return a legend entry (artist, label) for bars."""
    return Patch(facecolor=look.colour, edgecolor=HATCH, hatch=look.hatch, linewidth=0), label


def line_entry(look: Look, label: str) -> tuple[Artist, str]:
    """Return a legend entry (artist, label) for lines with markers."""
    line = Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.dash, linewidth=2)
    line.set(markersize=9, markeredgecolor=PAPER)
    return line, label


def marker_entry(look: Look, label: str) -> tuple[Artist, str]:
    """Return a legend entry (artist, label) for points."""
    line = Line2D([], [], color=look.colour, marker=look.marker, linestyle="none")
    line.set(markersize=9, markeredgecolor=PAPER)
    return line, label


def clipped(text: str, length: int) -> str:
    """Return the text on one line, with its middle left out where it is longer than ``length``."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    tail = length // 3
    return f"{line[: length - tail - 1]}…{line[-tail:]}"


def text_width(text: str) -> float:
    """Return the estimated width of a tick label in pixels, a little more than most fonts need."""
    return 7.2 * len(text)


def name_ticks(axes: Axes, names: Sequence[str], room: float) -> None:
    """Label positions 0, 1, 2 ... of the x axis, slanted where names are wider than ``room`` pixels."""
    labels = [clipped(name, 26) for name in names]
    axes.set_xticks(range(len(labels)), labels)
    axes.grid(visible=False, axis="x")
    if slanted(names, room):
        for label in axes.get_xticklabels():
            label.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")


def slanted(names: Sequence[str], room: float) -> bool:
    """Return whether ``name_ticks`` slants these names."""
    return any(text_width(clipped(name, 26)) > room for name in names)


def slant_room(names: Sequence[str]) -> float:
    """Return the pixels that slanted names take below the axis beyond level ones."""
    return 0.5 * max((text_width(clipped(name, 26)) for name in names), default=0)


@dataclass(frozen=True, slots=True)
class Spot:
    """Position of a design point in a drawing: a place, or a bar from there to ``x_end``."""

    axes: Axes
    x: float
    y: float
    point: int
    """Number of the point among all points of the study."""
    x_end: float | None = None
    """End of a bar that begins at ``x``; None for a point."""


def spots_along(axes: Axes, x: pd.Series, y: pd.Series) -> list[Spot]:
    """Return spots at ``x`` and ``y``; their index has the points' numbers."""
    places = zip(x.astype(float), y.astype(float), x.index, strict=True)
    return [Spot(axes, across, up, int(number)) for across, up, number in places if isfinite(across + up)]


def to_svg(figure: Figure, figure_id: str, alternative: str, spots: Sequence[Spot] = ()) -> Markup:
    """Return the figure as an SVG element coloured by the page, with ids that begin with ``figure_id``.

    Each of the ``spots`` gets an invisible mark by which the page's script finds the point.
    """
    drawing = _drawing(figure)
    body = _for_page(drawing, drawing, figure_id)
    width, height = _size_px(figure)
    marks = Markup("").join(_spot_mark(spot, height) for spot in spots)
    inside = body[body.index(">") + 1 : body.rindex("</svg>")]
    return _element(inside, (0, 0, width, height), alternative, marks)


def to_panels(
    figure: Figure, margins: Margins, figure_id: str, alternative: str, spots: Sequence[Spot] = ()
) -> Markup:
    """Return a figure of several panels as an SVG element for each, so that they stack where the page is narrow.

    ``margins`` are those of `panels`. Labels of the legend are text of the page. A lone panel is drawn together with
    its legend, as by `to_svg`.
    """
    if len(figure.axes) == 1:
        return to_svg(figure, figure_id, alternative, spots)
    drawing = _drawing(figure)
    height = _size_px(figure)[1]
    groups = _groups(drawing, 2)
    shared = drawing[drawing.rindex("\n </g>\n") + len("\n </g>\n") : drawing.rindex("</svg>")]
    made = []
    for number, axes in enumerate(figure.axes):
        marks = Markup("").join(_spot_mark(spot, height) for spot in spots if spot.axes is axes)
        inside = _for_page(groups[f"axes_{number + 1}"] + ("" if number else shared), drawing, figure_id)
        about = f"{alternative}: {axes.get_title(loc='left')}"
        made.append(_element(inside, _panel_box(axes, margins, height), about, marks))
    legend = Markup("")
    if "legend_1" in groups:
        handles = _legend_handles(_for_page(groups["legend_1"], drawing, figure_id))
        labels = figure.legends[0].get_texts()
        entries = (_legend_entry(*each, height) for each in zip(handles, labels, strict=True))
        legend = Markup('<p class="legend">{}</p>').format(Markup(" ").join(entries))
    return Markup('{}<div class="panels">{}</div>').format(legend, Markup("").join(made))


def _drawing(figure: Figure) -> str:
    """Return the figure as matplotlib writes it: an SVG element indented by one space for each level."""
    buffer = StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", drawing, flags=re.DOTALL)


def _for_page(part: str, drawing: str, figure_id: str) -> str:
    """Return a part of a drawing with the page's colours and font, and with the ids that the drawing refers to."""
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawing))
    return re.sub(r"<[^>]*>", lambda tag: _page_tag(tag[0], referred, figure_id), part)


def _groups(drawing: str, depth: int) -> dict[str, str]:
    """Return the groups at one level of a drawing by their ids."""
    indent = " " * depth
    group = rf'^{indent}<g id="([^"]*)">\n.*?^{indent}</g>$'
    return {each[1]: each[0] for each in re.finditer(group, drawing, flags=re.MULTILINE | re.DOTALL)}


def _size_px(figure: Figure) -> tuple[int, int]:
    width, height = (round(float(inches) * 72) for inches in figure.get_size_inches())
    return width, height


def _panel_box(axes: Axes, margins: Margins, height: float) -> Box:
    """Return (left, top, width, height) of a panel with its margins, in a figure of that ``height``."""
    inner = axes.get_window_extent()
    left, top = inner.x0 - margins.left, height - inner.y1 - margins.top
    return (
        round(left), round(top), round(inner.width + margins.left + margins.right),
        round(inner.height + margins.top + margins.bottom),
    )  # fmt: skip


def _element(inside: str, box: Box, alternative: str, marks: Markup) -> Markup:
    """Return an SVG element that shows ``box`` of what is inside, with a description for readers without sight."""
    left, top, width, height = box
    least = min(width, _NARROW_PX if width <= _STACKED_PX else _WIDE_PX)
    opening = Markup('<svg viewBox="{x} {y} {w} {h}" role="{r}" aria-label="{label}" style="--w:{w}px;--m:{m}px">')
    role = "group" if marks else "img"  # what is within an image cannot be reached
    head = opening.format(x=left, y=top, w=width, h=height, r=role, m=least, label=" ".join(alternative.split()))
    return head + Markup(re.sub(r"\s*\n\s*", "\n", inside)) + marks + Markup("</svg>")


def _legend_handles(legend: str) -> list[str]:
    """Return the SVG of each key of a legend, without its label."""
    parts = re.split(r"^   <g>\n    <text.*?^   </g>$", legend, flags=re.MULTILINE | re.DOTALL)
    return [part.removeprefix("  <g>\n") for part in parts[:-1]]


def _legend_entry(handle: str, label: Text, height: float) -> Markup:
    """Return a legend's entry for the page: the key as a small drawing, and the label as text."""
    extent = label.get_window_extent()
    left, middle = extent.x0 - _KEY_PX, height - (extent.y0 + extent.y1) / 2
    box = f"{left:.1f} {middle - 8:.1f} {_KEY_PX} 16"
    key = Markup('<svg class="key" viewBox="{}" aria-hidden="true">').format(box)
    return Markup("<span>{}{}</svg>{}</span>").format(key, Markup(re.sub(r"\s*\n\s*", "\n", handle)), label.get_text())


def _spot_mark(spot: Spot, height: float) -> Markup:
    x, up = (round(float(each), 1) for each in spot.axes.transData.transform((spot.x, spot.y)))
    y = round(height - up, 1)
    if spot.x_end is None:
        return Markup('<circle class="spot" data-point="{n}" cx="{x}" cy="{y}" r="9"/>').format(n=spot.point, x=x, y=y)
    end = round(float(spot.axes.transData.transform((spot.x_end, spot.y))[0]), 1)
    form = '<rect class="spot" data-point="{n}" x="{x}" y="{y}" width="{w}" height="{h}"/>'
    return Markup(form).format(n=spot.point, x=x, y=y - BAR_PX / 2, w=max(4.0, end - x), h=BAR_PX)


def _page_tag(tag: str, referred: set[str], figure_id: str) -> str:
    """Return a tag with CSS variables for colours, the page's font, short numbers, and no unused ids."""
    tag = re.sub(r"#fe0[0-9a-f]{3}", lambda colour: _VARIABLES.get(colour[0], colour[0]), tag)
    tag = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--sans)", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)
    tag = re.sub(
        r' id="([^"]*)"', lambda name: f' id="{figure_id}-{name[1]}"' if name[1] in referred else "", tag
    )
    return re.sub(r'(?:xlink:)?(href="#|url\(#)', rf"\g<1>{figure_id}-", tag)


def _legend_layout(labels: Sequence[str], width: float) -> tuple[int, float]:
    """Return (entries per row, height in pixels) of a legend across ``width`` pixels."""
    if not labels:
        return 1, 0
    widest = max(text_width(clipped(label, 60)) for label in labels) + 64
    per_row = max(1, min(len(labels), int(width // widest)))
    return per_row, 22 * -(-len(labels) // per_row) + 12
