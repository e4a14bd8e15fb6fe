"""Batches: candidates of several units that are tried elsewhere, and whose answers come when somebody brings them."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsascape.tuner.measure.tasks import candidate_name
from dsascape.tuner.search.database import Candidates, GivenOut, written
from dsascape.tuner.search.runners import Answer
from dsascape.tuner.search.search import Search, Unit, UnitDone
from dsascape.tuner.search.space import Program

_DIGITS = 8
_UNITS = 8
"""Units of a batch, where no task is new: each batch takes somebody a way to another machine and back."""


@dataclass(frozen=True)
class Batch:
    """Units that are tried elsewhere, together."""

    number: int
    """From 1, of one search."""
    units: tuple[Unit, ...]
    rows: tuple[GivenOut, ...]
    """Stored form of units: a row for each program, in order."""
    digest: str
    """Digest of its candidates, and of all that their times depend on."""

    @property
    def name(self) -> str:
        """Name that tells it from all others, for files."""
        return f"batch-{self.number}-{self.digest[:_DIGITS]}"

    @property
    def origin(self) -> str:
        """Text that comes back with its answers."""
        return f"batch {self.number} {self.digest}"

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.rows)

    def named(self) -> Iterator[tuple[Unit, tuple[tuple[str, Program], ...]]]:
        """Yield each unit with its programs, and the names of these."""
        for unit in self.units:
            key = unit.each.task.key
            yield unit, tuple([(candidate_name(key, program.steps), program) for program in unit.programs])


class Batches:
    """A search whose candidates are tried elsewhere, batch by batch."""

    def __init__(self, search: Search, candidates: Candidates) -> None:
        """Take up the records of earlier runs."""
        self._search, self._candidates = search, candidates
        self._begin = time.monotonic()
        search.go_on()
        self._before_s = search.elapsed_s

    @property
    def machine(self) -> str | None:
        """Machine that has answered so far; None where none has."""
        return self._candidates.machine

    def waiting(self) -> Batch | None:
        """Return the batch that has been given out and waits for its answers; None without one."""
        batch = self._batch(self._candidates.waiting(), self._candidates.batches)
        return batch if batch.units else None

    def proposed(self, units: int = 0) -> Batch | None:
        """Return the next batch, which is not stored yet; None where the search has ended.

        It has the built-in choices that have no times, and units of those tasks that the task scheduler names one after
        the other while it hears of no answers: as many as ``units`` says, by default one of each task that is new, else
        eight. Where there are no more units, it has what is run again in the end.
        """
        found = self._search.builtins()
        for own in found:
            own.each.expect(own.programs)
        new = sum([each.is_open and not each.history for each in self._search.tasks])
        for _ in range(units or new or _UNITS):
            unit = self._search.next_unit(found)
            if unit is None:
                break
            unit.each.expect(unit.programs)
            found.append(unit)
        if not found:
            self._search.train()
            found = self._search.confirmations()
        rows = [
            GivenOut(unit.each.task.key, unit.number, written(unit.each.task.naive, program.steps))
            for unit in found
            for program in unit.programs
        ]
        return self._batch(rows, self._candidates.batches + 1) if rows else None

    def give_out(self, batch: Batch) -> None:
        """Store a batch that waits for its answers from now on."""
        self._candidates.give_out(batch.rows)

    def take_in(self, batch: Batch, answers: Mapping[str, Answer], machine: str | None) -> list[UnitDone]:
        """Store the answers to the waiting batch, by name of the candidate, as records; return the units as ended.

        ``machine`` is what has answered; None where nothing had to run.
        """
        elapsed_s = self._before_s + time.monotonic() - self._begin
        of_units = [
            (unit, [answers[name] for name, _ in programs]) for unit, programs in batch.named()
        ]  # fmt: skip
        self._candidates.take_in(
            [
                record
                for unit, own in of_units
                for record in unit.each.records(unit.number, unit.programs, own, elapsed_s)
            ],
            machine,
        )
        done = [self._search.learn(unit, own, elapsed_s) for unit, own in of_units]
        return [each for each in done if each is not None]

    def _batch(self, rows: Sequence[GivenOut], number: int) -> Batch:
        """Return the batch of stored candidates; those that make no program any more are left out."""
        by_key = {each.task.key: each for each in self._search.tasks}
        together: dict[tuple[int, str], list[tuple[GivenOut, Program]]] = {}
        for row in rows:
            program = self._search.program_of(by_key[row.task], row.steps) if row.task in by_key else None
            if program is not None:
                together.setdefault((row.unit, row.task), []).append((row, program))
        kept = [row for each in together.values() for row, _ in each]
        told = [self._candidates.device, number, *[[row.task, row.unit, row.steps] for row in kept]]
        units = [Unit(unit, by_key[key], [program for _, program in own]) for (unit, key), own in together.items()]
        return Batch(number, tuple(units), tuple(kept), hashlib.sha256(json.dumps(told).encode()).hexdigest())
