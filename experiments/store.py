"""Results on disk: one SQLite row a design point, written as it comes."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import get_args

from experiments.points import Figure, RunRecord

_HAS_FIGURES = {"error": "error IS NULL", "latency_s": "latency_s > 0"}
DATABASE = "results.sqlite"
LOCK = ".lock"
TABLE = "runs"
LAYERS = "layers"
OF_LAYERS = {"key": "TEXT", "place": "INTEGER", "layer": "TEXT", "runs": "INTEGER", "critical_s": "REAL"}
"""Columns that the table of layers always has, with their types."""
_TYPES: dict[object, str] = {int: "INTEGER", float: "REAL", str: "TEXT", bool: "INTEGER"}
_SCALARS = {field.name: _TYPES[field.type] for field in fields(RunRecord) if field.type in _TYPES}
ALWAYS = {"key": "TEXT PRIMARY KEY", **_SCALARS, "area_mm2": "REAL", "error": "TEXT"}
"""Columns that every table has, with their types."""
OF_ORIGIN = {"is_base": "INTEGER", "command": "TEXT"}
"""Columns of points from an experiment file: whether nothing swept differs from its base machine, and what runs it."""
KERNELS = "kernels"
OF_KERNELS = {
    "key": "TEXT", "place": "INTEGER", "kernel": "TEXT", "operators": "TEXT", "measured_s": "REAL", "spread": "REAL",
    "predicted_s": "REAL", "threads": "INTEGER", "flushed_caches": "INTEGER", "kernel_error": "TEXT",
}  # fmt: skip
"""Columns that the table of measured kernels always has, with their types."""
OF_MEASUREMENT = {
    "measured_s": "REAL", "measured_spread": "REAL", "measured_threads": "INTEGER", "is_correct": "INTEGER",
    "mape": "REAL", "spearman": "REAL", "kendall": "REAL", "target": "TEXT", "device": "TEXT", "device_facts": "TEXT",
    "measured_at": "TEXT", "warnings": "TEXT", "flushed_caches": "INTEGER",
}  # fmt: skip
"""Columns of points that were measured."""
NUMERIC = ("INTEGER", "REAL")
SHORTEST_S, LONGEST_S = 1e-12, 1e15
"""Of a run: simulated time counts picoseconds, and nothing much longer could be drawn."""
_MOST_INSERTIONS = 256
"""Statements, one for each set of columns."""
_OF_FIGURES = {
    f"{field.name}.": _TYPES[values[1]]
    for field in fields(RunRecord)
    if (values := get_args(field.type)) and values[1] in _TYPES
}
"""Of the columns that a dictionary of the record becomes, by their beginning."""


class StoreError(ValueError):
    """A results file that cannot be read or written."""


def type_of(column: str, declared_type: str = "TEXT") -> str:
    """Return the type of a column: that of the figure that has this name, or else as it is declared."""
    known = {**OF_LAYERS, **OF_KERNELS, **OF_ORIGIN, **OF_MEASUREMENT, **ALWAYS}.get(column, "").partition(" ")[0]
    prefixed = next((kind for beginning, kind in _OF_FIGURES.items() if column.startswith(beginning)), "")
    return known or prefixed or (declared_type if declared_type in NUMERIC else "TEXT")


def in_order(columns: Iterable[str]) -> list[str]:
    """Return columns in an order that does not depend on which point came first.

    Scalars, what was swept, figures, and last how the point came about.
    """
    beginnings = list(_OF_FIGURES)

    def place(column: str) -> tuple[int, str]:
        if column in ALWAYS:
            return -2, ""
        if column in OF_MEASUREMENT:
            return len(beginnings), ""
        if column in OF_ORIGIN:
            return len(beginnings) + 1, ""
        return next((i for i, beginning in enumerate(beginnings) if column.startswith(beginning)), -1), column

    return sorted(columns, key=place)


def remedy(folder: Path) -> str:
    """Return what to do about a results file that is damaged."""
    return f"rename {folder / DATABASE} and run the experiment again, or bring back a copy of the file"


class ResultStore:
    """The tables ``runs``, ``layers`` and ``kernels`` in a folder.

    One process writes; a row survives it once ``add`` has returned.

    The journal is written ahead of the table, without waiting for the disk at each row: what a power cut may take is
    the last rows, and those are computed again.
    """

    def __init__(self, folder: Path) -> None:
        """Open or make ``results.sqlite`` in ``folder``; raise ``StoreError`` if that cannot be."""
        self.path = folder / DATABASE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
        except OSError as error:
            raise StoreError(f"{folder}: cannot hold results ({error.strerror or error})") from error
        try:
            self._connection = sqlite3.connect(self.path, timeout=30)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._make_table(TABLE, ALWAYS)
            self._make_table(LAYERS, OF_LAYERS, ", PRIMARY KEY (key, place)")
            self._make_table(KERNELS, OF_KERNELS, ", PRIMARY KEY (key, place)")
            self._known = {table: declared(self._connection, table) for table in (TABLE, LAYERS, KERNELS)}
        except sqlite3.Error as error:
            os.close(self._lock)
            raise StoreError(f"{self.path}: is no results file, or is damaged ({error}); {remedy(folder)}") from error

    def __enter__(self) -> "ResultStore":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        os.close(self._lock)

    def keys(self, *, failed: bool = True) -> set[str]:
        """Return the keys of the points that are there, with or without those that lack sound figures."""
        columns = self._known[TABLE]
        figures = [_quoted(name) for name, kind in columns.items() if type_of(name, kind) in NUMERIC]
        sound = [text for name, text in _HAS_FIGURES.items() if name in columns]
        sound += [f"typeof({name}) IN ('integer', 'real', 'null') AND {name} IS NOT 9e999" for name in figures]
        which = "" if failed or not sound else f" WHERE {' AND '.join(sound)}"
        with self._trouble_named():
            return {row[0] for row in self._connection.execute(f"SELECT key FROM {TABLE}{which}")}

    def add(
        self,
        key: str,
        row: Mapping[str, Figure],
        layers: Sequence[Mapping[str, Figure]] = (),
        kernels: Sequence[Mapping[str, Figure]] = (),
    ) -> None:
        """Store one point's figures, those of its layers and of measured kernels; new figures become new columns."""
        with self._trouble_named(), self._connection:
            self._insert(TABLE, {"key": key, **row})
            for table, parts in ((LAYERS, layers), (KERNELS, kernels)):
                self._connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))
                for place, part in enumerate(parts):
                    self._insert(table, {"key": key, "place": place, **part})

    def _make_table(self, table: str, columns: Mapping[str, str], constraint: str = "") -> None:
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({listed}{constraint})")

    def _insert(self, table: str, row: Mapping[str, Figure]) -> None:
        columns = self._known[table]
        for name, value in row.items():
            if name not in columns:
                columns[name] = type_of(name, _TYPES.get(type(value), "TEXT"))
                self._connection.execute(f"ALTER TABLE {table} ADD COLUMN {_quoted(name)} {columns[name]}")
        self._connection.execute(_insertion(table, tuple(row)), tuple(row.values()))

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
            raise StoreError(f"{self.path}: cannot be used ({error}); {remedy(self.path.parent)}") from error


def open_to_read(folder: Path) -> sqlite3.Connection:
    """Return a connection that only reads the results of ``folder``; raise ``StoreError`` without a store."""
    path = folder / DATABASE
    if not path.is_file():
        raise StoreError(f"{folder}: has no {DATABASE}; run an experiment with --out {folder} first")
    try:
        return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: cannot be read ({error})") from error


def declared(connection: sqlite3.Connection, table: str = TABLE) -> dict[str, str]:
    """Return the type of every column."""
    return {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}


def _locked(folder: Path) -> int:
    """Return an open lock on ``folder``, which ends with this process; raise ``StoreError`` if another has it."""
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        whose = os.pread(handle, 20, 0).decode("ascii", "replace")
        os.close(handle)
        process = f" (process {whose})" if whose.isdecimal() else ""
        raise StoreError(
            f"{folder}: another run{process} is writing there; wait for its end, or give another --out"
        ) from error
    with contextlib.suppress(OSError):
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
    return handle


@lru_cache(_MOST_INSERTIONS)
def _insertion(table: str, columns: tuple[str, ...]) -> str:
    names, marks = ", ".join(map(_quoted, columns)), ", ".join("?" * len(columns))
    return f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
