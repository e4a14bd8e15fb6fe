"""AGO's sub-graphs divided into kernels, as its tuner would divide them.

The paper's tuner searches schedules of a whole sub-graph, first of its mini-sub-graphs (SPLIT), then of all together
(JOIN). A plan consists of kernels, so both are decided here. A mini-sub-graph is a kernel unless its layers, one
complex operator with its followers each, are faster as separate kernels; then kernels of one sub-graph that read from
each other are joined where that is faster. The same search also starts from all layers separate, because a kernel can
only be cut in two, which may be a dead end; the faster result is kept. Two kernels with complex operators are joined
only where redundancy analysis leaves a dimension to tile (intensive fusion). A kernel between two
others, as a softmax between two products, is also tried together with both at once: with either alone it may be
slower, or nothing that the machine can run. The paper leaves the other dimensions
whole; here tile sizes are chosen with recomputation in the cost, and may tile those dimensions too. Without a cost
model, layers are kept as they are and every redundancy-free pair is joined.

A network at batch 1 has no batch dimension to tile; with two images every pair could be tiled there, and a network
padded by a second image could use the plan for two. So with a cost model the same kernels are allowed at batch 1: the
local search continues with the pairs that two images allow, from the kernels found for one image and from all layers
separate.

Operators are weighed for one image at any batch: the paper's networks run at batch 1, and the threshold belongs to such
weights. With more images a convolution alone would weigh too much to be clustered with its activation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dsascape.fusion.ago.clustering import (
    THRESHOLD,
    SubGraph,
    cluster,
    heavy_layers,
    join,
    split,
    threshold_for_any_two,
)
from dsascape.fusion.ago.redundancy import can_be_tiled
from dsascape.fusion.ago.weights import Weights, is_complex
from dsascape.fusion.costs import KernelSeconds
from dsascape.fusion.fixed_pattern import fixed_pattern_layers
from dsascape.fusion.partition import AcyclicPartition
from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.fusion.searched.grouping import WORTHWHILE, BudgetedCosts, Grouping, Part, improved
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, WorkloadError
from dsascape.workloads.subgraph import Subgraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Parameters of clustering and of the division into kernels."""

    weights: Weights = field(default_factory=Weights)
    threshold: float | Literal["any-two"] = THRESHOLD
    """Weight threshold Td; ``any-two``: `threshold_for_any_two` operators of the network."""
    intensive: bool = True
    """Whether two complex operators may share a kernel (off: the paper's AGO-NI)."""
    kernel_s: KernelSeconds | None = None
    """Cost model: seconds of a kernel; None: there is none."""


def ago_plan(analysis: Analysis, tuning: Tuning) -> FusionPlan:
    """Return the kernels of AGO's sub-graphs for the network of ``analysis``."""
    graph = analysis.graph
    weighed = for_one_image(graph)
    doubled = None if tuning.kernel_s is None or not tuning.intensive else analysis.of(_for_two_images)
    groups = []
    for sub_graph in sub_graphs(weighed, tuning):
        groups += _Reformer(analysis, weighed, sub_graph, tuning, doubled).groups()
    return plan_from_groups(graph, groups)


def sub_graphs(weighed: Graph, tuning: Tuning) -> tuple[SubGraph, ...]:
    """Return CLUSTER's sub-graphs of a network at batch 1; layers as heavy as Td are not divided."""
    weights = tuning.weights
    threshold = threshold_for_any_two(weighed, weights) if tuning.threshold == "any-two" else tuning.threshold
    return cluster(weighed, weights, threshold, layers=heavy_layers(weighed, weights, threshold))


def for_one_image(graph: Graph) -> Graph:
    """Return the network at batch 1 if it can be rebuilt there with the same operators, otherwise as it is."""
    return _at_batch(graph, 1) or graph


def _for_two_images(analysis: Analysis) -> Analysis | None:
    """Return the network at batch 2 if it is at batch 1 and has the same operators there, otherwise None."""
    two = _at_batch(analysis.graph, 2) if analysis.graph.batch == 1 else None
    return None if two is None else Analysis(two, made_of=analysis)


def _at_batch(graph: Graph, batch: int) -> Graph | None:
    """Return the network at another batch; None if it cannot be rebuilt there, or has other operators."""
    if graph.batch == batch or graph.rebuild is None:
        return None
    try:
        other = graph.with_batch(batch)
    except WorkloadError:
        return None
    return other if [op.name for op in other.ops] == [op.name for op in graph.ops] else None


class _Reformer:
    """Division of one sub-graph into kernels: split, then joined where that is faster."""

    def __init__(
        self, analysis: Analysis, weighed: Graph, sub_graph: SubGraph, tuning: Tuning, doubled: Analysis | None
    ) -> None:
        self._analysis = analysis
        self._cut_in = analysis
        """Network in which a dimension to tile is looked for."""
        self._doubled = doubled
        self._graph = analysis.graph
        self._weighed = weighed
        self._sub_graph = sub_graph
        self._tuning = tuning
        self._layers: list[Part] = []
        self._layer_of: dict[int, Part] = {}

    def groups(self) -> list[Group]:
        minis: list[Part] = []
        all_layers: list[Part] = []
        for mini in split(self._weighed, self._sub_graph.ops, self._tuning.weights):
            layers = [tuple(layer) for layer in fixed_pattern_layers(self._graph, list(mini.ops))]
            self._layer_of.update((op, layer) for layer in layers for op in layer)
            minis += self._undivided(mini.ops, layers)
            all_layers += layers
        partition = AcyclicPartition(self._graph, self._sub_graph.ops)
        for ops in sorted(self._improved(minis, all_layers)):
            partition.merge_all(ops)
        return [self._group(partition, part) for part in partition.parts]

    def _improved(self, *starts: list[Part]) -> Grouping:
        """Return the cheapest grouping that local search reaches from ``starts``; among equals, the first."""
        best = self._until_no_three_join(list(map(frozenset, starts)))
        if self._doubled is None:
            return best
        self._cut_in = self._doubled
        return self._until_no_three_join([best, frozenset(starts[-1])])

    def _until_no_three_join(self, starts: list[Grouping]) -> Grouping:
        """Return a grouping that neither local search nor joining three kernels in a row makes cheaper."""
        found = self._searched(starts)
        while True:
            joined = self._with_both_sides(found)
            if joined == found:
                return found
            found = self._searched([joined])

    def _with_both_sides(self, grouping: Grouping) -> Grouping:
        """Return the grouping with kernels joined to the only one in front and the only one behind, where that pays.

        One pass, in order: as many kernels are tried as there are such ones.
        """
        if self._tuning.kernel_s is None or not self._tuning.intensive:
            return grouping
        part_of = {op: part for part in grouping for op in part}
        for between in sorted(grouping):
            sides = self._sides(between, part_of)
            if not sides:
                continue
            apart = (sides[0], between, sides[1])
            together = join(apart)
            if self._seconds(together) < math.fsum(map(self._kernel_s, apart)) * WORTHWHILE:
                part_of |= dict.fromkeys(together, together)
        return frozenset(part_of.values())

    def _sides(self, between: Part, part_of: Mapping[int, Part]) -> tuple[Part, ...]:
        """Return the kernels in front of one and behind it; nothing unless it is one of each."""
        graph, own = self._graph, frozenset(between)
        if part_of[between[0]] != between:
            return ()
        read = {graph.producer[name] for op in between for name in graph.ops[op].inputs if name in graph.producer}
        readers = {reader for op in between for name in graph.ops[op].outputs for reader in graph.consumers[name]}
        sides = [{part_of[op] for op in ops - own if op in part_of} for ops in (read, readers)]
        if any(len(parts) != 1 for parts in sides):
            return ()
        (front,), (behind,) = sides
        return (front, behind) if front != behind else ()

    def _searched(self, starts: list[Grouping]) -> Grouping:
        costs, most_ops = BudgetedCosts(self._seconds), len(self._sub_graph.ops)
        groupings = [improved(self._graph, start, costs, most_ops) for start in dict.fromkeys(starts)]
        return min(groupings, key=lambda grouping: math.fsum(map(self._kernel_s, grouping)))

    def _undivided(self, mini: Part, layers: list[Part]) -> list[Part]:
        """Return a mini-sub-graph as one kernel, or as its layers where those are faster."""
        kernel_s = self._tuning.kernel_s
        if kernel_s is None or len(layers) == 1:
            return layers
        together = kernel_s(mini)
        return [mini] if together <= sum(map(kernel_s, layers)) and not math.isinf(together) else layers

    def _group(self, partition: AcyclicPartition, part: int) -> Group:
        ops = partition.members(part)
        reasons = [self._boundary(partition, part, reader) for reader in partition.readers(part)]
        return Group(ops, (reasons or [self._sub_graph.boundary_reason])[-1])

    def _inner(self, ops: Sequence[int]) -> list[str]:
        """Return the results of a kernel's complex operators, except the last one's."""
        return [self._graph.ops[op].outputs[0] for op in ops if is_complex(self._graph, op)][:-1]

    def _seconds(self, ops: Part) -> float:
        """Return the seconds of a kernel of whole layers; infinite for one that is not allowed."""
        return self._kernel_s(ops) if self._refusal(ops, "") is None else math.inf

    def _kernel_s(self, ops: Part) -> float:
        """Return the seconds of an allowed kernel; without a cost model all take 1."""
        return 1.0 if self._tuning.kernel_s is None else self._tuning.kernel_s(ops)

    def _refusal(self, ops: Part, name: str) -> str | None:
        """Return why ``ops``, the last of them in the kernel of ``name``, may not be one kernel; None if they may."""
        layers = {self._layer_of[op] for op in ops}
        if layers == {ops}:
            return None
        if sum(map(len, layers)) > len(ops):
            return f"a layer of {name} would be cut"
        return self._refusal_of_several(ops, layers, name)

    def _refusal_of_several(self, ops: Part, layers: set[Part], name: str) -> str | None:
        """Return why whole ``layers``, which make up ``ops``, may not be one kernel; None if they may."""
        if self._tuning.kernel_s is None and not all(map(self._has_complex, layers)):
            return "layers are joined where a machine says that it pays"
        inner = self._inner(ops)
        if inner and not self._tuning.intensive:
            return f"{name} would be a second complex operator"
        if not Subgraph(self._graph, ops).has_single_output:
            return f"with {name}, several results would leave the kernel"
        if inner and not can_be_tiled(self._cut_in, ops, inner):
            return f"computed inside {name}, it would be computed again whichever dimension is cut"
        return None

    def _has_complex(self, ops: Part) -> bool:
        return any(is_complex(self._graph, op) for op in ops)

    def _boundary(self, partition: AcyclicPartition, part: int, reader: int) -> str:
        """Return the reason why two kernels are separate."""
        ops, others = partition.members(part), partition.members(reader)
        name, together = self._graph.ops[reader].name, join((ops, others))
        if partition.closes_circle(part, reader):
            return f"kernels between this one and that of {name} wait for it"
        refusal = self._refusal(together, name)
        kernel_s = self._tuning.kernel_s
        if refusal is not None or kernel_s is None:
            return refusal or f"cut where {name} begins, there are no more kernels"
        joined_s, apart_s = kernel_s(together), kernel_s(ops) + kernel_s(others)
        if math.isinf(joined_s):
            return f"the machine cannot run {name} in the same kernel"
        return f"{joined_s * 1e6:.3g} us with {name}, {apart_s * 1e6:.3g} us apart"
