"""Fragments: code templates of instructions that recur in many places, written once and relocated to each of them.

A fragment numbers its instructions and its buffers from zero. External dependencies have negative numbers, which are
resolved to positions when the fragment is placed, as are the names in labels and the addresses of buffers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dsascape.hw_models import Work
from dsascape.hw_models.simulation.columns import Column, Rows, column

Label = tuple[int, str]
"""Label template: index into the names given on placement, and the suffix appended to that name."""
Addresses = tuple[int, ...]
"""Addresses that the versions of a buffer use in rotation; empty for a buffer without fixed addresses."""


class Outside(NamedTuple):
    """External dependency of a fragment, resolved to instruction positions on placement."""

    kind: str
    number: int = 0
    """Index among the dependencies of this kind."""
    part: int = 0
    """Index of a part of that dependency."""


class FragmentBuffer(NamedTuple):
    """Buffer template: name and addresses are given on placement, by number."""

    memory: str
    size_bytes: int
    label: Label
    addresses: int = -1
    """Index of its addresses among those given on placement; -1: no fixed address."""
    version: int = 0
    offset_bytes: int = 0
    fan_out: int = 1

    def address(self, places: Sequence[Addresses]) -> int | None:
        """Return the buffer's start address, given the addresses of all buffers; None without a fixed address."""
        own = places[self.addresses] if self.addresses >= 0 else ()
        return own[self.version % len(own)] + self.offset_bytes if own else None


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Instructions in columns, with the buffers they allocate and free. Compared by identity."""

    works: tuple[Work, ...]
    keeps_ps: tuple[int, ...]
    """Time in ps that each work occupies its unit without contention; 0 for transfers, timed on placement."""
    labels: tuple[Label, ...]
    """Distinct labels of the fragment's instructions."""
    work_of: Column
    """Index into ``works`` of each instruction (columns are by instruction position)."""
    label_of: Column
    after: Rows
    """Dependencies of each instruction: positions in the fragment, or negative numbers of external dependencies."""
    exits: tuple[int, ...]
    """Instructions that no other instruction of the fragment waits for."""
    buffers: tuple[FragmentBuffer, ...]
    """Distinct buffers that the fragment allocates."""
    buffer_of: Column
    """Index into ``buffers`` of each allocated buffer."""
    allocated_by: Column
    """Instruction that allocates each buffer."""
    freed: Column
    """Freed buffers, one entry per instruction that has to end first."""
    freed_by: Column
    """Instruction that has to end first, for each entry of ``freed``."""
    outside: tuple[Outside, ...]
    """External dependencies, sorted: -2, -3 and so on in ``after`` stand for these in turn."""


class FragmentWriter:
    """Builder of a fragment: collects instructions and buffers; `written` returns the result."""

    def __init__(self) -> None:
        self._works: dict[tuple[Work, int], int] = {}
        self._outside: dict[Outside, int] = {}
        self._work_of = column()
        self._label_of: list[Label] = []
        self._after: list[dict[int, None]] = []
        self._buffers: dict[FragmentBuffer, int] = {}
        self._buffer_of, self._allocated_by = column(), column()
        self._freed, self._freed_by = column(), column()

    def outside(self, what: Outside) -> int:
        """Return the negative number that stands for the external dependency ``what``."""
        return self._outside.setdefault(what, -2 - len(self._outside))

    def work(self, work: Work, keeps_ps: int = 0) -> int:
        """Return the number of ``work``, by which instructions are added.

        ``keeps_ps``: time that it occupies its unit without contention; 0 for transfers, timed on placement.
        """
        return self._works.setdefault((work, keeps_ps), len(self._works))

    def add(self, work: int, label: Label, after: Iterable[int] = ()) -> int:
        """Append an instruction; return its position."""
        self._work_of.append(work)
        self._label_of.append(label)
        self._after.append(dict.fromkeys(after))
        return len(self._work_of) - 1

    def wait(self, position: int, after: Iterable[int]) -> None:
        """Let the instruction at ``position`` also wait for ``after``."""
        self._after[position].update(dict.fromkeys(after))

    def allocate(self, position: int, buffer: FragmentBuffer) -> int:
        """Let the instruction at ``position`` allocate ``buffer``; return the buffer's number."""
        number = len(self._buffer_of)
        self._buffer_of.append(self._buffers.setdefault(buffer, len(self._buffers)))
        self._allocated_by.append(position)
        return number

    def free(self, position: int, buffer: int) -> None:
        """Let the instruction at ``position`` be one of those that have to end before ``buffer`` is free."""
        self._freed.append(buffer)
        self._freed_by.append(position)

    def written(self) -> Fragment:
        """Return the fragment."""
        labels = dict.fromkeys((*self._label_of, *self._held_labels()))
        numbers = {label: number for number, label in enumerate(labels)}
        followed = set[int]().union(*self._after)
        outside = sorted(self._outside)
        after = Rows.of(self._after)
        if outside != list(self._outside):
            sorted_as = {self._outside[what]: -2 - place for place, what in enumerate(outside)}
            after = Rows(after.first, column([sorted_as[to] if to < 0 else to for to in after.items]))
        return Fragment(
            works=tuple([work for work, _ in self._works]),
            keeps_ps=tuple([keeps_ps for _, keeps_ps in self._works]),
            labels=tuple(numbers),
            work_of=self._work_of,
            label_of=column([numbers[label] for label in self._label_of]),
            after=after,
            exits=tuple([position for position in range(len(self._after)) if position not in followed]),
            buffers=tuple(self._buffers),
            buffer_of=self._buffer_of,
            allocated_by=self._allocated_by,
            freed=self._freed,
            freed_by=self._freed_by,
            outside=tuple(outside),
        )

    def _held_labels(self) -> Iterable[Label]:
        return [held.label for held in self._buffers]
