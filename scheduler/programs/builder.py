"""Builder of programs: instructions are added one by one or fragment by fragment, with the buffers they allocate."""

from collections.abc import Callable, Iterable, Sequence

from dsascape.hw_models import Buffer, BufferTable, InstructionTable, Machine, Program, Transfer, Work
from dsascape.hw_models.simulation.columns import Column, Rows, column
from dsascape.scheduler.programs.fragments import Addresses, Fragment
from dsascape.scheduler.programs.list_scheduling import Steps, WorkTime, begin_order
from dsascape.scheduler.programs.relocation import relocation

TransferPs = Callable[[str, int], tuple[int, int]]
"""Time model of transfers: from a unit and a size in bytes to (time it occupies the unit, latency from issue to
end)."""


class ProgramBuilder:
    """Collects instructions, by column, and buffers in order; `build` freezes them."""

    def __init__(self, transfer_ps: TransferPs) -> None:
        self._transfer_ps = transfer_ps
        self._columns = relocation()
        self._works: dict[tuple[Work, int], int] = {}
        """Number of each distinct (work, time in ps that it occupies its unit)."""
        self._units: dict[str, int] = {}
        self._steps = Steps()
        self._labels: list[str] = []
        self._layer_runs = column()
        self._works_of: dict[Fragment, Column] = {}
        """Numbers of the works of each fragment placed so far."""
        self._buffers: dict[Buffer, int] = {}
        """Number of each distinct buffer."""
        self._which = column()
        """Index of each allocated buffer into the distinct ones."""
        self._freed, self._freed_by = column(), column()
        """Freed buffers, one entry per instruction that has to end first; and these instructions."""
        self._layer = 0
        self._layer_run = -1

    def __len__(self) -> int:
        return len(self._labels)

    def begin_layer(self, layer_run: int = -1) -> None:
        """Start a new layer for the instructions that follow; ``layer_run``: its run in the schedule, -1 for none."""
        self._layer += 1
        self._layer_run = layer_run

    def work(self, work: Work, keeps_ps: int = 0) -> int:
        """Return the number of ``work``, by which instructions are added.

        ``keeps_ps``: time that it occupies its unit without contention; 0 for transfers, timed by the time model.
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
        self._append(column((work,)), Rows.of([tuple(dict.fromkeys(after))]))
        self._labels.append(label)
        return len(self) - 1

    def _append(self, works: Column, after: Rows) -> None:
        """Append instructions of the current layer, without their labels."""
        steps = self._steps
        steps.work_of += works
        self._columns.extend(steps.after, after)
        steps.layers += column((self._layer,)) * len(works)
        self._layer_runs += column((self._layer_run,)) * len(works)

    def place(
        self, fragment: Fragment, names: Sequence[str], addresses: Sequence[Addresses], outside: Rows,
        entry: tuple[int, ...],
    ) -> int:  # fmt: skip
        """Append the instructions of ``fragment``; return the position of the first.

        ``names``: prefixes of its labels; ``addresses``: addresses per buffer; ``outside``: positions that stand for
        each of its external dependencies. Instructions without dependencies wait for ``entry``.
        """
        first, first_buffer, columns = len(self), len(self._which), self._columns
        works = self._works_of.get(fragment)
        if works is None:
            works = self._works_of[fragment] = column(map(self.work, fragment.works, fragment.keeps_ps))
        after = columns.relocated(fragment.after, first, outside, entry)
        self._append(columns.gathered(works, fragment.work_of), after)
        labels = [names[place] + behind for place, behind in fragment.labels]
        self._labels += [labels[number] for number in fragment.label_of]
        label_of = dict(zip(fragment.labels, labels, strict=True))
        buffers = column([
            self._buffer(Buffer(one.memory, one.size_bytes, one.fan_out, label_of[one.label], one.address(addresses)))
            for one in fragment.buffers
        ])
        self._which += columns.gathered(buffers, fragment.buffer_of)
        self._steps.allocated_by += columns.shifted(fragment.allocated_by, first)
        self._freed += columns.shifted(fragment.freed, first_buffer)
        self._freed_by += columns.shifted(fragment.freed_by, first)
        return first

    def _buffer(self, buffer: Buffer) -> int:
        """Return the number of ``buffer`` among the distinct ones."""
        return self._buffers.setdefault(buffer, len(self._buffers))

    def allocate(self, position: int, buffer: Buffer) -> int:
        """Let the instruction at ``position`` allocate ``buffer``; return the buffer's number."""
        number = len(self._which)
        self._which.append(self._buffer(buffer))
        self._steps.allocated_by.append(position)
        return number

    def free(self, position: int, buffer: int) -> None:
        """Let the instruction at ``position`` be one of those that have to end before ``buffer`` is free."""
        self._freed.append(buffer)
        self._freed_by.append(position)

    def build(self, machine: Machine, *, interleaved: bool, **in_use: int) -> Program:
        """Return the program; nothing may be added to the builder afterwards.

        ``interleaved``: order the units' queues by list scheduling instead of layer by layer.
        """
        steps, count, columns = self._steps, len(self), self._columns
        work_of, layer_runs, labels, after = steps.work_of, self._layer_runs, self._labels, steps.after
        allocates, freed = columns.grouped(steps.allocated_by, count), columns.grouped(self._freed_by, count)
        steps.frees = frees = Rows(freed.first, columns.gathered(self._freed, freed.items))
        if interleaved:
            order = begin_order(steps)
            work_of, layer_runs = columns.gathered(work_of, order), columns.gathered(layer_runs, order)
            labels = [labels[position] for position in order]
            after = columns.reordered(after, order, of_positions=True)
            allocates, frees = [columns.reordered(rows, order, of_positions=False) for rows in (allocates, frees)]
        works = tuple([work for work, _ in self._works])
        table = InstructionTable(works, work_of, after, allocates, frees, tuple(labels), layer_runs)
        return machine.program(table, BufferTable(tuple(self._buffers), self._which), **in_use)
