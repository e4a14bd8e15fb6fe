"""Programs that machines run: instructions in queues, one queue per unit, in order within a queue.

Units and memories belong to levels of the machine (chip, cluster, core; or chip, SM). A program is written once for all
members of a level: sizes are those of one member. `hw_models.simulation.unroll` writes the members out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dsascape.hw_models.in_c import is_built, may_use
from dsascape.hw_models.simulation.instructions import (
    Buffer,
    BufferTable,
    Instruction,
    InstructionTable,
    ProgramError,
    Work,
)

if is_built("dsascape.hw_models.in_c.handler"):
    from dsascape.hw_models.in_c.handler import is_sound


@dataclass(frozen=True)
class Program:
    """A program: instructions, the buffers they use, and the part of the machine that they run on."""

    instructions: InstructionTable
    buffers: BufferTable
    extent: Mapping[str, int]
    """Members in use per level, under one member of the level above, outermost level first: clusters, then cores."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Level of each unit, by the unit's name."""
    memories: Mapping[str, str] = field(default_factory=dict)
    """Level of each memory, by the memory's name, the innermost memories first."""
    is_unrolled: bool = False
    """Whether every member of a unit or memory has a name of its own (`hw_models.simulation.unroll`)."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Member memories by the name that stands for all of them, in an unrolled program."""

    def __post_init__(self) -> None:
        if min(self.extent.values(), default=1) < 1:
            listed = " x ".join(f"{count} {level}" for level, count in self.extent.items())
            raise ProgramError(f"runs on {listed}; needs at least one of each")
        for place, buffer in enumerate(self.buffers.distinct):
            if buffer.size_bytes < 0 or buffer.fan_out < 1:
                number = self.buffers.which.index(place)
                raise ProgramError(
                    f"buffer {number} ({buffer.label}) has {buffer.fan_out} x {buffer.size_bytes} B"
                )
        mistake = self._mistake()
        if mistake is not None:
            position, problem = mistake
            raise ProgramError(f"instruction {position} ({self.instructions.labels[position]}) {problem}")

    def _mistake(self) -> tuple[int, str] | None:
        """Return the position of the first instruction with a mistake, and what is wrong with it."""
        table = self.instructions
        problems = [self._problem(work) for work in table.works]
        is_any_wrong = any(problems)
        pairs = table.after.pair, table.allocates.pair, table.frees.pair
        if not is_any_wrong and may_use("dsascape.hw_models.in_c.handler") and is_sound(*pairs, len(self.buffers)):
            return None
        allocated: set[int] = set()
        for position, (after, takes, frees) in enumerate(zip(table.after, table.allocates, table.frees, strict=True)):
            problem = problems[table.work_of[position]] if is_any_wrong else ""
            if after and not 0 <= min(after) <= max(after) < position:
                problem = problem or f"waits for {after}, which are not all before it"
            if takes or frees:
                problem = problem or self._buffer_mistake(takes, frees, allocated)
            if problem:
                return position, problem
        return None

    def _problem(self, work: Work) -> str:
        return work.problem if work.unit in self.units else f"runs on unknown unit {work.unit!r}"

    def _buffer_mistake(self, takes: tuple[int, ...], frees: tuple[int, ...], allocated: set[int]) -> str:
        """Return the mistake in an instruction's buffers, if any; add the buffers that it takes to ``allocated``."""
        for buffer in (*takes, *frees):
            if not 0 <= buffer < len(self.buffers):
                return f"uses unknown buffer {buffer}"
        for buffer in takes:
            if buffer in allocated:
                return f"allocates buffer {buffer} ({self.buffers[buffer].label}) again"
            allocated.add(buffer)
        for buffer in frees:
            if buffer not in allocated:
                return f"frees buffer {buffer} ({self.buffers[buffer].label}), which no earlier instruction allocates"
        return ""

    @staticmethod
    def of(
        instructions: Sequence[Instruction], buffers: Sequence[Buffer], extent: Mapping[str, int],
        units: Mapping[str, str] | None = None, memories: Mapping[str, str] | None = None,
    ) -> "Program":  # fmt: skip
        """Return the program of ``instructions``; raise ``ProgramError`` for a mistake in it."""
        table = InstructionTable.of(instructions)
        return Program(table, BufferTable.of(buffers), extent, units or {}, memories or {})

    @property
    def shared_memories(self) -> tuple[str, ...]:
        """Memories that several members of the innermost level share, such as cores, the outermost first."""
        *_, innermost = ("", *self.extent)
        return tuple([name for name, level in self.memories.items() if level != innermost])[::-1]

    def width(self, level: str) -> int:
        """Return the number of members of ``level`` under one member of the level above."""
        return self.extent.get(level, 1)

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        """Number of members in the whole machine, by level."""
        counts, total = {}, 1
        for level, width in self.extent.items():
            total *= width
            counts[level] = total
        return counts

    def count(self, level: str) -> int:
        """Return the number of members of ``level`` in the whole machine; 1 in an unrolled program."""
        return 1 if self.is_unrolled else self._counts.get(level, 1)

    def multiplicity(self, unit: str) -> int:
        """Return the number of members that run the queue of ``unit``."""
        return self.count(self.units[unit])

    def parents(self, unit: str) -> int:
        """Return the number of parents (members of the level above) that the members of ``unit`` are spread over."""
        return 1 if self.is_unrolled else self.multiplicity(unit) // self.width(self.units[unit])

    def executions(self, work: Work | Instruction) -> int:
        """Return how many times the payload of ``work`` is executed, over all members and blocks."""
        if work.blocks:
            return work.blocks * self.parents(work.unit)
        if self.is_unrolled or not work.participants:
            return self.multiplicity(work.unit)
        width = self.width(self.units[work.unit])
        return self.parents(work.unit) * min(work.participants, width)

    def __str__(self) -> str:
        extent = "".join(f" {level}={count}" for level, count in self.extent.items())
        lines = [f"program{extent}"]
        for position, instruction in enumerate(self.instructions):
            after = f" after {list(instruction.after)}" if instruction.after else ""
            lines.append(f"  {position:5d} {instruction.unit:12s} {instruction.label}{after}")
        return "\n".join(lines)
