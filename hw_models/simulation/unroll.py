"""Unrolled programs, with instructions per member: ``matrix[0.3]`` is the matrix engine of cluster 0, core 3.

An unrolled program does the same work as the one written once for all members. Dispatched work stays dispatched,
because which member takes a block is decided at run time: one block per instruction, or all of them in one instruction
where a member holds several.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dsascape.hw_models.simulation.instructions import (
    CHIP,
    Buffer,
    BufferTable,
    Compute,
    Instruction,
    InstructionTable,
    Payload,
    Transfer,
)
from dsascape.hw_models.simulation.program import Program

Place = tuple[int, ...]
"""Coordinates of a member: its number at each level, outermost first; empty for the chip."""


def unrolled(program: Program) -> Program:
    """Return ``program`` with every member of every level as a unit or memory of its own."""
    return _Unroller(program).run()


class _Unroller:
    """State of one unrolling: the new instructions, buffers, units and memories."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._levels = list(program.extent)
        self._instructions: list[Instruction] = []
        self._buffers: list[Buffer] = []
        self._copies: dict[tuple[int, Place], list[int]] = {}
        """Positions of the new instructions, by original position and member."""
        self._buffer_copies: dict[int, dict[Place, int]] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self._units: dict[str, str] = {}
        self._memories: dict[str, str] = {}

    def run(self) -> Program:
        program = self._program
        for position, instruction in enumerate(program.instructions):
            for place in self._places(instruction):
                unit = _named(instruction.unit, place)
                self._units[unit] = program.units[instruction.unit]
                after = tuple(dict.fromkeys(self._waits(instruction, place)))
                parts = max(instruction.blocks, 1) if instruction.blocks_per_member == 1 else 1
                for part in range(parts):
                    copy = replace(
                        instruction, unit=unit, after=after, participants=0, blocks=instruction.blocks // parts,
                        payload=self._payload(instruction.payload, place),
                        allocates=() if part else tuple(self._allocated(instruction, place)),
                        frees=tuple(self._freed(instruction, place)),
                    )  # fmt: skip
                    self._copies.setdefault((position, place), []).append(len(self._instructions))
                    self._instructions.append(copy)
        return Program(
            InstructionTable.of(self._instructions), BufferTable.of(self._buffers), program.extent, self._units,
            self._memories, is_unrolled=True, groups=self._groups,
        )  # fmt: skip

    def _depth(self, level: str) -> int:
        """Return the number of coordinates of a member of ``level``."""
        return 0 if level == CHIP else self._levels.index(level) + 1

    def _members(self, depth: int) -> Iterator[Place]:
        return itertools.product(*(range(self._program.extent[level]) for level in self._levels[:depth]))

    def _places(self, instruction: Instruction) -> list[Place]:
        """Return the members that execute an instruction: participants, or for dispatched work the parents."""
        depth = self._depth(self._program.units[instruction.unit])
        if instruction.blocks:
            return list(self._members(depth - 1 if depth else 0))
        most = instruction.participants or self._program.width(self._program.units[instruction.unit])
        return [place for place in self._members(depth) if not place or place[-1] < most]

    def _waits(self, instruction: Instruction, place: Place) -> Iterator[int]:
        for before in instruction.after:
            for other in _related(place, self._places(self._program.instructions[before])):
                yield from self._copies[before, other]

    def _payload(self, payload: Payload, place: Place) -> Payload:
        if isinstance(payload, Transfer):
            source, destination = self._memory(payload.source, place), self._memory(payload.destination, place)
            link = self._memory(payload.link, place) if payload.link else ""
            return replace(payload, source=source, destination=destination, link=link)
        if isinstance(payload, Compute):
            return replace(payload, traffic=tuple((self._memory(name, place), size) for name, size in payload.traffic))
        return payload

    def _memory(self, memory: str, place: Place) -> str:
        """Return the name of the copy of ``memory`` that a member uses, or of the group of copies below it."""
        level = self._program.memories[memory]
        depth = self._depth(level)
        name = _named(memory, place[:depth])
        if depth > len(place):
            members = [member for member in self._members(depth) if member[: len(place)] == place]
            name = f"{memory}[{'.'.join([*map(str, place), '*'])}]"
            self._groups[name] = tuple(_named(memory, member) for member in members)
        for member in self._groups.get(name, (name,)):
            self._memories[member] = level
        return name

    def _allocated(self, instruction: Instruction, place: Place) -> Iterator[int]:
        for buffer in instruction.allocates:
            original = self._program.buffers[buffer]
            self._buffer_copies.setdefault(buffer, {})[place] = len(self._buffers)
            self._buffers.append(original._replace(memory=self._memory(original.memory, place)))
            yield len(self._buffers) - 1

    def _freed(self, instruction: Instruction, place: Place) -> Iterator[int]:
        for buffer in instruction.frees:
            copies = self._buffer_copies[buffer]
            yield from (copies[other] for other in _related(place, list(copies)))


def _related(place: Place, others: Sequence[Place]) -> list[Place]:
    """Return the members among ``others`` that a member depends on.

    They are itself and its ancestors, else its descendants, else all its siblings: a core that did not take part in an
    instruction waits for all that did.
    """
    around = [other for other in others if other == place[: len(other)]]
    below = [other for other in others if other[: len(place)] == place]
    return around or below or [other for other in others if other[:-1] == place[: len(other) - 1]]


def _named(name: str, place: Place) -> str:
    return f"{name}[{'.'.join(map(str, place))}]" if place else name
