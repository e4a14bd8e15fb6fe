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

from dsascape.fusion.ago.weights import OperatorWeights, is_complex
from dsascape.fusion.fixed_pattern import fixed_pattern_layers
from dsascape.fusion.partition import AcyclicPartition
from dsascape.workloads.graph import Graph
from dsascape.workloads.subgraph import Subgraph

THRESHOLD = 340.0
"""Td, which the paper does not print: fitted with the weights to its figures of AGO's partition of MobileViT."""


@dataclass(frozen=True, slots=True)
class SubGraph:
    """Cluster of operators (ascending positions), their weight, and the reason why there are no more."""

    ops: tuple[int, ...]
    weight: float
    boundary_reason: str


def threshold_for_any_two(graph: Graph, weights: OperatorWeights) -> float:
    """Return the Td that any two operators of a network stay below: a power of two, not below `THRESHOLD`."""
    two = 2 * max(map(weights.of, graph.ops), default=0.0)
    return THRESHOLD if two < THRESHOLD else two / math.frexp(two)[0]


Admits = Callable[[Sequence[int]], bool]
"""Predicate: whether operators may be in one sub-graph."""


def cluster(
    graph: Graph,
    weights: OperatorWeights,
    threshold: float = THRESHOLD,
    *,
    ops: Iterable[int] | None = None,
    layers: Iterable[Sequence[int]] = (),
    admits: Admits | None = None,
) -> tuple[SubGraph, ...]:
    """Return CLUSTER's sub-graphs of a network, or of its operators ``ops``, ordered by first operator.

    ``layers``: operators that are nodes together from the start; no path may lead out of one and back. A sub-graph
    weighs less than ``threshold`` unless it is a node that alone weighs as much. ``admits`` may refuse further.
    """
    return Clustering(graph, weights, threshold, ops, layers, admits).run()


def heavy_layers(graph: Graph, weights: OperatorWeights, threshold: float) -> list[list[int]]:
    """Return Relay's layers, and attentions of several, that weigh ``threshold`` or more.

    Algorithm 1 on single operators would leave such a convolution, which no sub-graph has room for, without its
    activation; in the paper even a mini-sub-graph has both. Likewise an attention, which many files have as one
    operator: the layers of a softmax, of the product in front of it and of the product behind it.
    """
    layers = fixed_pattern_layers(graph, list(range(len(graph.ops))))
    partition = AcyclicPartition(graph)
    parts = [partition.merge_all(layer) for layer in layers]
    for part, layer in zip(parts, layers, strict=True):
        if any(graph.ops[op].kind == "Softmax" for op in layer):
            _join_attention(graph, partition, part)
    joined = [list(partition.members(part)) for part in partition.parts]
    heavy = [ops for ops in joined if math.fsum(weights.of(graph.ops[op]) for op in ops) >= threshold]
    return sorted(heavy, key=lambda ops: ops[-1])


def _join_attention(graph: Graph, partition: AcyclicPartition, softmax: int) -> None:
    """Merge the parts from a product to a softmax, and from there to the product that alone reads it, if they are so.

    In between, each part has the next as its only reader, and nothing else leaves them. Of the sources of a simple
    part, as a mask's addition, that nobody else reads, the product is followed, or else the only one.
    """
    path = [softmax]
    while not _is_complex_part(graph, partition, path[-1]):
        readers = partition.readers(path[-1])
        if len(readers) != 1:
            return
        path.append(readers[0])
    while not _is_complex_part(graph, partition, path[0]):
        sources = [each for each in partition.sources(path[0]) if partition.readers(each) == [path[0]]]
        products = [each for each in sources if _is_complex_part(graph, partition, each)]
        if not products and len(sources) != 1:
            return
        path.insert(0, (products or sources)[0])
    ops = sorted(op for part in path for op in partition.members(part))
    if not Subgraph(graph, tuple(ops)).has_single_output:
        return
    whole = path[0]
    for part in path[1:]:
        if part != whole and not partition.closes_circle(whole, part):
            whole = partition.merge(whole, part)


def _is_complex_part(graph: Graph, partition: AcyclicPartition, part: int) -> bool:
    return any(is_complex(graph, op) for op in partition.members(part))


def split(graph: Graph, ops: Sequence[int], weights: OperatorWeights) -> tuple[SubGraph, ...]:
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
        weights: OperatorWeights,
        threshold: float,
        ops: Iterable[int] | None = None,
        layers: Iterable[Sequence[int]] = (),
        admits: Admits | None = None,
    ) -> None:
        self.partition = AcyclicPartition(graph, ops)
        self.stage: dict[int, int] = {}
        """Topological stage of every part."""
        self._graph = graph
        self.threshold = threshold
        self._admits = admits
        self.weight = {part: weights.of(graph.ops[part]) for part in self.partition.parts}
        self._reason: dict[int, str] = {}
        for layer in layers:
            weight = math.fsum(map(self.weight.pop, layer))
            self.weight[self.partition.merge_all(layer)] = weight
        for part in sorted(self.weight, key=self.partition.place):
            self.stage[part] = self._longest_path(part)

    def run(self) -> tuple[SubGraph, ...]:
        """Return the sub-graphs after all steps."""
        for _ in self.steps():
            pass
        parts = self.partition
        return tuple(SubGraph(parts.members(p), self.weight[p], self._reason[p]) for p in parts.parts)

    def steps(self) -> Iterator[int]:
        """Cluster; yield the new part after every step."""
        candidates = [(-weight, part) for part, weight in self.weight.items()]
        heapq.heapify(candidates)
        while candidates:  # l. 4
            negative, heaviest = heapq.heappop(candidates)  # l. 5
            if self.weight.get(heaviest) != -negative:
                continue  # clustered since
            lightest = self._lightest(heaviest)  # l. 6
            if lightest is not None:
                both = self._merge(heaviest, lightest)  # l. 7
                heapq.heappush(candidates, (-self.weight[both], both))  # l. 8
                yield both

    def fits(self, one: int, other: int) -> bool:
        """Whether two parts are light enough to be merged (l. 6)."""
        return self.weight[one] + self.weight[other] < self.threshold

    def _longest_path(self, part: int) -> int:
        return 1 + max((self.stage[source] for source in self.partition.sources(part)), default=0)

    def _lightest(self, part: int) -> int | None:
        """Return the lightest part of the affix set that fits, None if none does."""
        around = (*self.partition.sources(part), *self.partition.readers(part))
        affix = sorted(
            (other for other in around if abs(self.stage[other] - self.stage[part]) == 1),
            key=lambda other: (self.weight[other], other),
        )
        for other in affix:
            if not self.fits(part, other):
                together = self.weight[part] + self.weight[other]
                name = self._graph.ops[other].name
                self._reason[part] = f"would weigh {together:.0f} with {name}, not less than {self.threshold:.0f}"
                return None
            if self._admits is None or self._admits((*self.partition.members(part), *self.partition.members(other))):
                return other
            self._reason[part] = f"{self._graph.ops[other].name} would be a second complex operator"
        self._reason.setdefault(part, "no neighbour is one topological stage away")
        return None

    def _merge(self, one: int, other: int) -> int:
        weight = self.weight.pop(one) + self.weight.pop(other)
        both = self.partition.merge(one, other)
        for part in (one, other):
            self.stage.pop(part)
            self._reason.pop(part, None)
        self.weight[both] = weight
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
