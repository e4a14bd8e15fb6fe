"""Choice of the points of an experiment that are run: its whole grid, or those that its searches propose."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.experiments.engine.run import Runner
from dsascape.experiments.engine.search import RANDOM, Aim, Design, search_designs
from dsascape.experiments.question.config import Experiment
from dsascape.experiments.question.constraints import read_constraints
from dsascape.experiments.question.grid import Grid
from dsascape.experiments.question.points import DesignPoint
from dsascape.experiments.question.reference import base_design

_MOST_FOLLOWED = 10_000
"""Most points of a random sample whose order is kept."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Points of a run that ended."""

    points: Sequence[DesignPoint]
    """All of them, each once; the first is run under the first method."""
    designs: Sequence[tuple[str, Sequence[Design]]] = ()
    """(search method, its designs in the order in which it evaluated them); empty for a whole grid without a
    combination."""
    base: Design | None = None
    """Points of the base design, where networks are combined."""


def aim_of(experiment: Experiment, grid: Grid) -> Aim:
    """Return what the searches of an experiment optimise."""
    limits = read_constraints(experiment.constraints)
    return Aim(tuple(experiment.objectives), limits, experiment.combine, grid.weights)


def planned_points(experiment: Experiment, grid: Grid) -> int:
    """Return the number of points that a run computes at most, the base design included where there is one."""
    search, networks = experiment.search, len(grid.workloads)
    if experiment.combine is None:
        size = grid.size if search.budget is None else min(search.budget, grid.size)
        return min(size * len(search.methods), grid.size)
    designs = grid.designs if search.budget is None else min(search.budget * len(search.methods), grid.designs)
    is_whole = designs == grid.designs and all(grid.machines[0].unchanged)
    return networks * (designs + (0 if is_whole else 1))


def compute_chosen(experiment: Experiment, grid: Grid, runner: Runner) -> Chosen:
    """Compute the points that the experiment asks for, and return them."""
    search = experiment.search
    if experiment.combine is None and (search.budget is None or search.methods == (RANDOM,)):
        points = grid.chosen(search)
        runner.run(points)
        if search.budget is None:
            return Chosen(points)
        return Chosen(points, [(RANDOM, _drawn(points, search.seed))])
    aim = aim_of(experiment, grid)
    base = None if experiment.combine is None else base_design(grid)
    if base is not None:
        runner.run(base)
    designs: list[tuple[str, Sequence[Design]]] = []
    for method in search.methods:
        if search.budget is None:
            every = [grid.design(number) for number in range(grid.designs)]
            runner.run(point for design in every for point in design)
            designs.append((method, every))
        else:
            designs.append((method, search_designs(method, grid, aim, search.budget, search.seed, runner.rows)))
    points_by_key = {point.key: point for _, several in designs for design in several for point in design}
    points_by_key |= {point.key: point for point in base or ()}
    return Chosen(list(points_by_key.values()), designs, base)


def _drawn(points: Sequence[DesignPoint], seed: int) -> list[Design]:
    """Return the points of a random sample, which are in the order of their numbers, in random order.

    Empty for a sample that is too large to be followed point by point.
    """
    if len(points) > _MOST_FOLLOWED:
        return []
    order = list(range(len(points)))
    random.Random(seed).shuffle(order)
    return [[points[place]] for place in order]
