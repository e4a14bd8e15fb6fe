"""Stored results as a pandas DataFrame, and as CSV."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import pandas as pd

from dsascape.experiments.question.points import Figure
from dsascape.experiments.results.columns import ALWAYS, NUMERIC, in_order, type_of
from dsascape.experiments.results.files import for_spreadsheet, for_terminal
from dsascape.experiments.results.store import (
    CURRENT,
    DATABASE,
    TABLE,
    StoreError,
    declared,
    open_to_read,
    remedy,
    superseded_in,
    trouble_at,
)
from dsascape.hw_models.text.database import ERRORS
from dsascape.hw_models.text.messages import shown
from dsascape.hw_models.text.quantities import LONGEST_S, SHORTEST_S
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.wording import count

CSV = "results.csv"
_LARGEST_WHOLE = 2**53
TIMES = ("latency_s", "expected_latency_s", "measured_s", "predicted_s")
_SIGNED = ("spearman", "kendall")


@dataclass(frozen=True)
class Results:
    """Rows of a results folder, and remarks about what is damaged in its file."""

    frame: pd.DataFrame
    remarks: tuple[str, ...] = ()


def read_results(folder: Path, keys: Iterable[str] | None = None) -> pd.DataFrame:
    """Return the current rows, or those of ``keys`` in their order; raise ``StoreError`` where nothing can be read."""
    return read_sound(folder, keys).frame


def read_sound(folder: Path, keys: Iterable[str] | None = None, *, current: bool = False) -> Results:
    """Return the readable rows, as `read_results` does, and remarks about damaged ones.

    With ``current``, only the current rows among ``keys``. Raises ``StoreError`` where nothing can be read.
    """
    path = folder / DATABASE
    with closing(open_to_read(folder)) as connection:
        types, rows, trouble = rows_of(connection, path)
    remarks = [
        f"{path}: is damaged ({trouble}); {count(len(rows), 'row')} could be read; {remedy(folder)}"
    ] if trouble else []
    by_key = {row["key"]: row for row in rows if isinstance(row["key"], str)}
    if len(by_key) < len(rows):
        lost = len(rows) - len(by_key)
        remarks.append(
            f"{path}: {lost} of {count(len(rows), 'row')} have no key, or that of another row, and are left out"
        )
    wrong = [remark for row in by_key.values() for remark in mended(row, types)]
    if wrong:
        remarks.append(
            f"{path}: {count(len(wrong), 'invalid value')} left out, such as {wrong[0]};"
            " run the experiment again with --retry-failed"
        )
    chosen = by_key.keys() if keys is not None and not current else _current(by_key)
    wanted = [key for key in (chosen if keys is None else dict.fromkeys(keys)) if key in chosen]
    frame = pd.DataFrame([by_key[key] for key in wanted], columns=in_order(types))
    frame = frame.astype({name: float for name in frame if types[str(name)] in NUMERIC and frame[name].isna().any()})
    empty = [name for name in frame if name not in ALWAYS and frame[name].isna().all()]
    return Results(frame.drop(columns=empty), tuple(remarks))


def _current(rows: Mapping[str, Mapping[str, object]]) -> dict[str, None]:
    """Return the keys of current rows; in tables without the column ``state``, of the last row of each point."""
    older = superseded_in([row for row in rows.values() if "state" not in row])
    states = {key: row.get("state") or CURRENT for key, row in rows.items()}
    return {key: None for key, state in states.items() if key not in older and state == CURRENT}


def rows_of(connection: sqlite3.Connection, path: Path) -> tuple[dict[str, str], list[dict[str, object]], str]:
    """Return (column types, readable rows, the error that ended reading or an empty text)."""
    connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    rows: list[dict[str, object]] = []
    try:
        types = {name: type_of(name, kind) for name, kind in declared(connection).items()}
        cursor = connection.execute(f"SELECT * FROM {TABLE} ORDER BY rowid")
        names = [column[0] for column in cursor.description]
        if "key" not in names:
            raise StoreError(f"{path}: table {TABLE} has no column key; {remedy(path.parent)}")
    except ERRORS as error:
        raise StoreError(trouble_at(path, error)) from error
    try:
        rows.extend(dict(zip(names, values, strict=True)) for values in cursor)
    except ERRORS as error:
        if not rows:
            raise StoreError(trouble_at(path, error)) from error
        return types, rows, str(error)
    return types, rows, ""


def mended(row: dict[str, object], types: Mapping[str, str]) -> list[str]:
    """Clear invalid figures of a row and make its names text, in place; return a description of each invalid figure.

    A row without a valid time gets an error.
    """
    wrong = []
    error = "kernel_error" if "kernel_error" in row else "error"
    for name, value in row.items():
        if types.get(name) not in NUMERIC:
            if value is not None:
                text = value if isinstance(value, str) else _text(value)
                row[name] = text if name == "key" else for_terminal(text)
        elif value is not None and not is_figure(name, value):
            row[name] = None
            wrong.append(f"{name} of {row.get('model')}, which is {shown(value)}")
            if name in TIMES and error in row and row[error] is None:
                row[error] = f"the stored {name} is {shown(value)}, no figure"
    return wrong


def is_figure(name: str, value: object) -> bool:
    """Return whether a stored value is possible in its column: finite, not negative, and not zero for times."""
    if not isinstance(value, int | float) or not isfinite(value):
        return False
    if name in TIMES:
        return SHORTEST_S <= value <= LONGEST_S
    return value >= 0 or name in _SIGNED or type_of(name) not in NUMERIC


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def write_csv(frame: pd.DataFrame, folder: Path, name: str = CSV) -> Path:
    """Write ``results.csv`` and return its path; counts stay integers where some are missing."""
    path = folder / name
    write_whole(path, csv_text(frame.drop(columns=["key"], errors="ignore")))
    return path


def csv_text(frame: pd.DataFrame) -> str:
    """Return the table as CSV; texts that a spreadsheet would take for formulas are quoted."""
    columns: dict[str, list[Figure]] = {}
    for name in map(str, frame):
        values = list(frame[name].astype(object).where(frame[name].notna(), None))
        whole = all(value is None or (not isinstance(value, str) and _is_whole(value)) for value in values)
        columns[for_spreadsheet(name)] = [
            None if value is None
            else for_spreadsheet(value) if isinstance(value, str)
            else int(value) if whole and type_of(name) == "INTEGER" else value
            for value in values
        ]  # fmt: skip
    shown_frame = pd.DataFrame(columns, dtype=object, index=frame.index)
    return str(shown_frame.to_csv(index=False, lineterminator="\n"))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WHOLE)
