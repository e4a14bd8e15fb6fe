"""Fragments of programs: instructions that recur in many places, written once and relocated to each of these.

A fragment numbers its instructions and its buffers from zero on. All else that an instruction waits for lies outside:
it has a number below zero, and positions only where the fragment is placed. So have the names in labels, and the
addresses of buffers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hw_models import Work

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


class FragmentStep(NamedTuple):
    """An instruction: see `scheduler.program_builder.ProgramBuilder.add`."""

    work: int
    """Which of the fragment's works."""
    label: Label
    after: tuple[int, ...]
    """Instructions of the fragment, and what lies outside."""
    is_inside: bool
    """Whether it waits for instructions of the fragment, and for nothing outside."""
    duration_ps: int
    is_transfer: bool
    ends_ps: int


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """Instructions by position, and what they allocate and free. Two are equal only if they are one object."""

    works: tuple[Work, ...]
    labels: tuple[Label, ...]
    """All that occur."""
    steps: tuple[FragmentStep, ...]
    buffers: tuple[FragmentBuffer, ...]
    """All that differ."""
    buffer_of: tuple[int, ...]
    """By number of a buffer: which of ``buffers`` it is like."""
    allocates: Mapping[int, tuple[int, ...]]
    """By position, as far as it allocates anything."""
    allocated_by: tuple[int, ...]
    """By buffer."""
    frees: Mapping[int, tuple[int, ...]]
    behind: Mapping[int, tuple[int, ...]]
    """Instructions that allocate what the one at a position frees."""
    outside: tuple[Outside, ...]
    """What lies outside: -2, -3 and so on stand for these in turn."""


class Lifetimes:
    """Which instruction allocates each buffer, and which ones have to end before it is free, as they are written."""

    def __init__(self) -> None:
        self.allocated_by: list[int] = []
        """By number of a buffer."""
        self.allocates: dict[int, list[int]] = {}
        """By position of an instruction, as for those that follow."""
        self.frees: dict[int, list[int]] = {}
        self.behind: dict[int, dict[int, None]] = {}
        """Instructions that allocate what it frees."""

    def allocate(self, position: int) -> int:
        """Let the instruction at ``position`` allocate the next buffer; return its number."""
        number = len(self.allocated_by)
        self.allocated_by.append(position)
        self.allocates.setdefault(position, []).append(number)
        return number

    def free(self, position: int, buffer: int) -> None:
        """Let the instruction at ``position`` be one of those that have to end before ``buffer`` is free."""
        self.frees.setdefault(position, []).append(buffer)
        allocator = self.allocated_by[buffer]
        if allocator != position:
            self.behind.setdefault(position, {})[allocator] = None


class FragmentWriter:
    """Collects the instructions of a fragment."""

    def __init__(self) -> None:
        self._works: dict[Work, int] = {}
        self._outside: dict[Outside, int] = {}
        self._steps: list[tuple[int, Label, int, bool, int]] = []
        """Of each instruction: its work, its label, how long it keeps its unit, whether it moves data, and its end."""
        self._after: list[dict[int, None]] = []
        self._buffers: dict[FragmentBuffer, int] = {}
        self._buffer_of: list[int] = []
        self._lives = Lifetimes()

    def outside(self, what: Outside) -> int:
        """Return the number that stands for ``what``, which lies outside."""
        return self._outside.setdefault(what, -2 - len(self._outside))

    def work(self, work: Work) -> int:
        """Return the number of ``work``, by which instructions are added."""
        return self._works.setdefault(work, len(self._works))

    def add(
        self, work: int, label: Label, after: Iterable[int] = (), duration_ps: int = 0, *, is_transfer: bool = False,
        ends_ps: int = 0,
    ) -> int:  # fmt: skip
        """Append an instruction that keeps its unit for ``duration_ps`` if nobody is in its way; return its position.

        ``ends_ps``: what passes until its end, if that is more.
        """
        self._steps.append((work, label, duration_ps, is_transfer, ends_ps))
        self._after.append(dict.fromkeys(after))
        return len(self._steps) - 1

    def wait(self, position: int, after: Iterable[int]) -> None:
        """Let the instruction at ``position`` also wait for ``after``."""
        self._after[position].update(dict.fromkeys(after))

    def allocate(self, position: int, buffer: FragmentBuffer) -> int:
        """Let the instruction at ``position`` allocate ``buffer``; return the buffer's number."""
        self._buffer_of.append(self._buffers.setdefault(buffer, len(self._buffers)))
        return self._lives.allocate(position)

    def free(self, position: int, buffer: int) -> None:
        """Let the instruction at ``position`` be one of those that have to end before ``buffer`` is free."""
        self._lives.free(position, buffer)

    def written(self) -> Fragment:
        """Return what has been written."""
        steps = []
        for (work, label, duration_ps, is_transfer, ends_ps), waits in zip(self._steps, self._after, strict=True):
            after = tuple(waits)
            is_inside = bool(after) and min(after) >= 0
            steps.append(FragmentStep(work, label, after, is_inside, duration_ps, is_transfer, ends_ps))
        labels = dict.fromkeys([step.label for step in steps]) | dict.fromkeys([held.label for held in self._buffers])
        return Fragment(
            works=tuple(self._works),
            labels=tuple(labels),
            steps=tuple(steps),
            buffers=tuple(self._buffers),
            buffer_of=tuple(self._buffer_of),
            allocates={position: tuple(numbers) for position, numbers in self._lives.allocates.items()},
            allocated_by=tuple(self._lives.allocated_by),
            frees={position: tuple(numbers) for position, numbers in self._lives.frees.items()},
            behind={position: tuple(numbers) for position, numbers in self._lives.behind.items()},
            outside=tuple(self._outside),
        )
