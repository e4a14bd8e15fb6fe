"""Demands of instructions on their unit and on the memories of one run, cached per distinct work."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dsascape.hw_models.simulation.clock import whole_ps
from dsascape.hw_models.simulation.instructions import CHIP, Buffer, Compute, ProgramError, Transfer, Work, base_name
from dsascape.hw_models.simulation.machine import Machine, Members, Service, SimulationError
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.text.quantities import PS_PER_S, format_bytes

Loads = tuple[tuple[int, float], ...]
"""Pairs of a port and its load; the unit of the load is stated where it is used."""


class PortBuffer(NamedTuple):
    """Space of a buffer in one memory: the port, and bytes of one copy of the memory."""

    port: int
    size_bytes: int


class Demand(NamedTuple):
    """Time and memory loads of equivalent members that execute one payload each (or some blocks)."""

    members: int
    """Number of members of the unit that take part."""
    startup_ps: int
    duration_ps: float
    """Duration after the start-up without contention; with 0 and no bytes to move there is no flow."""
    whole_ps: int
    """``duration_ps`` rounded up to a whole picosecond."""
    bytes_per_ps: float
    """Rate of one member without contention."""
    loads: Loads
    """Per port, how often each byte of a member's rate crosses one copy of the memory."""
    port_bytes_per_ps: Loads
    """Per port, bytes per picosecond that cross one copy of the memory without contention."""
    limit: str
    """Limiting resource without contention: the unit, or a memory."""
    traffic_bytes: Loads
    """Per port, bytes moved by all members in all copies of the memory."""
    moves: bool
    """Whether anything is left to do after the start-up."""
    number: int
    """Identity within a run: demands with the same number are equal."""


class Bound(NamedTuple):
    """Demands of bound work, one per group of equivalent members that takes part."""

    parts: tuple[Demand, ...]
    startup_ps: int
    """Longest start-up time of the parts, in ps."""
    members: int
    """Number of members that take part, over all parts."""


class MemberGroup(NamedTuple):
    """Equivalent members of a unit under one parent, such as SMs, that got the same number of blocks at one time."""

    kind: int
    """Index of their record in `Unit.members`."""
    members: int
    blocks: int
    """Blocks that each member holds."""


_ONE_BLOCK = MemberGroup(0, 1, 1)


class Demands:
    """Ports (memories) of one run of ``program`` on ``machine``, and the demands of its works on them.

    In an unrolled program every copy of a memory is a port; otherwise one port stands for all its copies.
    """

    def __init__(self, program: Program, machine: Machine) -> None:
        self._program = program
        self.machine = machine
        self.names = self._port_names()
        self._position = {name: place for place, name in enumerate(self.names)}
        memories = [machine.memories[base_name(name)] for name in self.names]
        self._levels = [memory.level for memory in memories]
        self._copies = [program.count(level) for level in self._levels]
        self.capacities_bytes = [memory.capacity_bytes for memory in memories]
        self.bytes_per_ps = [memory.bandwidth_bytes_per_s / PS_PER_S for memory in memories]
        depth = {CHIP: 0} | {level.name: number + 1 for number, level in enumerate(machine.levels)}
        self._depths = [depth[level] for level in self._levels]
        self._unit_depth = {name: depth[unit.level] for name, unit in machine.units.items()}
        self._count = 0
        self._bounds: dict[int, Bound] = {}
        self._group_demands: dict[tuple[object, ...], Demand] = {}
        self._spaces: dict[tuple[object, ...], list[PortBuffer]] = {}

    def _port_names(self) -> list[str]:
        program = self._program
        if not program.is_unrolled:
            return list(self.machine.memories)
        members = {b.memory for b in program.buffers.distinct}
        for payload in (work.payload for work in program.instructions.works):
            if isinstance(payload, Transfer):
                members.update(name for name in (payload.source, payload.destination, payload.link) if name)
            elif isinstance(payload, Compute):
                members.update(memory for memory, _ in payload.traffic)
        return sorted({one for name in members for one in program.groups.get(name, (name,))})

    def of(self, number: int) -> Bound:
        """Return the demands of bound work; ``number`` is its index among the program's works.

        Raises ``ProgramError`` for a payload that its unit cannot execute.
        """
        bound = self._bounds.get(number)
        if bound is None:
            parts = tuple(self._bound(number))
            startup_ps, members = max([part.startup_ps for part in parts]), sum([part.members for part in parts])
            bound = self._bounds[number] = Bound(parts, startup_ps, members)
        return bound

    def _bound(self, number: int) -> list[Demand]:
        work = self._program.instructions.works[number]
        program, unit = self._program, self.machine.units[base_name(work.unit)]
        if program.is_unrolled:
            return [self._find(work, _kind_of(unit.members, work.unit), 1, 1.0)]
        executions = program.executions(work)
        if len(unit.members) == 1:
            share = executions / program.multiplicity(work.unit)
            return [self._find(work, unit.members[0], executions, share)]
        left = executions // program.parents(work.unit)
        demands = []
        for place, group in enumerate(unit.members):
            part = min(group.count, left)
            demands += [self.of_group(number, MemberGroup(place, part, 1))] if part else []
            left -= part
        return demands

    def _find(self, work: Work, group: Members, members: int, share: float) -> Demand:
        """Return the demand of ``members`` that execute one payload each; ``share`` of the unit's members take part."""
        service = group.serve(work.payload, 1)
        depth = self._unit_depth[base_name(work.unit)]
        loads: dict[int, float] = {}
        for memory, times in service.touches if service.bytes_moved else ():
            ports = self._ports(memory)
            for port in ports:
                sharing = members / (self._copies[port] * len(ports) * self._taking_part(port, depth, share))
                loads[port] = loads.get(port, 0.0) + times * sharing
        traffic = [
            (port, weight * service.bytes_moved * self._copies[port] * self._taking_part(port, depth, share))
            for port, weight in loads.items()
        ]
        return self._demand(members, service, loads, traffic)

    def _demand(
        self, members: int, service: Service, loads: Mapping[int, float], traffic: Iterable[tuple[int, float]]
    ) -> Demand:
        """Return the demand of members with ``service``, at the rate of the slowest of the unit and their memories."""
        rate = full = service.bytes_moved / service.duration_ps if service.duration_ps else math.inf
        limit = service.limit
        for port, weight in loads.items():
            alone = self.bytes_per_ps[port] / weight
            if alone < rate:
                rate, limit = alone, self.names[port]
        duration_ps = service.bytes_moved / rate if rate < full else service.duration_ps
        crossing = tuple([(port, weight * rate) for port, weight in loads.items()])
        moves = bool(service.duration_ps or service.bytes_moved)
        self._count += 1
        return Demand(
            members, service.startup_ps, duration_ps, whole_ps(duration_ps), rate, tuple(loads.items()), crossing,
            limit, tuple(traffic), moves, self._count,
        )  # fmt: skip

    def of_group(self, number: int, group: MemberGroup) -> Demand:
        """Return the demand of ``group``, summed over all parents, for its blocks of work ``number``.

        A member holds blocks of one instruction at a time, so its private memories are not contended for: they bound
        the rate, and only loads on outer memories are shared with others.
        """
        key = number, group
        demand = self._group_demands.get(key)
        if demand is None:
            demand = self._group_demands[key] = self._of_members(self._program.instructions.works[number], group)
        return demand

    def _of_members(self, work: Work, group: MemberGroup) -> Demand:
        unit = self.machine.units[base_name(work.unit)]
        service = unit.members[group.kind].serve(work.payload, group.blocks)
        depth, parents = self._unit_depth[unit.name], self._program.parents(work.unit)
        members, every = group.members * parents, self._program.width(unit.level) * parents
        loads: dict[int, float] = {}
        traffic: dict[int, float] = {}
        for memory, times in service.touches if service.bytes_moved else ():
            ports = self._ports(memory)
            for port in ports:
                sharing = every if self._is_own(port, depth) else members
                loads[port] = loads.get(port, 0.0) + times * sharing / (self._copies[port] * len(ports))
                traffic[port] = traffic.get(port, 0.0) + times * members * service.bytes_moved / len(ports)
        alone = self._demand(members, service, loads, traffic.items())
        shared, crossing = [
            tuple([(port, load) for port, load in each if not self._is_own(port, depth)])
            for each in (alone.loads, alone.port_bytes_per_ps)
        ]
        return alone._replace(loads=shared, port_bytes_per_ps=crossing, limit=base_name(alone.limit))

    def moved_bytes(self, number: int) -> dict[str, float]:
        """Return the bytes by memory that one instruction with that work moves, over all its members and blocks.

        Empty for a payload that its unit cannot execute.
        """
        work, moved = self._program.instructions.works[number], dict[str, float]()
        try:
            demands = (self.of_group(number, _ONE_BLOCK),) if work.blocks else self.of(number).parts
        except ProgramError:
            return moved
        for demand in demands:
            for port, size_bytes in demand.traffic_bytes:
                name = base_name(self.names[port])
                moved[name] = moved.get(name, 0.0) + size_bytes * (work.blocks or 1)
        return moved

    def _is_own(self, port: int, unit_depth: int) -> bool:
        """Return whether a memory is private to the members of a unit at that depth of the hierarchy."""
        return self._depths[port] >= unit_depth > 0

    def _ports(self, memory: str) -> list[int]:
        group = self._program.groups.get(memory)
        return [self._position[name] for name in ((memory,) if group is None else group)]

    def _taking_part(self, port: int, unit_depth: int, share: float) -> float:
        """Return the share of a memory's copies that are used: copies of idle members are not."""
        return share if self._depths[port] >= unit_depth else 1.0

    def space(self, buffer: Buffer, number: int) -> list[PortBuffer]:
        """Return the space of ``buffer`` per port when work ``number`` allocates it.

        Raises ``SimulationError`` for a buffer that is larger than its memory.
        """
        key = buffer.memory, buffer.size_bytes * buffer.fan_out, number
        parts = self._spaces.get(key)
        if parts is None:
            parts = self._spaces[key] = self._find_space(buffer, self._program.instructions.works[number])
        return parts

    def _find_space(self, buffer: Buffer, work: Work) -> list[PortBuffer]:
        """Return the space per port; a private memory holds what a member that takes part needs."""
        program, depth = self._program, self._unit_depth[base_name(work.unit)]
        if work.blocks:
            every = taking_part = program.parents(work.unit)
        else:
            every, taking_part = program.multiplicity(work.unit), program.executions(work)
        parts = []
        ports = self._ports(buffer.memory)
        for port in ports:
            copies = self._copies[port] * len(ports)
            members = every if self._depths[port] >= depth else taking_part
            parts.append(PortBuffer(port, -(-buffer.size_bytes * buffer.fan_out * members // copies)))
        for port, size_bytes in parts:
            if size_bytes > self.capacities_bytes[port]:
                raise SimulationError(
                    f"buffer {buffer.label!r} needs {format_bytes(size_bytes)}, a"
                    f" {base_name(self.names[port])} holds {format_bytes(self.capacities_bytes[port])}"
                )
        return parts


def _kind_of(members: tuple[Members, ...], unit: str) -> Members:
    """Return the group of an unrolled unit's member: the last number of its name counts members of a parent."""
    number = int(unit.rpartition("[")[2].rstrip("]").rpartition(".")[2]) if "[" in unit else 0
    for group in members:
        if number < group.count:
            return group
        number -= group.count
    raise ProgramError(f"there is no {unit}")
