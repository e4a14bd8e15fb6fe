"""Tables of the report: frames as cells of text, and heat tables, whose cells are tinted by value."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log

import pandas as pd

from experiments.report.canvas import Look, Looks
from experiments.report.frames import Axes
from experiments.report.words import MISSING, meaning, percent, scale_of, significant, times

_LEAST_LOG_GAIN = 0.1
"""Gains below some ten per cent never get the full tint."""

Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Cell:
    """Text with an optional tint."""

    text: str
    tint: int = 0
    """Per cent of colour in the background."""
    look: Look | None = None
    """Whose colour; the neutral heat colour where nobody's."""
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Headings and rows; every row has as many cells as there are headings."""

    headings: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""


def table_of(frame: pd.DataFrame, formats: Mapping[str, tuple[str, Format]]) -> Table:
    """The frame with the named columns as formatted numbers under new headings, all other columns as text."""
    headings = tuple(
        Cell(formats[name][0] if name in formats else name, numeric=name in formats) for name in map(str, frame)
    )
    columns = [
        [_number_cell(value, formats[name][1]) for value in frame[name]] if name in formats
        else [Cell(str(value) or MISSING) for value in frame[name]]
        for name in map(str, frame)
    ]  # fmt: skip
    return Table(headings, tuple(zip(*columns, strict=True)))


def figure_formats(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, tuple[str, Format]]:
    """Formats of columns of figures such as ``latency_s``: one unit a column, chosen by its values."""
    formats: dict[str, tuple[str, Format]] = {}
    for name in names:
        words, unit = meaning(name)
        divisor, prefixed = scale_of(frame[name], unit)
        formats[name] = (f"{words} [{prefixed}]" if prefixed else words, _divided_by(divisor))
    return formats


def quantity_formats(frame: pd.DataFrame, names: Iterable[str], unit: str) -> dict[str, tuple[str, Format]]:
    """Formats of columns that share a unit, each with the prefix that suits its values."""
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
    """Formats of columns of counts."""
    return {name: (name, lambda value: f"{value:,.0f}") for name in names}


def share_heat(frame: pd.DataFrame, labels: Sequence[str]) -> Table:
    """A heat table of shares between 0 and 1: label columns first, then a tinted percentage for each other column."""
    shares = [str(name) for name in frame if name not in labels]
    rows = tuple(
        tuple(Cell(str(row[name])) for name in labels)
        + tuple(Cell(percent(row[name]), _tint(row[name]), numeric=True) for name in shares)
        for _, row in frame.iterrows()
    )
    return Table((*map(Cell, labels), *(Cell(name, numeric=True) for name in shares)), rows)


def winner_heats(
    ratios: pd.DataFrame, points: pd.DataFrame, pair: tuple[str, str], axes: Axes, looks: Looks
) -> list[Table]:
    """For each network, the fastest policy over two axes: its glyph, and its speed-up or (alone) its latency.

    ``points`` has one row per network, policy and cell; ``ratios`` holds those that have a baseline.
    """
    known = ratios.set_index(["network", "policy", *pair])["speedup"].to_dict() if len(looks) > 1 else {}
    highest = max(known.values(), default=1.0)
    tables = []
    for network, own in points.groupby("network", sort=False):
        winners = own.sort_values("latency_s", kind="stable").drop_duplicates(list(pair))
        divisor, unit = scale_of(own["latency_s"], "s")
        cells: dict[tuple[str, str], Cell] = {}
        for _, row in winners.iterrows():
            look = looks[str(row["policy"])]
            gain = known.get((network, row["policy"], row[pair[0]], row[pair[1]]))
            text = significant(row["latency_s"] / divisor) if gain is None else times(gain)
            share = own["latency_s"].min() / row["latency_s"] if gain is None else log(gain) / max(log(highest), _LEAST_LOG_GAIN)
            shown = f"{look.glyph} {text}" if len(looks) > 1 else text
            cells[str(row[pair[0]]), str(row[pair[1]])] = Cell(shown, 12 + _tint(share) * 3 // 4, look, numeric=True)
        rows = tuple(
            (Cell(down), *(cells.get((down, across), Cell(MISSING, numeric=True)) for across in axes[pair[1]]))
            for down in axes[pair[0]]
        )
        headings = (Cell(f"{pair[0]}\N{NO-BREAK SPACE}↓ {pair[1]}\N{NO-BREAK SPACE}→"), *(Cell(across, numeric=True) for across in axes[pair[1]]))
        suffix = "" if known else f" – latency [{unit}]"
        tables.append(Table(headings, rows, title=f"{network}{suffix}"))
    return tables


def _divided_by(divisor: float) -> Format:
    return lambda value: significant(value / divisor)


def _number_cell(value: float, form: Format) -> Cell:
    return Cell(form(float(value)) if isfinite(value) else MISSING, numeric=True)


def _tint(share: float) -> int:
    """Per cent of colour for a share of one; never so much that ink cannot be read on it."""
    return round(50 * min(1.0, max(0.0, share))) if isfinite(share) else 0
