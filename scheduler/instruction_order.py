"""Across-layer instruction scheduling (GraphTurbo, section 4.4): in which order units get their instructions.

Queues are served in order, so that a tile of a later layer which could be computed waits behind tiles of an earlier one
that cannot yet. List scheduling finds the order in which the instructions would begin if each unit always took the most
urgent of those that are ready. On a compute unit that is the one behind which the most time lies until the end of the
program (its critical path); of transfers it is the one of the earliest layer. Memories are not shared here and every
duration is that of the instruction alone. Instructions of one layer on one unit keep their order.
"""

import heapq
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Step:
    """An instruction: its unit and layer, how long it takes, the instructions before it that it waits for."""

    unit: str
    layer: int
    duration_ps: int
    after: Iterable[int]
    behind: Iterable[int] = ()
    """Instructions that only have to come before it in the program."""
    is_transfer: bool = False


_NEVER = 1 << 62


@dataclass(slots=True)
class _Queue:
    """A unit's instructions whose turn may come: those that wait for a moment, and those that do not."""

    free_ps: int = 0
    start_ps: int = _NEVER
    """When the unit begins its next instruction, as far as it knows one."""
    later: list[tuple[int, int]] = field(default_factory=list)
    ready: list[tuple[int, int]] = field(default_factory=list)

    def push(self, earliest_ps: int, position: int) -> None:
        """Let an instruction begin from ``earliest_ps`` on."""
        heapq.heappush(self.later, (earliest_ps, position))
        self.start_ps = min(self.start_ps, max(self.free_ps, earliest_ps))

    def busy_until(self, end_ps: int) -> None:
        """Keep the unit from beginning anything before ``end_ps``."""
        self.free_ps = end_ps
        self.start_ps = end_ps if self.ready else max(end_ps, self.later[0][0]) if self.later else _NEVER


def begin_order(steps: Sequence[Step]) -> list[int]:
    """Return the positions of ``steps`` in the order in which they begin; all that they wait for comes before them."""
    followers = _followers(steps)
    waiting = [0] * len(steps)
    for following in followers:
        for position, _ in following:
            waiting[position] += 1
    rest_ps = _rest_ps(steps, followers)
    queues = {step.unit: _Queue() for step in steps}
    units = list(queues.values())
    earliest_ps = [0] * len(steps)
    for position, step in enumerate(steps):
        if not waiting[position]:
            queues[step.unit].push(0, position)
    order: list[int] = []
    while len(order) < len(steps):
        queue = min(units, key=_start_ps)
        start_ps = queue.start_ps
        while queue.later and queue.later[0][0] <= start_ps:
            position = heapq.heappop(queue.later)[1]
            step = steps[position]
            heapq.heappush(queue.ready, (step.layer if step.is_transfer else -rest_ps[position], position))
        position = heapq.heappop(queue.ready)[1]
        order.append(position)
        end_ps = start_ps + steps[position].duration_ps
        queue.busy_until(end_ps)
        for follower, until_end in followers[position]:
            earliest_ps[follower] = max(earliest_ps[follower], end_ps if until_end else start_ps)
            waiting[follower] -= 1
            if not waiting[follower]:
                queues[steps[follower].unit].push(earliest_ps[follower], follower)
    return order


_start_ps = operator.attrgetter("start_ps")


def _followers(steps: Sequence[Step]) -> list[list[tuple[int, bool]]]:
    """Return by instruction those that come after it, and whether they wait for its end or only for its begin."""
    followers: list[list[tuple[int, bool]]] = [[] for _ in steps]
    last: dict[tuple[str, int], int] = {}
    for position, step in enumerate(steps):
        for before in step.after:
            followers[before].append((position, True))
        for before in step.behind:
            followers[before].append((position, False))
        chain = step.unit, step.layer
        if chain in last:
            followers[last[chain]].append((position, not step.is_transfer))
        last[chain] = position
    return followers


def _rest_ps(steps: Sequence[Step], followers: Sequence[Sequence[tuple[int, bool]]]) -> list[int]:
    """Return by instruction the longest time from its begin to the end of the program."""
    rest = [0] * len(steps)
    for position in range(len(steps) - 1, -1, -1):
        duration_ps = steps[position].duration_ps
        rest[position] = max(
            (rest[follower] + (duration_ps if until_end else 0) for follower, until_end in followers[position]),
            default=0,
        )
        rest[position] = max(rest[position], duration_ps)
    return rest
