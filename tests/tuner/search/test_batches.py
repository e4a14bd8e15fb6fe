"""Batches: units that are proposed before any answers are there, stored, and answered in one step."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.tuner.search.batches import Batch, Batches
from dsascape.tuner.search.database import BUILTIN, CONFIRMED, Candidates
from dsascape.tuner.search.objectives import TotalLatency
from dsascape.tuner.search.runners import Answer
from dsascape.tuner.search.search import Search
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.tuners import SearchOptions
from tests.tiers import examples
from tests.tuner.search.test_search import OPTIONS, VIEW, stored, tasks

MODEL = SimulatedRunner(VIEW, "fp32")
TRIALS = examples(120, few=40)


class Tuning:
    """A search over five tasks whose candidates are answered by the machine model, when asked to."""

    def __init__(self, folder: Path, options: SearchOptions = OPTIONS) -> None:
        own = tasks()
        self.candidates = Candidates(folder, "epyc", "test")
        weights = [{number: task.weight for number, task in enumerate(own)}]
        self.search = Search(own, weights, None, self.candidates, TotalLatency(), options)
        self.batches = Batches(self.search, self.candidates)

    def answered(self, batch: Batch) -> dict[str, Answer]:
        return {
            name: answer
            for unit, programs in batch.named()
            for (name, _), answer in zip(
                programs, MODEL.answers(unit.each.task, [program for _, program in programs]), strict=True
            )
        }  # fmt: skip

    def round(self, units: int = 0) -> Batch | None:
        """Propose a batch, store it, and take in its answers."""
        batch = self.batches.proposed(units)
        if batch is not None:
            self.batches.give_out(batch)
            self.batches.take_in(batch, self.answered(batch), "a machine")
        return batch


def kinds(batch: Batch) -> Counter[int]:
    """Return how many units are built-in choices, run again, or trials (1)."""
    return Counter([min(unit.number, 1) for unit in batch.units])


def test_the_first_batch_has_all_tasks_and_the_next_those_that_promise_most(tmp_path: Path) -> None:
    own = Tuning(tmp_path)
    batches = []
    while (batch := own.round()) is not None:
        batches.append(batch)

    first, second, *_, last = batches
    assert kinds(first) == {BUILTIN: 5, 1: 5}
    assert kinds(second) == {1: 1}  # of 48 trials, five units of eight have been tried
    assert kinds(last) == {CONFIRMED: 5}
    assert own.search.trials == 48
    assert [batch.number for batch in batches] == [1, 2, 3]
    assert len({batch.digest for batch in batches}) == 3
    assert own.batches.machine == "a machine"


def test_no_program_is_given_out_twice(tmp_path: Path) -> None:
    own = Tuning(tmp_path, replace(OPTIONS, trials=TRIALS, unit=4))
    while own.round() is not None:
        pass
    tried = [row[:3:2] for row in stored(tmp_path) if row[1] != CONFIRMED]

    assert len(tried) == TRIALS + 5
    assert len(set(tried)) == len(tried)


def test_as_many_units_as_asked_for_are_in_a_batch_and_new_tasks_come_first(tmp_path: Path) -> None:
    own = Tuning(tmp_path, replace(OPTIONS, trials=200, unit=4))
    found = [own.round(2) for _ in range(4)]
    trials = [[unit.each.task.key for unit in batch.units if unit.number > BUILTIN] for batch in found if batch]

    assert list(map(len, trials)) == [2, 2, 1, 2]  # nothing is known of what is worth more while tasks are new
    assert len({key for keys in trials[:3] for key in keys}) == 5


def test_what_waits_is_the_same_in_a_later_run(tmp_path: Path) -> None:
    own = Tuning(tmp_path)
    batch = own.batches.proposed()
    assert batch is not None
    assert own.batches.waiting() is None
    own.batches.give_out(batch)
    later = Tuning(tmp_path)
    waiting = later.batches.waiting()

    assert waiting is not None
    assert (waiting.digest, waiting.name, waiting.rows) == (batch.digest, batch.name, batch.rows)
    assert [[name for name, _ in own] for _, own in waiting.named()] == [
        [name for name, _ in own] for _, own in batch.named()
    ]
    assert stored(tmp_path) == []
    later.batches.take_in(waiting, later.answered(waiting), "a machine")
    assert later.batches.waiting() is None
    assert len(stored(tmp_path)) == batch.size


def test_a_search_in_batches_goes_on_after_any_of_them_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    options = replace(OPTIONS, trials=examples(56, few=32), unit=4)
    own = Tuning(whole, options)
    while own.round() is not None:
        pass
    while Tuning(parts, options).round() is not None:
        pass

    assert stored(parts) == stored(whole)
