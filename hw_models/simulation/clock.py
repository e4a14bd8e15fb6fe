"""Simulated time: SimPy's event queue in whole picoseconds, with a phase at the end of each timestamp."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import simpy

_EPSILON = 1e-6
"""Rounding error of floating point, in picoseconds."""


def whole_ps(wait_ps: float) -> int:
    """Return ``wait_ps`` rounded up to a whole picosecond; an excess within rounding error is dropped."""
    whole = int(wait_ps)
    rest = wait_ps - whole
    return whole if rest <= _EPSILON or rest <= wait_ps * 1e-14 else whole + 1


class EventHandler(ABC):
    """Event handler: is called at the simulated times for which it was scheduled."""

    @abstractmethod
    def handle(self, number: int) -> None:
        """Handle an event; ``number`` is the one with which it was scheduled (`Clock.after`)."""


Events = list[tuple[EventHandler, int]]
"""Events of one timestamp: handlers, with the numbers that they are called with."""


class Clock:
    """Calls event handlers in order of time; those of one timestamp in the order in which they were scheduled.

    All events of a timestamp share one SimPy event.
    """

    def __init__(self) -> None:
        self._env = simpy.Environment()
        self._timeout, self._schedule = self._env.timeout, self._env.schedule
        self._on_time: list[Callable[[Any], None]] = [self._handle]
        self._over: list[simpy.Event] = []
        """SimPy events that are over, for reuse."""
        self._instants: dict[int, Events] = {}
        """Scheduled events by time."""
        self._now: Events = []
        """Events of the current timestamp: those handled so far, then those to come."""
        self._last: deque[EventHandler] = deque()
        """Handlers to call at the end of the current timestamp."""
        self.events = 0
        """Number of events handled so far."""
        self.now_ps = 0

    def after(self, delay_ps: int, handler: EventHandler, number: int) -> None:
        """Schedule event ``number`` of ``handler`` in ``delay_ps``; with no delay, after the events already due now."""
        if not delay_ps:
            self._now.append((handler, number))
            return
        time_ps = self.now_ps + delay_ps
        events = self._instants.get(time_ps)
        if events is not None:
            events.append((handler, number))
            return
        self._instants[time_ps] = [(handler, number)]
        if self._over:
            event = self._over.pop()
            self._schedule(event, delay=delay_ps)
        else:
            event = self._timeout(delay_ps)
        event.callbacks = self._on_time

    def at_end_of_instant(self, handler: EventHandler) -> None:
        """Schedule an event for ``handler`` at the current time, after all other events of this timestamp."""
        self._last.append(handler)

    def run(self) -> None:
        """Handle events until none is left."""
        self._instants[0] = self._now
        self._timeout(0).callbacks.append(self._handle)
        try:
            self._env.run()
        finally:
            self._on_time.clear()  # breaks a reference cycle that would keep the whole run in memory

    def _handle(self, event: simpy.Event) -> None:
        """Handle all events of a timestamp; events added by an end-of-timestamp handler precede the next handler."""
        self._over.append(event)
        now_ps = self.now_ps = int(self._env.now)
        now = self._now = self._instants.pop(now_ps)
        for handler, number in now:
            handler.handle(number)
        last = self._last
        while last:
            taken = len(now)
            last.popleft().handle(0)
            while taken < len(now):
                handler, number = now[taken]
                taken += 1
                handler.handle(number)
            self.events += 1
        self.events += len(now)


def run_instants(handle: Callable[[], int]) -> None:
    """Call ``handle`` at time 0 and then after every delay in picoseconds that it returns, until it returns -1.

    One SimPy event is scheduled again and again.
    """
    env = simpy.Environment()
    schedule = env.schedule

    def come(event: simpy.Event) -> None:
        delay_ps = handle()
        if delay_ps >= 0:
            event.callbacks = on_time
            schedule(event, delay=delay_ps)

    on_time: list[Callable[[Any], None]] = [come]
    env.timeout(0).callbacks.append(come)
    try:
        env.run()
    finally:
        on_time.clear()  # breaks a reference cycle that would keep the whole run in memory
