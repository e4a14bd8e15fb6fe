"""A program being written: instructions are added, one by one or fragment by fragment, and take buffers."""

from collections.abc import Callable, Iterable, Sequence

from hw_models import Buffer, InstructionTable, Machine, Program, Transfer, Work
from scheduler.fragments import Addresses, Fragment
from scheduler.list_scheduling import Steps, WorkTime, begin_order
from scheduler.waits import relocation, reordered

TransferPs = Callable[[str, int], tuple[int, int]]
"""Of a unit and the bytes of a transfer: how long it keeps the unit, and how long from its issue to its end."""


class ProgramBuilder:
    """Collects instructions, by column, and buffers in order; `build` freezes them."""

    def __init__(self, transfer_ps: TransferPs) -> None:
        self._transfer_ps = transfer_ps
        self._relocated = relocation()
        self._works: dict[tuple[Work, int], int] = {}
        """With how long they keep their units."""
        self._units: dict[str, int] = {}
        self._steps = Steps()
        self._labels: list[str] = []
        self._layer_runs: list[int] = []
        self._works_of: dict[Fragment, list[int]] = {}
        """By fragment that has been placed: the numbers of its works."""
        self._buffers: list[Buffer] = []
        self._allocates: list[tuple[int, ...]] = []
        self._layer = 0
        self._layer_run = -1

    def __len__(self) -> int:
        return len(self._labels)

    def begin_layer(self, layer_run: int = -1) -> None:
        """Let the instructions that follow belong to another layer: to that run of the schedule, if any."""
        self._layer += 1
        self._layer_run = layer_run

    def work(self, work: Work, keeps_ps: int = 0) -> int:
        """Return the number of ``work``, by which instructions are added.

        ``keeps_ps``: how long that keeps its unit if nobody is in its way; nothing of transfers, whose times are known.
        """
        number = self._works.setdefault((work, keeps_ps), len(self._works))
        if number == len(self._steps.works):
            unit, payload = self._units.setdefault(work.unit, len(self._units)), work.payload
            if isinstance(payload, Transfer):
                timed = WorkTime(unit, *self._transfer_ps(work.unit, payload.size_bytes), is_transfer=True)
            else:
                timed = WorkTime(unit, keeps_ps)
            self._steps.works.append(timed)
        return number

    def add(self, work: int, label: str, after: Iterable[int] = ()) -> int:
        """Append an instruction; return its position."""
        self._append((work,), [tuple(dict.fromkeys(after))])
        self._allocates.append(())
        self._steps.frees.append(())
        self._labels.append(label)
        return len(self) - 1

    def _append(self, works: Sequence[int], after: list[tuple[int, ...]]) -> None:
        """Append instructions of this layer, but for their labels."""
        steps = self._steps
        steps.work_of += works
        steps.after += after
        steps.layers += [self._layer] * len(after)
        self._layer_runs += [self._layer_run] * len(after)

    def place(
        self, fragment: Fragment, names: Sequence[str], addresses: Sequence[Addresses],
        outside: list[tuple[int, ...]], entry: tuple[int, ...],
    ) -> int:  # fmt: skip
        """Append the instructions of ``fragment``; return the position of the first.

        ``outside``: what lies outside of it. Instructions that wait for nothing else wait for ``entry``.
        """
        first, first_buffer = len(self), len(self._buffers)
        works = self._works_of.get(fragment)
        if works is None:
            works = self._works_of[fragment] = list(map(self.work, fragment.works, fragment.keeps_ps))
        own_works = [works[number] for number in fragment.work_of]
        after = self._relocated(fragment.after, first, outside, entry)
        self._append(own_works, after)
        labels = [names[place] + behind for place, behind in fragment.labels]
        self._labels += [labels[number] for number in fragment.label_of]
        label_of = dict(zip(fragment.labels, labels, strict=True))
        buffers = [
            Buffer(each.memory, each.size_bytes, each.fan_out, label_of[each.label], each.address(addresses))
            for each in fragment.buffers
        ]
        self._buffers += [buffers[number] for number in fragment.buffer_of]
        self._allocates += self._relocated(fragment.allocates, first_buffer, [], ())
        self._steps.frees += self._relocated(fragment.frees, first_buffer, [], ())
        self._steps.allocated_by += [first + position for position in fragment.allocated_by]
        return first

    def allocate(self, position: int, buffer: Buffer) -> int:
        """Let the instruction at ``position`` allocate ``buffer``; return the buffer's number."""
        number = len(self._buffers)
        self._buffers.append(buffer)
        self._allocates[position] += (number,)
        self._steps.allocated_by.append(position)
        return number

    def free(self, position: int, buffer: int) -> None:
        """Let the instruction at ``position`` be one of those that have to end before ``buffer`` is free."""
        self._steps.frees[position] += (buffer,)

    def build(self, machine: Machine, *, interleaved: bool, **in_use: int) -> Program:
        """Return the program; where layers are ``interleaved``, units get what is ready first."""
        order = begin_order(self._steps) if interleaved else list(range(len(self)))
        steps = self._steps
        table = InstructionTable(
            works=tuple([work for work, _ in self._works]),
            work_of=tuple([steps.work_of[p] for p in order]),
            after=reordered(steps.after, order),
            allocates=tuple([self._allocates[p] for p in order]),
            frees=tuple([steps.frees[p] for p in order]),
            labels=tuple([self._labels[p] for p in order]),
            layer_runs=tuple([self._layer_runs[p] for p in order]),
        )
        return machine.program(table, tuple(self._buffers), **in_use)
