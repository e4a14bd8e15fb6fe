"""AGO's acyclic partition (Algorithm 1), and the functions of its reformer: SPLIT and JOIN (section V).

An operator's topological stage is the length of the longest path to it. Two that read from one another and are one
stage apart are joined by no other path, so that they can be clustered without a cycle (Theorem 1); stages are
recomputed after every step, here only where they change. "The nodes that v can connect to" are read as its neighbours:
operators that share no tensor would gain nothing from sharing a sub-graph. Among equals, the first in the graph is
chosen.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dsascape.fusion.ago.weights import Weights, is_complex
from dsascape.fusion.partition import AcyclicPartition
from dsascape.workloads.graph import Graph

THRESHOLD = 16384.0
"""Td for networks with no heavier operators than MobileViT: the first power of two above twice its heaviest.

The paper gives none. It joins two complex operators in one sub-graph (intensive fusion), so Td leaves room for any two.
"""


@dataclass(frozen=True, slots=True)
class SubGraph:
    """Cluster of operators (ascending positions), their weight, and the reason why there are no more."""

    ops: tuple[int, ...]
    weight: float
    boundary_reason: str


def threshold_of(graph: Graph, weights: Weights) -> float:
    """Return Td for a network: `THRESHOLD`, or the first higher power of two above twice its heaviest operator."""
    two = 2 * max(map(weights.of, graph.ops), default=0.0)
    return THRESHOLD if two < THRESHOLD else two / math.frexp(two)[0]


Admits = Callable[[Sequence[int]], bool]
"""Predicate: whether operators may be in one sub-graph."""


def cluster(
    graph: Graph,
    weights: Weights,
    threshold: float | None = None,
    *,
    ops: Iterable[int] | None = None,
    admits: Admits | None = None,
) -> tuple[SubGraph, ...]:
    """Return CLUSTER's sub-graphs of a network, or of its operators ``ops``, ordered by first operator.

    A sub-graph weighs less than ``threshold`` unless one operator alone weighs as much; None: `threshold_of` the
    network. ``admits`` may refuse further.
    """
    most = threshold_of(graph, weights) if threshold is None else threshold
    return Clustering(graph, weights, most, ops, admits).run()


def split(graph: Graph, ops: Sequence[int], weights: Weights) -> tuple[SubGraph, ...]:
    """Return the mini-sub-graphs of a sub-graph, lighter than itself, with at most one complex operator each."""

    def admits(together: Sequence[int]) -> bool:
        return sum(is_complex(graph, op) for op in together) <= 1

    return cluster(graph, weights, math.inf, ops=ops, admits=admits)


def join(parts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the union of mini-sub-graphs, ascending."""
    return tuple(sorted(op for part in parts for op in part))


class Clustering:
    """One run of CLUSTER, step by step."""

    def __init__(
        self,
        graph: Graph,
        weights: Weights,
        threshold: float,
        ops: Iterable[int] | None = None,
        admits: Admits | None = None,
    ) -> None:
        self.partition = AcyclicPartition(graph, ops)
        self.stage: dict[int, int] = {}
        """Topological stage of every part."""
        self._graph = graph
        self._threshold = threshold
        self._admits = admits
        self._weight = {part: weights.of(graph.ops[part]) for part in self.partition.parts}
        self._reason: dict[int, str] = {}
        for part in sorted(self._weight, key=self.partition.place):
            self.stage[part] = self._longest_path(part)

    def run(self) -> tuple[SubGraph, ...]:
        """Return the sub-graphs after all steps."""
        for _ in self.steps():
            pass
        parts = self.partition
        return tuple(SubGraph(parts.members(p), self._weight[p], self._reason[p]) for p in parts.parts)

    def steps(self) -> Iterator[int]:
        """Cluster; yield the new part after every step."""
        candidates = [(-weight, part) for part, weight in self._weight.items()]
        heapq.heapify(candidates)
        while candidates:  # l. 4
            negative, heaviest = heapq.heappop(candidates)  # l. 5
            if self._weight.get(heaviest) != -negative:
                continue  # clustered since
            lightest = self._lightest(heaviest)  # l. 6
            if lightest is not None:
                both = self._merge(heaviest, lightest)  # l. 7
                heapq.heappush(candidates, (-self._weight[both], both))  # l. 8
                yield both

    def _longest_path(self, part: int) -> int:
        return 1 + max((self.stage[source] for source in self.partition.sources(part)), default=0)

    def _lightest(self, part: int) -> int | None:
        """Return the lightest part of the affix set that fits, None if none does."""
        around = (*self.partition.sources(part), *self.partition.readers(part))
        affix = sorted(
            (other for other in around if abs(self.stage[other] - self.stage[part]) == 1),
            key=lambda other: (self._weight[other], other),
        )
        for other in affix:
            together = self._weight[part] + self._weight[other]
            if together >= self._threshold:
                name = self._graph.ops[other].name
                self._reason[part] = f"would weigh {together:.0f} with {name}, not less than {self._threshold:.0f}"
                return None
            if self._admits is None or self._admits((*self.partition.members(part), *self.partition.members(other))):
                return other
            self._reason[part] = f"{self._graph.ops[other].name} would be a second complex operator"
        self._reason.setdefault(part, "no neighbour is one topological stage away")
        return None

    def _merge(self, one: int, other: int) -> int:
        weight = self._weight.pop(one) + self._weight.pop(other)
        both = self.partition.merge(one, other)
        for part in (one, other):
            self.stage.pop(part)
            self._reason.pop(part, None)
        self._weight[both] = weight
        self.stage[both] = 0
        self._update_stages_from(both)
        return both

    def _update_stages_from(self, part: int) -> None:
        """Recompute the stages that a change of ``part`` affects, in topological order."""
        waiting = [(self.partition.place(part), part)]
        seen = {part}
        while waiting:
            _, current = heapq.heappop(waiting)
            seen.discard(current)
            stage = self._longest_path(current)
            if stage != self.stage[current]:
                self.stage[current] = stage
                for reader in self.partition.readers(current):
                    if reader not in seen:
                        seen.add(reader)
                        heapq.heappush(waiting, (self.partition.place(reader), reader))
