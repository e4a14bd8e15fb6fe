"""What a machine runs: queues of instructions, one queue per unit, in order within a queue.

An instruction names its unit; the units' queues are the program's instructions in order of appearance. Units exist
once per core or once per cluster, and a program is written once for all of them: instruction sizes are those of one
member. `unrolled` writes the members out, which must give the same result and is how that is tested.
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
    """Buffers that this instruction is done with; space returns when all instructions that list it have ended."""


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
    """In an unrolled program: the memories that stand behind the name in ``Transfer.destination`` and buffers."""

    def __post_init__(self) -> None:
        for position, instruction in enumerate(self.instructions):
            if instruction.unit not in self.scopes:
                raise ProgramError(f"instruction {position} ({instruction.label}) runs on unknown unit {instruction.unit!r}")
            if any(not 0 <= before < position for before in instruction.after):
                raise ProgramError(f"instruction {position} ({instruction.label}) waits for {instruction.after}")
            for buffer in (*instruction.allocates, *instruction.frees):
                if not 0 <= buffer < len(self.buffers):
                    raise ProgramError(f"instruction {position} ({instruction.label}) uses unknown buffer {buffer}")

    def multiplicity(self, unit: str) -> int:
        """Return how many members run the queue of ``unit``."""
        return self.clusters * (self.cores if self.scopes[unit] == "core" else 1)

    def __str__(self) -> str:
        lines = [f"program clusters={self.clusters} cores={self.cores}"]
        for position, instruction in enumerate(self.instructions):
            after = f" after {list(instruction.after)}" if instruction.after else ""
            lines.append(f"  {position:5d} {instruction.unit:12s} {instruction.label}{after}")
        return "\n".join(lines)


def unrolled(program: Program) -> Program:
    """Return the same work with every member written out: units ``matrix[0.3]``, memories ``local_buffer[0.3]``."""
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
            for cluster, core in self._places(instruction.unit):
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

    def _places(self, unit: str) -> Iterator[tuple[int, int | None]]:
        for cluster in range(self._program.clusters):
            if self._program.scopes[unit] == "cluster":
                yield cluster, None
            else:
                yield from ((cluster, core) for core in range(self._program.cores))

    def _waits(self, instruction: Instruction, cluster: int, core: int | None) -> Iterator[int]:
        for before in instruction.after:
            scope = self._program.scopes[self._program.instructions[before].unit]
            if scope == "cluster":
                yield self._copies[before, _place(cluster, None)]
            elif core is None:
                yield from (self._copies[before, _place(cluster, c)] for c in range(self._program.cores))
            else:
                yield self._copies[before, _place(cluster, core)]

    def _memory(self, memory: str, cluster: int, core: int | None) -> str:
        """Return the member of ``memory`` at a place; a name for all of them where a cluster's unit fills many."""
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
                    yield from self._buffer_copies[buffer, _place(cluster, other)]


def _place(cluster: int, core: int | None) -> str:
    return f"{cluster}" if core is None else f"{cluster}.{core}"
