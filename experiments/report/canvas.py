"""The drawing surface of the report: the house style, and SVG that takes its colours from the page.

Figures are drawn in sentinel colours. On the way out each becomes a CSS variable, so one drawing is right on
light and on dark paper. One unit of length is one CSS pixel. Text is never read as mathematics.
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

INK, MUTED, GRID, PAPER, HATCH = "#fe0001", "#fe0002", "#fe0003", "#fe0004", "#fe0005"
SERIES = tuple(f"#fe01{number:02x}" for number in range(8))
ON_SERIES = tuple(f"#fe02{number:02x}" for number in range(8))
"""Text that is written on top of each series colour."""

WIDTH = 1060
"""Pixels across a full figure."""
BAR_PX = 16
"""Pixels across a bar that stands for one design point."""

_VARIABLES = {
    INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", PAPER: "var(--paper)",
    HATCH: "var(--hatch)",
    **{colour: f"var(--s{number})" for number, colour in enumerate(SERIES)},
    **{colour: f"var(--on{number})" for number, colour in enumerate(ON_SERIES)},
}  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MARKS = len(_MARKERS)
"""How many markers there are; hatches and dashes are no more."""
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
"""Decorates every function that draws; a user's matplotlibrc has no part in it."""


@dataclass(frozen=True, slots=True)
class Look:
    """How one policy or one category is told apart, by more than its colour."""

    hue: int
    """Which of the series colours."""
    number: int
    """Which marker, hatch and dash."""

    @property
    def colour(self) -> str:
        return SERIES[self.hue % len(SERIES)]

    @property
    def css(self) -> str:
        """The colour as the page names it."""
        return _VARIABLES[self.colour]

    @property
    def css_on(self) -> str:
        """The colour of text upon it, as the page names it."""
        return _VARIABLES[self.on_colour]

    @property
    def on_colour(self) -> str:
        return ON_SERIES[self.hue % len(ON_SERIES)]

    @property
    def marker(self) -> str:
        return _MARKERS[self.number % len(_MARKERS)]

    @property
    def glyph(self) -> str:
        """The marker as a character, for tables."""
        return _GLYPHS[self.number % len(_GLYPHS)]

    @property
    def hatch(self) -> str:
        return _HATCHES[self.number % len(_HATCHES)]

    @property
    def dash(self) -> tuple[float, tuple[float, ...]] | Literal["-"]:
        return _DASHES[self.number % len(_DASHES)]


Looks = Mapping[str, Look]


def looks_for(names: Iterable[str]) -> dict[str, Look]:
    """Give each name a look, in order."""
    return {name: Look(number, number) for number, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class Margins:
    """Pixels around a panel for its title, tick labels and axis labels."""

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
    """Make a figure of ``count`` panels, each ``size`` pixels with its margins, below a legend."""
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


def patch_entry(look: Look, label: str) -> tuple[Artist, str]:
    """Return a legend entry for bars."""
    return Patch(facecolor=look.colour, edgecolor=HATCH, hatch=look.hatch, linewidth=0), label


def line_entry(look: Look, label: str) -> tuple[Artist, str]:
    """Return a legend entry for lines with markers."""
    line = Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.dash, linewidth=2)
    line.set(markersize=9, markeredgecolor=PAPER)
    return line, label


def marker_entry(look: Look, label: str) -> tuple[Artist, str]:
    """Return a legend entry for points."""
    line = Line2D([], [], color=look.colour, marker=look.marker, linestyle="none")
    line.set(markersize=9, markeredgecolor=PAPER)
    return line, label


def clipped(text: str, length: int) -> str:
    """Return the text on one line, its middle left out where it is longer than ``length``."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    tail = length // 3
    return f"{line[: length - tail - 1]}…{line[-tail:]}"


def text_width(text: str) -> float:
    """About how many pixels a tick label takes; a little more than most fonts need."""
    return 7.2 * len(text)


def name_ticks(axes: Axes, names: Sequence[str], room: float) -> None:
    """Label positions 0, 1, 2 ... of the x axis, slanted where names are wider than ``room`` pixels each."""
    labels = [clipped(name, 26) for name in names]
    axes.set_xticks(range(len(labels)), labels)
    axes.grid(visible=False, axis="x")
    if slanted(names, room):
        for label in axes.get_xticklabels():
            label.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")


def slanted(names: Sequence[str], room: float) -> bool:
    """Whether ``name_ticks`` has to slant these names."""
    return any(text_width(clipped(name, 26)) > room for name in names)


def slant_room(names: Sequence[str]) -> float:
    """Pixels below the axis that slanted names take more than level ones."""
    return 0.5 * max((text_width(clipped(name, 26)) for name in names), default=0)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a design point is drawn: at a place, or from there to another one across."""

    axes: Axes
    x: float
    y: float
    point: int
    """Its number among all points of the study."""
    x_end: float | None = None
    """Of a bar that begins at ``x``."""


def spots_along(axes: Axes, x: pd.Series, y: pd.Series) -> list[Spot]:
    """Return the spots of points drawn at ``x`` and ``y``, whose index has the points' numbers."""
    places = zip(x.astype(float), y.astype(float), x.index, strict=True)
    return [Spot(axes, across, up, int(number)) for across, up, number in places if isfinite(across + up)]


def to_svg(figure: Figure, figure_id: str, alternative: str, spots: Sequence[Spot] = ()) -> Markup:
    """Return the figure as an SVG element, coloured by the page, with ids that begin with ``figure_id``.

    Over each of the ``spots`` lies an invisible mark, by which the page's script finds the point.
    """
    buffer = StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(
        r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", drawing, flags=re.DOTALL
    )
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawing))
    body = re.sub(r"<[^>]*>", lambda tag: _page_tag(tag[0], referred, figure_id), drawing)
    width, height = (round(float(inches) * 72) for inches in figure.get_size_inches())
    opening = Markup('<svg viewBox="0 0 {w} {h}" role="img" aria-label="{label}" style="--w:{w}px">').format(
        w=width, h=height, label=" ".join(alternative.split())
    )
    inside = body[body.index(">") + 1 : body.rindex("</svg>")]
    marks = Markup("").join(_spot_mark(spot, height) for spot in spots)
    return opening + Markup(re.sub(r"\s*\n\s*", "\n", inside)) + marks + Markup("</svg>")


def _spot_mark(spot: Spot, height: float) -> Markup:
    x, up = (round(float(each), 1) for each in spot.axes.transData.transform((spot.x, spot.y)))
    y = round(height - up, 1)
    if spot.x_end is None:
        return Markup('<circle class="spot" data-point="{n}" cx="{x}" cy="{y}" r="9"/>').format(n=spot.point, x=x, y=y)
    end = round(float(spot.axes.transData.transform((spot.x_end, spot.y))[0]), 1)
    form = '<rect class="spot" data-point="{n}" x="{x}" y="{y}" width="{w}" height="{h}"/>'
    return Markup(form).format(n=spot.point, x=x, y=y - BAR_PX / 2, w=max(4.0, end - x), h=BAR_PX)


def _page_tag(tag: str, referred: set[str], figure_id: str) -> str:
    """Give one tag CSS variables for sentinels, the page's font, short numbers, and no idle ids."""
    tag = re.sub(r"#fe0[0-9a-f]{3}", lambda colour: _VARIABLES.get(colour[0], colour[0]), tag)
    tag = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--sans)", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)
    tag = re.sub(
        r' id="([^"]*)"', lambda found: f' id="{figure_id}-{found[1]}"' if found[1] in referred else "", tag
    )
    return re.sub(r'(?:xlink:)?(href="#|url\(#)', rf"\g<1>{figure_id}-", tag)


def _legend_layout(labels: Sequence[str], width: float) -> tuple[int, float]:
    """Entries per row, and pixels of height, of a legend across ``width`` pixels."""
    if not labels:
        return 1, 0
    widest = max(text_width(clipped(label, 60)) for label in labels) + 64
    per_row = max(1, min(len(labels), int(width // widest)))
    return per_row, 22 * -(-len(labels) // per_row) + 12
