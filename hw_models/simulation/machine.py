"""Machine as the simulator sees it: levels of members, memories with capacity and bandwidth, units.

Each kind of machine builds one from its spec (`hw_models.dsa.machine`); this module is independent of the kinds.
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
from dsascape.wording import count


class HardwareError(ValueError):
    """Mistake in a hardware description; the message says what to change."""


class SimulationError(ValueError):
    """The machine cannot run the program: a buffer does not fit, or the program deadlocks."""


@dataclass(frozen=True, slots=True)
class Level:
    """Level of the hierarchy, such as cluster or core: ``count`` members under each member of the level above."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory with one copy per member of its level; capacity and bandwidth are those of one copy."""

    name: str
    level: str
    capacity_bytes: int
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Service:
    """Time and traffic of one member of a unit for a payload, or for the blocks that it holds, without contention."""

    startup_ps: int
    duration_ps: int
    """Duration after the start-up, without contention."""
    bytes_moved: int
    touches: tuple[tuple[str, float], ...]
    """Per memory, how often each of ``bytes_moved`` crosses its port, for one member."""
    limit: str
    """Limiting resource that sets ``duration_ps``: the unit, a pipe or a memory."""


Serve = Callable[[Payload, int], Service]
"""Cost model of a member: (payload, blocks of it that the member holds at once; 1 for bound work) to `Service`."""


@dataclass(frozen=True, slots=True)
class Members:
    """Group of ``count`` equivalent members of a unit under one parent, with their cost model."""

    count: int
    serve: Serve


@dataclass(frozen=True, slots=True)
class Unit:
    """Unit: its members under one parent in groups of equivalent ones, the fastest group first."""

    name: str
    level: str
    members: tuple[Members, ...]
    servers: int = 1
    """Instructions of its queue that one member executes at a time."""
    in_flight: int = 1
    """Instructions in flight (issued and not ended) per server. With more than one, start-ups overlap with the payloads
    of earlier instructions, which are served one after another."""
    most_blocks: int = 0
    """Most blocks of dispatched work that one member holds at once; 0 for a unit that takes bound work only."""

    @property
    def width(self) -> int:
        """Number of members under one parent."""
        return sum(group.count for group in self.members)


@dataclass(frozen=True, slots=True)
class Machine:
    """Levels (outermost first, without the chip itself), memories and units of a machine, by name."""

    name: str
    levels: tuple[Level, ...]
    memories: Mapping[str, Memory]
    units: Mapping[str, Unit]

    def __post_init__(self) -> None:
        levels = {CHIP, *(level.name for level in self.levels)}
        where = [(unit.name, unit.level) for unit in self.units.values()]
        where += [(memory.name, memory.level) for memory in self.memories.values()]
        for name, level in where:
            if level not in levels:
                raise ProgramError(f"{self.name}: {name} is on level {level!r}; known: {', '.join(sorted(levels))}")
        for unit in self.units.values():
            if unit.width != self.width(unit.level):
                raise ProgramError(
                    f"{self.name}: {unit.name} has {count(unit.width, 'member')} per parent,"
                    f" its level {unit.level} has {self.width(unit.level)}"
                )

    def width(self, level: str) -> int:
        """Return the number of members of ``level`` under one member of the level above."""
        return next((one.count for one in self.levels if one.name == level), 1)

    def count(self, level: str) -> int:
        """Return the number of members of ``level`` in the whole machine."""
        names = [one.name for one in self.levels]
        depth = names.index(level) + 1 if level in names else 0
        return math.prod(one.count for one in self.levels[:depth])

    def program(
        self, instructions: Sequence[Instruction], buffers: Sequence[Buffer] = (), **in_use: int
    ) -> Program:
        """Return a program for this machine; ``in_use`` gives the members in use by level, all by default."""
        table = instructions if isinstance(instructions, InstructionTable) else InstructionTable.of(instructions)
        extent = {level.name: in_use.get(level.name, level.count) for level in self.levels}
        units = {name: unit.level for name, unit in self.units.items()}
        memories = {name: memory.level for name, memory in self.memories.items()}
        held = buffers if isinstance(buffers, BufferTable) else BufferTable.of(buffers)
        return Program(table, held, extent, units, memories)


def ceil_ps(amount: float, rate_per_s: float) -> int:
    """Return the time of ``amount`` at ``rate_per_s`` in picoseconds, rounded up."""
    return -int(-amount * PS_PER_S // rate_per_s)


def check_program(program: Program, machine: Machine) -> None:
    """Raise ``ProgramError`` if ``program`` needs a unit, memory or level that ``machine`` does not have."""
    has = {level.name: level.count for level in machine.levels}
    if not program.is_unrolled and any(count > has.get(level, 1) for level, count in program.extent.items()):
        raise ProgramError(f"the program runs on {_shown(program.extent)}, {machine.name} has {_shown(has)}")
    for name, level in program.units.items():
        own = machine.units.get(base_name(name))
        if own is not None and own.level != level:
            raise ProgramError(f"{machine.name} has {name} once per {own.level}, the program per {level}")
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
    """Return what ``machine`` lacks for ``work``; empty if it can run it."""
    unit = machine.units.get(base_name(work.unit))
    if unit is None:
        return f"{machine.name} has no unit {work.unit!r}"
    if work.blocks and work.blocks_per_member > unit.most_blocks:
        held = f"holds {count(unit.most_blocks, 'block')} at most" if unit.most_blocks else "takes bound work only"
        return f"a member of {work.unit} {held}, the program needs {work.blocks_per_member}"
    problems = [_memory_problem(memory, machine) for memory in _memories(work.payload)]
    return next(filter(None, problems), "")


def _memories(payload: Payload) -> Iterable[str]:
    """Return the memories that ``payload`` reads or writes."""
    if isinstance(payload, Transfer):
        return [name for name in (payload.source, payload.destination, payload.link) if name]
    return [memory for memory, _ in payload.traffic] if isinstance(payload, Compute) else ()


def _shown(extent: Mapping[str, int]) -> str:
    return " x ".join(f"{count} {level}" for level, count in extent.items())


def _memory_problem(memory: str, machine: Machine) -> str:
    return "" if base_name(memory) in machine.memories else f"{machine.name} has no memory {memory!r}"
