"""Section 3.3: sub-graphs become instances, coarse dependencies become fine ones, redundant ones disappear."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fusion.plan import FusionPlan
from fusion.translation import placed_regions
from scheduler.graphturbo.splitting import Split
from scheduler.layers import layers_by_pattern
from scheduler.schedule import layer_needs
from scheduler.work import Layer
from workloads.graph import Graph
from workloads.loopnest import Box, box_volume, full_box, intersect


@dataclass(frozen=True, slots=True)
class Part:
    """One layer of an instance: the box of its output, and of every activation that it reads."""

    layer: Layer
    box: Box
    needs: Mapping[str, Box]


@dataclass(frozen=True)
class SubGraphInstance:
    """One instance of a sub-graph: what it computes of each tensor, layer by layer."""

    group: int
    index: int
    parts: tuple[Part, ...]
    writes: Mapping[str, Box]
    """Box of each stored tensor that its layers write."""

    @cached_property
    def reads(self) -> dict[str, list[Box]]:
        """Boxes of the tensors that come from other instances."""
        found: dict[str, list[Box]] = {}
        for part in self.parts:
            for name, box in part.needs.items():
                if name not in self.writes:
                    found.setdefault(name, []).append(box)
        return found


@dataclass(frozen=True)
class InstanceGraph:
    """All instances, and for each the instances whose output it uses."""

    instances: tuple[SubGraphInstance, ...]
    producers: Mapping[int, frozenset[int]]
    output_bytes: Mapping[int, int]
    """Of each instance: what others read of it."""


def split_into_instances(plan: FusionPlan, splits: Sequence[Split | None]) -> InstanceGraph:
    """Return the instances of all groups, group by group, and their fine-grained dependencies (Fig. 6).

    An edge between two instances stays only if the one's output meets what the other reads.
    """
    graph = plan.graph
    instances: list[SubGraphInstance] = []
    writers: dict[str, list[int]] = {}
    for group, count in enumerate(instance_counts(plan, splits)):
        layers = layers_by_pattern(graph, plan.groups[group].ops)
        for index in range(count):
            instances.append(_instance(plan, group, layers, splits[group] if count > 1 else None, index))
            for name in instances[-1].writes:
                writers.setdefault(name, []).append(len(instances) - 1)
    producers: dict[int, frozenset[int]] = {}
    used: dict[int, set[str]] = {number: set() for number in range(len(instances))}
    for number, instance in enumerate(instances):
        found = set()
        for name, boxes in instance.reads.items():
            for writer in writers.get(name, ()):
                if any(intersect(instances[writer].writes[name], box) is not None for box in boxes):
                    found.add(writer)
                    used[writer].add(name)
        producers[number] = frozenset(found)
    output_bytes = {
        number: sum(
            box_volume(instances[number].writes[name]) * graph.tensors[name].element_bytes for name in sorted(names)
        )
        for number, names in used.items()
    }
    return InstanceGraph(tuple(instances), producers, output_bytes)


def instance_counts(plan: FusionPlan, splits: Sequence[Split | None]) -> list[int]:
    """Return how many instances each group has: a single layer is one, its tiles are what its instances would be."""
    layers = (layers_by_pattern(plan.graph, group.ops) for group in plan.groups)
    return [
        split.factor if split is not None and len(own) > 1 else 1 for split, own in zip(splits, layers, strict=True)
    ]


def _instance(
    plan: FusionPlan, group: int, layers: Sequence[Layer], split: Split | None, index: int
) -> SubGraphInstance:
    graph, ops = plan.graph, plan.groups[group].ops
    wanted = _wanted(graph, ops, split, index)
    regions = placed_regions(graph, ops, wanted)
    parts, writes = [], {}
    for layer in layers:
        box = regions.get(layer.sink.name)
        if box is None:
            continue
        near = layer_needs(layer, box)
        needs = {n: near[n] for n in layer.inputs if n in near and graph.tensors[n].role == "activation"}
        parts.append(Part(layer, box, needs))
        for name in layer.outputs:
            if name in regions:
                writes[name] = regions[name]
    return SubGraphInstance(group, index, tuple(parts), writes)


def _wanted(graph: Graph, ops: Sequence[int], split: Split | None, index: int) -> dict[str, Box]:
    """Return the boxes of the group's outputs that instance ``index`` is there for."""
    inside = set(ops)
    wanted: dict[str, Box] = {}
    for position in ops:
        for name in graph.ops[position].outputs:
            if name in graph.outputs or any(reader not in inside for reader in graph.consumers[name]):
                shape = graph.tensors[name].shape
                box = list(full_box(shape))
                if split is not None and split.factor > 1:
                    size = -(-shape[split.dim] // split.factor)
                    box[split.dim] = (index * size, min((index + 1) * size, shape[split.dim]))
                wanted[name] = tuple(box)
    return wanted
