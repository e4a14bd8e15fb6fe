"""Coalescing of fetches into bursts, for operands that stay in the global buffer.

Burst size depends on DDR bandwidth, and nothing else in the run's instructions does. So a run is lowered once, with one
fetch per version, and its fetches are coalesced for each machine: the first of a burst loads all of it, the others are
dropped, and dependencies on them become dependencies on the first.
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
    """Fetches of one operand by a layer run: one transfer per version, in order, until all of it is loaded."""

    whole_bytes: int
    positions: list[int] = field(default_factory=list)
    """Position of each transfer in the run's fragment."""
    sizes_bytes: list[int] = field(default_factory=list)
    """Bytes of each version; their sum may exceed ``whole_bytes``."""

    def note(self, position: int, size_bytes: int) -> None:
        """Record a transfer of ``size_bytes`` at ``position``."""
        self.positions.append(position)
        self.sizes_bytes.append(size_bytes)

    def bursts(self, burst_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Yield for each transfer (its position, position of the first of its burst, bytes of the burst).

        A burst has ``burst_bytes``, but at least the rest of the version and at most the rest of the operand.
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
    """Fragment with coalesced fetches, and the new positions of its instructions."""

    fragment: Fragment
    now_at: Column
    """New position by old position; for a dropped fetch, that of the first of its burst."""

    def moved(self, positions: Column) -> Column:
        """Return the new positions of instructions; -1 (none) stays."""
        columns = relocation()
        return columns.gathered(column((-1,)) + self.now_at, columns.shifted(positions, 1))


def gathered(fragment: Fragment, fetches: Iterable[Fetches], burst_bytes: int) -> Gathered:
    """Return ``fragment`` with all ``fetches`` coalesced into bursts of ``burst_bytes``."""
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
    coalesced = replace(
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
    return Gathered(coalesced, now_at)


def _works(
    fragment: Fragment, brought: Mapping[int, int], left_out: Sequence[int]
) -> tuple[list[tuple[Work, int]], Column]:
    """Return the works with fetch sizes set to ``brought`` (bytes by position), and the work of each instruction."""
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
    """Return ``numbers`` without the entries at positions ``left_out``."""
    kept = column()
    for before, end in pairwise((-1, *left_out, len(numbers))):
        kept += numbers[before + 1 : end]
    return kept
