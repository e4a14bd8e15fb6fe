"""Instances of sub-graphs (section 3.3): coarse dependencies become fine-grained, redundant ones are removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dsascape.fusion.plan import FusionPlan, Group, Split
from dsascape.scheduler.kernels.cut import layers_by_pattern, layers_with_attention
from dsascape.scheduler.kernels.layer import Layer, layer_needs
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import Box, Extents, Operations, box_volume, full_box, hull, intersect
from dsascape.workloads.memo import memoized
from dsascape.workloads.regions import placed_regions
from dsascape.workloads.subgraph import Subgraph

_MOST_KEPT = 32
"""Size of the cache of instances per network, in plans."""


@dataclass(frozen=True, slots=True)
class Part:
    """One layer of an instance, with the boxes of its output and of every activation that it reads."""

    layer: Layer
    box: Box
    needs: Mapping[str, Box]


@dataclass(frozen=True)
class SubGraphInstance:
    """One instance of a sub-graph: the boxes that it computes, layer by layer."""

    group: int
    index: int
    parts: tuple[Part, ...]
    writes: Mapping[str, Box]
    """Box written of each stored tensor."""

    @cached_property
    def reads(self) -> dict[str, list[Box]]:
        """Boxes read of each tensor from other instances."""
        boxes: dict[str, list[Box]] = {}
        for part in self.parts:
            for name, box in part.needs.items():
                if name not in self.writes:
                    boxes.setdefault(name, []).append(box)
        return boxes


@dataclass(frozen=True)
class InstanceGraph:
    """Dependency graph of all instances; ``producers``: for each, the instances whose output it reads."""

    instances: tuple[SubGraphInstance, ...]
    producers: Mapping[int, frozenset[int]]
    output_bytes: Mapping[int, int]
    """Bytes of each instance's outputs that other instances read."""


def split_into_instances(
    analysis: Analysis, plan: FusionPlan, *, has_whole_attention: bool = False
) -> InstanceGraph:
    """Return the instances of all groups, group by group, and their fine-grained dependencies (Fig. 6).

    An edge between two instances stays only if the output of one intersects what the other reads.
    ``has_whole_attention``: attention is one layer, whose scores only a tile has, where a group holds all of it.
    """
    return _instance_graph(analysis, plan.groups, has_whole_attention)


@memoized(most=_MOST_KEPT)
def _instance_graph(analysis: Analysis, groups: tuple[Group, ...], has_whole_attention: bool) -> InstanceGraph:
    plan = FusionPlan(analysis.graph, groups)
    graph = plan.graph
    instances: list[SubGraphInstance] = []
    writers: dict[str, list[int]] = {}
    for number, group in enumerate(plan.groups):
        layers = (layers_with_attention if has_whole_attention else layers_by_pattern)(analysis, group.ops)
        for index in range(group.instances):
            instances.append(_instance(plan, number, layers, analysis, index))
            for name in instances[-1].writes:
                writers.setdefault(name, []).append(len(instances) - 1)
    producers: dict[int, frozenset[int]] = {}
    used: dict[int, set[str]] = {number: set() for number in range(len(instances))}
    for number, instance in enumerate(instances):
        sources = set()
        for name, boxes in instance.reads.items():
            for writer in writers.get(name, ()):
                if any(intersect(instances[writer].writes[name], box) is not None for box in boxes):
                    sources.add(writer)
                    used[writer].add(name)
        producers[number] = frozenset(sources)
    output_bytes = {
        number: sum(
            graph.tensors[name].bytes_of(box_volume(instances[number].writes[name])) for name in sorted(names)
        )
        for number, names in used.items()
    }
    return InstanceGraph(tuple(instances), producers, output_bytes)


def operations_of(instances: Sequence[SubGraphInstance]) -> Operations:
    """Return the total operations of all instances; operations repeated by overlapping instances count repeatedly."""
    total = Operations()
    for part in (part for instance in instances for part in instance.parts):
        work = part.layer.tile_work(tuple(hi - lo for lo, hi in part.box))
        for each in work.nests:
            total += each.operations if each.nest.bound is None else each.nest.operations(each.extents)
    return total


def _instance(
    plan: FusionPlan, group: int, layers: Sequence[Layer], analysis: Analysis, index: int
) -> SubGraphInstance:
    graph, ops = plan.graph, plan.groups[group].ops
    wanted = _wanted(plan.subgraphs[group], plan.groups[group].split, index)
    regions = placed_regions(analysis, ops, wanted)
    parts, writes = [], {}
    for layer in layers:
        computed = _last_outputs(layer, regions)
        if not computed:
            continue
        box = computed[layer.sink.name]
        required = layer_needs(layer, box) if len(computed) == 1 else placed_regions(analysis, layer.ops, computed)
        needs = {n: required[n] for n in layer.inputs if n in required and graph.tensors[n].role == "activation"}
        parts.append(Part(layer, box, needs))
        for name in layer.outputs:
            if name in regions:
                writes[name] = computed.get(name, regions[name])
    return SubGraphInstance(group, index, tuple(parts), writes)


def needs_of_first(analysis: Analysis, ops: tuple[int, ...], split: Split | None) -> Mapping[str, Box]:
    """Return the boxes of all tensors, weights included, that the first instance of a group reads or computes."""
    return placed_regions(analysis, ops, _wanted(Subgraph(analysis.graph, ops), split, 0))


def _last_outputs(layer: Layer, regions: Mapping[str, Box]) -> dict[str, Box]:
    """Return the boxes that an instance computes of the outputs of a layer's last operator: the same part of each.

    Along dimensions in which an output's size differs from the sink's, it is whole. Empty: the instance needs none.
    """
    tensors, own = layer.graph.tensors, layer.sink.shape
    box: Box | None = None
    shapes = {name: tensors[name].shape for name in layer.graph.ops[layer.ops[-1]].outputs}
    for name, shape in shapes.items():
        if name in regions:
            box = hull(box, _along(regions[name], shape, own))
    if box is None:
        return {}
    sink = layer.sink.name
    return {name: _along(box, own, shape) for name, shape in shapes.items() if name == sink or name in regions}


def _along(box: Box, shape: Extents, other: Extents) -> Box:
    """Return the box in a tensor of shape ``other`` that corresponds to ``box`` in one of ``shape``."""
    if len(shape) != len(other):
        return full_box(other)
    return tuple(
        part if size == further else (0, further) for part, size, further in zip(box, shape, other, strict=True)
    )


def _wanted(subgraph: Subgraph, split: Split | None, index: int) -> dict[str, Box]:
    """Return the boxes of the sub-graph's outputs assigned to instance ``index``."""
    wanted: dict[str, Box] = {}
    for name in subgraph.escaping:
        shape = subgraph.graph.tensors[name].shape
        box = list(full_box(shape))
        if split is not None and split.factor > 1:
            size = -(-shape[split.dim] // split.factor)
            box[split.dim] = (index * size, min((index + 1) * size, shape[split.dim]))
        wanted[name] = tuple(box)
    return wanted
