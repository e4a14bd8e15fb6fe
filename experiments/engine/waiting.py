"""Queue of points that keeps each worker on a run of one workload's points, in their order.

A worker's caches serve its next point of the same network, most of all where consecutive points differ in one value and
share plans, layouts or tilings; other workers cannot use them. A worker that joins a workload others work on takes over
the second half of the longest remaining run.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from dsascape.experiments.question.points import DesignPoint, Workload

_WINDOW = 512
"""Number of points looked ahead; a sweep may have a hundred thousand."""


@dataclass(slots=True)
class _Segment:
    workload: Workload
    points: deque[DesignPoint] = field(default_factory=deque)
    worker: int | None = None
    """Worker that has taken it; None: not taken yet."""

    def second_half(self) -> "_Segment":
        """Split off and return the second, larger half."""
        kept = len(self.points) // 2
        second = _Segment(self.workload, deque(islice(self.points, kept, None)))
        self.points = deque(islice(self.points, kept))
        return second


class WaitingPoints:
    """Points not yet given to a worker."""

    def __init__(self, points: Iterable[DesignPoint]) -> None:
        self._further = iter(points)
        self._segments: list[_Segment] = []
        """Runs of points that are left; none is empty."""
        self._waiting = 0

    def take(self, worker: int, at_hand: Mapping[int, Workload]) -> DesignPoint | None:
        """Return the next point for ``worker``; None if none is left.

        ``at_hand`` maps each worker to the workload of its last point.
        """
        self._look_further()
        chosen = next((one for one in self._segments if one.worker == worker), None) or self._another(worker, at_hand)
        if chosen is None:
            return None
        chosen.worker = worker
        point = chosen.points.popleft()
        self._waiting -= 1
        self._segments = [one for one in self._segments if one.points]
        return point

    def _look_further(self) -> None:
        """Queue further points by workload, up to the window."""
        last = {segment.workload: segment for segment in self._segments}
        for point in islice(self._further, _WINDOW - self._waiting):
            if point.workload not in last:
                last[point.workload] = _Segment(point.workload)
                self._segments.append(last[point.workload])
            last[point.workload].points.append(point)
            self._waiting += 1

    def _another(self, worker: int, at_hand: Mapping[int, Workload]) -> _Segment | None:
        """Return a run for a worker that has none: of its workload, else of one no other worker has, else of any."""
        elsewhere = [workload for other, workload in at_hand.items() if other != worker]
        own = [one for one in self._segments if one.workload == at_hand.get(worker)]
        new = [one for one in self._segments if one.workload not in elsewhere]
        among = own or new or self._segments
        free = next((one for one in among if one.worker is None), None)
        if free is not None or not among:
            return free
        half = max(among, key=lambda one: len(one.points)).second_half()
        self._segments.append(half)
        return half
