"""NSGA-II over an experiment's grid: which machine and policy suit a network best, without trying them all.

For every workload a population of designs (machine, swept values, policy) evolves by itself: networks are
questions, not choices. The objectives of the experiment are improved together; where they disagree, a front
remains. A budget is shared evenly between the workloads and counts distinct points, failed ones included.

Deb, Pratap, Agarwal, Meyarivan: "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE
Transactions on Evolutionary Computation 6(2), 2002, as Optuna has it. All genes are categorical: no point off the
grid is ever tried.
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
"""That a budget lasts for at least, if it can; a small budget has a small population."""
_PATIENCE = 25
"""Generations without a new point after which a search ends; its budget is then not used up."""

Rows = Callable[[Sequence[DesignPoint]], Sequence[Row]]


def nsga2(grid: Grid, objectives: Sequence[str], budget: int, seed: int, rows: Rows) -> list[DesignPoint]:
    """Return the distinct points that the search evaluated, in order; at most ``budget``.

    ``rows`` gives the table rows of points; the same rows make the same search. A grid within the budget is
    evaluated whole.
    """
    budgets = [budget // len(grid.workloads)] * len(grid.workloads)
    for lucky in range(budget % len(grid.workloads)):
        budgets[lucky] += 1
    points = []
    for workload, share in enumerate(budgets):
        if share >= grid.designs:
            found = [grid.point(workload * grid.designs + number) for number in range(grid.designs)]
            rows(found)
            points += found
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
    known: dict[int, list[float]] = {}
    idle = 0
    while len(known) < budget and idle < _PATIENCE:
        # A whole generation is asked for before anything is told: its order of arrival does not matter.
        trials = [study.ask() for _ in range(population)]
        numbers = [_number(grid, workload, trial) for trial in trials]
        fresh = list(dict.fromkeys(number for number in numbers if number not in known))[: budget - len(known)]
        for number, row in zip(fresh, rows([grid.point(number) for number in fresh]), strict=True):
            known[number] = costs(row, objectives)
        idle = 0 if fresh else idle + 1
        for trial, number in zip(trials, numbers, strict=True):
            if number in known:
                study.tell(trial, known[number])
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return [grid.point(number) for number in known]


def _number(grid: Grid, workload: int, trial: optuna.Trial) -> int:
    """Return the number of the point that the trial's genes spell; the genes of other machines are silent."""
    family = _gene(trial, "machine", len(grid.machines))
    genes = [
        [_gene(trial, f"{position}.{path}", len(values)) for path, values in machines.sweep.items()]
        for position, machines in enumerate(grid.machines)
    ]
    return grid.number(workload, _gene(trial, "policy", len(grid.policies)), family, genes[family])


def _gene(trial: optuna.Trial, name: str, choices: int) -> int:
    return trial.suggest_categorical(name, range(choices)) if choices > 1 else 0


def costs(row: Mapping[str, object], objectives: Sequence[str]) -> list[float]:
    """Return what is to be made small: the objectives, negative if more is better, infinite for a failure.

    A measured point is judged by its measured latency and throughput, as reports compare it.
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
