"""Simulated time: SimPy's event queue, in whole picoseconds, with a last turn at the end of each instant."""

from collections import deque
from collections.abc import Callable
from typing import cast

import simpy

Action = Callable[[], object]


class Clock:
    """Runs actions in the order of their times; those of one instant in the order in which they were scheduled."""

    def __init__(self) -> None:
        self._env = simpy.Environment()
        self._timeout, self._on_time = self._env.timeout, self._happen
        self._soon: deque[Action] = deque()
        """What comes behind all that SimPy holds for this instant: it was scheduled in it, without delay."""
        self._last: deque[Action] = deque()
        self.events = 0
        """Actions run so far."""
        self.now_ps = 0

    def after(self, delay_ps: int, action: Action) -> None:
        """Run ``action`` in ``delay_ps``; with no delay, behind what this instant holds already."""
        if not delay_ps:
            self._soon.append(action)
            return
        self._timeout(delay_ps, action).callbacks.append(self._on_time)

    def _happen(self, event: simpy.Event) -> None:
        """Run the action that an event carries."""
        self.now_ps = int(self._env.now)
        self.events += 1
        cast(Action, event.value)()
        if self._soon or self._last:
            self._rest_of_instant()

    def at_end_of_instant(self, action: Action) -> None:
        """Run ``action`` now, but after everything else that happens now."""
        self._last.append(action)

    def _rest_of_instant(self) -> None:
        """Do what is left for this instant, if SimPy has nothing more for it; what comes up meanwhile goes first."""
        if self._env.peek() <= self.now_ps:
            return
        soon, last = self._soon, self._last
        while True:
            if soon:
                action = soon.popleft()
            elif last:
                action = last.popleft()
            else:
                return
            self.events += 1
            action()

    def run(self) -> None:
        """Go on until nothing is left to happen."""
        self._rest_of_instant()
        self._env.run()
