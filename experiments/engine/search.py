"""Searches over an experiment's grid for good machines and policies, without evaluating every point.

A design is a machine with its swept values, and a policy. Without a combination, every network has a search of its own
and the budget, in points, is split evenly between them. With one, a single search proposes designs, each runs all
networks, and the budget counts designs. The experiment's objectives are optimised together; where they conflict, a
Pareto front remains. A design beyond a constraint is worse than any that keeps all of them, the more so the further.

- ``nsga2``: Deb, Pratap, Agarwal, Meyarivan: "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE
  Transactions on Evolutionary Computation 6(2), 2002, with its constrained domination.
- ``tpe``: Bergstra, Bardenet, Bengio, Kégl: "Algorithms for hyper-parameter optimization", NeurIPS 2011.
- ``random``: a sample without repetition.

The first two are as implemented by Optuna. All genes are categorical, so only grid points are tried. A search has no
state but the rows that it was given: from the stored rows of a killed run it takes the same course again.
"""

import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

import optuna

from dsascape.experiments.question.combined import MAXIMISED, Combination, combined, figures_of
from dsascape.experiments.question.config import MOST_POINTS
from dsascape.experiments.question.constraints import Constraint
from dsascape.experiments.question.grid import Grid
from dsascape.experiments.question.points import DesignPoint, Row

NSGA2, TPE, RANDOM = "nsga2", "tpe", "random"
_LARGEST_POPULATION = 40
_SMALLEST_POPULATION = 4
_GENERATIONS = 8
"""Fewest generations per budget, where it allows; a small budget has a small population."""
_MOST_AT_ONCE = 8
"""Most designs that TPE proposes before it sees the figures of any of them, for the workers to run side by side."""
_STARTUP_SHARE = 4
"""Budget per design that TPE draws at random before it models any."""
_MOST_STARTUP = 10
_PATIENCE = 25
"""Generations without a new point after which a search ends with its budget unused."""
_MOST_DRAWS = 200
"""Draws for a design not yet evaluated, in place of proposals that all are."""
_FURTHEST = 1e12
"""Excess of a failed design over every constraint."""

Rows = Callable[[Sequence[DesignPoint]], Sequence[Row]]
Design = list[DesignPoint]
"""Points of a design: one, or with a combination one per network."""


@dataclass(frozen=True)
class Aim:
    """Objectives, constraints, and the combination of a design's networks."""

    objectives: Sequence[str]
    constraints: Sequence[Constraint] = ()
    combine: Combination | None = None
    """None: every network has a search of its own."""
    weights: Sequence[float] = field(default=())
    """Weight of each network in a combination."""

    def costs(self, rows: Sequence[Mapping[str, object]]) -> list[float]:
        """Return the objectives of a design, to minimise, from the rows of its points; infinite if one failed."""
        if self.combine is None:
            return costs(rows[0], self.objectives)
        if any(row.get("error") is not None for row in rows):
            return [inf] * len(self.objectives)
        figures = [figures_of(row) for row in rows]
        weights = self.weights or [1.0] * len(rows)
        return _to_minimise(combined(figures, weights, self.combine, self.objectives), self.objectives)

    def excess(self, rows: Sequence[Mapping[str, object]]) -> list[float]:
        """Return how far a design is beyond each constraint, 0 or less if every point keeps it."""
        figures = [{} if row.get("error") is not None else figures_of(row) for row in rows]
        return [min(max(each.excess(own) for own in figures), _FURTHEST) for each in self.constraints]


def found_by(method: str, grid: Grid, aim: Aim, budget: int, seed: int, rows: Rows) -> list[Design]:
    """Return the distinct designs that a search evaluated, in order; at most ``budget``.

    ``rows`` evaluates points and returns their rows; equal rows give an equal search. A grid within the budget is
    evaluated whole.
    """
    if aim.combine is not None:
        return _searched(method, grid, range(len(grid.workloads)), aim, budget, seed, rows)
    budgets = [budget // len(grid.workloads)] * len(grid.workloads)
    for lucky in range(budget % len(grid.workloads)):
        budgets[lucky] += 1
    designs = []
    for workload, share in enumerate(budgets):
        designs += _searched(method, grid, [workload], aim, share, seed + workload, rows)
    return designs


def _searched(
    method: str, grid: Grid, workloads: Sequence[int], aim: Aim, budget: int, seed: int, rows: Rows
) -> list[Design]:
    def design(number: int) -> Design:
        return [grid.point(workload * grid.designs + number) for workload in workloads]

    numbers: Sequence[int]
    if budget >= grid.designs:
        numbers = range(grid.designs)
    elif method == RANDOM:
        numbers = _sample(grid.designs, budget, random.Random(seed))
    elif budget:
        return _optimised(method, grid, design, aim, budget, seed, rows)
    else:
        return []
    designs = [design(number) for number in numbers]
    rows([point for points in designs for point in points])
    return designs


def _sample(designs: int, budget: int, drawn: random.Random) -> list[int]:
    """Return ``budget`` distinct numbers below ``designs`` in random order."""
    if designs <= MOST_POINTS**2:
        return drawn.sample(range(designs), budget)
    numbers: dict[int, None] = {}
    while len(numbers) < budget:
        numbers[drawn.randrange(designs)] = None
    return list(numbers)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Costs of an evaluated design, and how far it is beyond each constraint."""

    costs: list[float]
    excess: list[float]


def _optimised(
    method: str, grid: Grid, design: Callable[[int], Design], aim: Aim, budget: int, seed: int, rows: Rows
) -> list[Design]:
    population, sampler = _sampler(method, budget, seed % 2**32, is_limited=bool(aim.constraints))
    with _quiet():
        study = optuna.create_study(directions=["minimize"] * len(aim.objectives), sampler=sampler)
        drawn = random.Random(seed)
        evaluated: dict[int, _Judged] = {}
        idle = 0
        while len(evaluated) < budget and idle < _PATIENCE:
            # A whole generation is asked for before anything is told: its order of arrival does not matter.
            trials = [study.ask() for _ in range(population)]
            numbers = [_number(grid, trial) for trial in trials]
            fresh = list(dict.fromkeys(n for n in numbers if n not in evaluated))[: budget - len(evaluated)]
            designs = [design(number) for number in fresh]
            found = iter(rows([point for points in designs for point in points]))
            for number, points in zip(fresh, designs, strict=True):
                own = [next(found) for _ in points]
                evaluated[number] = _Judged(aim.costs(own), aim.excess(own))
            idle = 0 if fresh else idle + 1
            for trial, number in zip(trials, numbers, strict=True):
                if number in evaluated:
                    trial.set_user_attr("excess", evaluated[number].excess)
                    study.tell(trial, evaluated[number].costs)
                else:
                    study.tell(trial, state=optuna.trial.TrialState.FAIL)
            if not fresh and method == TPE:
                for number in _unseen(grid, evaluated, population, drawn):
                    study.enqueue_trial(_genes(grid, number))
    return [design(number) for number in evaluated]


def _sampler(method: str, budget: int, seed: int, *, is_limited: bool) -> tuple[int, optuna.samplers.BaseSampler]:
    """Return how many designs are proposed at once, and the sampler that proposes them."""
    limits = _excess_of if is_limited else None
    with _quiet():
        if method == NSGA2:
            population = max(_SMALLEST_POPULATION, min(_LARGEST_POPULATION, budget // _GENERATIONS))
            return population, optuna.samplers.NSGAIISampler(
                population_size=population, seed=seed, constraints_func=limits
            )
        startup = max(_SMALLEST_POPULATION, min(_MOST_STARTUP, budget // _STARTUP_SHARE))
        return max(1, min(_MOST_AT_ONCE, budget // _GENERATIONS)), optuna.samplers.TPESampler(
            n_startup_trials=startup, seed=seed, constant_liar=True, constraints_func=limits
        )


def _excess_of(trial: optuna.trial.FrozenTrial) -> Sequence[float]:
    return [float(value) for value in trial.user_attrs["excess"]]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna's log and its warnings of options that it may yet change."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        for changing in (optuna.exceptions.ExperimentalWarning, FutureWarning):
            warnings.simplefilter("ignore", changing)
        yield


def _unseen(grid: Grid, evaluated: Mapping[int, object], wanted: int, drawn: random.Random) -> list[int]:
    """Return up to ``wanted`` random designs that were not evaluated."""
    numbers: dict[int, None] = {}
    for _ in range(_MOST_DRAWS):
        if len(numbers) == wanted:
            break
        number = drawn.randrange(grid.designs)
        if number not in evaluated:
            numbers[number] = None
    return list(numbers)


def _genes(grid: Grid, number: int) -> dict[str, int]:
    """Return the genes that encode a design; those of other machines are left open."""
    policy, family, digits = grid.places(number)
    genes = {"machine": family, "policy": policy}
    return genes | {f"{family}.{path}": digit for path, digit in zip(grid.machines[family].sweep, digits, strict=True)}


def _number(grid: Grid, trial: optuna.Trial) -> int:
    """Return the design encoded by the trial's genes; genes of other machines are ignored."""
    family = _gene(trial, "machine", len(grid.machines))
    genes = [
        [_gene(trial, f"{position}.{path}", len(values)) for path, values in machines.sweep.items()]
        for position, machines in enumerate(grid.machines)
    ]
    return grid.number(0, _gene(trial, "policy", len(grid.policies)), family, genes[family])


def _gene(trial: optuna.Trial, name: str, choices: int) -> int:
    return trial.suggest_categorical(name, range(choices)) if choices > 1 else 0


def costs(row: Mapping[str, object], objectives: Sequence[str]) -> list[float]:
    """Return the objectives to minimise: negated where more is better, infinite for a failed point.

    A measured point uses its measured latency and throughput, as reports do.
    """
    if row.get("error") is not None:
        return [inf] * len(objectives)
    return _to_minimise(figures_of(row), objectives)


def _to_minimise(figures: Mapping[str, object], objectives: Sequence[str]) -> list[float]:
    values = [figures.get(name) for name in objectives]
    return [
        inf if not isinstance(value, int | float) else -value if name in MAXIMISED else float(value)
        for name, value in zip(objectives, values, strict=True)
    ]
