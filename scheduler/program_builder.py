"""A program being written: instructions still take waits and buffers while others are added behind them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hw_models import Buffer, Instruction, Machine, Program
from scheduler.list_scheduling import Step, begin_order

Make = Callable[..., Instruction]
"""An instruction that lacks only its ``after``, ``allocates`` and ``frees``."""


@dataclass(slots=True)
class _Draft:
    make: Make
    step: Step
    layer_run: int
    after: dict[int, None]
    """What it waits for; the step has the same."""
    behind: dict[int, None] = field(default_factory=dict)
    """Instructions that allocate what this one frees."""
    allocates: list[int] = field(default_factory=list)
    frees: list[int] = field(default_factory=list)


class ProgramBuilder:
    """Collects instructions and buffers in order; `build` freezes them."""

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._buffers: list[Buffer] = []
        self._allocated_by: list[int] = []
        self._followed: set[int] = set()
        self._layer = 0
        self._layer_run = -1

    def __len__(self) -> int:
        return len(self._drafts)

    def begin_layer(self, layer_run: int = -1) -> None:
        """Let the instructions that follow belong to another layer: to that run of the schedule, if any."""
        self._layer += 1
        self._layer_run = layer_run

    def add(
        self, make: Make, unit: str, after: Iterable[int] = (), duration_ps: int = 0, *, is_transfer: bool = False,
        ends_ps: int = 0,
    ) -> int:  # fmt: skip
        """Append an instruction that keeps ``unit`` for ``duration_ps`` if nobody is in its way; return its position.

        ``ends_ps``: what passes until its end, if that is more.
        """
        waits = dict.fromkeys(after)
        step = Step(unit, self._layer, duration_ps, waits, is_transfer=is_transfer, ends_ps=ends_ps)
        self._drafts.append(_Draft(make, step, self._layer_run, waits))
        self._followed.update(waits)
        return len(self._drafts) - 1

    def wait(self, position: int, after: Iterable[int]) -> None:
        """Let the instruction at ``position`` also wait for ``after``."""
        draft = self._drafts[position]
        for before in after:
            draft.after[before] = None
            self._followed.add(before)

    def allocate(self, position: int, buffer: Buffer) -> int:
        """Let the instruction at ``position`` allocate ``buffer``; return the buffer's number."""
        self._buffers.append(buffer)
        self._allocated_by.append(position)
        self._drafts[position].allocates.append(len(self._buffers) - 1)
        return len(self._buffers) - 1

    def free(self, position: int, buffer: int) -> None:
        """Let the instruction at ``position`` be one of those that have to end before ``buffer`` is free."""
        draft, allocator = self._drafts[position], self._allocated_by[buffer]
        draft.frees.append(buffer)
        if allocator != position:
            draft.behind[allocator] = None

    def enter(self, first: int, waits: Iterable[int]) -> None:
        """Let all instructions from ``first`` on that wait for nothing wait for ``waits``."""
        entry = tuple(waits)
        for position in range(first, len(self._drafts)):
            if not self._drafts[position].after:
                self.wait(position, entry)

    def exits(self, first: int) -> tuple[int, ...]:
        """Return the instructions from ``first`` on for which nothing waits yet."""
        return tuple(p for p in range(first, len(self._drafts)) if p not in self._followed)

    def build(self, machine: Machine, *, interleaved: bool, **in_use: int) -> Program:
        """Return the program; where layers are ``interleaved``, units get what is ready first."""
        order: Sequence[int] = self._begin_order() if interleaved else range(len(self._drafts))
        place = {position: new for new, position in enumerate(order)}
        drafts = (self._drafts[position] for position in order)
        instructions = tuple(
            d.make(
                after=tuple([place[p] for p in d.after]),
                allocates=tuple(d.allocates),
                frees=tuple(d.frees),
                layer_run=d.layer_run,
            )
            for d in drafts
        )
        return machine.program(instructions, tuple(self._buffers), **in_use)

    def _begin_order(self) -> list[int]:
        for draft in self._drafts:
            draft.step.behind = [allocator for allocator in draft.behind if allocator not in draft.after]
        return begin_order([draft.step for draft in self._drafts])
