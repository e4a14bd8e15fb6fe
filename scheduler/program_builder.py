"""A program being written: instructions still take waits and buffers while others are added behind them."""

from collections.abc import Iterable, Sequence

from hw_models import Buffer, InstructionTable, Machine, Program, Work
from scheduler.list_scheduling import Step, begin_order


class ProgramBuilder:
    """Collects instructions, by column, and buffers in order; `build` freezes them."""

    def __init__(self) -> None:
        self._works: dict[Work, int] = {}
        self._units: list[str] = []
        """By work."""
        self._work_of: list[int] = []
        self._labels: list[str] = []
        self._layer_runs: list[int] = []
        self._steps: list[Step] = []
        self._after: list[dict[int, None]] = []
        """What each instruction waits for; its step has the same."""
        self._behind: dict[int, dict[int, None]] = {}
        """By instruction: those that allocate what it frees."""
        self._allocates: dict[int, list[int]] = {}
        self._frees: dict[int, list[int]] = {}
        self._buffers: list[Buffer] = []
        self._allocated_by: list[int] = []
        self._layer = 0
        self._layer_run = -1

    def __len__(self) -> int:
        return len(self._work_of)

    def begin_layer(self, layer_run: int = -1) -> None:
        """Let the instructions that follow belong to another layer: to that run of the schedule, if any."""
        self._layer += 1
        self._layer_run = layer_run

    def work(self, work: Work) -> int:
        """Return the number of ``work``, by which instructions are added."""
        number = self._works.setdefault(work, len(self._works))
        if number == len(self._units):
            self._units.append(work.unit)
        return number

    def add(
        self, work: int, label: str, after: Iterable[int] = (), duration_ps: int = 0, *, is_transfer: bool = False,
        ends_ps: int = 0,
    ) -> int:  # fmt: skip
        """Append an instruction that keeps its unit for ``duration_ps`` if nobody is in its way; return its position.

        ``ends_ps``: what passes until its end, if that is more.
        """
        waits = dict.fromkeys(after)
        self._steps.append(Step(self._units[work], self._layer, duration_ps, waits, (), is_transfer, ends_ps))
        self._work_of.append(work)
        self._labels.append(label)
        self._layer_runs.append(self._layer_run)
        self._after.append(waits)
        return len(self._work_of) - 1

    def wait(self, position: int, after: Iterable[int]) -> None:
        """Let the instruction at ``position`` also wait for ``after``."""
        self._after[position].update(dict.fromkeys(after))

    def allocate(self, position: int, buffer: Buffer) -> int:
        """Let the instruction at ``position`` allocate ``buffer``; return the buffer's number."""
        number = len(self._buffers)
        self._buffers.append(buffer)
        self._allocated_by.append(position)
        self._allocates.setdefault(position, []).append(number)
        return number

    def free(self, position: int, buffer: int) -> None:
        """Let the instruction at ``position`` be one of those that have to end before ``buffer`` is free."""
        self._frees.setdefault(position, []).append(buffer)
        allocator = self._allocated_by[buffer]
        if allocator != position:
            self._behind.setdefault(position, {})[allocator] = None

    def enter(self, first: int, waits: Iterable[int]) -> None:
        """Let all instructions from ``first`` on that wait for nothing wait for ``waits``."""
        entry = tuple(waits)
        for position in range(first, len(self)):
            if not self._after[position]:
                self.wait(position, entry)

    def exits(self, first: int) -> tuple[int, ...]:
        """Return the instructions from ``first`` on for which nothing waits yet."""
        followed = set[int]().union(*self._after[first:])
        return tuple([p for p in range(first, len(self)) if p not in followed])

    def build(self, machine: Machine, *, interleaved: bool, **in_use: int) -> Program:
        """Return the program; where layers are ``interleaved``, units get what is ready first."""
        order: Sequence[int] = self._begin_order() if interleaved else range(len(self))
        place = [0] * len(self)
        for new, position in enumerate(order):
            place[position] = new
        allocates, frees, after = self._allocates, self._frees, self._after
        table = InstructionTable(
            works=tuple(self._works),
            work_of=tuple([self._work_of[p] for p in order]),
            after=tuple([tuple([place[before] for before in after[p]]) for p in order]),
            allocates=tuple([tuple(allocates.get(p, ())) for p in order]),
            frees=tuple([tuple(frees.get(p, ())) for p in order]),
            labels=tuple([self._labels[p] for p in order]),
            layer_runs=tuple([self._layer_runs[p] for p in order]),
        )
        return machine.program(table, tuple(self._buffers), **in_use)

    def _begin_order(self) -> list[int]:
        for position, behind in self._behind.items():
            after = self._after[position]
            self._steps[position].behind = [allocator for allocator in behind if allocator not in after]
        return begin_order(self._steps)
