"""Layers of a kernel: the operators whose loops are fused, with the views in front of them looked through."""

from collections.abc import Iterable, Sequence

from fusion.fixed_pattern import fixed_pattern_layers
from scheduler.work import Layer
from workloads.graph import Graph


def layer_of(graph: Graph, ops: Iterable[int]) -> Layer | None:
    """Return the layer of ``ops``; None if they only rename elements.

    Views behind the last operator are left to whoever reads them; views in front of it, of any group, become part of
    the layer. So layers read and write stored tensors only.
    """
    core = frozenset(position for position in ops if not graph.ops[position].is_view)
    return graph.derived(("layer", core), lambda: _layer(graph, core)) if core else None


def _layer(graph: Graph, core: frozenset[int]) -> Layer:
    members = set(core)
    waiting = [name for position in core for name in graph.ops[position].inputs]
    while waiting:
        producer = graph.producer.get(waiting.pop())
        if producer is not None and producer not in members and graph.ops[producer].is_view:
            members.add(producer)
            waiting.extend(graph.ops[producer].inputs)
    return Layer(graph, tuple(sorted(members)))


def single_layer(graph: Graph, ops: Sequence[int]) -> tuple[Layer, ...]:
    """Return the kernel ``ops`` as one fused layer, or as none if it has nothing to do."""
    layer = layer_of(graph, ops)
    return () if layer is None else (layer,)


def layers_by_pattern(graph: Graph, ops: Sequence[int]) -> tuple[Layer, ...]:
    """Return the kernel ``ops`` cut into layers of at most one complex operator, in order (GraphTurbo, section 4.1)."""

    def cut() -> tuple[Layer, ...]:
        found = (layer_of(graph, members) for members in fixed_pattern_layers(graph, list(ops)))
        return tuple(layer for layer in found if layer is not None)

    return graph.derived(("layers", tuple(ops)), cut)
