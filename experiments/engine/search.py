"""NSGA-II search over an experiment's grid for good machines and policies, without evaluating every point.

For every workload a population of designs (machine, swept values, policy) evolves separately. The experiment's
objectives are optimised together; where they conflict, a Pareto front remains. The budget is split evenly between the
workloads and counts distinct points, failed ones included.

Deb, Pratap, Agarwal, Meyarivan: "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE Transactions on
Evolutionary Computation 6(2), 2002, as implemented by Optuna. All genes are categorical, so only grid points are tried.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf

import optuna

from dsascape.experiments.question.grid import Grid
from dsascape.experiments.question.points import DesignPoint, Row

MAXIMISED = frozenset({"throughput_per_s"})
_LARGEST_POPULATION = 40
_SMALLEST_POPULATION = 4
_GENERATIONS = 8
"""Fewest generations per budget, where it allows; a small budget has a small population."""
_PATIENCE = 25
"""Generations without a new point after which a search ends with its budget unused."""

Rows = Callable[[Sequence[DesignPoint]], Sequence[Row]]


def nsga2(grid: Grid, objectives: Sequence[str], budget: int, seed: int, rows: Rows) -> list[DesignPoint]:
    """Return the distinct points that the search evaluated, in order; at most ``budget``.

    ``rows`` evaluates points and returns their rows; equal rows give an equal search. A grid within the budget is
    evaluated whole.
    """
    budgets = [budget // len(grid.workloads)] * len(grid.workloads)
    for lucky in range(budget % len(grid.workloads)):
        budgets[lucky] += 1
    points = []
    for workload, share in enumerate(budgets):
        if share >= grid.designs:
            every = [grid.point(workload * grid.designs + number) for number in range(grid.designs)]
            rows(every)
            points += every
        elif share:
            points += _evolved(grid, workload, objectives, share, seed + workload, rows)
    return points


def _evolved(
    grid: Grid, workload: int, objectives: Sequence[str], budget: int, seed: int, rows: Rows
) -> list[DesignPoint]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    population = max(_SMALLEST_POPULATION, min(_LARGEST_POPULATION, budget // _GENERATIONS))
    sampler = optuna.samplers.NSGAIISampler(population_size=population, seed=seed % 2**32)
    study = optuna.create_study(directions=["minimize"] * len(objectives), sampler=sampler)
    evaluated: dict[int, list[float]] = {}
    idle = 0
    while len(evaluated) < budget and idle < _PATIENCE:
        # A whole generation is asked for before anything is told: its order of arrival does not matter.
        trials = [study.ask() for _ in range(population)]
        numbers = [_number(grid, workload, trial) for trial in trials]
        fresh = list(dict.fromkeys(n for n in numbers if n not in evaluated))[: budget - len(evaluated)]
        for number, row in zip(fresh, rows([grid.point(number) for number in fresh]), strict=True):
            evaluated[number] = costs(row, objectives)
        idle = 0 if fresh else idle + 1
        for trial, number in zip(trials, numbers, strict=True):
            if number in evaluated:
                study.tell(trial, evaluated[number])
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return [grid.point(number) for number in evaluated]


def _number(grid: Grid, workload: int, trial: optuna.Trial) -> int:
    """Return the grid number encoded by the trial's genes; genes of other machines are ignored."""
    family = _gene(trial, "machine", len(grid.machines))
    genes = [
        [_gene(trial, f"{position}.{path}", len(values)) for path, values in machines.sweep.items()]
        for position, machines in enumerate(grid.machines)
    ]
    return grid.number(workload, _gene(trial, "policy", len(grid.policies)), family, genes[family])


def _gene(trial: optuna.Trial, name: str, choices: int) -> int:
    return trial.suggest_categorical(name, range(choices)) if choices > 1 else 0


def costs(row: Mapping[str, object], objectives: Sequence[str]) -> list[float]:
    """Return the objectives to minimise: negated where more is better, infinite for a failed point.

    A measured point uses its measured latency and throughput, as reports do.
    """
    if row.get("error") is not None:
        return [inf] * len(objectives)
    measured_s, batch = row.get("measured_s"), row.get("batch")
    if isinstance(measured_s, float) and isinstance(batch, int):
        row = {**row, "latency_s": measured_s, "throughput_per_s": batch / measured_s}
    figures = [row.get(name) for name in objectives]
    return [
        inf if not isinstance(value, int | float) else -value if name in MAXIMISED else float(value)
        for name, value in zip(objectives, figures, strict=True)
    ]
