"""Hypervolume: how much of the space of objectives a set of points dominates, exact in any number of objectives.

Zitzler, Thiele: "Multiobjective evolutionary algorithms: a comparative case study and the strength Pareto approach",
IEEE Transactions on Evolutionary Computation 3(4), 1999; computed as While, Bradstreet, Barone: "A fast way of
calculating exact hypervolumes", IEEE Transactions on Evolutionary Computation 16(1), 2012.
"""

from collections.abc import Sequence
from math import prod

Point = Sequence[float]
"""Objectives of a point, to minimise."""


def hypervolume(points: Sequence[Point], worst: Point) -> float:
    """Return the volume between the points and ``worst`` that at least one of them dominates."""
    total = 0.0
    front: list[Point] = []
    for point in sorted(points, key=tuple):
        gain, front = _added(point, front, worst)
        total += gain
    return total


def hypervolumes(points: Sequence[Point], worst: Point) -> list[float]:
    """Return the hypervolume of the first point, the first two, and so on; an empty point dominates nothing."""
    total, front = 0.0, list[Point]()
    volumes = []
    for point in points:
        if len(point):
            gain, front = _added(point, front, worst)
            total += gain
        volumes.append(total)
    return volumes


def _added(point: Point, front: list[Point], worst: Point) -> tuple[float, list[Point]]:
    """Return the volume that ``point`` alone dominates, and the front with it."""
    inside = [max(0.0, bound - value) for value, bound in zip(point, worst, strict=True)]
    if not all(inside) or any(_dominates(other, point) for other in front):
        return 0.0, front
    shared = [tuple(map(max, point, other)) for other in front]
    rest = [other for other in front if not _dominates(point, other)]
    return prod(inside) - hypervolume(_front(shared), worst), [*rest, point]


def _front(points: Sequence[Point]) -> list[Point]:
    kept: list[Point] = []
    for point in sorted(set(map(tuple, points))):
        if not any(_dominates(other, point) for other in kept):
            kept.append(point)
    return kept


def _dominates(one: Point, other: Point) -> bool:
    """Return whether ``one`` is as good as ``other`` in every objective."""
    return all(a <= b for a, b in zip(one, other, strict=True))
