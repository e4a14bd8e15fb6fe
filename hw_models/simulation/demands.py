"""Demands of instructions on their unit and on the memories of one run; equal instructions are worked out once."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dsascape.hw_models.simulation.clock import whole_ps
from dsascape.hw_models.simulation.instructions import CHIP, Buffer, Compute, ProgramError, Transfer, Work, base_name
from dsascape.hw_models.simulation.machine import Machine, Members, Service, SimulationError
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.text.quantities import PS_PER_S, format_bytes

Loads = tuple[tuple[int, float], ...]


class PortBuffer(NamedTuple):
    """A buffer's space in one memory: which port, how many bytes of one copy of it."""

    port: int
    size_bytes: int


class Demand(NamedTuple):
    """What alike members need of their unit, and of each memory while they do one payload each (or some blocks)."""

    members: int
    """How many members of the unit do it."""
    startup_ps: int
    duration_ps: float
    """After the start-up, when nobody else uses the memories; no flow if that is zero and nothing is moved."""
    whole_ps: int
    """That, rounded up."""
    bytes_per_ps: float
    """Of one member, then."""
    loads: Loads
    """Per port: how often each of these bytes crosses one copy of it."""
    port_bytes_per_ps: Loads
    """Per port: what crosses one copy of it then."""
    limit: str
    """What sets the pace then: the unit, or a memory."""
    traffic_bytes: Loads
    """Per port: what all members together move in all copies."""
    moves: bool
    """Whether there is anything to do after the start-up."""
    number: int
    """Demands of one run with the same number are equal."""


class Bound(NamedTuple):
    """What bound work asks for, one entry per kind of member that takes part."""

    parts: tuple[Demand, ...]
    startup_ps: int
    """The longest."""
    members: int
    """All that take part."""


class Cohort(NamedTuple):
    """Alike members of a unit, under one parent, that were handed blocks at the same moment: as many each."""

    alike: int
    """Which of the unit's kinds of members."""
    members: int
    blocks: int
    """That each of them holds."""


_ONE_BLOCK = Cohort(0, 1, 1)


class Demands:
    """The memories of one run of ``program`` on ``machine``, one port each, and what instructions want of them.

    In an unrolled program every member of a memory is a port; else one port stands for all of a kind.
    """

    def __init__(self, program: Program, machine: Machine) -> None:
        self._program = program
        self._machine = machine
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
        self._made = 0
        self._known: dict[int, Bound] = {}
        self._known_cohorts: dict[tuple[object, ...], Demand] = {}
        self._known_spaces: dict[tuple[object, ...], list[PortBuffer]] = {}

    def _port_names(self) -> list[str]:
        program = self._program
        if not program.is_unrolled:
            return list(self._machine.memories)
        members = {b.memory for b in program.buffers.distinct}
        for payload in (work.payload for work in program.instructions.works):
            if isinstance(payload, Transfer):
                members.update((payload.source, payload.destination))
            elif isinstance(payload, Compute):
                members.update(memory for memory, _ in payload.traffic)
        return sorted({one for name in members for one in program.groups.get(name, (name,))})

    def of(self, number: int) -> Bound:
        """Return what bound work asks for; ``number`` is its place among the program's works.

        Raises ``ProgramError`` for what its unit does not do.
        """
        known = self._known.get(number)
        if known is None:
            parts = tuple(self._bound(number))
            startup_ps, members = max([part.startup_ps for part in parts]), sum([part.members for part in parts])
            known = self._known[number] = Bound(parts, startup_ps, members)
        return known

    def _bound(self, number: int) -> list[Demand]:
        work = self._program.instructions.works[number]
        program, unit = self._program, self._machine.units[base_name(work.unit)]
        if program.is_unrolled:
            return [self._find(work, _kind_of(unit.members, work.unit), 1, 1.0)]
        executions = program.executions(work)
        if len(unit.members) == 1:
            share = executions / program.multiplicity(work.unit)
            return [self._find(work, unit.members[0], executions, share)]
        left = executions // program.parents(work.unit)
        found = []
        for place, alike in enumerate(unit.members):
            part = min(alike.count, left)
            found += [self.of_cohort(number, Cohort(place, part, 1))] if part else []
            left -= part
        return found

    def _find(self, work: Work, alike: Members, members: int, share: float) -> Demand:
        """Return the demand of ``members`` that do one payload each; ``share`` of the unit's members take part."""
        service = alike.serve(work.payload, 1)
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
        """Return the demand of members that need ``service``, at the pace of the slowest of their memories."""
        rate = full = service.bytes_moved / service.duration_ps if service.duration_ps else math.inf
        limit = service.limit
        for port, weight in loads.items():
            alone = self.bytes_per_ps[port] / weight
            if alone < rate:
                rate, limit = alone, self.names[port]
        duration_ps = service.bytes_moved / rate if rate < full else service.duration_ps
        crossing = tuple([(port, weight * rate) for port, weight in loads.items()])
        moves = bool(service.duration_ps or service.bytes_moved)
        self._made += 1
        return Demand(
            members, service.startup_ps, duration_ps, whole_ps(duration_ps), rate, tuple(loads.items()), crossing,
            limit, tuple(traffic), moves, self._made,
        )  # fmt: skip

    def of_cohort(self, number: int, cohort: Cohort) -> Demand:
        """Return what ``cohort`` asks for, under all parents together, while it does its blocks of work ``number``.

        Nobody else uses the memories of these members meanwhile, since a member holds blocks of one instruction at a
        time: they bound the pace, and only memories further out are shared with others.
        """
        key = number, cohort
        known = self._known_cohorts.get(key)
        if known is None:
            known = self._known_cohorts[key] = self._cohort(self._program.instructions.works[number], cohort)
        return known

    def _cohort(self, work: Work, cohort: Cohort) -> Demand:
        unit = self._machine.units[base_name(work.unit)]
        service = unit.members[cohort.alike].serve(work.payload, cohort.blocks)
        depth, parents = self._unit_depth[unit.name], self._program.parents(work.unit)
        members, every = cohort.members * parents, self._program.width(unit.level) * parents
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
        """Return by memory what all that take part in an instruction with that work move together, in all its blocks.

        Empty for work that its unit does not do.
        """
        work, found = self._program.instructions.works[number], dict[str, float]()
        try:
            asked = (self.of_cohort(number, _ONE_BLOCK),) if work.blocks else self.of(number).parts
        except ProgramError:
            return found
        for each in asked:
            for port, size_bytes in each.traffic_bytes:
                name = base_name(self.names[port])
                found[name] = found.get(name, 0.0) + size_bytes * (work.blocks or 1)
        return found

    def _is_own(self, port: int, unit_depth: int) -> bool:
        """Return whether a memory is one of the members' own."""
        return self._depths[port] >= unit_depth > 0

    def _ports(self, memory: str) -> list[int]:
        group = self._program.groups.get(memory)
        return [self._position[name] for name in ((memory,) if group is None else group)]

    def _taking_part(self, port: int, unit_depth: int, share: float) -> float:
        """Return the share of a memory's copies that have a part in it: those of idle members have none."""
        return share if self._depths[port] >= unit_depth else 1.0

    def space(self, buffer: Buffer, number: int) -> list[PortBuffer]:
        """Return what ``buffer`` takes of each memory when that work allocates it; raise what can never fit."""
        key = buffer.memory, buffer.size_bytes * buffer.fan_out, number
        known = self._known_spaces.get(key)
        if known is None:
            known = self._known_spaces[key] = self._find_space(buffer, self._program.instructions.works[number])
        return known

    def _find_space(self, buffer: Buffer, work: Work) -> list[PortBuffer]:
        """Return the space per port; memories of the members themselves hold as much as one that takes part needs."""
        program, depth = self._program, self._unit_depth[base_name(work.unit)]
        if work.blocks:
            every = taking_part = program.parents(work.unit)
        else:
            every, taking_part = program.multiplicity(work.unit), program.executions(work)
        found = []
        ports = self._ports(buffer.memory)
        for port in ports:
            copies = self._copies[port] * len(ports)
            members = every if self._depths[port] >= depth else taking_part
            found.append(PortBuffer(port, -(-buffer.size_bytes * buffer.fan_out * members // copies)))
        for port, size_bytes in found:
            if size_bytes > self.capacities_bytes[port]:
                raise SimulationError(
                    f"buffer {buffer.label!r} needs {format_bytes(size_bytes)}, a"
                    f" {base_name(self.names[port])} holds {format_bytes(self.capacities_bytes[port])}"
                )
        return found


def _kind_of(members: tuple[Members, ...], unit: str) -> Members:
    """Return what the member of an unrolled unit is like: the last number of its name counts members of a parent."""
    number = int(unit.rpartition("[")[2].rstrip("]").rpartition(".")[2]) if "[" in unit else 0
    for alike in members:
        if number < alike.count:
            return alike
        number -= alike.count
    raise ProgramError(f"there is no {unit}")
