"""Results on disk: an SQLite table with one row per design point, written as each is computed."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path

from dsascape.experiments.question.points import Figure
from dsascape.experiments.results.columns import (
    ALWAYS,
    BOOK_KEEPING,
    NUMERIC,
    OF_KERNELS,
    OF_LAYERS,
    TYPES,
    point_of_row,
    type_of,
)
from dsascape.hw_models.text.database import ERRORS, in_words, open_database
from dsascape.hw_models.text.folder_lock import FolderLock, LockError
from dsascape.hw_models.text.record_file import RecordError

_HAS_FIGURES = {"error": "error IS NULL", "latency_s": "latency_s > 0"}
DATABASE = "results.sqlite"
TABLE = "runs"
LAYERS = "layers"
KERNELS = "kernels"
CURRENT = "current"
VIOLATES = "violates"
"""Column with the constraints that a point does not keep."""
SUPERSEDED = "superseded by"
"""Prefix of the state of a row that is not current; the superseding key, code or experiment follows."""
_MOST_INSERTIONS = 256
"""Cached INSERT statements, one per set of columns."""


class StoreError(ValueError):
    """A results file that cannot be read or written."""


def remedy(folder: Path) -> str:
    """Return advice for a damaged results file."""
    return f"rename {folder / DATABASE} and run the experiment again, or bring back a copy of the file"


class ResultStore:
    """The tables ``runs``, ``layers`` and ``kernels`` of a results folder, open for writing by one process.

    Superseded rows stay, and their column ``state`` says what replaced them: ``current``, or ``superseded by`` a newer
    row's key, other code, or an experiment that no longer includes them. Reports show current rows.

    A row is durable against the end of the process once ``add`` has returned.

    The table uses a write-ahead log that is not flushed at each row: a power cut may lose the last rows, which are then
    computed again.
    """

    def __init__(self, folder: Path, lock: FolderLock | None = None) -> None:
        """Open or create ``results.sqlite`` in ``folder``; raise ``StoreError`` if that fails.

        ``lock`` is the folder's where the caller holds it; otherwise it is taken.
        """
        self.path = folder / DATABASE
        try:
            self._lock = FolderLock(folder) if lock is None else None
        except LockError as error:
            raise StoreError(str(error)) from error
        try:
            self._connection = open_database(self.path, writes=True)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._make_table(TABLE, ALWAYS)
            self._migrate()
            self._make_table(LAYERS, OF_LAYERS, ", PRIMARY KEY (key, place)")
            self._make_table(KERNELS, OF_KERNELS, ", PRIMARY KEY (key, place)")
            self._columns = {table: declared(self._connection, table) for table in (TABLE, LAYERS, KERNELS)}
        except (*ERRORS, RecordError) as error:
            self._unlock()
            raise StoreError(trouble_at(self.path, error)) from error

    def __enter__(self) -> "ResultStore":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def keys(self, *, failed: bool = True) -> set[str]:
        """Return the keys of stored points, with or without those that lack sound figures."""
        columns = self._columns[TABLE]
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
        """Store one point's row, its layers and measured kernels; new figures become new columns.

        Supersedes other rows of the same point (`point_of_row`).
        """
        point = point_of_row(row)
        with self._trouble_named(), self._connection:
            self._connection.execute(
                f"UPDATE {TABLE} SET state = ? WHERE point = ? AND key <> ?", (f"{SUPERSEDED} {key}", point, key)
            )
            self._insert(TABLE, {"key": key, "point": point, "state": CURRENT, **row})
            for table, parts in ((LAYERS, layers), (KERNELS, kernels)):
                self._connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))
                for place, part in enumerate(parts):
                    self._insert(table, {"key": key, "place": place, **part})

    def make_current(self, keys: Collection[str], instead_of_all: str = "") -> None:
        """Mark the rows of these points as current.

        With ``instead_of_all``, all other current rows become superseded by that experiment; rows already superseded
        keep their state.
        """
        wanted = set(keys)
        with self._trouble_named(), self._connection:
            states = self._connection.execute(f"SELECT key, state FROM {TABLE}").fetchall()
            again = [key for key, state in states if key in wanted and state != CURRENT]
            others = [key for key, state in states if key not in wanted and state == CURRENT and instead_of_all]
            self._set_state(CURRENT, again)
            self._set_state(f"{SUPERSEDED} {instead_of_all}", others)

    def mark_violations(self, violations: Mapping[str, str]) -> None:
        """Write the constraints that points do not keep, by key; empty where a point keeps all."""
        columns = self._columns[TABLE]
        with self._trouble_named(), self._connection:
            if VIOLATES not in columns and any(violations.values()):
                columns[VIOLATES] = type_of(VIOLATES)
                self._connection.execute(f"ALTER TABLE {TABLE} ADD COLUMN {VIOLATES} {columns[VIOLATES]}")
            if VIOLATES in columns:
                self._connection.executemany(
                    f"UPDATE {TABLE} SET {VIOLATES} = ? WHERE key = ?",
                    [(text or None, key) for key, text in violations.items()],
                )

    def supersede_other_code(self, code: str, kept: Collection[str]) -> None:
        """Mark current rows computed by code other than ``code`` as superseded by it, except those in ``kept``."""
        with self._trouble_named(), self._connection:
            which = f"SELECT key FROM {TABLE} WHERE state = ? AND code IS NOT ?"
            keys = [key for (key,) in self._connection.execute(which, (CURRENT, code)).fetchall()]
            self._set_state(f"{SUPERSEDED} code {code}", [key for key in keys if key not in kept])

    def superseded(self, by: str) -> list[str]:
        """Return the keys of the rows superseded by the row with key ``by``."""
        with self._trouble_named():
            rows = self._connection.execute(f"SELECT key FROM {TABLE} WHERE state = ?", (f"{SUPERSEDED} {by}",))
            return [key for (key,) in rows]

    def _set_state(self, state: str, keys: Iterable[str]) -> None:
        self._connection.executemany(f"UPDATE {TABLE} SET state = ? WHERE key = ?", [(state, key) for key in keys])

    def _migrate(self) -> None:
        """Add the book-keeping columns to a table of an earlier version; the last row of each point becomes current."""
        columns = declared(self._connection)
        with self._connection:
            for name, kind in BOOK_KEEPING.items():
                if name not in columns:
                    self._connection.execute(f"ALTER TABLE {TABLE} ADD COLUMN {name} {kind}")
            if "point" not in columns:
                rows = rows_in_order(self._connection)
                for key, later in superseded_in(rows).items():
                    self._set_state(f"{SUPERSEDED} {later}", [key])
                self._connection.executemany(
                    f"UPDATE {TABLE} SET point = ? WHERE key = ?", [(point_of_row(row), row["key"]) for row in rows]
                )
            self._connection.execute(f"CREATE INDEX IF NOT EXISTS points ON {TABLE} (point)")

    def _make_table(self, table: str, columns: Mapping[str, str], constraint: str = "") -> None:
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({listed}{constraint})")

    def _insert(self, table: str, row: Mapping[str, Figure]) -> None:
        columns = self._columns[table]
        for name, value in row.items():
            if name not in columns:
                columns[name] = type_of(name, TYPES.get(type(value), "TEXT"))
                self._connection.execute(f"ALTER TABLE {table} ADD COLUMN {_quoted(name)} {columns[name]}")
        self._connection.execute(_insertion(table, tuple(row)), tuple(row.values()))

    def rows(self, keys: Sequence[str]) -> list[dict[str, Figure]]:
        """Return the rows of these points, in order; all of them must be stored."""
        rows = []
        with self._trouble_named(), closing(self._connection.cursor()) as cursor:
            for key in keys:
                values = cursor.execute(f"SELECT * FROM {TABLE} WHERE key = ?", (key,)).fetchone()
                rows.append(dict(zip((column[0] for column in cursor.description), values, strict=True)))
        return rows

    @contextmanager
    def _trouble_named(self) -> Iterator[None]:
        try:
            yield
        except ERRORS as error:
            raise StoreError(trouble_at(self.path, error)) from error


def open_to_read(folder: Path) -> sqlite3.Connection:
    """Open the results of ``folder`` read-only; raise ``StoreError`` if there are none."""
    path = folder / DATABASE
    if folder.is_file():
        raise StoreError(f"{folder}: is a file; needs a folder of results")
    if not path.is_file():
        raise StoreError(f"{folder}: has no {DATABASE}; run an experiment with --out {folder} first")
    try:
        return open_database(path, writes=False)
    except (*ERRORS, RecordError) as error:
        raise StoreError(trouble_at(path, error)) from error


def trouble_at(path: Path, error: Exception) -> str:
    """Return a message on a results file that cannot be opened, read or written."""
    return str(error) if isinstance(error, RecordError) else in_words(path, error, remedy(path.parent))


def declared(connection: sqlite3.Connection, table: str = TABLE) -> dict[str, str]:
    """Return the declared SQL type of each column of a table."""
    return {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}


def rows_in_order(connection: sqlite3.Connection) -> list[dict[str, object]]:
    """Return all rows of the table of runs, in the order in which they were stored."""
    cursor = connection.execute(f"SELECT * FROM {TABLE} ORDER BY rowid")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, values, strict=True)) for values in cursor]


def superseded_in(rows: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """Return (superseded key: key of the last row of the same point) for rows given in the order of storage."""
    last: dict[str, list[str]] = {}
    for row in rows:
        last.setdefault(point_of_row(row), []).append(str(row["key"]))
    return {key: keys[-1] for keys in last.values() for key in keys[:-1]}


@lru_cache(_MOST_INSERTIONS)
def _insertion(table: str, columns: tuple[str, ...]) -> str:
    names, marks = ", ".join(map(_quoted, columns)), ", ".join("?" * len(columns))
    return f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
