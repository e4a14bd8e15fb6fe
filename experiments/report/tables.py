"""Tables of the report: frames as cells of text, and heat tables with tinted cells."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, log

import pandas as pd

from dsascape.experiments.report.canvas import Look, Looks
from dsascape.experiments.report.frames import Axes, names_in, numbers, texts
from dsascape.experiments.report.words import MISSING, meaning, percent, quantity, scale_of, significant, times

_LEAST_FULL_GAIN = 1.1
"""Gain of the full tint, at least, so that small gains stay light."""

Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Cell:
    """Text with an optional tint."""

    text: str
    tint: int = 0
    """Percentage of colour mixed into the cell's background."""
    look: Look | None = None
    """Look whose colour tints the cell; None: the neutral heat colour."""
    numeric: bool = False
    anchor: str = ""
    """Identifier of the cell in its page, to link to."""
    target: str = ""
    """Identifier of the cell that the text links to."""


@dataclass(frozen=True, slots=True)
class Table:
    """Headings and rows of equal length."""

    headings: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""


def table_of(frame: pd.DataFrame, formats: Mapping[str, tuple[str, Format]]) -> Table:
    """Return a frame as a table: columns with a format as numbers under a new heading, all others as text."""
    headings = tuple(
        Cell(formats[name][0] if name in formats else name, numeric=name in formats)
        for name in map(str, frame)
    )
    columns = [
        [_number_cell(value, formats[name][1]) for value in numbers(frame, name)]
        if name in formats
        else [Cell(text or MISSING) for text in texts(frame, name)]
        for name in map(str, frame)
    ]
    return Table(headings, tuple(zip(*columns, strict=True)))


def linked(table: Table, prefix: str, *, is_target: bool) -> Table:
    """Return a table of layers whose first cells have anchors, or link to those of another table.

    The identifier is ``prefix`` and the number of the layer in its plan, as in ``layer-0-41``.
    """
    rows = []
    for first, *others in table.rows:
        number = first.text.partition(" ")[0]
        place = f"{prefix}-{number[1:]}" if number.startswith("#") else ""
        cell = replace(first, anchor=place) if is_target else replace(first, target=place)
        rows.append((cell, *others))
    return replace(table, rows=tuple(rows))


def figure_formats(frame: pd.DataFrame, names: Iterable[str], source: str) -> dict[str, tuple[str, Format]]:
    """Return (heading, format) of figures such as ``latency_s``, with one unit per column.

    ``source`` says whether latencies and throughputs are "measured" or "simulated".
    """
    formats: dict[str, tuple[str, Format]] = {}
    for name in names:
        words, unit = meaning(name, source)
        divisor, prefixed = scale_of(frame[name], unit)
        formats[name] = (f"{words} [{prefixed}]" if prefixed else words, _divided_by(divisor))
    return formats


def quantity_formats(frame: pd.DataFrame, names: Iterable[str], unit: str) -> dict[str, tuple[str, Format]]:
    """Return (heading, format) of columns that share a unit, each with a prefix for its values."""
    formats: dict[str, tuple[str, Format]] = {}
    for name in names:
        divisor, prefixed = scale_of(frame[name], unit)
        formats[name] = (f"{name} [{prefixed}]", _divided_by(divisor))
    return formats


RATIO_FORMATS: Mapping[str, tuple[str, Format]] = {
    "speedup": ("speed-up", times),
    "geomean": ("geometric mean", times),
    "least": ("least", times),
    "greatest": ("greatest", times),
    "points": ("cases", lambda value: f"{value:,.0f}"),
}


def count_formats(names: Iterable[str]) -> dict[str, tuple[str, Format]]:
    """Return (heading, format) of columns of counts."""
    return {name: (name, lambda value: f"{value:,.0f}") for name in names}


def share_heat(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """Return a table of the label columns, then the others as tinted percentages, largest column first."""
    shares = [str(name) for name in frame if name not in labels]
    shares.sort(key=lambda name: -sum(share for share in numbers(frame, name) if isfinite(share)))
    columns = [[Cell(text) for text in texts(frame, name)] for name in labels] + [
        [Cell(percent(share), _tint(share), numeric=True) for share in numbers(frame, name)]
        for name in shares
    ]
    rows = tuple(zip(*columns, strict=True))
    return Table((*map(Cell, labels), *(Cell(name, numeric=True) for name in shares)), rows)


def winner_heats(
    points: pd.DataFrame, pair: tuple[str, str], baseline: str, axes: Axes, looks: Looks, source: str
) -> list[Table]:
    """Return a table per network: the fastest policy over two axes with its speed-up, or a lone policy's latency.

    ``points`` has at most one row per network, policy and pair of values; ``source`` says whether latencies are
    "measured" or "simulated".
    """
    best = points.sort_values("latency_s", kind="stable").drop_duplicates(["network", *pair])
    usual = points.loc[points["policy"] == baseline, ["network", *pair, "latency_s"]]
    best = best.merge(usual.rename(columns={"latency_s": "baseline_s"}), on=["network", *pair], how="left")
    gains = best["baseline_s"] / best["latency_s"]
    highest = max([_LEAST_FULL_GAIN, *(gain for gain in gains if isfinite(gain))])
    alone = len(looks) == 1
    tables = []
    for network in names_in(points, "network"):
        own = best.loc[best["network"] == network].assign(gain=gains)
        divisor, unit = scale_of(own["latency_s"], "s")
        slowest, fastest = own["latency_s"].max(), own["latency_s"].min()
        tied = _winners(points.loc[points["network"] == network], pair)
        cells: dict[tuple[str, str], Cell] = {}
        rows = zip(texts(own, pair[0]), texts(own, pair[1]), texts(own, "policy"), strict=True)
        for place, latency_s, gain in zip(rows, numbers(own, "latency_s"), numbers(own, "gain"), strict=True):
            down, across, policy = place
            if alone:
                share = (slowest - latency_s) / (slowest - fastest) if slowest > fastest else 0.0
                text = significant(latency_s / divisor)
            else:
                share = log(gain) / log(highest) if isfinite(gain) else 0.0
                glyphs = "".join(looks[name].glyph for name in looks if name in tied[down, across])
                text = f"{glyphs} {times(gain) if isfinite(gain) else quantity(latency_s, 's')}"
            winner = looks[policy] if len(tied[down, across]) == 1 else None
            cells[down, across] = Cell(text, 12 + _tint(share) * 3 // 4, winner, numeric=True)
        title = f"{network}, {source} latency [{unit}]" if alone else network
        tables.append(_plane(title, pair, cells, axes))
    return tables


def _winners(own: pd.DataFrame, pair: tuple[str, str]) -> dict[tuple[str, str], set[str]]:
    """Return the policies with the least latency at each pair of values."""
    least = own.groupby(list(pair))["latency_s"].transform("min")
    winners: dict[tuple[str, str], set[str]] = {}
    fastest = own.loc[own["latency_s"] == least]
    columns = (texts(fastest, name) for name in (*pair, "policy"))
    for down, across, policy in zip(*columns, strict=True):
        winners.setdefault((down, across), set()).add(policy)
    return winners


def _plane(title: str, pair: tuple[str, str], cells: Mapping[tuple[str, str], Cell], axes: Axes) -> Table:
    """Return cells as a table over two axes, with dashes for missing ones."""
    down, across = pair
    gap = Cell(MISSING, numeric=True)
    corner = Cell(f"{down} ↓\n{across} →")
    rows = [(Cell(name), *(cells.get((name, other), gap) for other in axes[across])) for name in axes[down]]
    return Table((corner, *(Cell(name, numeric=True) for name in axes[across])), tuple(rows), title)


def _divided_by(divisor: float) -> Format:
    return lambda value: significant(value / divisor)


def _number_cell(value: float, form: Format) -> Cell:
    return Cell(form(float(value)) if isfinite(value) else MISSING, numeric=True)


def _tint(share: float) -> int:
    """Return the percentage of colour for a fraction, capped so that text stays readable."""
    return round(50 * min(1.0, max(0.0, share))) if isfinite(share) else 0
