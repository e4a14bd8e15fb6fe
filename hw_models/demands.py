"""Demands of instructions on their unit and on the memories of one run; equal instructions are worked out once."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from hw_models.machine import Machine, Members, Service
from hw_models.program import CHIP, Buffer, Compute, Instruction, Program, ProgramError, Transfer, base_name
from hw_models.quantities import PS_PER_S

Loads = tuple[tuple[int, float], ...]


class PortBuffer(NamedTuple):
    """A buffer's space in one memory: which port, how many bytes of one copy of it."""

    port: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What alike members need of their unit, and of each memory while they do one payload each (or some blocks)."""

    members: int
    """How many members of the unit do it."""
    startup_ps: int
    duration_ps: float
    """After the start-up, when nobody else uses the memories; no flow if that is zero and nothing is moved."""
    bytes_per_ps: float
    """Of one member, then."""
    loads: Loads
    """Per port: how often each of these bytes crosses one copy of it."""
    limit: str
    """What sets the pace then: the unit, or a memory."""
    traffic_bytes: Loads
    """Per port: what all members together move in all copies."""
    moves: bool
    """Whether there is anything to do after the start-up."""


class Cohort(NamedTuple):
    """Alike members of a unit, under one parent, that were handed blocks at the same moment: as many each."""

    alike: int
    """Which of the unit's kinds of members."""
    members: int
    blocks: int
    """That each of them holds."""


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
        self._known: dict[tuple[object, ...], tuple[Demand, ...]] = {}
        self._known_cohorts: dict[tuple[object, ...], Demand] = {}
        self._known_spaces: dict[tuple[object, ...], list[PortBuffer]] = {}

    def _port_names(self) -> list[str]:
        program = self._program
        if not program.is_unrolled:
            return list(self._machine.memories)
        members = {b.memory for b in program.buffers}
        for payload in (instruction.payload for instruction in program.instructions):
            if isinstance(payload, Transfer):
                members.update((payload.source, payload.destination))
            elif isinstance(payload, Compute):
                members.update(memory for memory, _ in payload.traffic)
        return sorted({one for name in members for one in program.groups.get(name, (name,))})

    def of(self, instruction: Instruction) -> tuple[Demand, ...]:
        """Return what bound work asks for, one entry per kind of member that takes part.

        Raises ``ProgramError`` for what its unit does not do.
        """
        key = instruction.unit, instruction.participants, instruction.payload
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = tuple(self._bound(instruction))
        return known

    def _bound(self, instruction: Instruction) -> list[Demand]:
        program, unit = self._program, self._machine.units[base_name(instruction.unit)]
        if program.is_unrolled:
            return [self._find(instruction, _kind_of(unit.members, instruction.unit), 1, 1.0)]
        executions = program.executions(instruction)
        if len(unit.members) == 1:
            share = executions / program.multiplicity(instruction.unit)
            return [self._find(instruction, unit.members[0], executions, share)]
        left = executions // program.parents(instruction.unit)
        found = []
        for number, alike in enumerate(unit.members):
            part = min(alike.count, left)
            found += [self.of_cohort(instruction, Cohort(number, part, 1))] if part else []
            left -= part
        return found

    def _find(self, instruction: Instruction, alike: Members, members: int, share: float) -> Demand:
        """Return the demand of ``members`` that do one payload each; ``share`` of the unit's members take part."""
        service = _service(alike, instruction, 1)
        depth = self._unit_depth[base_name(instruction.unit)]
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
        moves = bool(service.duration_ps or service.bytes_moved)
        return Demand(
            members, service.startup_ps, duration_ps, rate, tuple(loads.items()), limit, tuple(traffic), moves
        )

    def of_cohort(self, instruction: Instruction, cohort: Cohort) -> Demand:
        """Return what ``cohort`` asks for, under all parents together, while it does its blocks.

        Nobody else uses the memories of these members meanwhile, since a member holds blocks of one instruction at a
        time: they bound the pace, and only memories further out are shared with others.
        """
        key = instruction.unit, instruction.payload, cohort
        known = self._known_cohorts.get(key)
        if known is None:
            known = self._known_cohorts[key] = self._cohort(instruction, cohort)
        return known

    def _cohort(self, instruction: Instruction, cohort: Cohort) -> Demand:
        unit = self._machine.units[base_name(instruction.unit)]
        service = _service(unit.members[cohort.alike], instruction, cohort.blocks)
        depth, parents = self._unit_depth[unit.name], self._program.parents(instruction.unit)
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
        shared = tuple((port, weight) for port, weight in alone.loads if not self._is_own(port, depth))
        return replace(alone, loads=shared, limit=base_name(alone.limit))

    def _is_own(self, port: int, unit_depth: int) -> bool:
        """Return whether a memory is one of the members' own."""
        return self._depths[port] >= unit_depth > 0

    def _ports(self, memory: str) -> list[int]:
        group = self._program.groups.get(memory)
        return [self._position[name] for name in ((memory,) if group is None else group)]

    def _taking_part(self, port: int, unit_depth: int, share: float) -> float:
        """Return the share of a memory's copies that have a part in it: those of idle members have none."""
        return share if self._depths[port] >= unit_depth else 1.0

    def space(self, buffer: Buffer, instruction: Instruction) -> list[PortBuffer]:
        """Return what ``buffer`` takes of each memory when ``instruction`` allocates it."""
        key = buffer.memory, buffer.size_bytes * buffer.fan_out, instruction.unit, instruction.participants
        known = self._known_spaces.get(key)
        if known is None:
            known = self._known_spaces[key] = self._find_space(buffer, instruction)
        return known

    def _find_space(self, buffer: Buffer, instruction: Instruction) -> list[PortBuffer]:
        """Return the space per port; memories of the members themselves hold as much as one that takes part needs."""
        program, depth = self._program, self._unit_depth[base_name(instruction.unit)]
        if instruction.blocks:
            every = taking_part = program.parents(instruction.unit)
        else:
            every, taking_part = program.multiplicity(instruction.unit), program.executions(instruction)
        found = []
        ports = self._ports(buffer.memory)
        for port in ports:
            copies = self._copies[port] * len(ports)
            members = every if self._depths[port] >= depth else taking_part
            found.append(PortBuffer(port, -(-buffer.size_bytes * buffer.fan_out * members // copies)))
        return found


def _service(alike: Members, instruction: Instruction, blocks: int) -> Service:
    try:
        return alike.serve(instruction.payload, blocks)
    except ProgramError as error:
        raise ProgramError(f"{instruction.label}: {error}") from error


def _kind_of(members: tuple[Members, ...], unit: str) -> Members:
    """Return what the member of an unrolled unit is like: the last number of its name counts members of a parent."""
    number = int(unit.rpartition("[")[2].rstrip("]").rpartition(".")[2]) if "[" in unit else 0
    for alike in members:
        if number < alike.count:
            return alike
        number -= alike.count
    raise ProgramError(f"there is no {unit}")
