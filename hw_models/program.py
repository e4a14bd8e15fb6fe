"""Programs that machines run: instructions in queues, one queue per unit, in order within a queue.

An instruction is a unit, a payload (what is done), the instructions it waits for and the buffers it takes and gives
back. Units and memories belong to levels of the machine (chip, cluster, core; or chip, SM). A program is written once
for all members of a level: sizes are those of one member. `hw_models.unroll` writes the members out.

Work is bound, every participant does the payload once, or dispatched: ``blocks`` of it are handed to whichever member
is free, as a GPU does with thread blocks and a thread pool with the chunks of a parallel loop.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

CHIP = "chip"
"""The outermost level: of its units and memories there is one."""


class ProgramError(ValueError):
    """A program that no machine can run: unknown unit or memory, a dependency on a later instruction."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Space in a memory: ``fan_out`` copies of ``size_bytes`` for every member that allocates it."""

    memory: str
    size_bytes: int
    fan_out: int = 1
    label: str = ""
    address: int | None = None
    """Where it begins, if that is decided; members that allocate parts of one buffer state the same address."""


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """``count`` products of (rows x depth) by (depth x columns)."""

    rows: int
    columns: int
    depth: int
    count: int = 1

    @property
    def macs(self) -> int:
        return self.rows * self.columns * self.depth * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Arithmetic by class of operation, and the bytes that it reads from and writes to memories."""

    dtype: str
    macs: int = 0
    """Multiply-accumulates."""
    simple: int = 0
    """Additions, multiplications, comparisons, elements moved."""
    special: int = 0
    """Divisions, roots, exponentials and the like."""
    shape: MatrixShape | None = None
    """The products that ``macs`` are, for units with an array that they may not fill."""
    traffic: tuple[tuple[str, int], ...] = ()
    """Memories, and the bytes of each that are read and written."""

    @property
    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        sizes = [self.macs, self.simple, self.special, *(size for _, size in self.traffic)]
        if self.shape is not None:
            sizes += [self.shape.rows, self.shape.columns, self.shape.depth, self.shape.count]
            if min(sizes) >= 0 and self.shape.macs != self.macs:
                return f"has {self.macs} multiply-accumulates, its products {self.shape.macs}"
        return "has a size or count below zero" if min(sizes) < 0 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Moves bytes from one memory to another; ``fan_out`` receivers get all of them from one read."""

    source: str
    destination: str
    size_bytes: int
    fan_out: int = 1
    bursts: int = 1
    """How many times the channel starts up for it."""

    @property
    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        wrong = self.size_bytes < 0 or self.fan_out < 1 or self.bursts < 0
        return "has a size or count below zero, or no receiver" if wrong else ""


@dataclass(frozen=True, slots=True)
class Launch:
    """Starts one kernel."""

    @property
    def problem(self) -> str:
        """Nothing can be wrong with it."""
        return ""


Payload = Compute | Transfer | Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One entry of a unit's queue."""

    unit: str
    payload: Payload
    label: str = ""
    after: tuple[int, ...] = ()
    """Positions of instructions that have to end before this one starts."""
    allocates: tuple[int, ...] = ()
    """Buffers that get their space when this instruction starts."""
    frees: tuple[int, ...] = ()
    """Buffers that this instruction is done with; space returns when all that list the buffer have ended."""
    participants: int = 0
    """Bound work: how many of the unit's members under one parent take part, the first ones; 0 means all."""
    blocks: int = 0
    """Dispatched work: how many times the payload is done, each by whichever member is free; 0 means bound work."""
    blocks_per_member: int = 1
    """Dispatched work: the most blocks that one member holds at a time (its occupancy)."""
    layer_run: int = -1
    """Which of the schedule's layer runs it belongs to, if any."""

    @property
    def problem(self) -> str:
        """What is wrong with it on any machine; empty if nothing is."""
        if min(self.participants, self.blocks) < 0 or self.blocks_per_member < 1:
            return "has fewer than no participants or blocks, or members that hold no block"
        if self.blocks and self.participants:
            return "names both participants and blocks; work is bound or dispatched"
        return self.payload.problem


@dataclass(frozen=True)
class Program:
    """Instructions, the buffers they use, and the part of the machine that they run on."""

    instructions: tuple[Instruction, ...]
    buffers: tuple[Buffer, ...]
    extent: Mapping[str, int]
    """Members in use per level, under one member of the level above, outermost level first: clusters, then cores."""
    units: Mapping[str, str] = field(default_factory=dict)
    """The level of each unit."""
    memories: Mapping[str, str] = field(default_factory=dict)
    """The level of each memory."""
    is_unrolled: bool = False
    """Whether units and memories are written out by member."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """In an unrolled program: the memories behind a name that stands for several of them."""

    def __post_init__(self) -> None:
        if min(self.extent.values(), default=1) < 1:
            listed = " x ".join(f"{count} {level}" for level, count in self.extent.items())
            raise ProgramError(f"runs on {listed}; needs at least one of each")
        for number, buffer in enumerate(self.buffers):
            if buffer.size_bytes < 0 or buffer.fan_out < 1:
                raise ProgramError(
                    f"buffer {number} ({buffer.label}) has {buffer.fan_out} x {buffer.size_bytes} bytes"
                )
        allocated: set[int] = set()
        for position, instruction in enumerate(self.instructions):
            mistake = self._mistake(position, instruction, allocated)
            if mistake:
                raise ProgramError(f"instruction {position} ({instruction.label}) {mistake}")

    def _mistake(self, position: int, instruction: Instruction, allocated: set[int]) -> str:
        """Return what is wrong with ``instruction``; its buffers join those ``allocated`` so far."""
        if instruction.unit not in self.units:
            return f"runs on unknown unit {instruction.unit!r}"
        if instruction.after and not 0 <= min(instruction.after) <= max(instruction.after) < position:
            return f"waits for {instruction.after}, which are not all before it"
        problem = instruction.problem
        if problem:
            return problem
        return self._buffer_mistake(instruction, allocated) if instruction.allocates or instruction.frees else ""

    def _buffer_mistake(self, instruction: Instruction, allocated: set[int]) -> str:
        for buffer in (*instruction.allocates, *instruction.frees):
            if not 0 <= buffer < len(self.buffers):
                return f"uses unknown buffer {buffer}"
        for buffer in instruction.allocates:
            if buffer in allocated:
                return f"allocates buffer {buffer} ({self.buffers[buffer].label}) again"
            allocated.add(buffer)
        for buffer in instruction.frees:
            if buffer not in allocated:
                return f"frees buffer {buffer} ({self.buffers[buffer].label}), which nobody allocates before"
        return ""

    def width(self, level: str) -> int:
        """Return the members of ``level`` under one member of the level above."""
        return self.extent.get(level, 1)

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        """Members of every level in all."""
        found, total = {}, 1
        for level, width in self.extent.items():
            total *= width
            found[level] = total
        return found

    def count(self, level: str) -> int:
        """Return the members of ``level`` in all; one where members are written out."""
        return 1 if self.is_unrolled else self._counts.get(level, 1)

    def multiplicity(self, unit: str) -> int:
        """Return how many members run the queue of ``unit``."""
        return self.count(self.units[unit])

    def parents(self, unit: str) -> int:
        """Return how many members of the level above share out the members of ``unit``."""
        return 1 if self.is_unrolled else self.multiplicity(unit) // self.width(self.units[unit])

    def executions(self, instruction: Instruction) -> int:
        """Return how many times the payload of ``instruction`` is done in all."""
        if instruction.blocks:
            return instruction.blocks * self.parents(instruction.unit)
        if self.is_unrolled or not instruction.participants:
            return self.multiplicity(instruction.unit)
        width = self.width(self.units[instruction.unit])
        return self.parents(instruction.unit) * min(instruction.participants, width)

    def __str__(self) -> str:
        extent = "".join(f" {level}={count}" for level, count in self.extent.items())
        lines = [f"program{extent}"]
        for position, instruction in enumerate(self.instructions):
            after = f" after {list(instruction.after)}" if instruction.after else ""
            lines.append(f"  {position:5d} {instruction.unit:12s} {instruction.label}{after}")
        return "\n".join(lines)


def base_name(member: str) -> str:
    """Return the kind behind the name of a unit or memory in an unrolled program."""
    return member.partition("[")[0]
