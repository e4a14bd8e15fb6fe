"""A program being written: instructions are added, one by one or fragment by fragment, and take buffers."""

from collections.abc import Iterable, Sequence

from hw_models import Buffer, InstructionTable, Machine, Program, Work
from scheduler.fragments import Addresses, Fragment, Lifetimes
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
        self._after: list[tuple[int, ...]] = []
        """What each instruction waits for; its step has the same."""
        self._works_of: dict[Fragment, list[int]] = {}
        """By fragment that has been placed: the numbers of its works."""
        self._buffers: list[Buffer] = []
        self._lives = Lifetimes()
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

    def add(self, work: int, label: str, after: Iterable[int] = (), duration_ps: int = 0) -> int:
        """Append an instruction that keeps its unit for ``duration_ps`` when alone; return its position."""
        waits = tuple(dict.fromkeys(after))
        self._steps.append(Step(self._units[work], self._layer, duration_ps, waits))
        self._work_of.append(work)
        self._labels.append(label)
        self._layer_runs.append(self._layer_run)
        self._after.append(waits)
        return len(self._work_of) - 1

    def place(
        self, fragment: Fragment, names: Sequence[str], addresses: Sequence[Addresses],
        outside: Sequence[Sequence[int]], entry: tuple[int, ...],
    ) -> int:  # fmt: skip
        """Append the instructions of ``fragment``; return the position of the first.

        ``outside``: what lies outside of it. Instructions that wait for nothing else wait for ``entry``.
        """
        first, first_buffer = len(self), len(self._buffers)
        works = self._works_of.get(fragment)
        if works is None:
            works = self._works_of[fragment] = [self.work(work) for work in fragment.works]
        units = [self._units[work] for work in works]
        label_of = {label: names[label[0]] + label[1] for label in fragment.labels}
        layer, all_steps, all_after = self._layer, self._steps, self._after
        for work, _, after, is_inside, duration_ps, is_transfer, ends_ps in fragment.steps:
            if is_inside:
                waits = tuple([first + position for position in after])
            else:
                found: list[int] = []
                for position in after:
                    if position >= 0:
                        found.append(first + position)
                    else:
                        found.extend(outside[-2 - position])
                waits = tuple(dict.fromkeys(found)) if found else entry
            all_after.append(waits)
            all_steps.append(Step(units[work], layer, duration_ps, waits, (), is_transfer, ends_ps))
        self._work_of += [works[step.work] for step in fragment.steps]
        self._labels += [label_of[step.label] for step in fragment.steps]
        self._layer_runs += [self._layer_run] * len(fragment.steps)
        buffers = [
            Buffer(each.memory, each.size_bytes, each.fan_out, label_of[each.label], each.address(addresses))
            for each in fragment.buffers
        ]
        self._buffers += [buffers[number] for number in fragment.buffer_of]
        lives = self._lives
        lives.allocated_by += [first + position for position in fragment.allocated_by]
        for position, taken in fragment.allocates.items():
            lives.allocates[first + position] = [first_buffer + number for number in taken]
        for position, freed in fragment.frees.items():
            lives.frees[first + position] = [first_buffer + number for number in freed]
        for position, allocators in fragment.behind.items():
            lives.behind[first + position] = dict.fromkeys([first + allocator for allocator in allocators])
        return first

    def allocate(self, position: int, buffer: Buffer) -> int:
        """Let the instruction at ``position`` allocate ``buffer``; return the buffer's number."""
        self._buffers.append(buffer)
        return self._lives.allocate(position)

    def free(self, position: int, buffer: int) -> None:
        """Let the instruction at ``position`` be one of those that have to end before ``buffer`` is free."""
        self._lives.free(position, buffer)

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
        allocates, frees, after = self._lives.allocates, self._lives.frees, self._after
        table = InstructionTable(
            works=tuple(self._works),
            work_of=tuple([self._work_of[p] for p in order]),
            after=tuple([tuple([place[before] for before in after[p]]) for p in order]),
            allocates=tuple([tuple(allocates[p]) if p in allocates else () for p in order]),
            frees=tuple([tuple(frees[p]) if p in frees else () for p in order]),
            labels=tuple([self._labels[p] for p in order]),
            layer_runs=tuple([self._layer_runs[p] for p in order]),
        )
        return machine.program(table, tuple(self._buffers), **in_use)

    def _begin_order(self) -> list[int]:
        for position, behind in self._lives.behind.items():
            after = self._after[position]
            self._steps[position].behind = [allocator for allocator in behind if allocator not in after]
        return begin_order(self._steps)
