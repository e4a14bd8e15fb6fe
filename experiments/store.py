"""Results on disk: one SQLite row a design point, written as it comes; a CSV of the same."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path

import pandas as pd

from experiments.points import Figure, RunRecord

DATABASE = "results.sqlite"
TABLE = "runs"
_TYPES: dict[object, str] = {int: "INTEGER", float: "REAL", str: "TEXT", bool: "INTEGER"}
_SCALARS = {field.name: _TYPES[field.type] for field in fields(RunRecord) if field.type in _TYPES}
ALWAYS = {"key": "TEXT PRIMARY KEY", **_SCALARS, "area_mm2": "REAL", "error": "TEXT"}
"""Columns that every table has, with their types."""


class StoreError(ValueError):
    """A results file that cannot be read or written."""


class ResultStore:
    """The table ``runs`` in a folder. One process writes; a row is on disk when ``add`` returns."""

    def __init__(self, folder: Path) -> None:
        """Open or make ``results.sqlite`` in ``folder``; raise ``StoreError`` if that cannot be."""
        self.path = folder / DATABASE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=30)
            columns = ", ".join(f"{name} {kind}" for name, kind in ALWAYS.items())
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns})")
            self._columns = set(_declared(self._connection))
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self.path}: {error}") from error

    def __enter__(self) -> "ResultStore":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def keys(self) -> set[str]:
        """Return the keys of the points that are there."""
        with self._trouble_named():
            return {row[0] for row in self._connection.execute(f"SELECT key FROM {TABLE}")}

    def add(self, key: str, row: Mapping[str, Figure]) -> None:
        """Store one point's figures; new figures become new columns."""
        with self._trouble_named(), self._connection:
            for name, value in row.items():
                if name not in self._columns:
                    kind = _TYPES.get(type(value), "TEXT")
                    self._connection.execute(f"ALTER TABLE {TABLE} ADD COLUMN {_quoted(name)} {kind}")
                    self._columns.add(name)
            names = ", ".join(_quoted(name) for name in ("key", *row))
            marks = ", ".join("?" * (len(row) + 1))
            insert = f"INSERT OR REPLACE INTO {TABLE} ({names}) VALUES ({marks})"
            self._connection.execute(insert, (key, *row.values()))

    def rows(self, keys: Sequence[str]) -> list[dict[str, Figure]]:
        """Return the rows of these points, which are there."""
        found = []
        with self._trouble_named(), closing(self._connection.cursor()) as cursor:
            for key in keys:
                values = cursor.execute(f"SELECT * FROM {TABLE} WHERE key = ?", (key,)).fetchone()
                found.append(dict(zip((column[0] for column in cursor.description), values, strict=True)))
        return found

    @contextmanager
    def _trouble_named(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:
            raise StoreError(f"{self.path}: {error}") from error


def _declared(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the type of every column."""
    return {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({TABLE})")}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_results(folder: Path, keys: Iterable[str] | None = None) -> pd.DataFrame:
    """Return the stored rows, in the order of ``keys`` if given; raise ``StoreError`` without a store."""
    path = folder / DATABASE
    if not path.is_file():
        raise StoreError(f"{folder}: has no {DATABASE}; run an experiment with --out {folder} first")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            frame = pd.read_sql_query(f"SELECT * FROM {TABLE}", connection)
    except (sqlite3.Error, pd.errors.DatabaseError) as error:
        raise StoreError(f"{path}: {error}") from error
    if keys is not None:
        wanted = list(dict.fromkeys(keys))
        frame = frame.set_index("key").reindex([k for k in wanted if k in set(frame["key"])]).reset_index()
    empty = [name for name in frame if name not in ALWAYS and frame[name].isna().all()]
    return frame.drop(columns=empty)


def write_csv(frame: pd.DataFrame, folder: Path) -> Path:
    """Write ``results.csv`` and return its path; counts stay whole numbers where some are missing."""
    path = folder / "results.csv"
    with closing(sqlite3.connect(f"file:{folder / DATABASE}?mode=ro", uri=True)) as connection:
        whole = [name for name, kind in _declared(connection).items() if kind == "INTEGER" and name in frame]
    shown = frame.drop(columns=["key"], errors="ignore")
    shown.astype(dict.fromkeys(whole, "Int64")).to_csv(path, index=False)
    return path
