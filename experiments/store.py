"""Results on disk: one SQLite row a design point, written as it comes."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path

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
    """The table ``runs`` in a folder. One process writes; a row survives that process once ``add`` has returned.

    The journal is written ahead of the table, without waiting for the disk at each row: what a power cut may take is
    the last rows, and those are computed again.
    """

    def __init__(self, folder: Path) -> None:
        """Open or make ``results.sqlite`` in ``folder``; raise ``StoreError`` if that cannot be."""
        self.path = folder / DATABASE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=30)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            columns = ", ".join(f"{name} {kind}" for name, kind in ALWAYS.items())
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns})")
            self._columns = set(declared(self._connection))
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


def declared(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the type of every column."""
    return {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({TABLE})")}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
