"""SPLIT: a kernel with several complex operators as mini sub-graphs with at most one each (AGO, section V).

Mini sub-graphs are those of CLUSTER, which SPLIT invokes (`fusion.ago.split`). Each is a kernel, and a task, of its
own.

One departure from the paper: simple operators behind a complex one go with that, by Relay's rule, where CLUSTER may
give them to the complex operator that follows. No sketch computes them anew in each of its tiles, and the machine model
knows no such program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dsascape.fusion.ago import Weights, split
from dsascape.fusion.ago.planning import for_one_image
from dsascape.fusion.ago.weights import is_complex
from dsascape.fusion.fixed_pattern import fixed_pattern_layers
from dsascape.fusion.partition import AcyclicPartition
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kinds.kind import MachineCosts
from dsascape.tuner.search.kinds.table import tuned_kind
from dsascape.tuner.search.reformer.decisions import MiniGraph, SplitDecision
from dsascape.tuner.search.tasks import Task
from dsascape.workloads import Graph

_SEVERAL = 2


@dataclass(frozen=True, eq=False)
class Mini:
    """A mini sub-graph as a task, with the names that its tensors have in the kernel."""

    task: Task
    weight: float
    """AGO's weight (eq. 1)."""


@dataclass(frozen=True, eq=False)
class Split:
    """A kernel's task, and the mini sub-graphs that it is split into."""

    whole: Task
    weight: float
    """AGO's weight of the whole kernel (eq. 1)."""
    minis: tuple[Mini, ...] = ()
    """Mini sub-graphs, producers first; none for a kernel that stays whole."""
    reason: str = ""
    """Reason why a kernel with several complex operators stays whole."""

    @property
    def decision(self) -> SplitDecision:
        """Record of the split, which prints and goes to JSON."""
        minis = [MiniGraph(each.task.key, each.task.operators, each.weight) for each in self.minis]
        return SplitDecision(self.whole.key, self.whole.name, tuple(minis), self.reason)


def complex_operators(layer: Layer) -> tuple[int, ...]:
    """Return the positions of a layer's complex operators: convolutions, products and the like."""
    return tuple([position for position in layer.ops if is_complex(layer.graph, position)])


def splits_of(
    tasks: Sequence[Task], costs: Mapping[str, MachineCosts], weights: Weights | None = None
) -> tuple[Split, ...]:
    """Return the split of each task; ``costs``, by key of the task, choose the mini sub-graphs' built-in programs."""
    measure = Weights() if weights is None else weights
    graphs = {id(task.naive.layer.graph): task.naive.layer.graph for task in tasks}
    weighed = {number: for_one_image(graph) for number, graph in graphs.items()}
    return tuple([_split(task, costs[task.key], weighed[id(task.naive.layer.graph)], measure) for task in tasks])


def _split(task: Task, costs: MachineCosts, weighed: Graph, weights: Weights) -> Split:
    layer = task.naive.layer
    weight = sum([weights.of(weighed.ops[position]) for position in layer.ops])
    if len(complex_operators(layer)) < _SEVERAL:
        return Split(task, weight)
    minis, kind = [], tuned_kind(task.machine.kind)
    for ops in mini_graphs(weighed, layer.ops, weights):
        own = layer_of(layer.analysis, ops)
        if own is None:
            continue  # views, which belong to who reads them
        mini = kind.task(own, costs)
        if mini is None:
            return Split(task, weight, reason=f"steps do not describe the loops of {own.sink.name} by itself")
        minis.append(Mini(mini, sum([weights.of(weighed.ops[position]) for position in ops])))
    if len(minis) < _SEVERAL:
        return Split(task, weight, reason="its complex operators are those of one mini sub-graph")
    return Split(task, weight, tuple(minis))


def mini_graphs(graph: Graph, ops: Sequence[int], weights: Weights) -> list[tuple[int, ...]]:
    """Return the operators of each mini sub-graph of ``ops``, producers first."""
    cluster_of = {op: number for number, each in enumerate(split(graph, ops, weights)) for op in each.ops}
    partition = AcyclicPartition(graph, ops)
    layers = fixed_pattern_layers(graph, list(ops))
    parts = [partition.merge_all(layer) for layer in layers]
    together: dict[int, int] = {}
    for layer, part in zip(layers, parts, strict=True):
        leading = next((op for op in layer if is_complex(graph, op)), layer[-1])
        first = together.get(cluster_of[leading], part)
        if first != part and not partition.closes_circle(first, part):
            together[cluster_of[leading]] = partition.merge(first, part)
        else:
            together[cluster_of[leading]] = part
    return [partition.members(part) for part in sorted(partition.parts, key=partition.place)]
