"""Simulated time: SimPy's event queue, in whole picoseconds, with a last turn at the end of each instant."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import simpy

_DUST = 1e-6
"""Parts of a picosecond that floating point leaves behind."""


def whole_ps(wait_ps: float) -> int:
    """Return ``wait_ps`` rounded up to a whole picosecond, but for the dust of floating point."""
    whole = int(wait_ps)
    rest = wait_ps - whole
    return whole if rest <= _DUST or rest <= wait_ps * 1e-14 else whole + 1


class Actor(ABC):
    """Whoever has something to do at a time."""

    @abstractmethod
    def happen(self, turn: int) -> None:
        """Do what was to happen now; ``turn`` is the number that came with it when it was scheduled."""


Turns = list[tuple[Actor, int]]


class Clock:
    """Gives actors their turns in the order of times; those of one instant in the order in which they were scheduled.

    SimPy has one event for each instant.
    """

    def __init__(self) -> None:
        self._env = simpy.Environment()
        self._timeout, self._schedule = self._env.timeout, self._env.schedule
        self._on_time: list[Callable[[Any], None]] = [self._happen]
        self._over: list[simpy.Event] = []
        """Events that have happened: they are scheduled again before new ones are made."""
        self._instants: dict[int, Turns] = {}
        """By time: what is to happen then."""
        self._now: Turns = []
        """What is to happen in this instant and what has happened in it, in this order."""
        self._last: deque[Actor] = deque()
        self.events = 0
        """Turns taken so far."""
        self.now_ps = 0

    def after(self, delay_ps: int, actor: Actor, turn: int) -> None:
        """Let ``actor`` take a turn in ``delay_ps``; with no delay, behind what this instant holds already."""
        if not delay_ps:
            self._now.append((actor, turn))
            return
        time_ps = self.now_ps + delay_ps
        turns = self._instants.get(time_ps)
        if turns is not None:
            turns.append((actor, turn))
            return
        self._instants[time_ps] = [(actor, turn)]
        if self._over:
            event = self._over.pop()
            self._schedule(event, delay=delay_ps)
        else:
            event = self._timeout(delay_ps)
        event.callbacks = self._on_time

    def at_end_of_instant(self, actor: Actor) -> None:
        """Let ``actor`` take a turn now, but after everything else that happens now."""
        self._last.append(actor)

    def run(self) -> None:
        """Go on until nothing is left to happen."""
        self._instants[0] = self._now
        self._timeout(0).callbacks.append(self._happen)
        try:
            self._env.run()
        finally:
            self._on_time.clear()  # a circle, through which all of the run would stay in memory

    def _happen(self, event: simpy.Event) -> None:
        """Do all that the instant holds that SimPy has come to; what a last turn sets off goes before the next one."""
        self._over.append(event)
        now_ps = self.now_ps = int(self._env.now)
        now = self._now = self._instants.pop(now_ps)
        for actor, turn in now:
            actor.happen(turn)
        last = self._last
        while last:
            taken = len(now)
            last.popleft().happen(0)
            while taken < len(now):
                actor, turn = now[taken]
                taken += 1
                actor.happen(turn)
            self.events += 1
        self.events += len(now)


def run_instants(happen: Callable[[], int]) -> None:
    """Call ``happen`` at every instant from 0 on; it returns in how many picoseconds the next one comes, -1 for none.

    SimPy has one event, which comes again at each of them.
    """
    env = simpy.Environment()
    schedule = env.schedule

    def come(event: simpy.Event) -> None:
        delay_ps = happen()
        if delay_ps >= 0:
            event.callbacks = on_time
            schedule(event, delay=delay_ps)

    on_time: list[Callable[[Any], None]] = [come]
    env.timeout(0).callbacks.append(come)
    try:
        env.run()
    finally:
        on_time.clear()  # a circle, through which all of the run would stay in memory
