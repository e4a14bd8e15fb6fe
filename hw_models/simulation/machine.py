"""A machine as the simulator sees it: levels of members, memories with capacity and bandwidth, units that serve.

A machine kind builds one from its spec (`hw_models.dsa.machine`); nothing here knows any kind.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dsascape.hw_models.simulation.instructions import (
    CHIP,
    Buffer,
    BufferTable,
    Compute,
    Instruction,
    InstructionTable,
    Payload,
    ProgramError,
    Transfer,
    Work,
    base_name,
)
from dsascape.hw_models.simulation.program import Program
from dsascape.hw_models.text.quantities import PS_PER_S


class HardwareError(ValueError):
    """A hardware description that the user has to mend."""


class SimulationError(ValueError):
    """The machine cannot run the program: something does not fit, or everything waits for everything."""


@dataclass(frozen=True, slots=True)
class Level:
    """A kind of place where units and memories are: ``count`` members under one member of the level above."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Memory:
    """One kind of memory, once per member of its level. Capacity and bandwidth are those of one copy."""

    name: str
    level: str
    capacity_bytes: int
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Service:
    """What one member of a unit needs for a payload, or for the blocks that it holds, when nobody is in its way."""

    startup_ps: int
    duration_ps: int
    """After the start-up, at full speed."""
    bytes_moved: int
    touches: tuple[tuple[str, float], ...]
    """Memories, and how often each of ``bytes_moved`` crosses their port for one member."""
    limit: str
    """What sets ``duration_ps``."""


Serve = Callable[[Payload, int], Service]
"""From a payload, and how many blocks of it a member holds at once (1 for bound work), to what the member needs."""


@dataclass(frozen=True, slots=True)
class Members:
    """``count`` members of a unit under one parent that are alike."""

    count: int
    serve: Serve


@dataclass(frozen=True, slots=True)
class Unit:
    """One kind of unit: its members under one parent, the fastest kind first where they differ."""

    name: str
    level: str
    members: tuple[Members, ...]
    servers: int = 1
    """How many instructions of its queue one member serves at a time."""
    in_flight: int = 1
    """How many instructions may be issued for each of these and not have ended: with more than one, start-ups pass
    while the payloads of the instructions before are served, one after the other."""
    most_blocks: int = 0
    """The most blocks of dispatched work that one member holds at once; 0: the unit takes bound work only."""

    @property
    def width(self) -> int:
        """Members under one parent."""
        return sum(alike.count for alike in self.members)


@dataclass(frozen=True, slots=True)
class Machine:
    """All levels (outermost first, the chip itself left out), memories and units of a machine, by name."""

    name: str
    levels: tuple[Level, ...]
    memories: Mapping[str, Memory]
    units: Mapping[str, Unit]

    def __post_init__(self) -> None:
        known = {CHIP, *(level.name for level in self.levels)}
        where = [(unit.name, unit.level) for unit in self.units.values()]
        where += [(memory.name, memory.level) for memory in self.memories.values()]
        for name, level in where:
            if level not in known:
                raise ProgramError(f"{self.name}: {name} is on level {level!r}; there is {', '.join(sorted(known))}")
        for unit in self.units.values():
            if unit.width != self.width(unit.level):
                raise ProgramError(
                    f"{self.name}: {unit.name} has {unit.width} members in a {unit.level}'s parent,"
                    f" where there are {self.width(unit.level)}"
                )

    def width(self, level: str) -> int:
        """Return the members of ``level`` under one member of the level above."""
        return next((known.count for known in self.levels if known.name == level), 1)

    def count(self, level: str) -> int:
        """Return the members of ``level`` in the whole machine."""
        names = [known.name for known in self.levels]
        depth = names.index(level) + 1 if level in names else 0
        return math.prod(known.count for known in self.levels[:depth])

    def program(
        self, instructions: Sequence[Instruction], buffers: Sequence[Buffer] = (), **in_use: int
    ) -> Program:
        """Return a program for this machine; ``in_use`` is the part of its levels that takes part, all by default."""
        table = instructions if isinstance(instructions, InstructionTable) else InstructionTable.of(instructions)
        extent = {level.name: in_use.get(level.name, level.count) for level in self.levels}
        units = {name: unit.level for name, unit in self.units.items()}
        memories = {name: memory.level for name, memory in self.memories.items()}
        held = buffers if isinstance(buffers, BufferTable) else BufferTable.of(buffers)
        return Program(table, held, extent, units, memories)


def ceil_ps(amount: float, rate_per_s: float) -> int:
    """Return the whole picoseconds that ``amount`` takes at ``rate_per_s``."""
    return -int(-amount * PS_PER_S // rate_per_s)


def check_program(program: Program, machine: Machine) -> None:
    """Raise ``ProgramError`` if ``program`` needs a unit, memory or place that ``machine`` does not have."""
    has = {level.name: level.count for level in machine.levels}
    if not program.is_unrolled and any(count > has.get(level, 1) for level, count in program.extent.items()):
        raise ProgramError(f"the program runs on {_shown(program.extent)}, {machine.name} has {_shown(has)}")
    for name, level in program.units.items():
        known = machine.units.get(base_name(name))
        if known is not None and known.level != level:
            raise ProgramError(f"{machine.name} has {name} once per {known.level}, the program per {level}")
    labels: dict[str, str] = {}
    for buffer in program.buffers.distinct:
        labels.setdefault(buffer.memory, buffer.label)
    for memory, label in labels.items():
        problem = _memory_problem(memory, machine)
        if problem:
            raise ProgramError(f"buffer {label!r}: {problem}")
    table = program.instructions
    for number in dict.fromkeys(table.work_of):
        problem = _work_problem(table.works[number], machine)
        if problem:
            raise ProgramError(f"{table.labels[table.work_of.index(number)]}: {problem}")


def _work_problem(work: Work, machine: Machine) -> str:
    """Return what ``machine`` lacks for ``work``; empty if nothing."""
    unit = machine.units.get(base_name(work.unit))
    if unit is None:
        return f"{machine.name} has no unit {work.unit!r}"
    if work.blocks and work.blocks_per_member > unit.most_blocks:
        held = f"holds {unit.most_blocks} blocks at most" if unit.most_blocks else "takes bound work only"
        return f"a member of {work.unit} {held}, {work.blocks_per_member} are asked"
    problems = [_memory_problem(memory, machine) for memory in _memories(work.payload)]
    return next(filter(None, problems), "")


def _memories(payload: Payload) -> Iterable[str]:
    """Return the memories that ``payload`` reads or writes."""
    if isinstance(payload, Transfer):
        return payload.source, payload.destination
    return [memory for memory, _ in payload.traffic] if isinstance(payload, Compute) else ()


def _shown(extent: Mapping[str, int]) -> str:
    return " x ".join(f"{count} {level}" for level, count in extent.items())


def _memory_problem(memory: str, machine: Machine) -> str:
    return "" if base_name(memory) in machine.memories else f"{machine.name} has no memory {memory!r}"
