"""What a machine runs: queues of instructions, one queue per unit, in order within a queue.

An instruction names its unit; the units' queues are the program's instructions in order of appearance. Units
exist once per core or once per cluster, and a program is written once for all of them: instruction sizes are
those of one member. `unrolled` writes the members out, which gives the same result.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Scope = Literal["core", "cluster"]


class ProgramError(ValueError):
    """A program that no machine can run: unknown unit or memory, a dependency on a later instruction."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Space in a memory. ``size_bytes`` per member that allocates; ``fan_out`` copies of it are allocated."""

    memory: str
    size_bytes: int
    fan_out: int = 1
    label: str = ""
    address: int | None = None
    """Where it begins, if that is decided; members that allocate parts of one buffer state the same address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """What all instructions share: the unit, what has to end before, which buffers begin and end with it."""

    unit: str
    label: str = ""
    after: tuple[int, ...] = ()
    """Positions of instructions that have to end before this one starts."""
    allocates: tuple[int, ...] = ()
    """Buffers that get their space when this instruction starts."""
    frees: tuple[int, ...] = ()
    """Buffers that this instruction is done with; space returns when all that list the buffer have ended."""
    active_cores: int = 0
    """On a core's unit: how many cores of a cluster, the first ones, take part; 0 means all."""
    layer_run: int = -1
    """Which of the schedule's layer runs it belongs to, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Instruction):
    """Moves bytes from one memory to another; ``fan_out`` receivers get all of them from one read."""

    source: str
    destination: str
    size_bytes: int
    fan_out: int = 1
    bursts: int = 1
    """How many times the channel starts up for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCompute(Instruction):
    """``count`` products of (rows x depth) by (depth x columns) on a matrix unit."""

    dtype: str
    rows: int
    columns: int
    depth: int
    count: int = 1
    local_bytes: int = 0
    """Bytes read from and written to the local buffer."""

    @property
    def macs(self) -> int:
        return self.rows * self.columns * self.depth * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorCompute(Instruction):
    """Element operations on a vector unit; ``macs`` are multiply-accumulates done there."""

    dtype: str
    macs: int = 0
    simple: int = 0
    special: int = 0
    local_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(Instruction):
    """Starts one kernel on the cores of a cluster."""


AnyInstruction = Transfer | MatrixCompute | VectorCompute | Launch


@dataclass(frozen=True)
class Program:
    """Instructions for ``clusters`` x ``cores`` members, and the buffers they use."""

    instructions: tuple[AnyInstruction, ...]
    buffers: tuple[Buffer, ...]
    clusters: int
    cores: int
    """Active cores per cluster."""
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    """Where each unit exists."""
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """In an unrolled program: the memories behind a name that stands for several of them."""

    def __post_init__(self) -> None:
        if min(self.clusters, self.cores) < 1:
            raise ProgramError(f"runs on {self.clusters} clusters with {self.cores} cores; needs one of each")
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

    def _mistake(self, position: int, instruction: AnyInstruction, allocated: set[int]) -> str:
        """Return what is wrong with ``instruction``; its buffers join those ``allocated`` so far."""
        if instruction.unit not in self.scopes:
            return f"runs on unknown unit {instruction.unit!r}"
        if instruction.after and not 0 <= min(instruction.after) <= max(instruction.after) < position:
            return f"waits for {instruction.after}, which are not all before it"
        if _has_negative(instruction):
            return "has a size or count below zero, or no receiver"
        return self._buffer_mistake(instruction, allocated) if instruction.allocates or instruction.frees else ""

    def _buffer_mistake(self, instruction: AnyInstruction, allocated: set[int]) -> str:
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

    @property
    def is_unrolled(self) -> bool:
        """Whether units and memories are written out by member."""
        return any("[" in unit for unit in self.scopes)

    def multiplicity(self, unit: str) -> int:
        """Return how many members run the queue of ``unit``."""
        return self.clusters * (self.cores if self.scopes[unit] == "core" else 1)

    def members_of(self, instruction: Instruction) -> int:
        """Return how many members take part in ``instruction``."""
        if self.scopes[instruction.unit] == "cluster" or not instruction.active_cores:
            return self.multiplicity(instruction.unit)
        return self.clusters * min(instruction.active_cores, self.cores)

    def __str__(self) -> str:
        lines = [f"program clusters={self.clusters} cores={self.cores}"]
        for position, instruction in enumerate(self.instructions):
            after = f" after {list(instruction.after)}" if instruction.after else ""
            lines.append(f"  {position:5d} {instruction.unit:12s} {instruction.label}{after}")
        return "\n".join(lines)


def base_name(member: str) -> str:
    """Return the kind behind the name of a unit or memory in an unrolled program."""
    return member.partition("[")[0]


def _has_negative(instruction: AnyInstruction) -> bool:
    if isinstance(instruction, Transfer):
        return instruction.size_bytes < 0 or instruction.fan_out < 1 or instruction.bursts < 0
    if isinstance(instruction, MatrixCompute):
        shape = instruction.rows, instruction.columns, instruction.depth
        return min(*shape, instruction.count, instruction.local_bytes) < 0
    if isinstance(instruction, VectorCompute):
        return min(instruction.macs, instruction.simple, instruction.special, instruction.local_bytes) < 0
    return False


def unrolled(program: Program) -> Program:
    """Return the same work with every member written out.

    Units become ``matrix[0.3]``, memories ``local_buffer[0.3]``: cluster 0, core 3.
    """
    return _Unroller(program).run()


class _Unroller:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._instructions: list[AnyInstruction] = []
        self._buffers: list[Buffer] = []
        self._copies: dict[tuple[int, str], int] = {}
        self._buffer_copies: dict[tuple[int, str], tuple[int, ...]] = {}
        self._groups: dict[str, tuple[str, ...]] = {}

    def run(self) -> Program:
        program = self._program
        scopes: dict[str, Scope] = {}
        for position, instruction in enumerate(program.instructions):
            for cluster, core in self._places(instruction):
                place = _place(cluster, core)
                unit = f"{instruction.unit}[{place}]"
                scopes[unit] = "cluster"
                after = tuple(dict.fromkeys(self._waits(instruction, cluster, core)))
                changed = replace(
                    instruction,
                    unit=unit,
                    after=after,
                    allocates=tuple(self._allocated(instruction, cluster, core)),
                    frees=tuple(self._freed(instruction, cluster, core)),
                    active_cores=0,
                )
                if isinstance(changed, Transfer):
                    changed = replace(
                        changed,
                        source=self._memory(changed.source, cluster, core),
                        destination=self._memory(changed.destination, cluster, core),
                    )
                self._copies[position, place] = len(self._instructions)
                self._instructions.append(changed)
        return Program(tuple(self._instructions), tuple(self._buffers), 1, 1, scopes, self._groups)

    def _places(self, instruction: Instruction) -> Iterator[tuple[int, int | None]]:
        for cluster in range(self._program.clusters):
            if self._program.scopes[instruction.unit] == "cluster":
                yield cluster, None
            else:
                yield from ((cluster, core) for core in self._active(instruction))

    def _active(self, instruction: Instruction) -> range:
        return range(min(instruction.active_cores or self._program.cores, self._program.cores))

    def _waits(self, instruction: Instruction, cluster: int, core: int | None) -> Iterator[int]:
        for before in instruction.after:
            earlier = self._program.instructions[before]
            if self._program.scopes[earlier.unit] == "cluster":
                yield self._copies[before, _place(cluster, None)]
            elif core is not None and core in self._active(earlier):
                yield self._copies[before, _place(cluster, core)]
            else:  # a cluster's unit, or a core that did not take part, waits for all that did
                yield from (self._copies[before, _place(cluster, c)] for c in self._active(earlier))

    def _memory(self, memory: str, cluster: int, core: int | None) -> str:
        """Return the member of ``memory`` at a place, or a name for all that a cluster's unit fills."""
        if memory == "local_buffer":
            if core is not None:
                return f"{memory}[{cluster}.{core}]"
            name = f"{memory}[{cluster}.*]"
            self._groups[name] = tuple(f"{memory}[{cluster}.{c}]" for c in range(self._program.cores))
            return name
        return f"{memory}[{cluster}]" if memory == "global_buffer" else memory

    def _allocated(self, instruction: Instruction, cluster: int, core: int | None) -> Iterator[int]:
        for buffer in instruction.allocates:
            original = self._program.buffers[buffer]
            self._buffer_copies[buffer, _place(cluster, core)] = (len(self._buffers),)
            self._buffers.append(replace(original, memory=self._memory(original.memory, cluster, core)))
            yield len(self._buffers) - 1

    def _freed(self, instruction: Instruction, cluster: int, core: int | None) -> Iterator[int]:
        for buffer in instruction.frees:
            own = self._buffer_copies.get((buffer, _place(cluster, core)))
            shared = self._buffer_copies.get((buffer, _place(cluster, None)))
            if own or shared:
                yield from own or shared or ()
            else:
                for other in range(self._program.cores):
                    yield from self._buffer_copies.get((buffer, _place(cluster, other)), ())


def _place(cluster: int, core: int | None) -> str:
    return f"{cluster}" if core is None else f"{cluster}.{core}"
