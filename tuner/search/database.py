"""Candidates on disk: an SQLite table with one row each, which a killed run does not damage and the next continues."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsascape.scheduler.kernels.loops.files import read_steps, steps_json
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import ChosenSteps, entry_json, named, numbered
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.search.reformer.decisions import Decision, DecisionError, decision_json, read_decision
from dsascape.tuner.search.runners import Answer

DATABASE = "candidates.sqlite"
_TABLE = """
CREATE TABLE IF NOT EXISTS candidates (
    id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    device TEXT NOT NULL,
    search TEXT NOT NULL,
    unit INTEGER NOT NULL,
    steps TEXT NOT NULL,
    seconds REAL,
    reason TEXT NOT NULL,
    threads INTEGER NOT NULL,
    elapsed_s REAL NOT NULL
)
"""
_GIVEN_OUT = """
CREATE TABLE IF NOT EXISTS batches (
    device TEXT NOT NULL,
    search TEXT NOT NULL,
    number INTEGER NOT NULL,
    machine TEXT,
    PRIMARY KEY (device, search, number)
);
CREATE TABLE IF NOT EXISTS given_out (
    id INTEGER PRIMARY KEY,
    device TEXT NOT NULL,
    search TEXT NOT NULL,
    task TEXT NOT NULL,
    unit INTEGER NOT NULL,
    steps TEXT NOT NULL
);
"""
_DECISIONS = """
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY,
    device TEXT NOT NULL,
    search TEXT NOT NULL,
    decision TEXT NOT NULL
)
"""
_COLUMNS = "task, unit, steps, seconds, reason, threads, elapsed_s"
BUILTIN = 0
"""Unit of the built-in choice, which is no trial."""
CONFIRMED = -1
"""Unit of programs that are run again in the end, one after the other, to be compared."""


class DatabaseError(ValueError):
    """A database that cannot be read or written; the message says why."""


@dataclass(frozen=True, slots=True)
class Record:
    """One candidate: what was tried, in which unit of its task, and what came of it."""

    task: str
    unit: int
    """From 1, counted over all tasks; `BUILTIN` for the built-in choice, `CONFIRMED` for what is run again."""
    steps: str
    """JSON of the steps, with tensors by number."""
    answer: Answer
    elapsed_s: float
    """Since the search began, without the time between its runs."""


@dataclass(frozen=True, slots=True)
class GivenOut:
    """One candidate that is tried elsewhere, and whose answer has not come yet."""

    task: str
    unit: int
    """As of a `Record`."""
    steps: str
    """JSON of the steps, with tensors by number."""


def own_steps(naive: NaiveProgram, text: str) -> Steps:
    """Return stored steps with the names of a kernel's tensors; raise ``ScheduleError`` for what are no steps."""
    return named(naive, read_steps(json.loads(text)))


def written(naive: NaiveProgram, steps: Steps) -> str:
    """Return ``steps`` of a kernel as they are stored: JSON, with tensors by number."""
    return json.dumps(steps_json(numbered(naive, steps)), separators=(",", ":"))


class Candidates:
    """The records of one search on one device, open in one process; others in the same file are left alone."""

    def __init__(self, folder: Path, device: str, search: str) -> None:
        """Open or create the database of ``folder``.

        ``device`` says what times depend on: machine, code, how they are found; ``search`` what the order of the
        candidates depends on: tuner, seed, options. Raises ``DatabaseError`` for a file that is none.
        """
        self.path, self.device, self._search = folder / DATABASE, device, search
        with _explained(self.path):
            self._connection = sqlite3.connect(self.path, timeout=10)
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(_TABLE)
            self._connection.executescript(_GIVEN_OUT)
            self._connection.execute(_DECISIONS)
            self._connection.commit()

    def add(self, records: Sequence[Record]) -> None:
        """Store ``records``, all or none; they are there when this has returned, whatever ends the process then."""
        with _explained(self.path), self._connection:
            self._insert(records)

    def _insert(self, records: Sequence[Record]) -> None:
        rows = [
            (each.task, self.device, self._search, each.unit, each.steps, each.answer.seconds, each.answer.reason,
             each.answer.threads, each.elapsed_s)
            for each in records
        ]  # fmt: skip
        self._connection.executemany(
            "INSERT INTO candidates (task, device, search, unit, steps, seconds, reason, threads, elapsed_s)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    @property
    def batches(self) -> int:
        """How many batches of this search have been given out."""
        with _explained(self.path):
            query = "SELECT COUNT(*) FROM batches WHERE device = ? AND search = ?"
            (number,) = self._connection.execute(query, (self.device, self._search)).fetchone()
        return int(number)

    @property
    def machine(self) -> str | None:
        """Machine that has answered batches of this search; None where none has."""
        with _explained(self.path):
            query = "SELECT machine FROM batches WHERE device = ? AND search = ? AND machine IS NOT NULL"
            found = self._connection.execute(query, (self.device, self._search)).fetchone()
        return None if found is None else str(found[0])

    def give_out(self, rows: Sequence[GivenOut]) -> None:
        """Store the candidates of one more batch, which waits for its answers; all or none."""
        number, who = self.batches + 1, (self.device, self._search)
        with _explained(self.path), self._connection:
            self._connection.execute("INSERT INTO batches (device, search, number) VALUES (?, ?, ?)", (*who, number))
            self._connection.executemany(
                "INSERT INTO given_out (device, search, task, unit, steps) VALUES (?, ?, ?, ?, ?)",
                [(*who, each.task, each.unit, each.steps) for each in rows],
            )

    def waiting(self) -> tuple[GivenOut, ...]:
        """Return the candidates of the batch that waits for its answers, in their order; none where no batch does."""
        with _explained(self.path):
            query = "SELECT task, unit, steps FROM given_out WHERE device = ? AND search = ? ORDER BY id"
            rows = self._connection.execute(query, (self.device, self._search)).fetchall()
        return tuple([GivenOut(*row) for row in rows])

    def take_in(self, records: Sequence[Record], machine: str | None) -> None:
        """Store the answers to the waiting batch, from ``machine``, in its place; all or none."""
        who = self.device, self._search
        with _explained(self.path), self._connection:
            self._insert(records)
            self._connection.execute("DELETE FROM given_out WHERE device = ? AND search = ?", who)
            self._connection.execute(
                "UPDATE batches SET machine = ? WHERE device = ? AND search = ? AND number ="
                " (SELECT MAX(number) FROM batches WHERE device = ? AND search = ?)",
                (machine, *who, *who),
            )

    def records(self) -> Iterator[Record]:
        """Yield the records of this search, in the order in which they were stored."""
        with _explained(self.path):
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM candidates WHERE device = ? AND search = ? ORDER BY id",
                (self.device, self._search),
            ).fetchall()
        for task, unit, steps, seconds, reason, threads, elapsed_s in rows:
            yield Record(task, unit, steps, Answer(seconds, reason, threads), elapsed_s)

    def decide(self, decision: Decision) -> None:
        """Store a decision of the reformer, which a search that goes on must not take otherwise."""
        with _explained(self.path), self._connection:
            self._connection.execute(
                "INSERT INTO decisions (device, search, decision) VALUES (?, ?, ?)",
                (self.device, self._search, decision_json(decision)),
            )

    def decisions(self) -> list[Decision]:
        """Return the decisions of this search, in the order in which they were stored; damaged ones are left out."""
        with _explained(self.path):
            rows = self._connection.execute(
                "SELECT decision FROM decisions WHERE device = ? AND search = ? ORDER BY id",
                (self.device, self._search),
            ).fetchall()
        found = []
        for (text,) in rows:
            try:
                found.append(read_decision(text))
            except DecisionError:
                continue
        return found

    def others(self) -> int:
        """Return how many records belong to another machine or other code."""
        with _explained(self.path):
            query = "SELECT COUNT(*) FROM candidates WHERE device != ?"
            (number,) = self._connection.execute(query, (self.device,)).fetchone()
        return int(number)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


_NO_ROOM = ("disk I/O error", "is full")
"""Parts of SQLite's messages where it cannot write."""


class _Explaining:
    """A context that turns mistakes of SQLite into ``DatabaseError``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            is_unwritten = any(text in str(error) for text in _NO_ROOM)
            more = "; is the disk full? what was stored before is kept" if is_unwritten else ""
            raise DatabaseError(f"{self._path}: {error}{more}") from error


def _explained(path: Path) -> _Explaining:
    return _Explaining(path)


def kernel_lines(
    found: Sequence[tuple[str, ChosenSteps]], machine: str, code: str
) -> str:
    """Return the text of a file of kernels (`KernelFile`): the steps of each task with what they belong to."""
    lines = [json.dumps(entry_json(key, chosen) | {"machine": machine, "code": code}) for key, chosen in found]
    return "".join([f"{line}\n" for line in lines])
