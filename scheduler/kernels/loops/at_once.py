"""Loops around one statement and nothing else: their iterations run at once, and are told one after the other."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from dsascape.scheduler.kernels.loops.nodes import Condition, Guard, Loop, Node, Statement
from dsascape.scheduler.kernels.loops.observed import Access, Event, Execution, Observer
from dsascape.workloads.operators.registry import Array


@dataclass(frozen=True)
class Nest:
    """Loops around one statement and nothing else, of which those over elements may run at once."""

    statement: Statement
    conditions: tuple[Condition, ...]
    spread: tuple[tuple[Loop, int], ...]
    """Loops that move the element that is stored, and by how many executions their iterations are apart: 0 for lanes of
    a vector. Their iterations may run at once."""
    serial: tuple[tuple[Loop, int], ...]
    """The others, which run one iteration after the other."""
    executions: int
    """Executions of the statement in all iterations of the loops."""
    inner: int | None
    """Executions in one iteration of the innermost loop that is neither unrolled nor lanes; None without one."""


def perfect_nest(node: Loop, own: Collection[str]) -> Nest | None:
    """Return the nest that begins with a loop; None where there is more in it than one statement and conditions.

    ``own``: loops that have buffers of their own.
    """
    loops: list[Loop] = []
    conditions: list[Condition] = []
    each: Node = node
    while not isinstance(each, Statement):
        if isinstance(each, Loop):
            if each.kind in ("thread", "block", "parallel") or each.reach or each.dealt or each.name in own:
                return None
            loops.append(each)
        elif isinstance(each, Guard):
            conditions += each.conditions
        else:
            return None
        if len(each.body) != 1:
            return None
        each = each.body[0]
    places = [*each.element, *([] if each.place is None else [each.place])]
    moving = {name for place in places for name, _ in place.terms}
    apart: list[tuple[Loop, int]] = []
    count, inner = 1, None
    for loop in reversed(loops):
        inner = count if inner is None and loop.kind == "serial" else inner
        apart.insert(0, (loop, 0 if loop.kind == "vector" else count))
        count *= 1 if loop.kind == "vector" else loop.extent
    spread = [(loop, by) for loop, by in apart if moving & {loop.name, *[name for name, _ in loop.fused]}]
    serial = [pair for pair in apart if pair not in spread]
    if any(loop.kind == "vector" for loop, _ in serial):
        return None
    return Nest(each, tuple(conditions), tuple(spread), tuple(serial), count, inner)


@dataclass
class Log:
    """Events of iterations that ran at once, to be told in the order of the loops."""

    nest: Nest
    numbers: Array
    """By lane: which of the executions that run at once it belongs to."""
    extent: int
    """Lanes here for each lane outside."""
    band: int
    """Band of the loops around; those inside have the numbers that follow."""
    before: int = 0
    """Executions before those that run now."""
    _events: list[tuple[int, int, Event]] = field(default_factory=list)

    def __call__(self, event: Event, active: Array) -> None:
        """Take note of an event of all ``active`` lanes that run now."""
        if isinstance(event, Execution):
            numbers, lanes = np.unique(self.numbers[active], return_counts=True)
            for number, count in zip((self.before + numbers).tolist(), lanes.tolist(), strict=True):
                self._note(number, replace(event, lanes=count, band=self._band_of(number)))
            return
        assert isinstance(event, Access)  # no block begins inside of a nest
        numbers = self.numbers[event.lanes]
        order = np.argsort(numbers, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            own = Access(event.memory, event.addresses[part], event.lanes[part] // self.extent, event.is_store)
            self._note(self.before + int(numbers[part[0]]), own)

    def _band_of(self, number: int) -> int:
        return self.band if self.nest.inner is None else self.band + 1 + number // self.nest.inner

    def _note(self, number: int, event: Event) -> None:
        self._events.append((number, len(self._events), event))

    def tell(self, observer: Observer) -> None:
        """Tell the observer all events, in the order of the loops."""
        for _, _, event in sorted(self._events, key=lambda each: each[:2]):
            observer(event)
