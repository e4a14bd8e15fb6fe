"""Simulated time: SimPy's event queue, in whole picoseconds, with a last turn at the end of each instant."""

from collections import deque
from collections.abc import Callable

import simpy

Action = Callable[[], object]


class Clock:
    """Runs actions in the order of their times; those of one instant in the order in which they were scheduled."""

    def __init__(self) -> None:
        self._env = simpy.Environment()
        self._last: deque[Action] = deque()
        self.events = 0
        """Actions run so far."""
        self.now_ps = 0

    def after(self, delay_ps: int, action: Action) -> None:
        """Run ``action`` in ``delay_ps``; with no delay, behind what this instant holds already."""

        def happen(event: simpy.Event) -> None:
            del event
            self.now_ps = int(self._env.now)
            self.events += 1
            action()
            if self._last:
                self._end_of_instant()

        timeout = self._env.timeout(delay_ps)
        timeout.callbacks.append(happen)

    def at_end_of_instant(self, action: Action) -> None:
        """Run ``action`` now, but after everything else that happens now."""
        self._last.append(action)

    def _end_of_instant(self) -> None:
        while self._last and self._env.peek() > self._env.now:
            self.events += 1
            self._last.popleft()()

    def run(self) -> None:
        """Go on until nothing is left to happen."""
        self._end_of_instant()
        self._env.run()
