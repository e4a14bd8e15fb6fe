"""Operands that stay in the global buffer: fetched version by version where a layer run is written, then in bursts.

How much one burst brings follows from how fast DDR is, and nothing else of the run's instructions does. So a run is
written once, and its fetches are gathered for each machine: the first of a burst brings all of it, the others are left
out, and who waits for these waits for the first.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hw_models import Transfer, Work
from hw_models.columns import Column, Rows, column
from scheduler.fragments import Fragment
from scheduler.relocation import relocation


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
    left_out = sorted(first_of)
    now_at = column()
    for number, (before, end) in enumerate(pairwise((-1, *left_out, len(fragment.work_of)))):
        now_at.extend(range(before + 1 - number, end - number))
        now_at.append(-1)
    now_at.pop()
    for position in left_out:
        now_at[position] = now_at[first_of[position]]
    works, keeps_ps, work_of = _works(fragment, brought)
    after, columns = fragment.after, relocation()
    outside = len(fragment.outside) + 1  # numbers from minus that on
    place = column(range(-outside, 0)) + now_at
    made = replace(
        fragment,
        works=works,
        keeps_ps=keeps_ps,
        work_of=_without(work_of, left_out),
        label_of=_without(fragment.label_of, left_out),
        after=Rows(_without(after.first, left_out), columns.gathered(place, columns.shifted(after.items, outside))),
        exits=tuple([now_at[position] for position in fragment.exits]),
        allocated_by=columns.gathered(now_at, fragment.allocated_by),
        freed_by=columns.gathered(now_at, fragment.freed_by),
    )
    return Gathered(made, now_at)


def _works(fragment: Fragment, brought: dict[int, int]) -> tuple[tuple[Work, ...], tuple[int, ...], Column]:
    """Return all works, how long they keep their units, and which each instruction does: fetches what is brought."""
    works = {both: number for number, both in enumerate(zip(fragment.works, fragment.keeps_ps, strict=True))}
    work_of = fragment.work_of[:]
    for position, brought_bytes in brought.items():
        work = fragment.works[work_of[position]]
        assert isinstance(work.payload, Transfer)
        work = replace(work, payload=replace(work.payload, size_bytes=brought_bytes))
        work_of[position] = works.setdefault((work, 0), len(works))
    return tuple([work for work, _ in works]), tuple([keeps_ps for _, keeps_ps in works]), work_of


def _without(numbers: Column, left_out: list[int]) -> Column:
    """Return ``numbers`` but for those at some places."""
    found = column()
    for before, end in pairwise((-1, *left_out, len(numbers))):
        found += numbers[before + 1 : end]
    return found
