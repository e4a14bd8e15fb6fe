"""Instructions of programs: a unit, what is done (the payload), what is waited for, the buffers taken and given back.

Work is bound, every participant does the payload once, or dispatched: ``blocks`` of it are handed to whichever member
is free, as a GPU does with thread blocks and a thread pool with the chunks of a parallel loop. What is done on which
unit is a `Work`; the thousands of instructions of a program share a few hundred of them, so a program keeps its
instructions in an `InstructionTable`, by column.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from dsascape.hw_models.simulation.columns import Column, Rows, column

CHIP = "chip"
"""The outermost level: of its units and memories there is one."""


class ProgramError(ValueError):
    """A program that no machine can run: unknown unit or memory, a dependency on a later instruction."""


class Buffer(NamedTuple):
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
class Issued:
    """Instructions by class, for units that are programmed with them; vector ones but for those of ``scalar``."""

    fma: int = 0
    """Multiply-accumulates."""
    arithmetic: int = 0
    """Additions, comparisons and the like."""
    special: int = 0
    """Divisions, roots, exponentials and the like."""
    load: int = 0
    store: int = 0
    scalar: int = 0
    """Loop control and addresses."""
    matrix: int = 0
    """Small matrix products, where units compute these in one instruction."""
    accumulators: int = 1
    """Chains of multiply-accumulates, or of matrix products, that do not wait for each other."""
    waits: int = 0
    """Times that data from further out is waited for, one after the other."""
    ahead: int = 1
    """As many of these are asked for before the first of them is waited for."""
    loops: int = 0
    """Innermost loops that run to their end."""
    meanwhile: tuple[tuple[str, float], ...] = ()
    """Memories that move their bytes during a share of the instructions only, such as a first pass over new data."""
    written: tuple[tuple[str, float], ...] = ()
    """The share of what each memory moves that is written back to it."""
    scattered: tuple[tuple[str, float], ...] = ()
    """The share of what each memory moves in lines that do not follow the one before."""
    stored: tuple[tuple[str, float], ...] = ()
    """The share of what each memory moves for stores: lines that are written back, or fetched to be written."""

    @property
    def total(self) -> int:
        """All instructions."""
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many there are of each class."""
        return self.fma, self.arithmetic, self.special, self.load, self.store, self.scalar, self.matrix


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
    issued: Issued | None = None
    """The instructions that it takes, for units that are programmed with them."""
    at_work: int = 0
    """Members of the unit that do such work at the same time and share memories; 0: all of them."""
    rounds: int = 1
    """How many parts of it, all alike, follow each other because each needs what the one before has made."""
    steps: tuple["Compute", ...] = ()
    """What it consists of, where nothing of one step hides behind another: all else is said of them together, but for
    instructions, which are said of each."""

    @property
    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        wrong = next((step.problem for step in self.steps if step.problem), "")
        if wrong or (self.steps and sum([step.macs for step in self.steps]) != self.macs):
            return wrong or f"has {self.macs} multiply-accumulates, its steps another number"
        sizes = [self.macs, self.simple, self.special, self.rounds - 1, *(size for _, size in self.traffic)]
        if self.issued is not None:
            issued = self.issued
            sizes += [*issued.counts, issued.accumulators - 1, issued.waits, issued.ahead - 1]
        if self.shape is not None:
            sizes += [self.shape.rows, self.shape.columns, self.shape.depth, self.shape.count]
            if min(sizes) >= 0 and self.shape.macs != self.macs:
                return f"has {self.macs} multiply-accumulates, its products {self.shape.macs}"
            if self.rounds > 1 and self.shape.count % self.rounds:
                return f"has {self.shape.count} products, which {self.rounds} rounds cannot share"
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

    threads: int = 1
    """Threads that its loop is split over, where launching depends on that."""
    regions: int = 1
    """Such loops, one after the other: the steps of a recurrence."""

    @property
    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        return "has no thread, or no loop" if min(self.threads, self.regions) < 1 else ""


Payload = Compute | Transfer | Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What instructions do on which unit."""

    unit: str
    payload: Payload
    participants: int = 0
    """Bound work: how many of the unit's members under one parent take part, the first ones; 0 means all."""
    blocks: int = 0
    """Dispatched work: how many times the payload is done, each by whichever member is free; 0 means bound work."""
    blocks_per_member: int = 1
    """Dispatched work: the most blocks that one member holds at a time (its occupancy)."""

    @property
    def problem(self) -> str:
        """What is wrong with it on any machine; empty if nothing is."""
        if min(self.participants, self.blocks) < 0 or self.blocks_per_member < 1:
            return "has fewer than no participants or blocks, or members that hold no block"
        if self.blocks and self.participants:
            return "names both participants and blocks; work is bound or dispatched"
        return self.payload.problem


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
    """See `Work`, as for ``blocks`` and ``blocks_per_member``."""
    blocks: int = 0
    blocks_per_member: int = 1
    layer_run: int = -1
    """Which of the schedule's layer runs it belongs to, if any."""

    @property
    def work(self) -> Work:
        """What is done, apart from when."""
        return Work(
            unit=self.unit, payload=self.payload, participants=self.participants, blocks=self.blocks,
            blocks_per_member=self.blocks_per_member,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class InstructionTable(Sequence[Instruction]):
    """Instructions by position, one column for each of their fields; as a sequence, `Instruction` records."""

    works: tuple[Work, ...]
    """All that differ."""
    work_of: Column
    """By position: which of ``works`` it does."""
    after: Rows
    allocates: Rows
    frees: Rows
    labels: tuple[str, ...]
    layer_runs: Column

    @classmethod
    def of(cls, instructions: Iterable[Instruction]) -> "InstructionTable":
        """Return the table of ``instructions``; raise ``ProgramError`` for positions that no program has."""
        listed = tuple(instructions)
        numbers: dict[Work, int] = {}
        work_of = column([numbers.setdefault(one.work, len(numbers)) for one in listed])
        after, allocates, frees = [_rows(listed, name) for name in ("after", "allocates", "frees")]
        labels, layer_runs = tuple([one.label for one in listed]), column([one.layer_run for one in listed])
        return cls(tuple(numbers), work_of, after, allocates, frees, labels, layer_runs)

    def work(self, position: int) -> Work:
        """Return what the instruction at ``position`` does."""
        return self.works[self.work_of[position]]

    def counts(self) -> dict[int, int]:
        """Return how many instructions do each of ``works``."""
        found = Counter(self.work_of)
        return {number: found[number] for number in range(len(self.works))}

    def __len__(self) -> int:
        return len(self.work_of)

    @overload
    def __getitem__(self, index: int) -> Instruction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Instruction, ...]: ...
    def __getitem__(self, index: int | slice) -> Instruction | tuple[Instruction, ...]:
        if isinstance(index, slice):
            return tuple([self[position] for position in range(*index.indices(len(self)))])
        work = self.work(index)
        return Instruction(
            unit=work.unit, payload=work.payload, label=self.labels[index], after=self.after[index],
            allocates=self.allocates[index], frees=self.frees[index], participants=work.participants,
            blocks=work.blocks, blocks_per_member=work.blocks_per_member, layer_run=self.layer_runs[index],
        )  # fmt: skip

    def __iter__(self) -> Iterator[Instruction]:
        return (self[position] for position in range(len(self)))


def _rows(listed: Sequence[Instruction], name: str) -> Rows:
    """Return the rows of a column, or raise ``ProgramError`` for a number that no column holds."""
    rows: list[tuple[int, ...]] = [getattr(one, name) for one in listed]
    try:
        return Rows.of(rows)
    except OverflowError:
        position = next(place for place, row in enumerate(rows) if any(abs(number) >> 31 for number in row))
        what = "waits for {}, which are not all before it" if name == "after" else "uses unknown buffers: {}"
        raise ProgramError(
            f"instruction {position} ({listed[position].label}) {what.format(rows[position])}"
        ) from None


@dataclass(frozen=True, slots=True)
class BufferTable(Sequence[Buffer]):
    """Buffers by number: thousands, of which some hundreds differ."""

    distinct: tuple[Buffer, ...]
    which: Column
    """By number: which of ``distinct`` it is."""

    @classmethod
    def of(cls, buffers: Iterable[Buffer]) -> "BufferTable":
        """Return the table of ``buffers``."""
        numbers: dict[Buffer, int] = {}
        which = column([numbers.setdefault(buffer, len(numbers)) for buffer in buffers])
        return cls(tuple(numbers), which)

    def __len__(self) -> int:
        return len(self.which)

    @overload
    def __getitem__(self, index: int) -> Buffer: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Buffer, ...]: ...
    def __getitem__(self, index: int | slice) -> Buffer | tuple[Buffer, ...]:
        if isinstance(index, slice):
            return tuple([self.distinct[number] for number in self.which[index]])
        return self.distinct[self.which[index]]

    def __iter__(self) -> Iterator[Buffer]:
        return map(self.distinct.__getitem__, self.which)


def base_name(member: str) -> str:
    """Return the kind behind the name of a unit or memory in an unrolled program."""
    return member.partition("[")[0]
