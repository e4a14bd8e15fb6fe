"""Across-layer instruction scheduling (GraphTurbo, section 4.4): the order in which units get their instructions.

Queues are served in order, so a tile of a later layer that is ready would wait behind tiles of an earlier one that are
not. List scheduling finds the order in which the instructions would begin if each unit always took the most urgent
ready one. On a compute unit that is the one with the longest critical path to the end of the program; among transfers,
the one of the earliest layer. Memory contention is ignored: every duration is that of the instruction alone.
Instructions of one layer on one unit keep their order.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsascape.hw_models.in_c import is_built, may_use
from dsascape.hw_models.simulation.columns import Column, Rows, column

if is_built("dsascape.scheduler.in_c.columns"):
    from dsascape.scheduler.in_c import columns


class WorkTime(NamedTuple):
    """Unit and uncontended duration of a kind of work."""

    unit: int
    keeps_ps: int
    """Time in ps that it occupies the unit."""
    ends_ps: int = 0
    """Latency in ps from begin to end where it exceeds ``keeps_ps``, as start-ups of transfers in flight overlap."""
    is_transfer: bool = False

    @property
    def whole_ps(self) -> int:
        """Latency in ps from begin to end."""
        return max(self.keeps_ps, self.ends_ps)


@dataclass(slots=True)
class Steps:
    """Instructions in columns, with the properties that list scheduling needs."""

    works: list[WorkTime] = field(default_factory=list)
    """Distinct works."""
    work_of: Column = field(default_factory=column)
    """Index into ``works`` of each instruction (columns are by instruction position)."""
    layers: Column = field(default_factory=column)
    after: Rows = field(default_factory=Rows)
    """Earlier instructions that each instruction waits for."""
    frees: Rows = field(default_factory=Rows)
    """Buffers that each instruction frees: their allocation only has to come before it in the program."""
    allocated_by: Column = field(default_factory=column)
    """Instruction that allocates each buffer."""

    def __len__(self) -> int:
        return len(self.work_of)


_NEVER = 1 << 200
"""Time in ps later than any event, however slow the clock."""


class _Queue:
    """Queue of a unit's instructions without open dependencies: those that can begin later, and those ready now.

    ``starts_ps``: by unit, the time at which it begins its next instruction, ``_NEVER`` if none is known; updated here.
    """

    __slots__ = ("free_ps", "later", "number", "ready", "starts_ps")

    def __init__(self, number: int, starts_ps: list[int]) -> None:
        self.number = number
        self.starts_ps = starts_ps
        self.free_ps = 0
        self.later: list[tuple[int, int]] = []
        self.ready: list[tuple[int, int]] = []

    def push(self, earliest_ps: int, position: int) -> None:
        """Add an instruction that can begin at ``earliest_ps`` or later."""
        heapq.heappush(self.later, (earliest_ps, position))
        start_ps = self.free_ps if self.free_ps > earliest_ps else earliest_ps
        so_far_ps = self.starts_ps[self.number]
        self.starts_ps[self.number] = so_far_ps if so_far_ps < start_ps else start_ps

    def pop(self, start_ps: int, urgency: Sequence[int]) -> int:
        """Remove and return the most urgent of the instructions that can begin at ``start_ps``."""
        later, ready = self.later, self.ready
        while later and later[0][0] <= start_ps:
            position = heapq.heappop(later)[1]
            heapq.heappush(ready, (urgency[position], position))
        return heapq.heappop(ready)[1]

    def busy_until(self, end_ps: int) -> None:
        """Mark the unit as busy until ``end_ps``."""
        self.free_ps = end_ps
        if self.ready:
            self.starts_ps[self.number] = end_ps
        elif self.later:
            earliest_ps = self.later[0][0]
            self.starts_ps[self.number] = earliest_ps if earliest_ps > end_ps else end_ps
        else:
            self.starts_ps[self.number] = _NEVER


def begin_order(steps: Steps) -> Column:
    """Return the positions of ``steps`` in the order in which they begin, which respects all dependencies."""
    if may_use("dsascape.scheduler.in_c.columns"):
        try:
            return columns.begin_order(
                steps.works, steps.work_of, steps.layers, *steps.after.pair, *steps.frees.pair,
                steps.allocated_by,
            )  # fmt: skip
        except OverflowError:  # more picoseconds than 64 bits hold, or layers in another order
            pass
    return begin_order_in_python(steps)


def begin_order_in_python(steps: Steps) -> Column:
    """Return `begin_order`, computed in Python."""
    numbers: dict[int, int] = {}
    works = [steps.works[number] for number in steps.work_of]
    unit_of = [numbers.setdefault(work.unit, len(numbers)) for work in works]
    followers = _Followers(steps, unit_of)
    waiting, of_end, of_begin = followers.waits, followers.of_end, followers.of_begin
    whole_ps = [work.whole_ps for work in works]
    rest_ps = followers.rest_ps(whole_ps)
    each = zip(steps.layers, works, rest_ps, strict=True)
    urgency = [layer if work.is_transfer else -rest for layer, work, rest in each]
    starts_ps = [_NEVER] * len(numbers)
    queues = [_Queue(number, starts_ps) for number in range(len(numbers))]
    queue_of = [queues[number] for number in unit_of]
    earliest_ps = [0] * len(steps)
    for position, count in enumerate(waiting):
        if not count:
            queue_of[position].push(0, position)
    order = column()
    for _ in unit_of:
        start_ps = min(starts_ps)
        queue = queues[starts_ps.index(start_ps)]  # the first of those that begin then
        position = queue.pop(start_ps, urgency)
        order.append(position)
        queue.busy_until(start_ps + works[position].keeps_ps)
        for time_ps, those in ((start_ps + whole_ps[position], of_end[position]), (start_ps, of_begin[position])):
            for follower in those:
                so_far_ps = earliest_ps[follower]
                earliest_ps[follower] = so_far_ps if so_far_ps > time_ps else time_ps
                left = waiting[follower] = waiting[follower] - 1
                if not left:
                    queue_of[follower].push(earliest_ps[follower], follower)
    return order


class _Followers:
    """Successors of each instruction: those that wait for its end, and those that wait for its begin only."""

    def __init__(self, steps: Steps, unit_of: Sequence[int]) -> None:
        self.of_end: list[list[int]] = [[] for _ in unit_of]
        self.of_begin: list[list[int]] = [[] for _ in unit_of]
        self.waits: list[int] = []
        """Number of instructions that each one waits for."""
        of_end, of_begin, waits = self.of_end, self.of_begin, self.waits
        last: dict[tuple[int, int], int] = {}
        allocated_by = steps.allocated_by
        each = zip(unit_of, steps.layers, steps.work_of, steps.after, steps.frees, strict=True)
        for position, (unit, layer, work, after, frees) in enumerate(each):
            behind = {allocated_by[buffer] for buffer in frees}.difference(after, (position,))
            for before in after:
                of_end[before].append(position)
            for before in behind:
                of_begin[before].append(position)
            chain = unit, layer
            before = last.get(chain, -1)
            if before >= 0:
                (of_begin if steps.works[work].is_transfer else of_end)[before].append(position)
            last[chain] = position
            waits.append(len(after) + len(behind) + (before >= 0))

    def rest_ps(self, whole_ps: Sequence[int]) -> list[int]:
        """Return by instruction the longest time from its begin to the end of the program."""
        rest = [0] * len(whole_ps)
        of_end, of_begin = self.of_end, self.of_begin
        for position in range(len(whole_ps) - 1, -1, -1):
            longest_ps = 0
            for follower in of_end[position]:
                rest_ps = rest[follower]
                longest_ps = rest_ps if rest_ps > longest_ps else longest_ps
            longest_ps += whole_ps[position]
            for follower in of_begin[position]:
                rest_ps = rest[follower]
                longest_ps = rest_ps if rest_ps > longest_ps else longest_ps
            rest[position] = longest_ps
        return rest
