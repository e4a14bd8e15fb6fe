"""Points that wait for a worker: each worker is given one of the workload that it has at hand.

What a worker has found out about a network serves its next point of that network, and no other worker's.
"""

from collections.abc import Collection, Iterable
from itertools import islice

from experiments.points import DesignPoint, Workload

_WINDOW = 512
"""Points that are looked through; a sweep may have a hundred thousand."""


class WaitingPoints:
    """Points in their order, but for those that come before their turn."""

    def __init__(self, points: Iterable[DesignPoint]) -> None:
        self._further = iter(points)
        self._next: list[DesignPoint] = []

    def take(self, at_hand: Workload | None, elsewhere: Collection[Workload]) -> DesignPoint | None:
        """Return the point for a worker whose last one was of the workload ``at_hand``; None if there is none left.

        It is the first of that workload, else the first of one that no other worker has (``elsewhere``), else the
        first.
        """
        points = self._next
        points += islice(self._further, _WINDOW - len(points))
        if not points:
            return None
        own = (place for place, point in enumerate(points) if point.workload == at_hand)
        new = (place for place, point in enumerate(points) if point.workload not in elsewhere)
        return points.pop(next(own, next(new, 0)))
