"""Figures of every layer of a network over a grid of shapes, simulated in parallel."""

from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.experiments.engine.engines import open_engine
from dsascape.experiments.engine.failures import Failure
from dsascape.experiments.engine.run import evaluated
from dsascape.experiments.point.operator_times import ShapeTimes, shape_times
from dsascape.experiments.question.points import DesignPoint
from dsascape.tuner.measure import usable_cores


@dataclass(frozen=True, slots=True)
class GridTimes:
    """Figures of the shapes of a grid that run, and the others with the reason."""

    shapes: tuple[ShapeTimes, ...]
    """In the order of the grid."""
    failed: tuple[tuple[DesignPoint, str], ...] = ()


def grid_times(points: Sequence[DesignPoint], workers: int = 0) -> GridTimes:
    """Simulate the points of a grid, in ``workers`` processes (0: one per usable core).

    A single point is simulated in this process, and raises what `evaluate` raises.
    """
    if len(points) == 1:
        return GridTimes((times_at(points[0]),))
    outcomes: dict[str, ShapeTimes | Failure] = {}
    with open_engine(min(len(points), workers or usable_cores())) as engine:
        outcomes.update((point.key, outcome) for point, outcome in engine.results(times_at, points))
    results = [(point, outcomes[point.key]) for point in points]
    return GridTimes(
        tuple(each for _, each in results if isinstance(each, ShapeTimes)),
        tuple((point, each.reason) for point, each in results if isinstance(each, Failure)),
    )


def times_at(point: DesignPoint) -> ShapeTimes:
    """Simulate a design point and return the figures of its layers."""
    return shape_times(evaluated(point), point.hardware, point.workload.family)
