"""What an instruction asks of its unit and of the memories of one run; equal instructions are worked out once."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from hw_models.machine import Machine
from hw_models.program import AnyInstruction, Buffer, MatrixCompute, Program, Transfer, VectorCompute, base_name
from hw_models.quantities import PS_PER_S

Loads = tuple[tuple[int, float], ...]


class PortBuffer(NamedTuple):
    """A buffer's space in one memory: which port, how many bytes of one copy of it."""

    port: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What one instruction needs of its unit, and of each memory while it runs."""

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
    """Per port: what the whole instruction moves, all copies and members together."""
    moves: bool
    """Whether there is anything to do after the start-up."""


class Demands:
    """The memories of one run of ``program`` on ``machine``, one port each, and what instructions want of them.

    In an unrolled program every member of a memory is a port; else one port stands for all of a kind.
    """

    def __init__(self, program: Program, machine: Machine) -> None:
        self._program = program
        self._machine = machine
        self._is_unrolled = program.is_unrolled
        self.names = self._port_names()
        self._position = {name: place for place, name in enumerate(self.names)}
        active = {"local_buffer": program.clusters * program.cores, "global_buffer": program.clusters}
        self._copies = [
            1 if self._is_unrolled else active.get(name, machine.memories[name].copies) for name in self.names
        ]
        memories = [machine.memories[base_name(name)] for name in self.names]
        self.capacities_bytes = [memory.capacity_bytes for memory in memories]
        self.bytes_per_ps = [memory.bandwidth_bytes_per_s / PS_PER_S for memory in memories]
        self._known: dict[tuple[object, ...], Demand] = {}
        self._known_spaces: dict[tuple[object, ...], list[PortBuffer]] = {}

    def _port_names(self) -> list[str]:
        program = self._program
        if not self._is_unrolled:
            return list(self._machine.memories)
        members = {b.memory for b in program.buffers if b.memory not in program.members}
        members.update(m for group in program.members.values() for m in group)
        for instruction in program.instructions:
            if isinstance(instruction, Transfer):
                members.update({instruction.source, instruction.destination} - program.members.keys())
            else:
                members.add(_own_memory(instruction))
        return sorted(members)

    def of(self, instruction: AnyInstruction) -> Demand:
        """Return what ``instruction`` asks for; raise ``ProgramError`` for what its unit does not do."""
        key = _key(instruction)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._find(instruction)
        return known

    def _find(self, instruction: AnyInstruction) -> Demand:
        service = self._machine.units[base_name(instruction.unit)].serve(instruction)
        members = self._program.members_of(instruction)
        loads = self._loads(instruction, service.touches, members) if service.bytes_moved else ()
        rate = full = service.bytes_moved / service.duration_ps if service.duration_ps else math.inf
        limit = service.limit
        for port, weight in loads:
            alone = self.bytes_per_ps[port] / weight
            if alone < rate:
                rate, limit = alone, self.names[port]
        duration_ps = service.bytes_moved / rate if rate < full else service.duration_ps
        traffic = tuple(
            (port, weight * service.bytes_moved * self._copies[port] * self._taking_part(instruction, port))
            for port, weight in loads
        )
        moves = bool(service.duration_ps or service.bytes_moved)
        return Demand(members, service.startup_ps, duration_ps, rate, loads, limit, traffic, moves)

    def _ports(self, memory: str) -> list[int]:
        group = self._program.members.get(memory)
        return [self._position[name] for name in ((memory,) if group is None else group)]

    def _loads(self, instruction: AnyInstruction, touches: tuple[tuple[str, float], ...], members: int) -> Loads:
        """Return the load that one byte per second of this instruction puts on one copy of each memory."""
        loads: dict[int, float] = {}
        for memory, times in touches:
            own = self._is_unrolled and not isinstance(instruction, Transfer)
            ports = self._ports(_own_memory(instruction) if own else memory)
            for port in ports:
                share = members / (self._copies[port] * len(ports) * self._taking_part(instruction, port))
                loads[port] = loads.get(port, 0.0) + times * share
        return tuple(loads.items())

    def _taking_part(self, instruction: AnyInstruction, port: int) -> float:
        """Return the share of a memory's copies that have a part in it: local buffers of idle cores have none."""
        if not instruction.active_cores or self.names[port] != "local_buffer":
            return 1.0
        return self._program.members_of(instruction) / self._program.multiplicity(instruction.unit)

    def space(self, buffer: Buffer, instruction: AnyInstruction) -> list[PortBuffer]:
        """Return what ``buffer`` takes of each memory when ``instruction`` allocates it."""
        key = buffer.memory, buffer.size_bytes * buffer.fan_out, instruction.unit, instruction.active_cores
        known = self._known_spaces.get(key)
        if known is None:
            known = self._known_spaces[key] = self._find_space(buffer, instruction)
        return known

    def _find_space(self, buffer: Buffer, instruction: AnyInstruction) -> list[PortBuffer]:
        found = []
        ports = self._ports(buffer.memory)
        for port in ports:
            copies = self._copies[port] * len(ports)
            own = self.names[port] == "local_buffer"  # as much as a core that takes part needs
            members = self._program.multiplicity(instruction.unit) if own else self._program.members_of(instruction)
            found.append(PortBuffer(port, -(-buffer.size_bytes * buffer.fan_out * members // copies)))
        return found


def _own_memory(instruction: AnyInstruction) -> str:
    """Return the local buffer beside an unrolled unit."""
    return f"local_buffer[{instruction.unit.partition('[')[2]}" if "." in instruction.unit else "ddr"


def _key(work: AnyInstruction) -> tuple[object, ...]:
    """Return what an instruction's demand depends on."""
    if isinstance(work, Transfer):
        what: tuple[object, ...] = work.source, work.destination, work.size_bytes, work.fan_out, work.bursts
    elif isinstance(work, MatrixCompute):
        what = work.dtype, work.rows, work.columns, work.depth, work.count, work.local_bytes
    elif isinstance(work, VectorCompute):
        what = work.dtype, work.macs, work.simple, work.special, work.local_bytes
    else:
        what = ()
    return type(work), work.unit, work.active_cores, what
