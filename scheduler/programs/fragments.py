"""Fragments of programs: instructions that recur in many places, written once and relocated to each of these.

A fragment numbers its instructions and its buffers from zero on. All else that an instruction waits for lies outside:
it has a number below zero, and positions only where the fragment is placed. So have the names in labels, and the
addresses of buffers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dsascape.hw_models import Work
from dsascape.hw_models.simulation.columns import Column, Rows, column

Label = tuple[int, str]
"""Which of the names that the place gives, and what is written behind it."""
Addresses = tuple[int, ...]
"""Where the versions of a buffer lie in turn; empty where it has no fixed place."""


class Outside(NamedTuple):
    """What lies outside of a fragment; whoever places that knows the positions behind it."""

    kind: str
    number: int = 0
    """Which of this kind."""
    part: int = 0
    """Which part of that."""


class FragmentBuffer(NamedTuple):
    """A buffer but for its name and its address: the place gives the addresses of all buffers, by number."""

    memory: str
    size_bytes: int
    label: Label
    addresses: int = -1
    """Which of these are its own; -1: it has no fixed place."""
    version: int = 0
    offset_bytes: int = 0
    fan_out: int = 1

    def address(self, places: Sequence[Addresses]) -> int | None:
        """Return where it begins, given the addresses of all buffers."""
        own = places[self.addresses] if self.addresses >= 0 else ()
        return own[self.version % len(own)] + self.offset_bytes if own else None


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Instructions by column, and what they allocate and free. Two are equal only if they are one object."""

    works: tuple[Work, ...]
    keeps_ps: tuple[int, ...]
    """By work: how long that keeps its unit if nobody is in its way; 0 of transfers, whose times the place knows."""
    labels: tuple[Label, ...]
    """All that occur."""
    work_of: Column
    """By position, as all columns: which of ``works`` it does."""
    label_of: Column
    after: Rows
    """Instructions of the fragment, and what lies outside."""
    exits: tuple[int, ...]
    """Instructions for which none of the others waits."""
    buffers: tuple[FragmentBuffer, ...]
    """All that differ."""
    buffer_of: Column
    """By number of a buffer: which of ``buffers`` it is like."""
    allocated_by: Column
    """By buffer."""
    freed: Column
    """Buffers that are given back, once for each instruction that has to end before."""
    freed_by: Column
    """Beside each of these, that instruction."""
    outside: tuple[Outside, ...]
    """What lies outside, sorted: -2, -3 and so on stand for these in turn."""


class FragmentWriter:
    """Collects the instructions of a fragment."""

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
        """Return the number that stands for ``what``, which lies outside."""
        return self._outside.setdefault(what, -2 - len(self._outside))

    def work(self, work: Work, keeps_ps: int = 0) -> int:
        """Return the number of ``work``, by which instructions are added.

        ``keeps_ps``: how long that keeps its unit if nobody is in its way; of transfers it is known at their place.
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
        """Return what has been written."""
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
