"""Search by reuse (ETO, and TVM's selective tuning): a few operators are tuned from nothing, the others from these.

ETO's plan says in which order, and by which bridges, operators that are tuned only for others to reuse. A run that was
killed goes through the same order again; programs whose times are known are not tried anew.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.tuner.search.database import BUILTIN, CONFIRMED, Candidates, Record, written
from dsascape.tuner.search.objectives import Objective
from dsascape.tuner.search.reuse.choices import FROM_NOTHING
from dsascape.tuner.search.reuse.machines import Reusable
from dsascape.tuner.search.reuse.nests import operator_of
from dsascape.tuner.search.reuse.operators import FeatureRatios, Operator, ReuseError
from dsascape.tuner.search.reuse.plan import ReusePlan, plan_json, plan_reuse
from dsascape.tuner.search.reuse.selective import groups
from dsascape.tuner.search.reuse.topk import TOP, top_k, transferred
from dsascape.tuner.search.runners import Answer, Runner
from dsascape.tuner.search.search import Search, UnitDone
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from dsascape.tuner.search.tuners import TUNERS, SearchOptions

BridgeTask = Callable[[Operator], Task]
"""Returns the task of a bridge; raises ``ReuseError`` where there is no such kernel."""


_LEAST = 16
"""Least trials of a tuning from nothing that a plan counts with."""


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A task that can reuse programs, and be reused."""

    each: Searching
    own: Reusable
    operator: Operator


class ReuseSearch(Search):
    """The tasks of one or more networks, tuned by reuse."""

    def __init__(
        self, tasks: Sequence[Task], weights: Sequence[Mapping[int, int]], runner: Runner, candidates: Candidates,
        objective: Objective, options: SearchOptions, bridge_task: BridgeTask,
    ) -> None:  # fmt: skip
        """``bridge_task`` makes the tasks of bridges.

        Raises ``MissingPackageError`` where the cost model needs a library that is not installed.
        """
        super().__init__(tasks, weights, runner, candidates, objective, options)
        self._asked, self._bridge_task = runner, bridge_task
        self._alone: dict[Operator, _Kernel] = {}
        self._known: dict[tuple[str, str], Answer] = {}
        self._timed: dict[str, list[Record]] = {}
        """Records of earlier runs with a time, by task."""
        self._tunable = [kernel for each in self.tasks if (kernel := _kernel(each)) is not None]
        self._bridges: list[Searching] = []
        self.groups = groups(self.operators) if options.tuner == "selective" else ()
        """Groups of operators that are similar (selective tuning)."""
        self.plan: ReusePlan | None = None
        """Plan of reuse (ETO): operators, each with the one it is tuned from; None for selective tuning."""
        self._budget = self._planned() if options.tuner == "eto" else self._shared_out()

    @property
    def trials(self) -> int:
        """Programs that have been tried, those of bridges among them."""
        return super().trials + sum([each.trials for each in self._bridges])

    @property
    def failed(self) -> int:
        """Number of candidates without a time."""
        return super().failed + sum([each.failed for each in self._bridges])

    @property
    def operators(self) -> list[Operator]:
        """The distinct operators of the tasks, in their order."""
        return list(dict.fromkeys(kernel.operator for kernel in self._tunable))

    @property
    def _order(self) -> list[tuple[Operator, Operator | None]]:
        """Operators in the order in which they are tuned, each with the one whose programs it reuses, if any."""
        if self.plan is not None:
            tunings = self.plan.tunings
            return [
                (each.operator, None if each.reuses is None else tunings[each.reuses].operator) for each in tunings
            ]
        own = self.operators
        first: list[tuple[Operator, Operator | None]] = [(own[group.tuned], None) for group in self.groups]
        return first + [
            (own[number], own[group.tuned])
            for group in self.groups for number in group.members if number != group.tuned
        ]  # fmt: skip

    def _planned(self) -> int:
        """Plan what is tuned from what, and return the trials of a tuning from nothing.

        Operators that several tasks are, are each in it once. A tuning from nothing has as many trials, up to the
        paper's 1,000, as let the whole plan fit into the trials that there are: with fewer, reuse pays less.
        """
        kernels = {kernel.operator: kernel.own for kernel in self._tunable}

        def kernel_of(operator: Operator) -> Reusable:
            if operator not in kernels:
                kernels[operator] = self._bridge(operator).own
            return kernels[operator]

        def cost(operator: Operator, reused: Operator) -> float:
            drawn = random.Random(f"{self.options.seed}/{operator}/{reused}")
            ratios = FeatureRatios.of(operator, reused)
            return max(kernel_of(operator).expected_trials(kernel_of(reused), ratios, drawn), 1.0)

        known: dict[tuple[Operator, Operator], float] = {}

        def remembered(operator: Operator, reused: Operator) -> float:
            if (operator, reused) not in known:
                known[operator, reused] = cost(operator, reused)
            return known[operator, reused]

        own, budget = list(kernels), round(FROM_NOTHING)
        while True:
            self.plan = plan_reuse(
                own, remembered, hops=self.options.hops, sketches_of=self._sketches_of, from_nothing=float(budget)
            )
            if budget <= _LEAST or self._reuse_trials() + self._fresh_trials(budget) <= self.options.trials:
                return budget
            budget = max(budget // 2, _LEAST)

    def _shared_out(self) -> int:
        """Return the trials of a tuning from nothing: those that are left beside reuse, shared out evenly."""
        left = max(self.options.trials - round(self._reuse_trials()) - self.options.unit * len(self._left()), 0)
        return max(min(left // max(len(self.groups), 1), round(FROM_NOTHING)), _LEAST)

    def _fresh_trials(self, budget: int) -> int:
        """Return the trials of all tunings from nothing: a unit for each kernel that is no single product."""
        fresh = [operator for operator, source in self._order if source is None]
        return budget * len(fresh) + min(self.options.unit, budget) * len(self._left())

    def _sketches_of(self, operator: Operator) -> tuple[str, ...]:
        try:
            return self._bridge(operator).own.kinds
        except ReuseError:
            return ()

    def _bridge(self, operator: Operator) -> _Kernel:
        """Return the kernel of an operator alone; raise ``ReuseError`` where there is none that reuses."""
        key = replace(operator, sketches=())
        if key not in self._alone:
            kernel = _kernel(Searching(self._bridge_task(key), self.options.space, self.model))
            if kernel is None:
                raise ReuseError(f"{operator}: as a kernel alone it cannot be tuned by reuse")
            self._alone[key] = kernel
        return self._alone[key]

    def go_on(self) -> None:
        """Take note of the answers of earlier runs; raise ``DatabaseError`` for a damaged file, as `Search.go_on`."""
        for record in self.candidates.records():
            if record.unit == CONFIRMED:
                continue
            self._known[record.task, record.steps] = record.answer
            self.elapsed_s = max(self.elapsed_s, record.elapsed_s)
            if record.answer.seconds is not None:
                self._timed.setdefault(record.task, []).append(record)
        self.continued = len(self._known)
        for each in self.tasks:
            self._check_stored(each)

    def _check_stored(self, each: Searching) -> None:
        """Raise ``DatabaseError`` for a time of earlier runs that a task cannot have (`Search.check_times`)."""
        own = sorted(self._timed.get(each.task.key, []), key=lambda record: record.answer.seconds or 0.0)
        told = [*own[:1], *[record for record in own[1:] if record.unit == BUILTIN]]
        found = [(self.program_of(each, record.steps), record.answer) for record in told]
        self.check_times(each, [(program, answer) for program, answer in found if program is not None])

    def run(self) -> Iterator[UnitDone]:
        """Tune the tasks that take most time first, each behind what it reuses; yield each batch that has been tried.

        So few trials go to heavy tasks; the papers have as many as the plan needs, in any order.
        Where times are measured, the fastest programs and the built-in choice are run again in the end.
        """
        begin = time.monotonic()
        self.go_on()
        clock = _Clock(begin - self.elapsed_s)
        for each in self.tasks:
            self._answered(each, BUILTIN, [each.task.program()], clock)
        sources, done = dict(self._order), dict[Operator, _Kernel]()
        tunable = {kernel.each.task.key: kernel for kernel in self._tunable}
        for each in sorted(self.tasks, key=self._seconds, reverse=True):
            own = tunable.get(each.task.key)
            if own is None:
                yield from self._fresh(each, min(self.options.unit, self._budget), clock)
                continue
            for operator in chain_of(own.operator, sources):
                if operator not in done:
                    source = sources[operator]
                    done[operator] = own if operator == own.operator else self._kernel_of(operator)
                    yield from self._tuned(done[operator], None if source is None else done[source], clock)
            if done[own.operator].each is not each:
                yield from self._tuned(own, done[own.operator], clock)
        self.train()
        if not self._asked.is_repeatable:
            for again in self.confirmations():
                self.try_programs(self._asked, again, clock.elapsed_s)

    def _seconds(self, each: Searching) -> float:
        """Return the time of a task in all networks, with the fastest of its programs that is known."""
        number = self.tasks.index(each)
        return each.latency * sum([weights.get(number, 0) for weights in self.weights])

    def _kernel_of(self, operator: Operator) -> _Kernel:
        found = next((kernel for kernel in self._tunable if kernel.operator == operator), None)
        if found is None:
            found = self._bridge(operator)
            self._check_stored(found.each)
            self._bridges.append(found.each)
        return found

    def _left(self) -> list[Searching]:
        """Return the tasks that are no kernel of one operator: each is tuned from nothing."""
        own = [kernel.each for kernel in self._tunable]
        return [each for each in self.tasks if each not in own]

    def _reuse_trials(self) -> float:
        """Return the trials that reuse is expected to take."""
        if self.plan is None:
            return float(TOP * sum([source is not None for _, source in self._order]))
        return sum([each.cost for each in self.plan.tunings if each.reuses is not None])

    def _tuned(self, kernel: _Kernel, reused: _Kernel | None, clock: "_Clock") -> Iterator[UnitDone]:
        """Tune a kernel from another one's fastest program; from nothing where there is none, or none is found."""
        if reused is not None and reused.each.best is not None:
            yield from (self._by_reuse if self.plan is not None else self._by_top_k)(kernel, reused, clock)
        if kernel.each.trials == 0:
            yield from self._fresh(kernel.each, self._budget, clock)

    def _by_reuse(self, kernel: _Kernel, reused: _Kernel, clock: "_Clock") -> Iterator[UnitDone]:
        assert reused.each.best is not None
        done = list[UnitDone]()
        ratios = FeatureRatios.of(kernel.operator, reused.operator)
        times: dict[Program, float] = {}

        def fastest(programs: Sequence[Program]) -> Program | None:
            fresh = [each for each in dict.fromkeys(programs) if each.steps not in kernel.each.tried]
            if fresh and self.trials < self.options.trials:
                self.unit += 1
                fresh = fresh[: self.options.trials - self.trials]
                answers = self._answered(kernel.each, self.unit, fresh, clock)
                times.update({
                    program: answer.seconds
                    for program, answer in zip(fresh, answers, strict=True) if answer.seconds is not None
                })  # fmt: skip
                done.append(self.ended(self.unit, kernel.each, clock.elapsed_s))
            return min([each for each in programs if each in times], key=times.__getitem__, default=None)

        kernel.own.search(reused.own, reused.each.best[0], ratios, fastest)
        yield from done

    def _by_top_k(self, kernel: _Kernel, reused: _Kernel, clock: "_Clock") -> Iterator[UnitDone]:
        """Try the fastest programs of a kernel as they are for another one, as TVM's selective tuning does.

        Programs that are not legal for it are known before they are tried, and are no trials.
        """
        own, other = kernel.each.task.naive, reused.each.task.naive
        moved = []
        for program in reused.each.fastest():
            try:
                found = kernel.each.space.built(transferred(program.steps, other, own))
            except (ScheduleError, StepError, LookupError):
                continue
            moved += [] if found is None else [found]
        done: list[UnitDone] = []

        def seconds_of(programs: Sequence[Program]) -> list[float | None]:
            self.unit += 1
            answers = self._answered(kernel.each, self.unit, programs, clock)
            done.append(self.ended(self.unit, kernel.each, clock.elapsed_s))
            return [answer.seconds for answer in answers]

        left = max(self.options.trials - self.trials, 0)
        top_k(list(dict.fromkeys(moved))[:left], seconds_of)
        yield from done

    def _fresh(self, each: Searching, budget: int, clock: "_Clock") -> Iterator[UnitDone]:
        """Tune a task from nothing, as Ansor does."""
        while each.trials < budget and self.trials < self.options.trials and each.is_open:
            rng = random.Random(f"{self.options.seed}/{each.task.key}/{each.trials}")
            self.train()
            count = min(self.options.unit, budget - each.trials, self.options.trials - self.trials)
            programs = TUNERS["ansor"](each, count, rng, self.options)
            if not programs:
                each.is_exhausted = True
                return
            self.unit += 1
            self._answered(each, self.unit, programs, clock)
            yield self.ended(self.unit, each, clock.elapsed_s)

    def _answered(self, each: Searching, unit: int, programs: Sequence[Program], clock: "_Clock") -> list[Answer]:
        """Return the answers of programs, and take note of them: of earlier runs as far as there are any."""
        keys = [(each.task.key, written(each.task.naive, program.steps)) for program in programs]
        asked = [program for program, key in zip(programs, keys, strict=True) if key not in self._known]
        records: list[Record] = []
        for program, answer in zip(asked, self._asked.answers(each.task, asked), strict=True):
            record = Record(each.task.key, unit, written(each.task.naive, program.steps), answer, clock.elapsed_s)
            records.append(record)
            self._known[record.task, record.steps] = answer
            if not self._asked.is_repeatable:
                self.candidates.add([record])
        if self._asked.is_repeatable:
            self.candidates.add(records)
        self.elapsed_s = clock.elapsed_s
        answers = [self._known[key] for key in keys]
        each.add(unit, programs, answers)
        return answers


@dataclass(frozen=True, slots=True)
class _Clock:
    """Time spent on a search, in all of its runs."""

    begin_s: float

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.begin_s


def chain_of(operator: Operator, sources: Mapping[Operator, Operator | None]) -> list[Operator]:
    """Return an operator behind all that it is tuned from, the one that is tuned from nothing first."""
    found = [operator]
    while (source := sources[found[-1]]) is not None:
        found.append(source)
    return found[::-1]


def _kernel(each: Searching) -> _Kernel | None:
    """Return a task as a kernel that reuses, and is reused; None where its shapes do not describe it."""
    try:
        own = each.space.reusable()
        operator = operator_of(each.task.naive, lambda _: own.kinds)
        return _Kernel(each, own, operator) if operator.kind.is_contraction else None
    except ReuseError:
        return None


def reuse_json(search: ReuseSearch) -> dict[str, Any]:
    """Return as JSON what is tuned from what: ETO's plan, or the groups of selective tuning by their operators."""
    if search.plan is not None:
        return plan_json(search.plan)
    own = search.operators
    found = [
        {"tuned": str(own[group.tuned]), "members": [str(own[number]) for number in group.members]}
        for group in search.groups
    ]
    return {"groups": found}
