"""Bandwidth shared by whoever uses it at that moment.

Every running instruction is a flow that would end after its full-speed duration. A flow puts load on ports
(memories); as long as no port is overloaded all flows run at full speed and nothing is computed. When one is,
the flows on it are slowed max-min fairly by bytes per second: nobody gets more than an equal share while
another could use it.
"""

import heapq
import math
from abc import abstractmethod
from collections.abc import Sequence

from hw_models.clock import Actor, Clock, whole_ps
from hw_models.demands import Demand

_DUST = 1e-6
"""The weight of a port below which floating point has left it behind."""
_MOST_SHARES = 10_000
"""Sets of flows whose speeds are remembered."""


class Mover(Actor):
    """Whose instructions flow."""

    @abstractmethod
    def moved(self, flow: "Flow", limit: str) -> None:
        """Take note that ``flow`` has ended, and of what set its pace for the longest part of the time."""


class Flow(Actor):
    """Alike members that do one instruction: what they ask for, whose they are, and which instruction that is.

    It may begin with a start-up; then it runs through the memories, if it moves anything.
    """

    left_ps: float
    """Of its full-speed duration, when its speed was last set."""
    limit: str
    """What sets its pace now: its own unit, or the memory that slows it."""
    marked_ps: int
    """Since when."""
    updated_ps: int
    """When its speed was last set."""
    speed: float = 1.0
    paced_ps: dict[str, int] | None = None
    """How long what set its pace before that, where that changed."""
    turn: int = 0
    """The number of its turn in which it ends: as often has its end been scheduled. Turn 0 ends its start-up."""

    def __init__(self, shared: "SharedBandwidth", demand: Demand, mover: Mover, position: int) -> None:
        self.shared = shared
        self.demand = demand
        self.mover = mover
        self.position = position

    def happen(self, turn: int) -> None:
        """Go on: run, after the start-up; or end, unless that has been put off."""
        if turn:
            if turn == self.turn:
                self.shared.end(self)
        elif self.demand.moves:
            self.shared.start(self)
        else:
            self.mover.moved(self, self.demand.limit)

    def pace(self, limit: str, now_ps: int) -> None:
        """Note that ``limit`` sets the pace from ``now_ps`` on."""
        lasted_ps = now_ps - self.marked_ps
        if lasted_ps:
            paced_ps = self.paced_ps
            if paced_ps is None:
                paced_ps = self.paced_ps = {}
            paced_ps[self.limit] = paced_ps.get(self.limit, 0) + lasted_ps
        self.limit, self.marked_ps = limit, now_ps

    @property
    def longest_limit(self) -> str:
        """What set the pace for the longest part of the time so far; of equals, the last by name."""
        paced_ps = self.paced_ps
        return max(sorted(paced_ps, reverse=True), key=paced_ps.__getitem__) if paced_ps else self.limit


class SharedBandwidth:
    """All ports of a machine. ``start`` a flow; its mover is told when it has ended."""

    def __init__(self, clock: Clock, capacities: list[float], names: list[str]) -> None:
        self._clock = clock
        self._capacities = capacities
        self._full = [capacity * (1 + 1e-12) for capacity in capacities]
        """Loads above which a port is overloaded."""
        self._names = names
        self._flows: list[Flow] = []
        self._load = [0.0] * len(capacities)
        self._contended = False
        self._shares: dict[tuple[int, ...], tuple[list[float], list[str]]] = {}
        """By the numbers of the demands under way: the speed of each, and the port that slows it, if one does."""
        self.moved_bytes = [0.0] * len(capacities)
        """By port: what has crossed it."""

    def start(self, flow: Flow) -> None:
        """Let ``flow`` run from now on."""
        demand = flow.demand
        flow.left_ps, flow.limit = demand.duration_ps, demand.limit
        flow.updated_ps = flow.marked_ps = self._clock.now_ps
        self._flows.append(flow)
        load, full = self._load, self._full
        for port, bytes_per_ps in demand.port_bytes_per_ps:
            load[port] += bytes_per_ps
            if load[port] > full[port]:
                self._contended = True
        if self._contended:
            self._share()
        else:
            flow.turn = 1
            self._clock.after(demand.whole_ps, flow, 1)

    def end(self, flow: Flow) -> None:
        """Let ``flow`` end now."""
        flows, demand = self._flows, flow.demand
        flows.remove(flow)
        load, moved_bytes = self._load, self.moved_bytes
        if flows:
            for port, bytes_per_ps in demand.port_bytes_per_ps:
                load[port] -= bytes_per_ps
            if self._contended:
                self._contended = self._is_overloaded()
                self._share()
        else:
            self._load = [0.0] * len(load)
            self._contended = False
        for port, size in demand.traffic_bytes:
            moved_bytes[port] += size
        limit = flow.limit
        if flow.paced_ps:
            flow.pace(limit, self._clock.now_ps)
            limit = flow.longest_limit
        flow.mover.moved(flow, limit)

    def _is_overloaded(self) -> bool:
        full = self._full
        return any([load > full[port] for port, load in enumerate(self._load)])

    def _share(self) -> None:
        """Give every flow its max-min fair speed."""
        flows, now_ps = self._flows, self._clock.now_ps
        speeds, slowed_by = self._shares_of(flows)
        for number, flow in enumerate(flows):
            speed, limit = speeds[number], slowed_by[number] or flow.demand.limit
            if speed != flow.speed or not flow.turn:
                left_ps = flow.left_ps - (now_ps - flow.updated_ps) * flow.speed
                flow.left_ps = left_ps if left_ps > 0.0 else 0.0
                flow.updated_ps = now_ps
                flow.speed = speed
                flow.turn += 1
                self._clock.after(whole_ps(flow.left_ps / speed), flow, flow.turn)
            if limit != flow.limit:
                flow.pace(limit, now_ps)

    def _shares_of(self, flows: Sequence[Flow]) -> tuple[list[float], list[str]]:
        """Return the speed of each flow, and the port that slows it, empty if none does."""
        kinds = tuple([flow.demand.number for flow in flows])
        known = self._shares.get(kinds)
        if known is None:
            demands = [flow.demand for flow in flows]
            rates, slowed_by = max_min_rates(demands, self._capacities)
            full = [demand.bytes_per_ps for demand in demands]
            speeds = [rate / most if most > 0 else 1.0 for rate, most in zip(rates, full, strict=True)]
            known = speeds, [self._names[port] if port >= 0 else "" for port in slowed_by]
            if len(self._shares) < _MOST_SHARES:
                self._shares[kinds] = known
        return known


def max_min_rates(demands: Sequence[Demand], capacities: Sequence[float]) -> tuple[list[float], list[int]]:
    """Return the rate of each of ``demands``, and the port that holds it below what it asks for; -1: none does.

    Progressive filling: the level rises for all together; one stops at its demand, or when a port that it uses is
    full.
    """
    rates = [0.0] * len(demands)
    limits = [-1] * len(demands)
    spare = list(capacities)
    weights = [0.0] * len(capacities)
    for demand in demands:
        for port, weight in demand.loads:
            weights[port] += weight
    waiting = [(demand.bytes_per_ps, number) for number, demand in enumerate(demands)]
    heapq.heapify(waiting)
    while waiting:
        level, full = math.inf, -1
        for port, weight in enumerate(weights):
            if weight > 0 and spare[port] / weight < level:
                level, full = spare[port] / weight, port
        if waiting[0][0] <= level * (1 + 1e-12):
            level, number = heapq.heappop(waiting)
            frozen = [number]
        else:
            frozen = [number for _, number in waiting if any(port == full for port, _ in demands[number].loads)]
            chosen = set(frozen)
            waiting = [entry for entry in waiting if entry[1] not in chosen]
            heapq.heapify(waiting)
            for number in frozen:
                limits[number] = full
        for number in frozen:
            rates[number] = level
            for port, weight in demands[number].loads:
                spare[port] = max(spare[port] - weight * level, 0.0)
                weights[port] -= weight
                if weights[port] < _DUST:
                    weights[port] = 0.0
    return rates, limits
