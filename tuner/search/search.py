"""A search over all tasks of a network: units of trials, one after the other, each stored as it ends."""

import json
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.loops.sources import ChosenSteps, numbered
from dsascape.tuner.search.cost_model import CostModel, check_installed
from dsascape.tuner.search.database import BUILTIN, CONFIRMED, Candidates, Record, own_steps
from dsascape.tuner.search.objectives import Objective, Progress
from dsascape.tuner.search.reformer.decisions import Decision
from dsascape.tuner.search.reformer.reforming import Reformer, tasks_with_minis
from dsascape.tuner.search.reformer.splitting import Split
from dsascape.tuner.search.runners import Answer, Runner
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.task_scheduler import TaskFacts, cut_to, next_task, unit_trials
from dsascape.tuner.search.tasks import Task
from dsascape.tuner.search.tuners import LEARNING, TUNERS, SearchOptions

_SAME = 1e-9
"""Relative difference of two times of the same program, where they are repeatable."""
_MOST_FASTER = 1000.0
"""How much faster than the machine model expects a measured program may be."""


@dataclass(frozen=True)
class Unit:
    """Programs of one task that are tried together."""

    number: int
    """From 1, counted over all tasks; `BUILTIN` and `CONFIRMED` are no trials."""
    each: Searching
    programs: Sequence[Program]


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
    if not options.space.hints:
        del told["space"]["hints"]
    return json.dumps([list(networks), told], sort_keys=True)


class Search:
    """The tasks of one or more networks, searched together."""

    def __init__(
        self, tasks: Sequence[Task | Split], weights: Sequence[Mapping[int, int]], runner: Runner | None,
        candidates: Candidates, objective: Objective, options: SearchOptions, prior: Runner | None = None,
    ) -> None:  # fmt: skip
        """``weights`` has how often each task, by its place, occurs in each network; ``prior`` is the machine model.

        Without a runner, candidates are tried elsewhere, batch by batch (`Batches`).
        For the tuner ``ago``, ``tasks`` are kernels with their mini sub-graphs, which become tasks behind all others.

        Raises ``MissingPackageError`` where the tuner needs a library that is not installed.
        """
        if options.tuner in LEARNING:
            check_installed()
        self.options, self.weights, self.objective = options, weights, objective
        self._runner, self.candidates = runner, candidates
        self.model = CostModel(options.model, options.seed) if options.tuner in LEARNING else None
        self._prior = prior
        known = prior if options.prior else None
        splits = [each for each in tasks if isinstance(each, Split)]
        kernels = [each.whole if isinstance(each, Split) else each for each in tasks]
        self.tasks = [
            Searching(task, options.space, self.model, known, has_builtin=options.builtin)
            for task in tasks_with_minis(kernels, splits)
        ]
        self._reformer = Reformer(splits, self.tasks, options.trials, options.reformer) if splits else None
        self._facts = [TaskFacts(each.task.flops, each.task.similarity) for each in self.tasks]
        self.unit, self._learned = 0, 0
        self.elapsed_s = 0.0
        """Seconds spent on this search, in all of its runs."""
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
        """Progress of the tasks; one that has had no unit counts as it is."""
        return Progress([each.history or [each.latency] for each in self.tasks], self.weights)

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
        runner = self._runner
        assert runner is not None
        begin = time.monotonic()
        self.go_on()
        before_s = self.elapsed_s
        for own in self.builtins():
            self.try_programs(runner, own, before_s + time.monotonic() - begin)
        while (unit := self.next_unit()) is not None:
            self.try_programs(runner, unit, before_s + time.monotonic() - begin)
            self.elapsed_s = before_s + time.monotonic() - begin
            yield self.ended(unit.number, unit.each, self.elapsed_s)
        self.train()
        if not runner.is_repeatable:
            for own in self.confirmations():
                self.try_programs(runner, own, self.elapsed_s)

    def builtins(self) -> list[Unit]:
        """Return the built-in choices that have not been tried."""
        return [Unit(BUILTIN, each, [each.task.program()]) for each in self.tasks if each.before is None]

    def confirmations(self) -> list[Unit]:
        """Return what is run again in the end, where times are measured."""
        return [Unit(CONFIRMED, each, each.to_confirm()) for each in self.tasks if not each.is_confirmed]

    def next_unit(self, besides: Sequence[Unit] = ()) -> Unit | None:
        """Return the programs to try next; None where there are as many as asked for, or no task promises anything.

        Tasks of ``besides``, units that have no answers yet, get no other one; while some task has never had answers,
        nobody knows which of those that have had a unit promises most.
        """
        size = unit_trials(self.options.trials, len(self.tasks), self.options.unit)
        given_out = [unit for unit in besides if unit.number > BUILTIN]
        tried = self.trials + sum([len(unit.programs) for unit in given_out])
        taken = {unit.each.task.key for unit in given_out}
        while tried < self.options.trials:
            rng = random.Random(f"{self.options.seed}/{self.unit + 1}")
            open_tasks = [
                number for number, each in enumerate(self.tasks) if each.is_open and each.task.key not in taken
            ]  # fmt: skip
            is_known = all(self.tasks[number].history for number in open_tasks)
            if self._reformer is None and is_known and not all(unit.each.history for unit in given_out):
                return None
            number = self._next_task(open_tasks, rng, size)
            if number is None:
                return None
            each = self.tasks[number]
            self.train()
            count = cut_to(self.options.trials - tried, size)
            programs = TUNERS[self.options.tuner](each, count, rng, self.options)
            if not programs:
                each.is_exhausted = True
                continue
            self.unit += 1
            return Unit(self.unit, each, programs)
        return None

    def _next_task(self, open_tasks: Sequence[int], rng: random.Random, size: int) -> int | None:
        if self._reformer is not None:
            return self._reformer.next_task(self.unit, size, self.candidates.decide)
        scheduler = self.options.scheduler
        warms_up = scheduler.strategy == "round-robin" or size * len(self.tasks) <= self.options.trials
        first = [number for number in open_tasks if warms_up and not self.tasks[number].history]
        return next_task(self.progress, self._facts, self.objective, scheduler, open_tasks, rng, first=first)

    def ended(self, unit: int, each: Searching, elapsed_s: float) -> UnitDone:
        """Take note of a unit that has ended, and return it."""
        done = UnitDone(unit, each.task.key, self.trials, sum(self.latencies()), elapsed_s)
        self._curve.append(done)
        return done

    def train(self) -> None:
        """Have the cost model learn all that is known, if that is more than it has learned."""
        if self.model is not None and self.trials != self._learned:
            self.model.train()
            self._learned = self.trials

    def try_programs(self, runner: Runner, unit: Unit, elapsed_s: float) -> None:
        """Ask the runner, and store its answers: all at once where they can be had again, else each as it comes."""
        each, programs = unit.each, unit.programs
        answers: list[Answer] = []
        begin = time.monotonic()
        for program, answer in zip(programs, runner.answers(each.task, programs), strict=True):
            answers.append(answer)
            if not runner.is_repeatable:
                spent_s = elapsed_s + time.monotonic() - begin
                self.candidates.add(each.records(unit.number, [program], [answer], spent_s))
        if runner.is_repeatable:
            self.candidates.add(each.records(unit.number, programs, answers, elapsed_s))
        each.add(unit.number, programs, answers)

    def learn(self, unit: Unit, answers: Sequence[Answer], elapsed_s: float) -> UnitDone | None:
        """Take note of the answers to a unit, which are stored; return it as ended if it is one of trials."""
        self.elapsed_s = max(self.elapsed_s, elapsed_s)
        unit.each.add(unit.number, unit.programs, answers)
        self.unit = max(self.unit, unit.number)
        return self.ended(unit.number, unit.each, elapsed_s) if unit.number > BUILTIN else None

    def go_on(self) -> None:
        """Take up the records of earlier runs; those that make no legal program any more are left out.

        Raises ``DatabaseError`` for a damaged file: also where the machine model says that a time of it cannot be.
        """
        by_key = {each.task.key: each for each in self.tasks}
        together: dict[tuple[int, str], list[Record]] = {}
        for record in self.candidates.records():
            if record.task in by_key:
                together.setdefault((record.unit, record.task), []).append(record)
                self.elapsed_s = max(self.elapsed_s, record.elapsed_s)
        for (unit, key), records in together.items():
            found = [(self.program_of(by_key[key], each.steps), each.answer) for each in records]
            if unit in (BUILTIN, CONFIRMED):
                self._check_builtin(by_key[key], unit, [program for program, _ in found])
            known = [(program, answer) for program, answer in found if program is not None]
            if known:
                by_key[key].add(unit, [program for program, _ in known], [answer for _, answer in known])
                if unit > BUILTIN:
                    self.ended(unit, by_key[key], max([each.elapsed_s for each in records]))
            self.unit = max(self.unit, unit)
        self.continued = self.trials
        for each in self.tasks:
            before = [] if each.before is None else [(each.task.program(), each.before)]
            self.check_times(each, [*([] if each.best is None else [each.best]), *before])
        if self._reformer is not None:
            self._reformer.continue_with(self.candidates.decisions())

    def program_of(self, each: Searching, text: str) -> Program | None:
        """Return the program of stored steps, None where it is not legal; raise ``DatabaseError`` for what are none."""
        try:
            steps = own_steps(each.task.naive, text)
            return each.task.program() if steps == each.task.builtin else each.space.built(steps)
        except (ScheduleError, ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
            raise self.candidates.damaged(f"a candidate of task {each.task.key} has no steps: {error}") from error

    def _check_builtin(self, each: Searching, unit: int, programs: Sequence[Program | None]) -> None:
        """Raise ``DatabaseError`` where the built-in choice is there twice, or another program in its place."""
        is_first = programs[0] is not None and programs[0].steps == each.task.builtin
        if not is_first or (unit == BUILTIN and len(programs) > 1):
            raise self.candidates.damaged(f"task {each.task.key} has other programs in place of its built-in choice")

    def check_times(self, each: Searching, known: Sequence[tuple[Program, Answer]]) -> None:
        """Raise ``DatabaseError`` for a task's stored answers, the least and the built-in choice's, that cannot be.

        Where times are repeatable, they are found again; measured ones are not a thousandth of what the machine model
        expects.
        """
        runner = self._runner if self._runner is not None and self._runner.is_repeatable else self._prior
        if runner is None:
            return
        answers = runner.answers(each.task, [program for program, _ in known])
        for (_, stored), again in zip(known, answers, strict=True):
            if again.seconds is None or stored.seconds is None:
                continue
            is_same = math.isclose(stored.seconds, again.seconds, rel_tol=_SAME)
            if not (is_same if runner is self._runner else stored.seconds * _MOST_FASTER >= again.seconds):
                told = f"{stored.seconds:.4g} s, where the machine model has {again.seconds:.4g} s"
                raise self.candidates.damaged(f"a candidate of task {each.task.key} takes {told}")

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
