"""Candidates on disk: an SQLite table with one row each, which a killed run does not damage and the next continues."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsascape.hw_models.text.database import ERRORS, in_words, open_database
from dsascape.hw_models.text.messages import shown
from dsascape.hw_models.text.quantities import LONGEST_S, SHORTEST_S
from dsascape.hw_models.text.record_file import RecordError, parse_json
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.loops.files import read_steps, steps_json
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import MOST_THREADS, ChosenSteps, entry_json, named, numbered
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
    try:
        return named(naive, read_steps(parse_json(text, "steps")))
    except RecordError as error:
        raise ScheduleError(str(error)) from error


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
            self._connection = open_database(self.path, writes=True)
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
            rows = self._connection.execute(query, (self.device, self._search)).fetchmany(MOST_RECORDS + 1)
        return tuple([GivenOut(*row) for row in self._sound(rows, ("task", "unit", "steps"))])

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
            ).fetchmany(MOST_RECORDS + 1)
        for task, unit, steps, seconds, reason, threads, elapsed_s in self._sound(rows, _COLUMNS.split(", ")):
            yield Record(task, unit, steps, Answer(seconds, reason, threads), elapsed_s)

    def _sound(self, rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> Sequence[tuple[Any, ...]]:
        """Return ``rows`` if all are such as are stored; raise ``DatabaseError`` for any other."""
        if len(rows) > MOST_RECORDS:
            raise self.damaged(f"has more than {MOST_RECORDS:,} candidates of one search")
        for number, row in enumerate(rows, 1):
            for name, value in zip(columns, row, strict=True):
                kinds, least, most, needs = _SOUND[name]
                size = len(value) if isinstance(value, str) else value
                if type(value) not in kinds or (size is not None and not least <= size <= most):
                    raise self.damaged(f"{name} in row {number} of the search is {shown(value)}; needs {needs}")
        return rows

    def damaged(self, what: str) -> DatabaseError:
        """Return the error for a file in which ``what`` is wrong."""
        return DatabaseError(f"{self.path}: is damaged: {what}; {_remedy(self.path)}")

    def decide(self, decision: Decision) -> None:
        """Store a decision of the reformer, which a search that goes on must not take otherwise."""
        with _explained(self.path), self._connection:
            self._connection.execute(
                "INSERT INTO decisions (device, search, decision) VALUES (?, ?, ?)",
                (self.device, self._search, decision_json(decision)),
            )

    def decisions(self) -> list[Decision]:
        """Return the decisions of this search, in the order in which they were stored.

        Raises ``DatabaseError`` for text that is none.
        """
        with _explained(self.path):
            rows = self._connection.execute(
                "SELECT decision FROM decisions WHERE device = ? AND search = ? ORDER BY id",
                (self.device, self._search),
            ).fetchmany(MOST_RECORDS + 1)
        try:
            return [read_decision(text) for (text,) in self._sound(rows, ("decision",))]
        except DecisionError as error:
            raise self.damaged(str(error)) from error

    def others(self) -> int:
        """Return how many records belong to another machine or other code."""
        with _explained(self.path):
            query = "SELECT COUNT(*) FROM candidates WHERE device != ?"
            (number,) = self._connection.execute(query, (self.device,)).fetchone()
        return int(number)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


MOST_RECORDS = 1_000_000
"""Largest number of candidates of one search that are read."""
_MOST_CHARACTERS = 2**20
_SOUND: Mapping[str, tuple[tuple[type, ...], float, float, str]] = {
    "task": ((str,), 1, 200, "a key of a task"),
    "unit": ((int,), CONFIRMED, 2**31, f"a whole number from {CONFIRMED}"),
    "steps": ((str,), 0, _MOST_CHARACTERS, f"text of at most {_MOST_CHARACTERS} characters"),
    "decision": ((str,), 1, _MOST_CHARACTERS, f"text of at most {_MOST_CHARACTERS} characters"),
    "seconds": (
        (float, type(None)), SHORTEST_S, LONGEST_S, f"a number from {SHORTEST_S:g} to {LONGEST_S:g}, or nothing",
    ),
    "reason": ((str,), 0, _MOST_CHARACTERS, f"text of at most {_MOST_CHARACTERS} characters"),
    "threads": ((int,), 1, MOST_THREADS, f"a whole number from 1 to {MOST_THREADS}"),
    "elapsed_s": ((float,), 0, 1e9, "a number of seconds up to 1e9"),
}  # fmt: skip
"""By column: types, least and greatest value or length, and both in words."""


def _remedy(path: Path) -> str:
    return f"rename it, and tune again, or bring back a copy of {path.name}"


class _Explaining:
    """A context that turns mistakes of SQLite into ``DatabaseError``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RecordError):
            raise DatabaseError(str(error)) from error
        if isinstance(error, ERRORS):
            raise DatabaseError(in_words(self._path, error, _remedy(self._path))) from error


def _explained(path: Path) -> _Explaining:
    return _Explaining(path)


def kernel_lines(
    found: Sequence[tuple[str, ChosenSteps]], machine: str, code: str
) -> str:
    """Return the text of a file of kernels (`KernelFile`): the steps of each task with what they belong to."""
    lines = [json.dumps(entry_json(key, chosen) | {"machine": machine, "code": code}) for key, chosen in found]
    return "".join([f"{line}\n" for line in lines])
