"""The reformer in a search: which task is next, when a kernel is joined, and what its search begins with.

Trials are shared out by AGO's weights (eq. 1): a kernel gets the next unit if it has the fewest trials for its weight
with that unit, those of its mini sub-graphs among them, so that heavy kernels are first; within a kernel, so does a
mini sub-graph. A kernel is joined when none of its mini sub-graphs is left to tune: each is stable, has nothing left to
try, or their part of the kernel's trials is spent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dsascape.scheduler.errors import ScheduleError
from dsascape.tuner.search.database import own_steps, written
from dsascape.tuner.search.reformer.composing import carried_over
from dsascape.tuner.search.reformer.decisions import Decision, JoinDecision, MiniEnd, Reason, SplitDecision
from dsascape.tuner.search.reformer.options import ReformerOptions
from dsascape.tuner.search.reformer.splitting import Split
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.tasks import Task


def tasks_with_minis(tasks: Sequence[Task], splits: Sequence[Split]) -> list[Task]:
    """Return ``tasks``, and behind them those mini sub-graphs that are none of them; equal ones are one task."""
    found = {task.key: task for task in tasks}
    for split in splits:
        for mini in split.minis:
            found.setdefault(mini.task.key, mini.task)
    return list(found.values())


def is_stable(found: Sequence[float], units: int) -> bool:
    """Whether the last ``units`` units have brought nothing; ``found`` has the least time after each unit."""
    return len(found) > units and found[-1] >= found[-1 - units]


@dataclass(frozen=True)
class _Part:
    """A mini sub-graph in the search."""

    place: int
    """Place of its task among all of the search."""
    weight: float


class Reformer:
    """Decisions about the kernels of one search, which is their only writer."""

    def __init__(
        self, splits: Sequence[Split], tasks: Sequence[Searching], trials: int, options: ReformerOptions
    ) -> None:
        """``tasks`` are those of `tasks_with_minis`; ``trials`` is the number of all of the search."""
        self._splits, self._tasks, self._options = splits, tasks, options
        self._place = {each.task.key: number for number, each in enumerate(tasks)}
        self._joins: dict[str, JoinDecision] = {}
        whole = sum([split.weight for split in splits]) or 1.0
        self._trials = {split.whole.key: trials * split.weight / whole for split in splits}

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions, those of SPLIT about kernels with several complex operators first."""
        own: list[SplitDecision] = [split.decision for split in self._splits if split.minis or split.reason]
        return (*own, *self._joins.values())

    def continue_with(self, decisions: Sequence[Decision]) -> None:
        """Take up decisions of earlier runs: kernels that were joined are, with what was composed then."""
        known = {split.whole.key: split for split in self._splits}
        for each in decisions:
            if isinstance(each, JoinDecision) and each.task in known:
                self._take(known[each.task], each)

    def next_task(self, unit: int, trials: int, store: Callable[[JoinDecision], None]) -> int | None:
        """Return the place of the task that gets the next unit, of ``trials``; None where nothing is left to tune.

        ``unit`` is the last unit that has ended. ``store`` gets the decision about a kernel before its first unit.
        """
        for split in sorted(self._splits, key=lambda split: self._spent(split, trials)):
            parts = [] if split.whole.key in self._joins else self._left(split)
            if parts:
                return min(parts, key=lambda part: (self._tasks[part.place].trials + trials) / part.weight).place
            if split.minis and split.whole.key not in self._joins:
                decision = self._join(split, unit)
                store(decision)
                self._take(split, decision)
            place = self._place[split.whole.key]
            if self._tasks[place].is_open:
                return place
        return None

    def _spent(self, split: Split, more: int) -> float:
        """Return the trials of a kernel and its mini sub-graphs with ``more`` of them, for its weight."""
        own = self._trials_of([split.whole.key, *[mini.task.key for mini in split.minis]])
        return (own + more) / (split.weight or 1.0)

    def _trials_of(self, keys: Sequence[str]) -> int:
        return sum([self._tasks[self._place[key]].trials for key in dict.fromkeys(keys)])

    def _left(self, split: Split) -> list[_Part]:
        """Return the mini sub-graphs that get more trials."""
        weights: dict[int, float] = {}
        for mini in split.minis:
            place = self._place[mini.task.key]
            weights[place] = weights.get(place, 0.0) + mini.weight
        return [_Part(place, weight or 1.0) for place, weight in weights.items() if self._end(split, place) is None]

    def _end(self, split: Split, place: int) -> Reason | None:
        """Return why a mini sub-graph gets no more trials; None while it does."""
        each = self._tasks[place]
        if is_stable(each.found(), self._options.stable_units):
            return "stable"
        if not each.is_open:
            return "exhausted"
        spent = self._trials_of([mini.task.key for mini in split.minis])
        return "budget" if spent >= self._options.most_for_minis * self._trials[split.whole.key] else None

    def _join(self, split: Split, unit: int) -> JoinDecision:
        """Return what is composed of the fastest programs of the mini sub-graphs."""
        whole, parts, ends = self._tasks[self._place[split.whole.key]], [], []
        for mini in split.minis:
            place = self._place[mini.task.key]
            each = self._tasks[place]
            best = each.best_found
            if best is not None:
                parts.append(carried_over(each.task.naive, mini.task.naive, best[0].steps))
            reason = self._end(split, place)
            assert reason is not None
            ends.append(MiniEnd(mini.task.key, each.units, each.trials, None if best is None else best[1], reason))
        program = whole.space.composed(parts) if len(parts) == len(split.minis) else None
        steps = "" if program is None else written(whole.task.naive, program.steps)
        return JoinDecision(split.whole.key, split.whole.name, unit, tuple(ends), steps)

    def _take(self, split: Split, decision: JoinDecision) -> None:
        self._joins[split.whole.key] = decision
        whole = self._tasks[self._place[split.whole.key]]
        if not decision.steps:
            return
        try:
            steps = own_steps(whole.task.naive, decision.steps)
        except ScheduleError:
            return
        program = whole.space.built(steps)
        whole.initial = () if program is None else (program,)
