"""A search over all tasks of a network: units of trials, one after the other, each stored as it ends."""

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.loops.sources import ChosenSteps, numbered
from dsascape.tuner.search.cost_model import CostModel, check_installed
from dsascape.tuner.search.database import BUILTIN, CONFIRMED, Candidates, Record
from dsascape.tuner.search.objectives import Objective, Progress
from dsascape.tuner.search.reformer.decisions import Decision
from dsascape.tuner.search.reformer.reforming import Reformer, tasks_with_minis
from dsascape.tuner.search.reformer.splitting import Split
from dsascape.tuner.search.runners import Answer, Runner
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.task_scheduler import TaskFacts, next_task
from dsascape.tuner.search.tasks import Task
from dsascape.tuner.search.tuners import LEARNING, TUNERS, SearchOptions


@dataclass(frozen=True)
class UnitDone:
    """One unit of a search that has ended."""

    unit: int
    task: str
    """Key of the task."""
    trials: int
    """Trials of all tasks so far."""
    latency_s: float
    """Latency of all networks together, with the best programs so far."""
    elapsed_s: float
    """Time spent on this search, in all of its runs."""


def search_label(options: SearchOptions, networks: Sequence[str]) -> str:
    """Return what the order of candidates depends on: all options but how many there are to be."""
    told = asdict(options)
    del told["trials"]
    return json.dumps([list(networks), told], sort_keys=True)


class Search:
    """The tasks of one or more networks, searched together."""

    def __init__(
        self, tasks: Sequence[Task | Split], weights: Sequence[Mapping[int, int]], runner: Runner,
        candidates: Candidates, objective: Objective, options: SearchOptions, prior: Runner | None = None,
    ) -> None:  # fmt: skip
        """``weights`` has how often each task, by its place, occurs in each network; ``prior`` is the machine model.

        For the tuner ``ago``, ``tasks`` are kernels with their mini sub-graphs, which become tasks behind all others.

        Raises ``MissingPackageError`` where the tuner needs a library that is not installed.
        """
        if options.tuner in LEARNING:
            check_installed()
        self.options, self.weights, self.objective = options, weights, objective
        self._runner, self._candidates = runner, candidates
        self.model = CostModel(options.model, options.seed) if options.tuner in LEARNING else None
        known = prior if options.prior else None
        splits = [each for each in tasks if isinstance(each, Split)]
        kernels = [each.whole if isinstance(each, Split) else each for each in tasks]
        self.tasks = [
            Searching(task, options.space, self.model, known, has_builtin=options.builtin)
            for task in tasks_with_minis(kernels, splits)
        ]
        self._reformer = Reformer(splits, self.tasks, options.trials, options.reformer) if splits else None
        self._facts = [TaskFacts(each.task.flops, each.task.similarity) for each in self.tasks]
        self._unit, self._elapsed_s = 0, 0.0
        self._curve: list[UnitDone] = []
        self.continued = 0
        """Trials of earlier runs."""

    @property
    def trials(self) -> int:
        """Programs that have been tried, without the built-in choices."""
        return sum([each.trials for each in self.tasks])

    @property
    def failed(self) -> int:
        """Number of candidates without a time."""
        return sum([each.failed for each in self.tasks])

    @property
    def progress(self) -> Progress:
        """Progress of the tasks."""
        return Progress([each.history for each in self.tasks], self.weights)

    @property
    def curve(self) -> tuple[UnitDone, ...]:
        """All units that have ended, those of earlier runs among them."""
        return tuple(self._curve)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Decisions of the reformer; none of other tuners."""
        return () if self._reformer is None else self._reformer.decisions

    def latencies(self) -> list[float]:
        """Return the latency of each network with the best programs so far."""
        own = [each.latency for each in self.tasks]
        return [sum([weight * own[task] for task, weight in each.items()]) for each in self.weights]

    def run(self) -> Iterator[UnitDone]:
        """Try programs until there are as many as asked for, or no task promises anything; yield each unit.

        In the end the cost model has learned all that is known. Where times are measured, the fastest programs of each
        task and the built-in choice are run again: the least of many times is low by chance, too.
        """
        yield from self._units()
        self._train()
        if not self._runner.is_repeatable:
            for each in self.tasks:
                if not each.is_confirmed:
                    self._try(each, CONFIRMED, each.to_confirm(), self._elapsed_s)

    def _units(self) -> Iterator[UnitDone]:
        begin = time.monotonic()
        self._continue()
        before_s = self._elapsed_s
        for each in self.tasks:
            if each.before is None:
                self._try(each, BUILTIN, [each.task.program()], before_s + time.monotonic() - begin)
        size = max(min(self.options.unit, self.options.trials // max(len(self.tasks), 1)), 1)
        while self.trials < self.options.trials:
            rng = random.Random(f"{self.options.seed}/{self._unit + 1}")
            number = self._next_task(rng)
            if number is None:
                return
            each = self.tasks[number]
            self._train()
            count = min(size, self.options.trials - self.trials)
            programs = TUNERS[self.options.tuner](each, count, rng, self.options)
            if not programs:
                each.is_exhausted = True
                continue
            self._unit += 1
            self._try(each, self._unit, programs, before_s + time.monotonic() - begin)
            self._elapsed_s = before_s + time.monotonic() - begin
            yield self._ended(self._unit, each, self._elapsed_s)

    def _next_task(self, rng: random.Random) -> int | None:
        if self._reformer is not None:
            return self._reformer.next_task(self._unit, self._candidates.decide)
        open_tasks = [number for number, each in enumerate(self.tasks) if each.is_open]
        return next_task(self.progress, self._facts, self.objective, self.options.scheduler, open_tasks, rng)

    def _ended(self, unit: int, each: Searching, elapsed_s: float) -> UnitDone:
        done = UnitDone(unit, each.task.key, self.trials, sum(self.latencies()), elapsed_s)
        self._curve.append(done)
        return done

    def _train(self) -> None:
        if self.model is not None and self.trials:
            self.model.train()

    def _try(self, each: Searching, unit: int, programs: Sequence[Program], elapsed_s: float) -> None:
        """Ask the runner, and store its answers: all at once where they can be had again, else each as it comes."""
        answers: list[Answer] = []
        begin = time.monotonic()
        for program, answer in zip(programs, self._runner.answers(each.task, programs), strict=True):
            answers.append(answer)
            if not self._runner.is_repeatable:
                spent_s = elapsed_s + time.monotonic() - begin
                self._candidates.add(each.records(unit, [program], [answer], spent_s))
        if self._runner.is_repeatable:
            self._candidates.add(each.records(unit, programs, answers, elapsed_s))
        each.add(unit, programs, answers)

    def _continue(self) -> None:
        """Take up the records of earlier runs; those that make no program any more are left out."""
        by_key = {each.task.key: each for each in self.tasks}
        together: dict[tuple[int, str], list[Record]] = {}
        for record in self._candidates.records():
            if record.task in by_key:
                together.setdefault((record.unit, record.task), []).append(record)
                self._elapsed_s = max(self._elapsed_s, record.elapsed_s)
        for (unit, key), records in together.items():
            known = [(program, each.answer) for each in records if (program := _program(by_key[key], each)) is not None]
            if known:
                by_key[key].add(unit, [program for program, _ in known], [answer for _, answer in known])
                if unit > BUILTIN:
                    self._ended(unit, by_key[key], max([each.elapsed_s for each in records]))
            self._unit = max(self._unit, unit)
        self.continued = self.trials
        if self._reformer is not None:
            self._reformer.continue_with(self._candidates.decisions())

    def kernels(self) -> list[tuple[str, ChosenSteps]]:
        """Return the fastest steps of each task, with tensors by number, as a file of kernels has them."""
        found = []
        for each in self.tasks:
            if each.best is not None:
                program, answer = each.best
                assert answer.seconds is not None
                steps = numbered(each.task.naive, program.steps)
                found.append((each.task.key, ChosenSteps(steps, answer.threads, answer.seconds)))
        return found


def _program(each: Searching, record: Record) -> Program | None:
    try:
        steps = record.own_steps(each.task.naive)
    except ScheduleError:
        return None
    if record.unit == BUILTIN:
        return each.task.program() if steps == each.task.builtin else None
    return each.space.built(steps)
