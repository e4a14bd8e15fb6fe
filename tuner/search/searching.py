"""One task in a search: its space, what has been tried, and what the cost model expects of further programs."""

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.search.cost_model import CostModel, Features
from dsascape.tuner.search.database import BUILTIN, CONFIRMED, Record, written
from dsascape.tuner.search.features import features_of
from dsascape.tuner.search.kinds.table import space_of
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.runners import Answer, Runner
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task

_CONFIRMED = 3
"""Fastest programs that are run again beside the built-in choice."""
_FAILED_UNITS = 3
"""Units of nothing but failures after which a task is given up."""
_GUESSED_FLOPS_PER_S = 1e9
"""Pace of a task of which no program has a time."""
_Timed = tuple[float, int, Program, Answer]
"""Seconds, number among all of the task, program, answer."""


def _by_time(each: _Timed) -> tuple[float, int]:
    return each[:2]


class Searching:
    """A task and what is known of its programs."""

    def __init__(
        self, task: Task, options: SpaceOptions, model: CostModel | None, prior: Runner | None = None,
        *, has_builtin: bool = True,
    ) -> None:  # fmt: skip
        """``prior`` is the machine model, where it tells before anything is measured what may be fast.

        Without ``has_builtin`` the built-in choice is no parent of other programs, and no program that the cost model
        learns from.
        """
        self.task, self.model, self.prior = task, model, prior
        self.space = space_of(task.naive, task.machine, options)
        self._has_builtin = has_builtin
        self.tried: set[Steps] = set()
        self.trials, self.failed = 0, 0
        self.before: Answer | None = None
        """Answer of the built-in choice; None until it is known."""
        self.history: list[float] = []
        """Least latency after each unit, in seconds."""
        self.is_exhausted = False
        self.initial: tuple[Program, ...] = ()
        """Programs that the search begins with, before all others."""
        self._units: dict[int, list[Answer]] = {}
        self._timed: list[_Timed] = []
        self._confirmed: list[_Timed] = []

    @property
    def is_open(self) -> bool:
        """Whether further units may bring something: programs are left, and not all of the last ones have failed."""
        return not self.is_exhausted and self.given_up is None

    @property
    def given_up(self) -> str | None:
        """Reason of the last failure where there was nothing else in the last units; None while it is not given up."""
        last = list(self._units.values())[-_FAILED_UNITS:]
        is_broken = len(last) == _FAILED_UNITS and all(each.seconds is None for unit in last for each in unit)
        return last[-1][-1].reason if is_broken else None

    @property
    def latency(self) -> float:
        """The least time of any of its programs, the built-in choice among them; a guess where none has a time."""
        own = [each[0] for each in (self._confirmed or self._timed)[:1]]
        return min(own, default=self.task.flops / _GUESSED_FLOPS_PER_S or 1e-9)

    @property
    def best(self) -> tuple[Program, Answer] | None:
        """The fastest program, of those that have been run again if any have; None where none has a time."""
        known = self._confirmed or self._timed
        return None if not known else known[0][2:]

    @property
    def is_confirmed(self) -> bool:
        """Whether the fastest programs have been run again since the last trial."""
        return bool(self._confirmed) or not self._timed

    def to_confirm(self) -> list[Program]:
        """Return the built-in choice and the fastest programs, of which the order may be chance."""
        fastest = [program for program in self.fastest() if program.steps != self.task.builtin][:_CONFIRMED]
        return [self.task.program(), *fastest]

    @property
    def units(self) -> int:
        """Units that it has had."""
        return len(self._units)

    def fastest(self) -> list[Program]:
        """Return the programs with a time, the fastest first."""
        return [program for _, _, program, _ in self._timed]

    def expect(self, programs: Sequence[Program]) -> None:
        """Take note of what is tried elsewhere, so that it is not proposed again."""
        self.tried |= {program.steps for program in programs}
    def to_begin_with(self) -> list[Program]:
        """Return the programs that the search begins with, as far as they have not been tried."""
        return [program for program in self.initial if program.steps not in self.tried]

    def parents(self) -> list[Program]:
        """Return the programs that others are made of: those to begin with, then those with a time, fastest first."""
        is_parent = [self._has_builtin or program.steps != self.task.builtin for program in self.fastest()]
        own = [program for program, each in zip(self.fastest(), is_parent, strict=True) if each]
        return [*self.to_begin_with(), *own]

    def found(self) -> list[float]:
        """Return the least time of its own programs, without the built-in choice, after each unit; infinite: none."""
        least = [min([each.seconds or math.inf for each in answers]) for answers in self._units.values()]
        return list(itertools.accumulate(least, min))

    @property
    def best_found(self) -> tuple[Program, float] | None:
        """The fastest of those programs that others are made of, and its seconds; None where none has a time."""
        known = [each for each in self._timed if self._has_builtin or each[2].steps != self.task.builtin]
        return None if not known else (known[0][2], known[0][0])

    def add(self, unit: int, programs: Sequence[Program], answers: Sequence[Answer]) -> None:
        """Take note of what was tried in one unit."""
        timed = [
            (answer.seconds, len(self._timed) + number, program, answer)
            for number, (program, answer) in enumerate(zip(programs, answers, strict=True))
            if answer.seconds is not None
        ]
        self._confirmed = sorted(timed, key=_by_time) if unit == CONFIRMED else []
        if unit == CONFIRMED:
            self.before = answers[0]
            return
        if unit == BUILTIN:
            (self.before,) = answers
        else:
            self._units.setdefault(unit, []).extend(answers)
            self.trials += len(answers)
            self.failed += sum([each.seconds is None for each in answers])
        self.tried |= {program.steps for program in programs}
        self._timed = sorted([*self._timed, *timed], key=_by_time)
        if unit != BUILTIN:
            self.history[self.units - 1 :] = [self.latency]
        if self.model is not None and (unit != BUILTIN or self._has_builtin):
            self.model.add(self.task.key, self.features(programs), [each.seconds for each in answers])

    def records(
        self, unit: int, programs: Sequence[Program], answers: Sequence[Answer], elapsed_s: float
    ) -> list[Record]:
        """Return what is stored of programs that were tried."""
        return [
            Record(self.task.key, unit, written(self.task.naive, program.steps), answer, elapsed_s)
            for program, answer in zip(programs, answers, strict=True)
        ]

    def features(self, programs: Sequence[Program]) -> list[Features]:
        """Return the features of programs, the machine model's estimate behind them where that is asked for."""
        found = [features_of(self.task.naive, program.loops, self.task.machine.line_bytes) for program in programs]
        if self.prior is None:
            return found
        estimates = self.expected(programs) / self._usual
        return [
            np.column_stack([own, np.full(len(own), np.log2(1 + each))])
            for own, each in zip(found, estimates, strict=True)
        ]

    @cached_property
    def _usual(self) -> float:
        """The throughput that the machine model expects of the built-in choice."""
        (own,) = self.expected([self.task.program()])
        return float(own) or 1.0

    def expected(self, programs: Sequence[Program]) -> NDArray[np.float64]:
        """Return the throughput that the machine model expects of programs, per second; 0 where it has no cost."""
        assert self.prior is not None
        answers = self.prior.answers(self.task, programs)
        return np.array([0.0 if each.seconds is None else 1 / each.seconds for each in answers])

    @property
    def is_trained(self) -> bool:
        """Whether the cost model has learned anything."""
        return self.model is not None and self.model.is_trained

    def scores(self, programs: Sequence[Program]) -> NDArray[np.float64]:
        """Return the throughput that the cost model expects of programs."""
        assert self.model is not None
        return self.model.scores(self.features(programs))

    def rank_of_best(self) -> int | None:
        """Return the place that the cost model gives the fastest program, among all with a time; 1 is the first."""
        if not self.is_trained or not self._timed:
            return None
        scores = self.scores(self.fastest())
        return 1 + int((scores > scores[0]).sum())
