"""AGO's sub-graphs as kernels: what its tuner would make of each of them.

The paper's tuner looks for schedules of a whole sub-graph, of its mini-sub-graphs first (SPLIT), then of all together
(JOIN). A plan has kernels, so both are decided here: a mini-sub-graph is a kernel unless its layers, one complex
operator with its followers each, are faster apart; then kernels of one sub-graph that read from each other are joined
where that is faster. The same is done from all layers apart, and the faster kept: what is one kernel can only be cut in
two, which may lead nowhere. Two with complex operators are joined only where redundancy analysis leaves a dimension to
cut (intensive fusion). The paper then leaves the other dimensions whole; here tiles are chosen with what is computed
again in the count, and cut those, too, where that is faster. Where there is no machine to ask, layers are taken as they
are and every redundancy-free pair is joined.

A network at batch 1 has no batch to cut; with two images every pair could be cut there. Padded by a second image, one
could have the plan for two. So where a machine is asked it may have the same kernels: the local search goes on with
what two images allow, from the kernels of one and from all layers apart.

Operators weigh what they do for one image, whatever the batch: the paper's networks run at batch 1, and the threshold
is that of such weights. With more images a convolution alone would weigh too much for its activation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dsascape.fusion.ago.clustering import SubGraph, cluster, join, split
from dsascape.fusion.ago.redundancy import can_be_tiled
from dsascape.fusion.ago.weights import Weights, is_complex
from dsascape.fusion.costs import KernelSeconds
from dsascape.fusion.fixed_pattern import fixed_pattern_layers
from dsascape.fusion.partition import AcyclicPartition
from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.fusion.searched.grouping import Asked, Grouping, Part, improved
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, WorkloadError
from dsascape.workloads.subgraph import Subgraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How sub-graphs are found and made into kernels."""

    weights: Weights = field(default_factory=Weights)
    threshold: float | None = None
    """Td; None: `threshold_of` the network."""
    intensive: bool = True
    """Whether two complex operators may share a kernel (off: the paper's AGO-NI)."""
    kernel_s: KernelSeconds | None = None
    """What a kernel takes; None: nothing is known."""


def ago_plan(analysis: Analysis, tuning: Tuning) -> FusionPlan:
    """Return the kernels of AGO's sub-graphs for the network of ``analysis``."""
    graph = analysis.graph
    weighed = for_one_image(graph)
    doubled = None if tuning.kernel_s is None or not tuning.intensive else analysis.of(_for_two_images)
    groups = []
    for found in cluster(weighed, tuning.weights, tuning.threshold):
        groups += _Reformer(analysis, weighed, found, tuning, doubled).groups()
    return plan_from_groups(graph, groups)


def for_one_image(graph: Graph) -> Graph:
    """Return the network at batch 1, if it can have that and has the same operators then; else as it is."""
    return _at_batch(graph, 1) or graph


def _for_two_images(analysis: Analysis) -> Analysis | None:
    """Return the network at batch 2, if it is at batch 1 and has the same operators then; else None."""
    two = _at_batch(analysis.graph, 2) if analysis.graph.batch == 1 else None
    return None if two is None else Analysis(two)


def _at_batch(graph: Graph, batch: int) -> Graph | None:
    """Return the network at another batch; None if it cannot have that, or has other operators then."""
    if graph.batch == batch or graph.rebuild is None:
        return None
    try:
        other = graph.with_batch(batch)
    except WorkloadError:
        return None
    return other if [op.name for op in other.ops] == [op.name for op in graph.ops] else None


class _Reformer:
    """One sub-graph: split, then joined as far as that pays."""

    def __init__(
        self, analysis: Analysis, weighed: Graph, found: SubGraph, tuning: Tuning, doubled: Analysis | None
    ) -> None:
        self._analysis = analysis
        self._cut_in = analysis
        """The network in which a dimension is looked for that can be cut."""
        self._doubled = doubled
        self._graph = analysis.graph
        self._weighed = weighed
        self._found = found
        self._tuning = tuning
        self._layers: list[Part] = []
        self._layer_of: dict[int, Part] = {}

    def groups(self) -> list[Group]:
        minis: list[Part] = []
        apart: list[Part] = []
        for mini in split(self._weighed, self._found.ops, self._tuning.weights):
            layers = [tuple(layer) for layer in fixed_pattern_layers(self._graph, list(mini.ops))]
            self._layer_of.update((op, layer) for layer in layers for op in layer)
            minis += self._undivided(mini.ops, layers)
            apart += layers
        partition = AcyclicPartition(self._graph, self._found.ops)
        for ops in sorted(self._improved(minis, apart)):
            partition.merge_all(ops)
        return [self._group(partition, part) for part in partition.parts]

    def _improved(self, *starts: list[Part]) -> Grouping:
        """Return the cheapest of what the local search finds from each of ``starts``, the first of equal ones."""
        best = self._searched(list(map(frozenset, starts)))
        if self._doubled is None:
            return best
        self._cut_in = self._doubled
        return self._searched([best, frozenset(starts[-1])])

    def _searched(self, starts: list[Grouping]) -> Grouping:
        asked, most_ops = Asked(self._seconds), len(self._found.ops)
        found = [improved(self._graph, start, asked, most_ops) for start in dict.fromkeys(starts)]
        return min(found, key=lambda grouping: math.fsum(map(self._kernel_s, grouping)))

    def _undivided(self, mini: Part, layers: list[Part]) -> list[Part]:
        """Return a mini-sub-graph as one kernel, or as its layers where these are faster."""
        kernel_s = self._tuning.kernel_s
        if kernel_s is None or len(layers) == 1:
            return layers
        together = kernel_s(mini)
        return [mini] if together <= sum(map(kernel_s, layers)) and not math.isinf(together) else layers

    def _group(self, partition: AcyclicPartition, part: int) -> Group:
        ops = partition.members(part)
        reasons = [self._apart(partition, part, reader) for reader in partition.readers(part)]
        return Group(ops, (reasons or [self._found.boundary_reason])[-1])

    def _inner(self, ops: Sequence[int]) -> list[str]:
        """Return the results of the complex operators of a kernel, the last one's aside."""
        return [self._graph.ops[op].outputs[0] for op in ops if is_complex(self._graph, op)][:-1]

    def _seconds(self, ops: Part) -> float:
        """Return what a kernel of whole layers takes; infinite for one that there must not be."""
        return self._kernel_s(ops) if self._refusal(ops, "") is None else math.inf

    def _kernel_s(self, ops: Part) -> float:
        """Return what a kernel takes that is there; without a machine to ask, all take the same."""
        return 1.0 if self._tuning.kernel_s is None else self._tuning.kernel_s(ops)

    def _refusal(self, ops: Part, name: str) -> str | None:
        """Return why ``ops``, the last of them in the kernel of ``name``, are no kernel; None if they may be one."""
        layers = {self._layer_of[op] for op in ops}
        if layers == {ops}:
            return None
        if sum(map(len, layers)) > len(ops):
            return f"a layer of {name} would be cut"
        return self._refusal_of_several(ops, layers, name)

    def _refusal_of_several(self, ops: Part, layers: set[Part], name: str) -> str | None:
        """Return the same of ``layers`` that make up ``ops``."""
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

    def _apart(self, partition: AcyclicPartition, part: int, reader: int) -> str:
        """Return why two kernels stay apart."""
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
