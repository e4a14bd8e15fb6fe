"""Local search over groupings: producer-consumer pairs of kernels are joined, or divided at another place.

Costs are additive: one function gives the seconds of a set of operators as one kernel. A step takes two groups, one of
which reads what the other writes, and replaces them by the cheapest of: one kernel of both, or two kernels that divide
their operators at another place in the order. A single group is divided in the same way. Each step lowers the sum, so
the search ends; it also ends when its budget of cost evaluations is spent.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from dsascape.fusion.plan import FusionPlan
from dsascape.workloads.graph import Graph

Part = tuple[int, ...]
"""Operators of one kernel, ascending."""
Grouping = frozenset[Part]
"""Partition of a graph's operators whose parts do not depend on each other cyclically.

It may also partition a convex sub-graph: one that no path leaves and re-enters.
"""
KernelSeconds = Callable[[Part], float]
"""Cost function: returns the seconds of a part as one kernel."""

WORTHWHILE = 1 - 1e-9
"""Fraction to which a step has to lower the seconds at least; smaller gains are rounding."""


def grouping_of(plan: FusionPlan) -> Grouping:
    """Return the grouping of a plan: the operators of each group."""
    return frozenset(group.ops for group in plan.groups)


class BudgetedCosts:
    """Memoized kernel costs with a budget: at most ``most`` kernels are evaluated until `allow` grants more."""

    def __init__(self, kernel_s: KernelSeconds, most: float = math.inf) -> None:
        self._kernel_s = kernel_s
        self._seconds: dict[Part, float] = {}
        self._most = most

    def allow(self, more: int) -> None:
        """Allow ``more`` further kernels to be evaluated."""
        self._most = len(self._seconds) + more

    @property
    def is_spent(self) -> bool:
        """Whether the budget is spent, so that no further kernel may be evaluated."""
        return len(self._seconds) >= self._most

    def seconds(self, part: Part) -> float:
        """Return the seconds of ``part`` as a kernel; infinite for a new kernel when the budget is spent."""
        stored_s = self._seconds.get(part)
        if stored_s is None:
            if self.is_spent:
                return math.inf
            stored_s = self._seconds[part] = self._kernel_s(part)
        return stored_s

    def total_s(self, parts: Iterable[Part], limit_s: float = math.inf) -> float:
        """Return the sum of the seconds of ``parts``; infinite if it reaches ``limit_s``.

        Once it does, the remaining parts are not evaluated.
        """
        parts_s: list[float] = []
        for part in parts:
            parts_s.append(self.seconds(part))
            if math.fsum(parts_s) >= limit_s:
                return math.inf
        return math.fsum(parts_s)


def improved(graph: Graph, start: Grouping, costs: BudgetedCosts, most_ops: int) -> Grouping:
    """Return a grouping that costs no more than ``start`` and is a local optimum, unless the budget ends the search.

    Groups grow to ``most_ops`` operators at most; larger ones in ``start`` stay as they are.
    """
    groups = _Groups(graph, start)
    waiting = deque((first, second) for first in sorted(start) for second in groups.readers(first))
    waiting += [(part, ()) for part in sorted(start)]
    while waiting and not costs.is_spent:
        first, second = waiting.popleft()
        if not groups.has(first) or (second and not groups.has(second)):
            continue
        better = _cheaper(groups, first, second, costs, most_ops)
        if not better:
            continue
        groups.replace((first, second) if second else (first,), better)
        for part in better:
            waiting += [(part, reader) for reader in groups.readers(part)]
            waiting += [(source, part) for source in groups.sources(part)]
            waiting.append((part, ()))
    return frozenset(groups.parts)


def cuts(together: Part) -> Iterator[tuple[Part, ...]]:
    """Yield ``together`` as one part, and divided in two at every place in its order."""
    yield (together,)
    for place in range(1, len(together)):
        yield together[:place], together[place:]


def _cheaper(groups: "_Groups", first: Part, second: Part, costs: BudgetedCosts, most_ops: int) -> tuple[Part, ...]:
    """Return cheaper parts in place of ``first`` and ``second`` (which may be empty); empty if there are none."""
    together = tuple(sorted(first + second))
    if len(together) > most_ops or (second and groups.closes_circle(first, second)):
        return ()
    own: tuple[Part, ...] = (first, second) if second else (first,)
    best, best_s = own, costs.total_s(own) * WORTHWHILE
    for parts in cuts(together):
        seconds = costs.total_s(parts, best_s)
        if seconds < best_s:
            best, best_s = parts, seconds
    return () if best is own else best


class _Groups:
    """Mutable grouping, with the edges between its parts."""

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
        """Whether ``part`` is in the grouping."""
        return part in self.parts

    def readers(self, part: Part) -> list[Part]:
        """Return the parts that read what ``part`` writes, in order."""
        return self._adjacent(part, self._readers)

    def sources(self, part: Part) -> list[Part]:
        """Return the parts that write what ``part`` reads, in order."""
        return self._adjacent(part, self._sources)

    def _adjacent(self, part: Part, edges: Mapping[int, list[int]]) -> list[Part]:
        return sorted({self._part_of[end] for op in part for end in edges[op]} - {part})

    def closes_circle(self, first: Part, second: Part) -> bool:
        """Whether joining two parts would close a cycle, because a path over other parts joins them."""
        return self._leads(first, second) or self._leads(second, first)

    def _leads(self, begin: Part, end: Part) -> bool:
        """Whether a path over at least one other part leads from ``begin`` to ``end``."""
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
        """Replace the parts ``gone`` by the parts ``new``."""
        for part in gone:
            del self.parts[part]
        for part in new:
            self.parts[part] = None
            self._part_of.update(dict.fromkeys(part, part))
