"""Instructions of programs: unit, payload (the operation), dependencies, buffers allocated and freed.

Work is bound (every participant executes the payload once) or dispatched (``blocks`` of it are handed to whichever
member is free, as a GPU does with thread blocks and a thread pool with the chunks of a parallel loop). A `Work` is a
payload on a unit; the thousands of instructions of a program share a few hundred of them, so a program keeps its
instructions in an `InstructionTable`, by column.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from dsascape.hw_models.simulation.columns import Column, Rows, column
from dsascape.wording import count

CLASSES = ("fma", "arithmetic", "special", "load", "store", "scalar", "matrix")
"""Classes of instructions (`Issued`)."""
CHIP = "chip"
"""Name of the outermost level, which has one of each of its units and memories."""


class ProgramError(ValueError):
    """A program that no machine can run: unknown unit or memory, a dependency on a later instruction."""


class Buffer(NamedTuple):
    """Space in a memory: ``fan_out`` copies of ``size_bytes`` for every member that allocates it."""

    memory: str
    size_bytes: int
    fan_out: int = 1
    label: str = ""
    address: int | None = None
    """Start address in bytes, None if undecided; members that allocate parts of one buffer state the same address."""


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """``count`` products of (rows x depth) by (depth x columns)."""

    rows: int
    columns: int
    depth: int
    count: int = 1
    channels: int = 0
    """Part of the depth that lies at one tap of a convolution's window; 0: all of it."""
    run: int = 0
    """Rows that follow each other in memory, as pixels of an image's row do; 0: all of them."""

    @property
    def macs(self) -> int:
        return self.rows * self.columns * self.depth * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """Instruction counts by class, for units that execute instruction streams; all but ``scalar`` are vector ones."""

    fma: int = 0
    """Number of vector multiply-accumulate instructions."""
    arithmetic: int = 0
    """Number of vector additions, comparisons and the like."""
    special: int = 0
    """Number of vector divisions, roots, exponentials and the like."""
    load: int = 0
    store: int = 0
    scalar: int = 0
    """Scalar instructions: loop control and address arithmetic."""
    matrix: int = 0
    """Small matrix products, on units that compute one per instruction."""
    accumulators: int = 1
    """Independent chains of multiply-accumulates or matrix products, which hide each other's latency."""
    per_cycle: float = 0.0
    """Most instructions that are issued a cycle, where warps wait for their own earlier ones; 0: none waits."""
    waits: int = 0
    """Number of successive waits for data from outer memory levels."""
    ahead: int = 1
    """Prefetch distance: requests in flight before the first is waited for."""
    loops: int = 0
    """Number of times that an innermost loop runs to its end."""
    meanwhile: tuple[tuple[str, float], ...] = ()
    """Per memory, the share of the instructions during which it moves its bytes, such as a first pass over new data;
    1 for a memory that is not named."""
    written: tuple[tuple[str, float], ...] = ()
    """Per memory, the share of its traffic that is written back to it."""
    scattered: tuple[tuple[str, float], ...] = ()
    """Per memory, the share of its traffic in non-sequential lines."""
    stored: tuple[tuple[str, float], ...] = ()
    """Per memory, the share of its traffic that is due to stores: lines written back, or fetched to be written."""
    claimed_bytes: int = 0
    """Bytes that are written to lines in private caches of other cores, which have to give them up first."""
    further_passes: int = 0
    """Passes of shared memory beyond the first of each access, for threads that ask for words of one bank. They take
    time, but move no bytes."""
    spared: tuple[tuple[str, int], ...] = ()
    """Per class, by how many instructions on whole registers those on shorter vectors take less time, where pipes and
    ports take a register in several passes; a class that is not named has none."""
    held_up: int = 0
    """Passes that hold up a GPU's loads beside one for each, where what meets in a bank or a line is not hidden."""

    @property
    def total(self) -> int:
        """Number of instructions of all classes."""
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of instructions of each class, in the order of `by_class`."""
        return self.fma, self.arithmetic, self.special, self.load, self.store, self.scalar, self.matrix

    @property
    def in_whole_registers(self) -> tuple[int, ...]:
        """Number of instructions on whole registers that take as long as each class of `counts`."""
        spared = dict(self.spared)
        return tuple([number - spared.get(name, 0) for name, number in zip(CLASSES, self.counts, strict=True)])

    @property
    def by_class(self) -> dict[str, int]:
        """Number of instructions by class."""
        return dict(zip(CLASSES, self.counts, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Arithmetic operations by class, and the bytes that they read from and write to memories."""

    dtype: str
    product: str = ""
    """Dtype, or pair of dtypes, of the multiply-accumulates where it is not ``dtype``; empty: it is."""
    macs: int = 0
    """Number of multiply-accumulate operations."""
    simple: int = 0
    """Additions, multiplications, comparisons, elements moved."""
    special: int = 0
    """Number of divisions, roots, exponentials and the like."""
    shape: MatrixShape | None = None
    """Matrix products that make up ``macs``, for units with an array, which small products fill only in part."""
    traffic: tuple[tuple[str, int], ...] = ()
    """Per memory, the bytes read and written."""
    issued: Issued | None = None
    """Instruction counts, for units that execute instruction streams."""
    at_work: int = 0
    """Members of the unit that execute this work at the same time and share memories; 0 means all."""
    rounds: int = 1
    """Number of equal parts that run one after another, because each needs the result of the one before."""
    steps: tuple["Compute", ...] = ()
    """Sequential steps that do not overlap, if there are several: every other field is the total of all steps, except
    ``issued``, which each step has for itself."""

    @property
    def instructions(self) -> int:
        """Number of instructions of all classes and steps; 0 for units that execute no instruction streams."""
        return sum([step.issued.total for step in self.steps or (self,) if step.issued is not None])

    def issued_of(self, name: str) -> int:
        """Return the number of instructions of the class ``name``, such as ``fma``, in all steps."""
        return sum([step.issued.by_class[name] for step in self.steps or (self,) if step.issued is not None])

    @property
    def problem(self) -> str:
        """Description of the first mistake found; empty if there is none."""
        wrong = next((step.problem for step in self.steps if step.problem), "")
        if wrong or (self.steps and sum([step.macs for step in self.steps]) != self.macs):
            return wrong or f"has {count(self.macs, 'multiply-accumulate')}, which is not the sum of its steps"
        sizes = [self.macs, self.simple, self.special, self.rounds - 1, *(size for _, size in self.traffic)]
        if self.issued is not None:
            issued = self.issued
            sizes += [*issued.counts, issued.accumulators - 1, issued.waits, issued.ahead - 1, issued.claimed_bytes]
            sizes += [math.ceil(issued.per_cycle)]
        if self.shape is not None:
            sizes += [self.shape.rows, self.shape.columns, self.shape.depth, self.shape.count, self.shape.channels]
            sizes += [self.shape.run]
            if min(sizes) >= 0 and self.shape.macs != self.macs:
                return f"has {count(self.macs, 'multiply-accumulate')}, its products {self.shape.macs}"
            if self.rounds > 1 and self.shape.count % self.rounds:
                products = count(self.shape.count, "product")
                return f"has {products}, which is not a multiple of its {count(self.rounds, 'round')}"
        return "has a size or count below zero" if min(sizes) < 0 else ""


Pieces = tuple[tuple[int, int], ...]
"""Pieces of a transfer that are contiguous in memory: number of pieces, and bytes of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Transfer of bytes between two memories; with ``fan_out``, one read is broadcast to that many receivers."""

    source: str
    destination: str
    size_bytes: int
    fan_out: int = 1
    bursts: int = 1
    """Number of bursts: the channel pays its start-up time once for each."""
    pieces: Pieces = ()
    """Its pieces in memory, for channels that move data in requests; empty: it is contiguous."""
    link: str = ""
    """Link that the bytes cross on their way, by the name of the memory that stands for it; empty for none."""

    @property
    def problem(self) -> str:
        """Description of the first mistake found; empty if there is none."""
        wrong = min(self.size_bytes, self.bursts, *[least for each in self.pieces for least in each]) < 0
        wrong = wrong or self.fan_out < 1
        return "has a size or count below zero, or no receiver" if wrong else ""


@dataclass(frozen=True, slots=True)
class Launch:
    """Start of one kernel."""

    threads: int = 1
    """Threads that the kernel's parallel loops are split over; the launch time may depend on it."""
    regions: int = 1
    """Number of parallel loops that run one after another, such as the steps of a recurrence."""

    @property
    def problem(self) -> str:
        """Description of the first mistake found; empty if there is none."""
        return "needs at least one thread and one parallel loop" if min(self.threads, self.regions) < 1 else ""


@dataclass(frozen=True, slots=True)
class HostCall:
    """Call of a host that issues a kernel; when it has ended, the kernel may be launched."""

    functions: int = 0
    """Functions of a framework in eager mode that it calls."""
    kernels: int = 0
    """Kernels that it issues by themselves, as the runtime of an engine does."""

    @property
    def problem(self) -> str:
        """Description of the first mistake found; empty if there is none."""
        return "calls fewer functions or kernels than none" if min(self.functions, self.kernels) < 0 else ""


Payload = Compute | Transfer | Launch | HostCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Operation of an instruction: a payload on a unit, bound or dispatched."""

    unit: str
    payload: Payload
    participants: int = 0
    """Bound work: the first n members of the unit under each parent take part; 0 means all."""
    blocks: int = 0
    """Dispatched work: number of blocks (executions of the payload) under each parent, each run by whichever member is
    free; 0 means bound work."""
    blocks_per_member: int = 1
    """Dispatched work: occupancy, the most blocks that one member holds at a time."""

    @property
    def problem(self) -> str:
        """Machine-independent mistake in this work; empty if there is none."""
        if min(self.participants, self.blocks) < 0 or self.blocks_per_member < 1:
            return "has a negative number of participants or blocks, or fewer than one block per member"
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
    """Dependencies: positions of instructions that have to end before this one starts."""
    allocates: tuple[int, ...] = ()
    """Buffers allocated when this instruction starts."""
    frees: tuple[int, ...] = ()
    """Buffers freed; a buffer's space is released when every instruction that lists it has ended."""
    participants: int = 0
    """Participants of bound work, as in `Work`; ``blocks`` and ``blocks_per_member`` likewise."""
    blocks: int = 0
    blocks_per_member: int = 1
    layer_run: int = -1
    """Index of the schedule's layer run that it belongs to; -1 for none."""

    @property
    def work(self) -> Work:
        """Unit and payload of this instruction, without dependencies and buffers."""
        return Work(
            unit=self.unit, payload=self.payload, participants=self.participants, blocks=self.blocks,
            blocks_per_member=self.blocks_per_member,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class InstructionTable(Sequence[Instruction]):
    """Instructions of a program, stored as one column per field; indexing gives `Instruction` records."""

    works: tuple[Work, ...]
    """Distinct works."""
    work_of: Column
    """Per instruction, its index in ``works``."""
    after: Rows
    allocates: Rows
    frees: Rows
    labels: tuple[str, ...]
    layer_runs: Column

    @classmethod
    def of(cls, instructions: Iterable[Instruction]) -> "InstructionTable":
        """Return the table of ``instructions``; raise ``ProgramError`` for a position or buffer beyond 32 bits."""
        listed = tuple(instructions)
        numbers: dict[Work, int] = {}
        work_of = column([numbers.setdefault(one.work, len(numbers)) for one in listed])
        after, allocates, frees = [_rows(listed, name) for name in ("after", "allocates", "frees")]
        labels, layer_runs = tuple([one.label for one in listed]), column([one.layer_run for one in listed])
        return cls(tuple(numbers), work_of, after, allocates, frees, labels, layer_runs)

    def work(self, position: int) -> Work:
        """Return the work of the instruction at ``position``."""
        return self.works[self.work_of[position]]

    def counts(self) -> dict[int, int]:
        """Return the number of instructions by index in ``works``."""
        counts = Counter(self.work_of)
        return {number: counts[number] for number in range(len(self.works))}

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
    """Return the rows of the field ``name``; raise ``ProgramError`` for a number beyond 32 bits."""
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
    """Buffers of a program by number: thousands, of which some hundreds are distinct."""

    distinct: tuple[Buffer, ...]
    which: Column
    """Per buffer, its index in ``distinct``."""

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
    """Return the unit or memory that a member's name belongs to: ``matrix`` for ``matrix[0.3]``."""
    return member.partition("[")[0]
