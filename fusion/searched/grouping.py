"""Local search over groupings: pairs of kernels that hand something over are joined, or cut elsewhere.

What kernels cost is additive here: one function gives the seconds of a set of operators as one kernel. A step takes two
groups, one of which reads what the other writes, and puts in their place the cheapest of: one kernel of both, or two
kernels that cut both together somewhere else in the order of the operators. A single group is cut the same way. Each
step makes the sum smaller, so the search ends; it also ends when it has asked what so many kernels cost.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from dsascape.fusion.plan import FusionPlan
from dsascape.workloads.graph import Graph

Part = tuple[int, ...]
"""Operators of one kernel, ascending."""
Grouping = frozenset[Part]
"""All operators of a graph, each in one part, so that no parts wait for each other in a circle.

Or all of a sub-graph of it that no path leads out of and back.
"""
KernelSeconds = Callable[[Part], float]

_WORTHWHILE = 1 - 1e-9
"""A step has to bring the seconds down to this share: less is rounding."""


def grouping_of(plan: FusionPlan) -> Grouping:
    """Return which operators a plan puts together."""
    return frozenset(group.ops for group in plan.groups)


class Asked:
    """Seconds of kernels, each asked for once and ``most`` of them before more are allowed."""

    def __init__(self, kernel_s: KernelSeconds, most: float = math.inf) -> None:
        self._kernel_s = kernel_s
        self._known: dict[Part, float] = {}
        self._most = most

    def allow(self, more: int) -> None:
        """Let so many further kernels be asked for."""
        self._most = len(self._known) + more

    @property
    def is_spent(self) -> bool:
        """Whether no further kernel may be asked for."""
        return len(self._known) >= self._most

    def seconds(self, part: Part) -> float:
        """Return the seconds of ``part`` as a kernel; infinite for one too many."""
        found = self._known.get(part)
        if found is None:
            if self.is_spent:
                return math.inf
            found = self._known[part] = self._kernel_s(part)
        return found

    def total_s(self, parts: Iterable[Part], limit_s: float = math.inf) -> float:
        """Return the seconds of ``parts``, one after the other; infinite from ``limit_s`` on.

        Once some of them take as long as that, the others are not asked for.
        """
        found: list[float] = []
        for part in parts:
            found.append(self.seconds(part))
            if math.fsum(found) >= limit_s:
                return math.inf
        return math.fsum(found)


def improved(graph: Graph, start: Grouping, asked: Asked, most_ops: int) -> Grouping:
    """Return a grouping that costs no more than ``start``: no pair of it can be cut for less.

    Groups grow to ``most_ops`` operators; larger ones in ``start`` stay as they are.
    """
    found = _Groups(graph, start)
    waiting = deque((first, second) for first in sorted(start) for second in found.readers(first))
    waiting += [(part, ()) for part in sorted(start)]
    while waiting and not asked.is_spent:
        first, second = waiting.popleft()
        if not found.has(first) or (second and not found.has(second)):
            continue
        better = _cheaper(found, first, second, asked, most_ops)
        if not better:
            continue
        found.replace((first, second) if second else (first,), better)
        for part in better:
            waiting += [(part, reader) for reader in found.readers(part)]
            waiting += [(source, part) for source in found.sources(part)]
            waiting.append((part, ()))
    return frozenset(found.parts)


def cuts(together: Part) -> Iterator[tuple[Part, ...]]:
    """Yield ``together`` as one part, and cut in two at every place in its order."""
    yield (together,)
    for place in range(1, len(together)):
        yield together[:place], together[place:]


def _cheaper(found: "_Groups", first: Part, second: Part, asked: Asked, most_ops: int) -> tuple[Part, ...]:
    """Return the parts that cost least in place of two, or one; nothing where those cost least."""
    together = tuple(sorted(first + second))
    if len(together) > most_ops or (second and found.closes_circle(first, second)):
        return ()
    own: tuple[Part, ...] = (first, second) if second else (first,)
    best, best_s = own, asked.total_s(own) * _WORTHWHILE
    for parts in cuts(together):
        seconds = asked.total_s(parts, best_s)
        if seconds < best_s:
            best, best_s = parts, seconds
    return () if best is own else best


class _Groups:
    """A grouping that changes, and which of its parts read from which."""

    def __init__(self, graph: Graph, parts: Iterable[Part]) -> None:
        self.parts: dict[Part, None] = {}
        self._part_of: dict[int, Part] = {}
        self.replace((), parts)
        self._sources: dict[int, list[int]] = {}
        self._readers: dict[int, list[int]] = {op: [] for op in self._part_of}
        for op in sorted(self._part_of):
            producers = {graph.producer.get(name) for name in graph.ops[op].inputs}
            self._sources[op] = sorted(source for source in producers if source in self._part_of)
            for source in self._sources[op]:
                self._readers[source].append(op)

    def has(self, part: Part) -> bool:
        """Return whether ``part`` is one of the grouping."""
        return part in self.parts

    def readers(self, part: Part) -> list[Part]:
        """Return the parts that read what ``part`` writes, in order."""
        return self._beside(part, self._readers)

    def sources(self, part: Part) -> list[Part]:
        """Return the parts that write what ``part`` reads, in order."""
        return self._beside(part, self._sources)

    def _beside(self, part: Part, edges: Mapping[int, list[int]]) -> list[Part]:
        return sorted({self._part_of[end] for op in part for end in edges[op]} - {part})

    def closes_circle(self, first: Part, second: Part) -> bool:
        """Return whether a path over other parts joins two, so that as one they would wait for each other."""
        return self._leads(first, second) or self._leads(second, first)

    def _leads(self, begin: Part, end: Part) -> bool:
        """Return whether a path over at least one other part leads from ``begin`` to ``end``."""
        waiting = [part for part in self.readers(begin) if part != end]
        seen = set(waiting)
        while waiting:
            for reader in self.readers(waiting.pop()):
                if reader == end:
                    return True
                if reader not in seen:
                    seen.add(reader)
                    waiting.append(reader)
        return False

    def replace(self, gone: Iterable[Part], new: Iterable[Part]) -> None:
        """Put the parts ``new`` in the place of those that are ``gone``."""
        for part in gone:
            del self.parts[part]
        for part in new:
            self.parts[part] = None
            self._part_of.update(dict.fromkeys(part, part))
