"""Reading and CSV export of the parts of stored points: layers and measured kernels."""

import csv
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pandas as pd

from dsascape.experiments.question.points import RunRecord
from dsascape.experiments.results.columns import ALWAYS, OF_MEASUREMENT, OF_ORIGIN, type_of
from dsascape.experiments.results.files import for_spreadsheet
from dsascape.experiments.results.frame import mended
from dsascape.experiments.results.store import LAYERS, declared, open_to_read
from dsascape.hw_models.text.database import ERRORS
from dsascape.hw_models.text.whole_file import write_with

_NAMES = ("model", "hardware", "policy", "batch", "dtype")
_KEYS = ("key", "place")


def read_parts(folder: Path, key: str, table: str = LAYERS) -> pd.DataFrame:
    """Return a point's layers (or kernels, by ``table``) in order; empty where none are stored."""
    with closing(open_to_read(folder)) as connection:
        types = _types(connection, table)
        return pd.DataFrame(list(_rows(connection, types, key, table)), columns=_columns(types))


def write_parts_csv(frame: pd.DataFrame, folder: Path, table: str = LAYERS) -> Path:
    """Write ``layers.csv`` (or ``kernels.csv``) to the results folder and return its path.

    Each row is a layer of a point of ``frame``, preceded by the columns that identify the point.
    """
    path = folder / f"{table}.csv"
    told = [name for name in (*_NAMES, *swept_columns(frame)) if name in frame]
    write_with(path, partial(_write_parts, frame, folder, table, told))
    return path


def _write_parts(frame: pd.DataFrame, folder: Path, table: str, told: list[str], place: Path) -> None:
    with closing(open_to_read(folder)) as connection, place.open("w", encoding="utf-8", newline="") as file:
        types = _types(connection, table)
        columns = _columns(types)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([for_spreadsheet(name) for name in (*told, *columns)])
        points = frame[told].astype(object).where(frame[told].notna(), None)
        for key, point in zip(frame["key"], points.itertuples(index=False, name=None), strict=True):
            for row in _rows(connection, types, str(key), table):
                values = (*point, *(row[name] for name in columns))
                writer.writerow([for_spreadsheet(value) if isinstance(value, str) else value for value in values])


def swept_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that are neither figures nor names: the swept values."""
    usual = {*ALWAYS, *OF_ORIGIN, *OF_MEASUREMENT, *RunRecord.__dataclass_fields__}
    return [str(name) for name in frame if name not in usual and type_of(str(name)) == "TEXT"]


def _types(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
    try:
        return {name: type_of(name, kind) for name, kind in declared(connection, table).items()}
    except ERRORS:
        return {}


def _columns(types: Iterable[str]) -> list[str]:
    """Return the columns of a layer or kernel: common ones first, then those per memory."""
    shown = [name for name in types if name not in _KEYS]
    return sorted(shown, key=lambda name: name if "." in name else "")


def _rows(
    connection: sqlite3.Connection, types: dict[str, str], key: str, table: str
) -> Iterator[dict[str, object]]:
    """Yield the readable rows of a point."""
    try:
        cursor = connection.execute(f"SELECT * FROM {table} WHERE key = ? ORDER BY place", (key,))
        for values in cursor:
            row = dict(zip(types, values, strict=True))
            mended(row, types)
            yield row
    except ERRORS:
        return
