"""Results on disk: one SQLite row a design point, written as it comes; a CSV of the same."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import pandas as pd

from experiments.points import Figure

DATABASE = "results.sqlite"
TABLE = "runs"
_TYPES = {int: "INTEGER", float: "REAL", str: "TEXT", bool: "INTEGER"}


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
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY)")
            self._columns = {row[1] for row in self._connection.execute(f"PRAGMA table_info({TABLE})")}
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self.path}: {error}") from error

    def __enter__(self) -> "ResultStore":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def keys(self) -> set[str]:
        """Return the keys of the points that are there."""
        return {row[0] for row in self._connection.execute(f"SELECT key FROM {TABLE}")}

    def add(self, key: str, row: Mapping[str, Figure]) -> None:
        """Store one point's figures; new figures become new columns."""
        with self._connection:
            for name, value in row.items():
                if name not in self._columns:
                    kind = _TYPES.get(type(value), "TEXT")
                    self._connection.execute(f"ALTER TABLE {TABLE} ADD COLUMN {_quoted(name)} {kind}")
                    self._columns.add(name)
            names = ", ".join(_quoted(name) for name in ("key", *row))
            marks = ", ".join("?" * (len(row) + 1))
            self._connection.execute(f"INSERT OR REPLACE INTO {TABLE} ({names}) VALUES ({marks})", (key, *row.values()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_results(folder: Path, keys: Iterable[str] | None = None) -> pd.DataFrame:
    """Return the stored rows, in the order of ``keys`` if they are given; raise ``StoreError`` if there are none."""
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
    return frame.dropna(axis="columns", how="all") if len(frame) else frame


def write_csv(frame: pd.DataFrame, folder: Path) -> Path:
    """Write ``results.csv`` beside the database and return its path."""
    path = folder / "results.csv"
    frame.drop(columns=["key"], errors="ignore").to_csv(path, index=False)
    return path
