"""Memory bandwidth, shared max-min fairly among the flows that use it at the same time.

Every running instruction is a flow that would end after its uncontended duration. A flow puts load on ports
(memories); as long as no port is overloaded, all flows run at full speed and no shares are computed. On an overloaded
port, flows are slowed max-min fairly in bytes per second: no flow gets more than an equal share while another could
use it. Flows of one unit with several channels (of a DMA engine) do not share: the one whose instruction is the oldest
goes first, and the next has what it leaves.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence

from dsascape.hw_models.simulation.clock import Clock, EventHandler, whole_ps
from dsascape.hw_models.simulation.demands import Demand

_EPSILON = 1e-6
"""Weight of a port below which it counts as zero: rounding error of floating point."""
_MOST_SHARES = 10_000
"""Limit of the cache of flow speeds, in sets of flows."""
_NOTHING_LEFT = 1e-9
"""Share of a port's bandwidth below which older flows leave nothing of it: rounding error of floating point."""


class Mover(EventHandler):
    """Owner of flows; is told when they end."""

    line: int = -1
    """Number of the queue of which the oldest instruction goes first where bandwidth is short; -1: of none."""

    @abstractmethod
    def moved(self, flow: "Flow", limit: str) -> None:
        """Handle the end of ``flow``; ``limit`` is the resource that limited it for the longest time."""


class Flow(EventHandler):
    """Execution of one instruction on a group of equivalent members, with their demand on the memories.

    A start-up, if any, comes first; then the flow uses the memories, if it moves anything.
    """

    left_ps: float
    """Remaining full-speed duration when the speed was last set."""
    limit: str
    """Current limiting resource: its own unit, or the memory that slows it."""
    marked_ps: int
    """Time since which ``limit`` has applied."""
    updated_ps: int
    """Time when the speed was last set."""
    speed: float = 1.0
    """Share of the uncontended rate, 0 to 1; 0 while older flows of its unit take all bandwidth."""
    paced_ps: dict[str, int] | None = None
    """Time by earlier limiting resource; None while the limit has not changed."""
    end_event: int = 0
    """Number of times that its end has been scheduled; older events are ignored. Event 0 ends the start-up."""

    def __init__(self, shared: "SharedBandwidth", demand: Demand, mover: Mover, position: int) -> None:
        self.shared = shared
        self.demand = demand
        self.mover = mover
        self.position = position

    def handle(self, number: int) -> None:
        """Handle the end of the start-up, or of the flow unless that has been rescheduled."""
        if number:
            if number == self.end_event:
                self.shared.end(self)
        elif self.demand.moves:
            self.shared.start(self)
        else:
            self.mover.moved(self, self.demand.limit)

    def pace(self, limit: str, now_ps: int) -> None:
        """Record that ``limit`` is the limiting resource from ``now_ps`` on."""
        lasted_ps = now_ps - self.marked_ps
        if lasted_ps:
            paced_ps = self.paced_ps
            if paced_ps is None:
                paced_ps = self.paced_ps = {}
            paced_ps[self.limit] = paced_ps.get(self.limit, 0) + lasted_ps
        self.limit, self.marked_ps = limit, now_ps

    @property
    def longest_limit(self) -> str:
        """Resource that has limited the flow for the longest time; on a tie, the last by name."""
        paced_ps = self.paced_ps
        return max(sorted(paced_ps, reverse=True), key=paced_ps.__getitem__) if paced_ps else self.limit


class Port:
    """Port of a memory: its bandwidth, load and traffic."""

    def __init__(self, name: str, capacity: float) -> None:
        self.name = name
        self.capacity = capacity
        """Bandwidth in bytes per picosecond."""
        self.full = capacity * (1 + 1e-12)
        """Load above which the port is overloaded."""
        self.load = 0.0
        """Bytes per picosecond that the current flows would move at full speed."""
        self.moved_bytes = 0.0
        """Bytes moved by finished flows."""


class SharedBandwidth:
    """Ports of a machine and the flows on them; a flow's mover is told when it has ended."""

    def __init__(self, clock: Clock, capacities: Sequence[float], names: Sequence[str]) -> None:
        self._clock = clock
        self.ports = [Port(name, capacity) for name, capacity in zip(names, capacities, strict=True)]
        self._flows: list[Flow] = []
        self._contended = False
        self._shares: dict[tuple[int, ...], list[tuple[float, str]]] = {}
        """Cache: speed and limiting resource of each flow, by the numbers of their demands, and their ranks if any."""

    def start(self, flow: Flow) -> None:
        """Start ``flow`` now."""
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
            flow.end_event = 1
            self._clock.after(demand.whole_ps, flow, 1)

    def end(self, flow: Flow) -> None:
        """End ``flow`` now, and tell its mover."""
        flows, ports, demand = self._flows, self.ports, flow.demand
        flows.remove(flow)
        for number, bytes_per_ps in demand.port_bytes_per_ps:
            ports[number].load -= bytes_per_ps
        for number, size_bytes in demand.traffic_bytes:
            ports[number].moved_bytes += size_bytes
        if not flows:
            for port in ports:
                port.load = 0.0  # drops rounding errors
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
        """Set the max-min fair speed of every flow."""
        flows, now_ps = self._flows, self._clock.now_ps
        shares = self._shares_of(flows)
        for number, flow in enumerate(flows):
            speed, limit = shares[number]
            if speed != flow.speed or not flow.end_event:
                left_ps = flow.left_ps - (now_ps - flow.updated_ps) * flow.speed
                flow.left_ps = left_ps if left_ps > 0.0 else 0.0
                flow.updated_ps = now_ps
                flow.speed = speed
                flow.end_event += 1
                if speed:
                    self._clock.after(whole_ps(flow.left_ps / speed), flow, flow.end_event)
            if limit != flow.limit:
                flow.pace(limit, now_ps)

    def _shares_of(self, flows: Sequence[Flow]) -> list[tuple[float, str]]:
        """Return the speed and the limiting resource of each flow, cached."""
        ranks = ranks_of(flows)
        kinds = (*[flow.demand.number for flow in flows], *ranks)
        shares = self._shares.get(kinds)
        if shares is None:
            shares = self._find_shares([flow.demand for flow in flows], ranks)
            if len(self._shares) < _MOST_SHARES:
                self._shares[kinds] = shares
        return shares

    def _find_shares(self, demands: Sequence[Demand], ranks: Sequence[int]) -> list[tuple[float, str]]:
        rates, slowed_by = max_min_rates(demands, [port.capacity for port in self.ports], ranks)
        shares = []
        for demand, rate, port in zip(demands, rates, slowed_by, strict=True):
            speed = rate / demand.bytes_per_ps if demand.bytes_per_ps > 0 else 1.0
            shares.append((speed, self.ports[port].name if port >= 0 else demand.limit))
        return shares


def ranks_of(flows: Sequence[Flow]) -> tuple[int, ...]:
    """Return the number of older instructions of its queue that each flow comes behind, 0 where none goes first.

    Empty if that is so of all.
    """
    lines: dict[int, set[int]] = {}
    for flow in flows:
        if flow.mover.line >= 0:
            lines.setdefault(flow.mover.line, set()).add(flow.position)
    if not lines:
        return ()
    return tuple([sum([other < flow.position for other in lines.get(flow.mover.line, ())]) for flow in flows])


def max_min_rates(
    demands: Sequence[Demand], capacities: Sequence[float], ranks: Sequence[int] = ()
) -> tuple[list[float], list[int]]:
    """Return the max-min fair rate of each of ``demands`` (bytes per picosecond), and the port that limits it or -1.

    Those of a lower rank go first, and others have what these leave; without ``ranks`` all share.
    """
    rates = [0.0] * len(demands)
    limits = [-1] * len(demands)
    spare = list(capacities)
    for rank in sorted(set(ranks)) or (0,):
        chosen = [number for number in range(len(demands)) if not ranks or ranks[number] == rank]
        _fill(demands, chosen, spare, rates, limits)
        spare = [left if left > _NOTHING_LEFT * all_ else 0.0 for left, all_ in zip(spare, capacities, strict=True)]
    return rates, limits


def _fill(
    demands: Sequence[Demand], chosen: Sequence[int], spare: list[float], rates: list[float], limits: list[int]
) -> None:
    """Set rates and limits of the ``chosen`` demands, and take what they use from ``spare``.

    Progressive filling: the rates of all rise together; one stops at its own rate, or when a port that it uses is full.
    """
    weights = [0.0] * len(spare)
    for number in chosen:
        for port, weight in demands[number].loads:
            weights[port] += weight
    waiting = sorted([(demands[number].bytes_per_ps, number) for number in chosen])
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
            stopped = set(frozen)
            waiting = [entry for entry in waiting if entry[1] not in stopped]
            for number in frozen:
                limits[number] = full
        for number in frozen:
            rates[number] = level
            for port, weight in demands[number].loads:
                spare[port] = max(spare[port] - weight * level, 0.0)
                weights[port] -= weight
                if weights[port] < _EPSILON:
                    weights[port] = 0.0
