"""Bandwidth shared by whoever uses it at that moment.

Every running instruction is a flow that would end after its full-speed duration. A flow puts load on ports
(memories); as long as no port is overloaded all flows run at full speed and nothing is computed. When one is,
the flows on it are slowed max-min fairly by bytes per second: nobody gets more than an equal share while
another could use it.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence

from dsascape.hw_models.simulation.clock import Actor, Clock, whole_ps
from dsascape.hw_models.simulation.demands import Demand

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


class Port:
    """A memory's port."""

    def __init__(self, name: str, capacity: float) -> None:
        self.name = name
        self.capacity = capacity
        """Bytes per picosecond."""
        self.full = capacity * (1 + 1e-12)
        """The load above which it is overloaded."""
        self.load = 0.0
        """What the flows under way would move at full speed, in bytes per picosecond."""
        self.moved_bytes = 0.0
        """What has crossed it."""


class SharedBandwidth:
    """All ports of a machine. ``start`` a flow; its mover is told when it has ended."""

    def __init__(self, clock: Clock, capacities: Sequence[float], names: Sequence[str]) -> None:
        self._clock = clock
        self.ports = [Port(name, capacity) for name, capacity in zip(names, capacities, strict=True)]
        self._flows: list[Flow] = []
        self._contended = False
        self._shares: dict[tuple[int, ...], list[tuple[float, str]]] = {}
        """By the numbers of the demands under way: the speed of each, and what sets its pace."""

    def start(self, flow: Flow) -> None:
        """Let ``flow`` run from now on."""
        demand = flow.demand
        flow.left_ps, flow.limit = demand.duration_ps, demand.limit
        flow.updated_ps = flow.marked_ps = self._clock.now_ps
        self._flows.append(flow)
        for number, bytes_per_ps in demand.port_bytes_per_ps:
            port = self.ports[number]
            load = port.load = port.load + bytes_per_ps
            if load > port.full:
                self._contended = True
        if self._contended:
            self._share()
        else:
            flow.turn = 1
            self._clock.after(demand.whole_ps, flow, 1)

    def end(self, flow: Flow) -> None:
        """Let ``flow`` end now."""
        flows, ports, demand = self._flows, self.ports, flow.demand
        flows.remove(flow)
        for number, bytes_per_ps in demand.port_bytes_per_ps:
            ports[number].load -= bytes_per_ps
        for number, size_bytes in demand.traffic_bytes:
            ports[number].moved_bytes += size_bytes
        if not flows:
            for port in ports:
                port.load = 0.0  # without what floating point has left behind
            self._contended = False
        elif self._contended:
            self._contended = any(port.load > port.full for port in ports)
            self._share()
        limit = flow.limit
        if flow.paced_ps:
            flow.pace(limit, self._clock.now_ps)
            limit = flow.longest_limit
        flow.mover.moved(flow, limit)

    def _share(self) -> None:
        """Give every flow its max-min fair speed."""
        flows, now_ps = self._flows, self._clock.now_ps
        shares = self._shares_of(flows)
        for number, flow in enumerate(flows):
            speed, limit = shares[number]
            if speed != flow.speed or not flow.turn:
                left_ps = flow.left_ps - (now_ps - flow.updated_ps) * flow.speed
                flow.left_ps = left_ps if left_ps > 0.0 else 0.0
                flow.updated_ps = now_ps
                flow.speed = speed
                flow.turn += 1
                self._clock.after(whole_ps(flow.left_ps / speed), flow, flow.turn)
            if limit != flow.limit:
                flow.pace(limit, now_ps)

    def _shares_of(self, flows: Sequence[Flow]) -> list[tuple[float, str]]:
        """Return the speed of each flow, and what sets its pace."""
        kinds = tuple([flow.demand.number for flow in flows])
        known = self._shares.get(kinds)
        if known is None:
            known = self._find_shares([flow.demand for flow in flows])
            if len(self._shares) < _MOST_SHARES:
                self._shares[kinds] = known
        return known

    def _find_shares(self, demands: Sequence[Demand]) -> list[tuple[float, str]]:
        rates, slowed_by = max_min_rates(demands, [port.capacity for port in self.ports])
        found = []
        for demand, rate, port in zip(demands, rates, slowed_by, strict=True):
            speed = rate / demand.bytes_per_ps if demand.bytes_per_ps > 0 else 1.0
            found.append((speed, self.ports[port].name if port >= 0 else demand.limit))
        return found


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
    waiting = sorted([(demand.bytes_per_ps, number) for number, demand in enumerate(demands)])
    while waiting:
        level, full = math.inf, -1
        for port, weight in enumerate(weights):
            if weight > 0 and spare[port] / weight < level:
                level, full = spare[port] / weight, port
        if waiting[0][0] <= level * (1 + 1e-12):
            level, number = waiting.pop(0)
            frozen = [number]
        else:
            frozen = [number for _, number in waiting if any(port == full for port, _ in demands[number].loads)]
            chosen = set(frozen)
            waiting = [entry for entry in waiting if entry[1] not in chosen]
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
