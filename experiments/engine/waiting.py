"""Points that wait for a worker: each worker goes through a stretch of one workload's points, in their order.

What a worker has found out about a network serves its next point of that network, and no other worker's; most of all
where the two differ in one value, as points that follow each other do: they share plans, layouts or cuts into tiles. So
a worker that comes to a workload when others are at it takes over the second half of what is left of a stretch.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from dsascape.experiments.question.points import DesignPoint, Workload

_WINDOW = 512
"""Points that are looked through; a sweep may have a hundred thousand."""


@dataclass(slots=True)
class _Stretch:
    workload: Workload
    points: deque[DesignPoint] = field(default_factory=deque)
    worker: int | None = None
    """Who goes through it; None: nobody yet."""

    def second_half(self) -> "_Stretch":
        """Return the second half as a stretch of its own, the larger one, which this one has no longer."""
        kept = len(self.points) // 2
        found = _Stretch(self.workload, deque(islice(self.points, kept, None)))
        self.points = deque(islice(self.points, kept))
        return found


class WaitingPoints:
    """Points that no worker has been given yet."""

    def __init__(self, points: Iterable[DesignPoint]) -> None:
        self._further = iter(points)
        self._stretches: list[_Stretch] = []
        """None of them empty."""
        self._waiting = 0

    def take(self, worker: int, at_hand: Mapping[int, Workload]) -> DesignPoint | None:
        """Return the next point for ``worker``; None if there is none left.

        ``at_hand``: by worker, the workload of its last point.
        """
        self._look_further()
        found = next((one for one in self._stretches if one.worker == worker), None) or self._another(worker, at_hand)
        if found is None:
            return None
        found.worker = worker
        point = found.points.popleft()
        self._waiting -= 1
        self._stretches = [one for one in self._stretches if one.points]
        return point

    def _look_further(self) -> None:
        """Put further points behind those of their workload, as far as the window reaches."""
        last = {stretch.workload: stretch for stretch in self._stretches}
        for point in islice(self._further, _WINDOW - self._waiting):
            if point.workload not in last:
                last[point.workload] = _Stretch(point.workload)
                self._stretches.append(last[point.workload])
            last[point.workload].points.append(point)
            self._waiting += 1

    def _another(self, worker: int, at_hand: Mapping[int, Workload]) -> _Stretch | None:
        """Return a stretch for a worker that has none: of its workload, of one that nobody has at hand, or any."""
        elsewhere = [workload for other, workload in at_hand.items() if other != worker]
        own = [one for one in self._stretches if one.workload == at_hand.get(worker)]
        new = [one for one in self._stretches if one.workload not in elsewhere]
        among = own or new or self._stretches
        free = next((one for one in among if one.worker is None), None)
        if free is not None or not among:
            return free
        found = max(among, key=lambda one: len(one.points)).second_half()
        self._stretches.append(found)
        return found
