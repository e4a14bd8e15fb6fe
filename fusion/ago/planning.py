"""AGO's sub-graphs as kernels: what its tuner would make of each of them.

The paper's tuner looks for schedules of a whole sub-graph, of its mini-sub-graphs first (SPLIT), then of all together
(JOIN). A plan has kernels, so both are decided here: a mini-sub-graph is a kernel unless its layers, one complex
operator with its followers each, are faster apart; then kernels of one sub-graph that read from each other are joined
while that is not slower. Two with complex operators are joined only where redundancy analysis leaves a dimension to cut
(intensive fusion); the dimensions that must stay whole are part of the plan. Where there is no machine to ask, layers
are taken as they are and every redundancy-free pair is joined.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fusion.ago.clustering import THRESHOLD, SubGraph, cluster, join, split
from fusion.ago.redundancy import can_be_tiled, reused_dims
from fusion.ago.weights import Weights, is_complex
from fusion.costs import KernelSeconds
from fusion.fixed_pattern import fixed_pattern_layers
from fusion.partition import AcyclicPartition
from fusion.plan import FusionPlan, Group, plan_from_groups
from workloads.analysis import Analysis
from workloads.subgraph import Subgraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How sub-graphs are found and made into kernels."""

    weights: Weights = field(default_factory=Weights)
    threshold: float = THRESHOLD
    intensive: bool = True
    """Whether two complex operators may share a kernel (off: the paper's AGO-NI)."""
    kernel_s: KernelSeconds | None = None
    """What a kernel takes; None: nothing is known."""


def ago_plan(analysis: Analysis, tuning: Tuning) -> FusionPlan:
    """Return the kernels of AGO's sub-graphs for the network of ``analysis``."""
    graph = analysis.graph
    groups = []
    for found in cluster(graph, tuning.weights, tuning.threshold):
        groups += _Reformer(analysis, found, tuning).groups()
    return plan_from_groups(graph, groups)


class _Reformer:
    """One sub-graph: split, then joined as far as that pays."""

    def __init__(self, analysis: Analysis, found: SubGraph, tuning: Tuning) -> None:
        self._analysis = analysis
        self._graph = analysis.graph
        self._found = found
        self._tuning = tuning
        self._partition = AcyclicPartition(self._graph, found.ops)
        self._reasons: dict[int, str] = {}

    def groups(self) -> list[Group]:
        for mini in split(self._graph, self._found.ops, self._tuning.weights, self._tuning.threshold):
            for layer in self._layers(mini.ops):
                self._partition.merge_all(layer)
        while self._join_some():
            pass
        return [self._group(part) for part in self._partition.parts]

    def _group(self, part: int) -> Group:
        ops = self._partition.members(part)
        whole = {dim for name in self._inner(ops) for dim in reused_dims(self._analysis, ops, name)}
        return Group(ops, self._reasons.get(part, self._found.boundary_reason), whole_dims=tuple(sorted(whole)))

    def _inner(self, ops: Sequence[int]) -> list[str]:
        """Return the results of the complex operators of a kernel, the last one's aside."""
        return [self._graph.ops[op].outputs[0] for op in ops if is_complex(self._graph, op)][:-1]

    def _layers(self, mini: tuple[int, ...]) -> list[list[int]]:
        """Return a mini-sub-graph as one kernel, or as its layers where these are faster."""
        layers = fixed_pattern_layers(self._graph, list(mini))
        kernel_s = self._tuning.kernel_s
        if kernel_s is None or len(layers) == 1:
            return layers
        together = kernel_s(mini)
        return [list(mini)] if together <= sum(map(kernel_s, layers)) and not math.isinf(together) else layers

    def _join_some(self) -> bool:
        """Join kernels along the edges between them, in order; return whether there were any to join."""
        changed = False
        for part in self._partition.parts:
            if part not in self._partition.parts:
                continue
            for reader in self._partition.readers(part):
                reason = self._refusal(part, reader)
                if reason is None:
                    self._partition.merge(part, reader)
                    changed = True
                    break
                self._reasons[part] = reason
        return changed

    def _refusal(self, part: int, reader: int) -> str | None:
        """Return why two kernels stay apart, None if they are joined."""
        name = self._graph.ops[reader].name
        if self._partition.closes_circle(part, reader):
            return f"kernels between this one and that of {name} wait for it"
        ops, others = self._partition.members(part), self._partition.members(reader)
        together = join((ops, others))
        if all(any(is_complex(self._graph, op) for op in kernel) for kernel in (ops, others)):
            if not self._tuning.intensive:
                return f"{name} would be a second complex operator"
            if not can_be_tiled(self._analysis, together, self._inner(together)):
                return f"computed inside {name}, it would be computed again whichever dimension is cut"
        elif self._tuning.kernel_s is None:
            return "layers are joined where a machine says that it pays"
        return self._slower(ops, others, together, name)

    def _slower(self, ops: Sequence[int], others: Sequence[int], together: Sequence[int], name: str) -> str | None:
        if not Subgraph(self._graph, tuple(together)).has_single_output:
            return f"with {name}, several results would leave the kernel"
        kernel_s = self._tuning.kernel_s
        if kernel_s is None:
            return None
        joined_s, apart_s = kernel_s(together), kernel_s(ops) + kernel_s(others)
        if math.isinf(joined_s):
            return f"the machine cannot run {name} in the same kernel"
        if joined_s <= apart_s:
            return None
        return f"{joined_s * 1e6:.3g} us with {name}, {apart_s * 1e6:.3g} us apart"
