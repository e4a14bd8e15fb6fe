"""Operands that stay in the global buffer: fetched version by version where a layer run is written, then in bursts.

How much one burst brings follows from how fast DDR is, and nothing else of the run's instructions does. So a run is
written once, and its fetches are gathered for each machine: the first of a burst brings all of it, the others are left
out, and who waits for these waits for the first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from dsascape.hw_models import Transfer, Work
from dsascape.hw_models.simulation.columns import Column, Rows, column
from dsascape.scheduler.programs.fragments import Fragment
from dsascape.scheduler.programs.relocation import relocation


@dataclass(frozen=True, slots=True, eq=False)
class Fetches:
    """What a layer run fetches of one operand: for each version a transfer, in their order, until all is there."""

    whole_bytes: int
    positions: list[int] = field(default_factory=list)
    """In the run's fragment."""
    sizes_bytes: list[int] = field(default_factory=list)
    """What each version takes; all together they may take more than there is."""

    def note(self, position: int, size_bytes: int) -> None:
        """Note a transfer that fetches so much."""
        self.positions.append(position)
        self.sizes_bytes.append(size_bytes)

    def bursts(self, burst_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Yield for each transfer its position, that of the first of its burst, and the bytes of that.

        A burst brings ``burst_bytes``, but at least what lacks of the version and at most what is left.
        """
        left_bytes, ahead_bytes = self.whole_bytes, 0
        first = brought_bytes = 0
        for position, size_bytes in zip(self.positions, self.sizes_bytes, strict=True):
            if ahead_bytes < size_bytes and left_bytes:
                first, brought_bytes = position, min(max(burst_bytes, size_bytes - ahead_bytes), left_bytes)
                left_bytes -= brought_bytes
                ahead_bytes += brought_bytes
            ahead_bytes = max(ahead_bytes - size_bytes, 0)
            yield position, first, brought_bytes


@dataclass(frozen=True, slots=True)
class Gathered:
    """A fragment whose fetches are gathered, and where its instructions are now."""

    fragment: Fragment
    now_at: Column
    """By position before; of one that was left out, the first of its burst."""

    def moved(self, positions: Column) -> Column:
        """Return where instructions are now; -1 stands for none and stays."""
        columns = relocation()
        return columns.gathered(column((-1,)) + self.now_at, columns.shifted(positions, 1))


def gathered(fragment: Fragment, fetches: Iterable[Fetches], burst_bytes: int) -> Gathered:
    """Return ``fragment`` with all ``fetches`` in bursts."""
    first_of: dict[int, int] = {}
    brought: dict[int, int] = {}
    for operand in fetches:
        for position, first, brought_bytes in operand.bursts(burst_bytes):
            brought[first] = brought_bytes
            if position != first:
                first_of[position] = first
    left_out, begins = sorted(first_of), fragment.after.first
    assert all(begins[position] == begins[position + 1] for position in left_out), "a fetch waits for something"
    now_at = column()
    for number, (before, end) in enumerate(pairwise((-1, *left_out, len(fragment.work_of)))):
        now_at.extend(range(before + 1 - number, end - number))
        now_at.append(-1)
    now_at.pop()
    for position in left_out:
        now_at[position] = now_at[first_of[position]]
    works, work_of = _works(fragment, brought, left_out)
    columns, outside = relocation(), len(fragment.outside) + 1
    place = column(range(-outside, 0)) + now_at
    after = columns.gathered(place, columns.shifted(fragment.after.items, outside))
    made = replace(
        fragment,
        works=tuple([work for work, _ in works]),
        keeps_ps=tuple([keeps_ps for _, keeps_ps in works]),
        work_of=work_of,
        label_of=_without(fragment.label_of, left_out),
        after=Rows(_without(begins, left_out), after),
        exits=tuple([now_at[position] for position in fragment.exits]),
        allocated_by=columns.gathered(now_at, fragment.allocated_by),
        freed_by=columns.gathered(now_at, fragment.freed_by),
    )
    return Gathered(made, now_at)


def _works(
    fragment: Fragment, brought: Mapping[int, int], left_out: Sequence[int]
) -> tuple[list[tuple[Work, int]], Column]:
    """Return the works that there are when fetches bring what is ``brought``, and which each instruction does."""
    works = list(zip(fragment.works, fragment.keeps_ps, strict=True))
    numbers = {both: number for number, both in enumerate(works)}
    work_of = fragment.work_of[:]
    for position, brought_bytes in brought.items():
        work = fragment.works[work_of[position]]
        assert isinstance(work.payload, Transfer)
        both = replace(work, payload=replace(work.payload, size_bytes=brought_bytes)), 0
        work_of[position] = numbers.setdefault(both, len(works))
        if work_of[position] == len(works):
            works.append(both)
    work_of = _without(work_of, left_out)
    used = sorted(set(work_of))
    now = column((0,)) * len(works)
    for number, before in enumerate(used):
        now[before] = number
    return [works[before] for before in used], relocation().gathered(now, work_of)


def _without(numbers: Column, left_out: Sequence[int]) -> Column:
    """Return ``numbers`` but for those at some places."""
    found = column()
    for before, end in pairwise((-1, *left_out, len(numbers))):
        found += numbers[before + 1 : end]
    return found
