"""Search by reuse (ETO): a few operators are tuned from nothing, the others from fast programs of these.

The plan says in which order, and by which bridges, operators that are tuned only for others to reuse. A run that was
killed goes through the same order again; programs whose times are known are not tried anew.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.tuner.search.database import BUILTIN, Candidates, Record, written
from dsascape.tuner.search.grid_space import GridSpace
from dsascape.tuner.search.objectives import Objective
from dsascape.tuner.search.reuse.choices import FROM_NOTHING
from dsascape.tuner.search.reuse.grids import ReusableGrid, sketch_kinds
from dsascape.tuner.search.reuse.hierarchical import Hierarchical, expected_trials
from dsascape.tuner.search.reuse.nests import operator_of
from dsascape.tuner.search.reuse.operators import FeatureRatios, Operator, ReuseError
from dsascape.tuner.search.reuse.plan import ReusePlan, plan_reuse
from dsascape.tuner.search.reuse.sketch_sets import gpu_sketches
from dsascape.tuner.search.runners import Answer, Runner
from dsascape.tuner.search.search import Search, UnitDone
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from dsascape.tuner.search.tuners import TUNERS, SearchOptions

BridgeTask = Callable[[Operator], Task]
"""Returns the task of a bridge; raises ``ReuseError`` where there is no such kernel."""


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A task that can reuse programs, and be reused."""

    each: Searching
    grid: ReusableGrid
    operator: Operator


class ReuseSearch(Search):
    """The tasks of one or more networks on a GPU, tuned by reuse."""

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
        self._tunable = [kernel for each in self.tasks if (kernel := _kernel(each)) is not None]
        self._bridges: list[Searching] = []
        self.plan = self._planned()

    @property
    def trials(self) -> int:
        """Programs that have been tried, those of bridges among them."""
        return super().trials + sum([each.trials for each in self._bridges])

    @property
    def failed(self) -> int:
        """Number of candidates without a time."""
        return super().failed + sum([each.failed for each in self._bridges])

    def _planned(self) -> ReusePlan:
        """Return what is tuned from what: of the operators that several tasks are, each once."""
        grids = {kernel.operator: kernel.grid for kernel in self._tunable}
        def grid_of(operator: Operator) -> ReusableGrid:
            if operator not in grids:
                grids[operator] = self._bridge(operator).grid
            return grids[operator]

        def cost(operator: Operator, reused: Operator) -> float:
            own, other = grid_of(operator), grid_of(reused)
            drawn = random.Random(f"{self.options.seed}/{operator}/{reused}")
            ratios = FeatureRatios.of(operator, reused)
            return max(expected_trials(own.nest, other.nest, ratios, drawn, own.shapes_in_steps), 1.0)

        return plan_reuse(
            list(grids), cost, hops=self.options.hops, sketches_of=self._sketches_of, from_nothing=FROM_NOTHING
        )

    def _sketches_of(self, operator: Operator) -> tuple[str, ...]:
        try:
            return sketch_kinds(self._bridge(operator).grid.space)
        except ReuseError:
            return gpu_sketches(operator)

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
        """Take note of the answers of earlier runs."""
        for record in self._candidates.records():
            self._known[record.task, record.steps] = record.answer
            self._elapsed_s = max(self._elapsed_s, record.elapsed_s)
        self.continued = len(self._known)

    def run(self) -> Iterator[UnitDone]:
        """Tune each operator in the plan's order; yield each batch of programs that has been tried."""
        begin = time.monotonic()
        self.go_on()
        clock = _Clock(begin - self._elapsed_s)
        for each in self.tasks:
            self._answered(each, BUILTIN, [each.task.program()], clock)
        fresh = max(self.options.trials - round(self._reuse_trials()), 0) // max(len(self._from_nothing()), 1)
        budget = min(fresh, round(FROM_NOTHING))
        done: dict[Operator, _Kernel] = {}
        for tuning in self.plan.tunings:
            kernel = self._kernel_of(tuning.operator)
            reused = None if tuning.reuses is None else done[self.plan.tunings[tuning.reuses].operator]
            yield from self._tuned(kernel, reused, budget, clock)
            done[tuning.operator] = kernel
        for kernel in self._tunable:
            first = done[kernel.operator]
            if first.each is not kernel.each:
                yield from self._tuned(kernel, first, budget, clock)
        for each in self._left():
            yield from self._fresh(each, budget, clock)
        self.train()

    def _kernel_of(self, operator: Operator) -> _Kernel:
        found = next((kernel for kernel in self._tunable if kernel.operator == operator), None)
        if found is None:
            found = self._bridge(operator)
            self._bridges.append(found.each)
        return found

    def _left(self) -> list[Searching]:
        """Return the tasks that are no kernel of one operator: each is tuned from nothing."""
        own = [kernel.each for kernel in self._tunable]
        return [each for each in self.tasks if each not in own]

    def _from_nothing(self) -> list[object]:
        return [*self.plan.from_nothing, *self._left()]

    def _reuse_trials(self) -> float:
        return sum([each.cost for each in self.plan.tunings if each.reuses is not None])

    def _tuned(self, kernel: _Kernel, reused: _Kernel | None, budget: int, clock: "_Clock") -> Iterator[UnitDone]:
        """Tune a kernel from another one's fastest program; from nothing where there is none, or none is found."""
        if reused is not None and reused.each.best is not None:
            yield from self._by_reuse(kernel, reused, clock)
        if kernel.each.trials == 0:
            yield from self._fresh(kernel.each, budget, clock)

    def _by_reuse(self, kernel: _Kernel, reused: _Kernel, clock: "_Clock") -> Iterator[UnitDone]:
        assert reused.each.best is not None
        steps, done = reused.each.best[0].steps, list[UnitDone]()
        carried, features = reused.grid.carried(steps), reused.grid.features(steps)
        ratios = FeatureRatios.of(kernel.operator, reused.operator)
        times: dict[Program, float] = {}

        def fastest(programs: Sequence[Program]) -> Program | None:
            fresh = [each for each in dict.fromkeys(programs) if each.steps not in kernel.each.tried]
            if fresh and self.trials < self.options.trials:
                self._unit += 1
                fresh = fresh[: self.options.trials - self.trials]
                answers = self._answered(kernel.each, self._unit, fresh, clock)
                times.update({
                    program: answer.seconds
                    for program, answer in zip(fresh, answers, strict=True) if answer.seconds is not None
                })  # fmt: skip
                done.append(self._ended(self._unit, kernel.each, clock.elapsed_s))
            return min([each for each in programs if each in times], key=times.__getitem__, default=None)

        search = Hierarchical(kernel.grid.nest, features, ratios, kernel.grid.shapes_of_space(carried))
        search.search(lambda shapes: kernel.grid.program(shapes, carried), fastest)
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
            self._unit += 1
            self._answered(each, self._unit, programs, clock)
            yield self._ended(self._unit, each, clock.elapsed_s)

    def _answered(self, each: Searching, unit: int, programs: Sequence[Program], clock: "_Clock") -> list[Answer]:
        """Return the answers of programs, and take note of them: of earlier runs as far as there are any."""
        keys = [(each.task.key, written(each.task.naive, program.steps)) for program in programs]
        asked = [program for program, key in zip(programs, keys, strict=True) if key not in self._known]
        fresh = list(self._asked.answers(each.task, asked))
        self._elapsed_s = clock.elapsed_s
        self._candidates.add([
            Record(each.task.key, unit, written(each.task.naive, program.steps), answer, clock.elapsed_s)
            for program, answer in zip(asked, fresh, strict=True)
        ])  # fmt: skip
        for program, answer in zip(asked, fresh, strict=True):
            self._known[each.task.key, written(each.task.naive, program.steps)] = answer
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


def _kernel(each: Searching) -> _Kernel | None:
    """Return a task as a kernel that reuses, and is reused; None where its shapes do not describe it."""
    if not isinstance(each.space, GridSpace):
        return None
    kinds = sketch_kinds(each.space)
    try:
        operator = operator_of(each.task.naive, lambda _: kinds)
        return _Kernel(each, ReusableGrid(each.space), operator) if operator.kind.is_contraction else None
    except ReuseError:
        return None
