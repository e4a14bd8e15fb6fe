"""Bandwidth shared by whoever uses it at that moment.

Every running instruction is a flow that would end after its full-speed duration. A flow puts load on ports
(memories); as long as no port is overloaded all flows run at full speed and nothing is computed. When one is,
the flows on it are slowed max-min fairly by bytes per second: nobody gets more than an equal share while
another could use it.
"""

import heapq
from collections.abc import Callable, Hashable, Sequence
from functools import partial

from hw_models.clock import Clock

Loads = tuple[tuple[int, float], ...]
Rates = dict["Flow", float]
_DUST = 1e-6
"""Parts of a picosecond that floating point leaves behind."""
_MOST_SHARES = 10_000
"""Sets of flows whose speeds are remembered."""


def whole_ps(wait_ps: float) -> int:
    """Return ``wait_ps`` rounded up to a whole picosecond, but for the dust of floating point."""
    whole = int(wait_ps)
    return whole if wait_ps - whole <= max(_DUST, wait_ps * 1e-14) else whole + 1


class Flow:
    """One instruction under way: ``demand`` bytes per picosecond at full speed, times ``loads`` on ports.

    ``moved``: the bytes that have crossed each port when it has ended. Flows of one ``kind`` have equal demands and
    loads.
    """

    __slots__ = (
        "demand", "done", "kind", "left_ps", "limit", "loads", "marked_ps", "moved", "own_limit", "paced_ps", "speed",
        "updated_ps", "version",
    )  # fmt: skip

    def __init__(
        self, duration_ps: float, demand: float, loads: Loads, limit: str, *, moved: Loads = (),
        kind: Hashable = None,
    ) -> None:  # fmt: skip
        self.left_ps = duration_ps
        self.demand = demand
        self.loads = loads
        self.own_limit = limit
        self.moved = moved
        self.kind = (demand, loads) if kind is None else kind
        self.limit = limit
        """What sets the flow's pace now: its own unit, or the memory that slows it."""
        self.paced_ps: dict[str, int] = {}
        self.marked_ps = 0
        self.speed = 1.0
        self.updated_ps = 0
        self.version = 0
        self.done: Callable[[str], object]
        """Called at the end, with what set the pace for the longest part of the time."""

    def pace(self, limit: str, now_ps: int) -> None:
        """Note that ``limit`` sets the pace from ``now_ps`` on."""
        if now_ps > self.marked_ps:
            self.paced_ps[self.limit] = self.paced_ps.get(self.limit, 0) + now_ps - self.marked_ps
        self.limit, self.marked_ps = limit, now_ps

    @property
    def longest_limit(self) -> str:
        """What set the pace for the longest part of the time so far."""
        paced_ps = self.paced_ps
        return max(paced_ps, key=lambda name: (paced_ps[name], name)) if paced_ps else self.limit


class SharedBandwidth:
    """All ports of a machine. ``start`` a flow; its ``done`` is called when it has ended."""

    def __init__(self, clock: Clock, capacities: list[float], names: list[str]) -> None:
        self._clock = clock
        self._capacities = capacities
        self._full = [capacity * (1 + 1e-12) for capacity in capacities]
        """Loads above which a port is overloaded."""
        self._names = names
        self._flows: dict[Flow, None] = {}
        self._load = [0.0] * len(capacities)
        self._contended = False
        self._shares: dict[tuple[Hashable, ...], tuple[list[float], list[str]]] = {}
        """By the kinds of the flows under way: the speed of each, and the port that slows it, if one does."""
        self.moved_bytes = [0.0] * len(capacities)
        """By port: what has crossed it."""

    def start(self, flow: Flow, done: Callable[[str], object]) -> None:
        """Let ``flow`` run from now on."""
        flow.done = done
        flow.updated_ps = flow.marked_ps = self._clock.now_ps
        self._flows[flow] = None
        load, full = self._load, self._full
        for port, weight in flow.loads:
            load[port] += weight * flow.demand
            if load[port] > full[port]:
                self._contended = True
        if self._contended:
            self._share()
        else:
            self._schedule(flow)

    def _schedule(self, flow: Flow) -> None:
        version = flow.version = flow.version + 1
        self._clock.after(whole_ps(flow.left_ps / flow.speed), partial(self._ended, flow, version))

    def _ended(self, flow: Flow, version: int) -> None:
        if flow.version != version:
            return
        del self._flows[flow]
        load, moved_bytes = self._load, self.moved_bytes
        for port, weight in flow.loads:
            load[port] -= weight * flow.demand
        if not self._flows:
            self._load = [0.0] * len(load)
            self._contended = False
        elif self._contended:
            self._contended = any(used > full for used, full in zip(load, self._full, strict=True))
            self._share()
        for port, size in flow.moved:
            moved_bytes[port] += size
        if flow.paced_ps:
            flow.pace(flow.limit, self._clock.now_ps)
            flow.done(flow.longest_limit)
        else:
            flow.done(flow.limit)

    def _share(self) -> None:
        """Give every flow its max-min fair speed."""
        now = self._clock.now_ps
        kinds = tuple([flow.kind for flow in self._flows])
        found = self._shares.get(kinds)
        if found is None:
            found = self._speeds(list(self._flows))
            if len(self._shares) < _MOST_SHARES:
                self._shares[kinds] = found
        for flow, speed, slowed_by in zip(self._flows, *found, strict=True):
            if speed != flow.speed or not flow.version:
                flow.left_ps = max(flow.left_ps - (now - flow.updated_ps) * flow.speed, 0.0)
                flow.updated_ps = now
                flow.speed = speed
                self._schedule(flow)
            limit = slowed_by or flow.own_limit
            if limit != flow.limit:
                flow.pace(limit, now)

    def _speeds(self, flows: Sequence[Flow]) -> tuple[list[float], list[str]]:
        rates, limits = max_min_rates(flows, self._capacities)
        speeds = [rates[flow] / flow.demand if flow.demand > 0 else 1.0 for flow in flows]
        return speeds, [self._names[limits[flow]] if flow in limits else "" for flow in flows]


def max_min_rates(flows: Sequence[Flow], capacities: Sequence[float]) -> tuple[Rates, dict[Flow, int]]:
    """Return the rate of each flow, and the port that holds a flow below its demand.

    Progressive filling: the level rises for all flows together; a flow stops at its demand, or when a port
    that it uses is full.
    """
    rates: Rates = {}
    limits: dict[Flow, int] = {}
    spare = list(capacities)
    weights = [0.0] * len(capacities)
    for flow in flows:
        for port, weight in flow.loads:
            weights[port] += weight
    waiting = [(flow.demand, order, flow) for order, flow in enumerate(flows)]
    heapq.heapify(waiting)
    while waiting:
        level, full = min(
            ((spare[p] / weights[p], p) for p in range(len(spare)) if weights[p] > 0),
            default=(float("inf"), -1),
        )
        if waiting[0][0] <= level * (1 + 1e-12):
            frozen = [heapq.heappop(waiting)[2]]
        else:
            frozen = [flow for _, _, flow in waiting if any(port == full for port, _ in flow.loads)]
            chosen = set(map(id, frozen))
            waiting = [entry for entry in waiting if id(entry[2]) not in chosen]
            heapq.heapify(waiting)
            for flow in frozen:
                limits[flow] = full
        for flow in frozen:
            rate = rates[flow] = level if flow in limits else flow.demand
            for port, weight in flow.loads:
                spare[port] = max(spare[port] - weight * rate, 0.0)
                weights[port] -= weight
                if weights[port] < _DUST:
                    weights[port] = 0.0
    return rates, limits
