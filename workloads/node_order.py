"""Order of a file's nodes: those that an output depends on, each behind the nodes that write what it reads."""

import heapq
from collections.abc import Collection, Sequence

import onnx

from dsascape.workloads.expansion import reads_of
from dsascape.workloads.walk_state import node_error


def needed_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the nodes that an output of ``graph`` depends on, in file order; all where it has no outputs."""
    if not graph.output:
        return list(graph.node)
    writers: dict[str, list[int]] = {}
    for place, node in enumerate(graph.node):
        for name in node.output:
            writers.setdefault(name, []).append(place)
    kept: set[int] = set()
    pending = [entry.name for entry in graph.output]
    while pending:
        for place in writers.pop(pending.pop(), ()):
            if place not in kept:
                kept.add(place)
                pending.extend(reads_of(graph.node[place]))
    return [node for place, node in enumerate(graph.node) if place in kept]


def sorted_nodes(where: str, nodes: Sequence[onnx.NodeProto], ready: Collection[str]) -> list[onnx.NodeProto]:
    """Return ``nodes`` in topological order, otherwise in file order.

    Raises ``WorkloadError`` naming a node whose operand is never written, or that lies on a cycle.
    """
    missing = [set(reads_of(node)).difference(ready) for node in nodes]
    readers: dict[str, list[int]] = {}
    for place, names in enumerate(missing):
        for name in names:
            readers.setdefault(name, []).append(place)
    ordered: list[onnx.NodeProto] = []
    able = [place for place, names in enumerate(missing) if not names]
    while able:
        node = nodes[heapq.heappop(able)]
        ordered.append(node)
        for name in node.output:
            for place in readers.pop(name, ()):
                missing[place].discard(name)
                if not missing[place]:
                    heapq.heappush(able, place)
    if len(ordered) < len(nodes):
        place = next(place for place, names in enumerate(missing) if names)
        name = next(name for name in reads_of(nodes[place]) if name in missing[place])
        raise node_error(
            where,
            nodes[place],
            f"reads {name!r}, which nothing before it writes: the graph has a cycle or a missing input",
        )
    return ordered
