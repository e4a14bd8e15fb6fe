"""Layers of a kernel: the operators whose loops are fused, with the views in front of them looked through."""

from collections.abc import Iterable, Sequence

from fusion.fixed_pattern import fixed_pattern_layers
from scheduler.kernels.layer import Layer
from workloads.analysis import Analysis


def layer_of(analysis: Analysis, ops: Iterable[int]) -> Layer | None:
    """Return the layer of ``ops``; None if they only rename elements.

    Views behind the last operator are left to whoever reads them; views in front of it, of any group, become part of
    the layer. So layers read and write stored tensors only.
    """
    core = frozenset(position for position in ops if not analysis.graph.ops[position].is_view)
    return analysis.of(_layer, core) if core else None


def _layer(analysis: Analysis, core: frozenset[int]) -> Layer:
    graph, ops = analysis.graph, set(core)
    waiting = [name for position in core for name in graph.ops[position].inputs]
    while waiting:
        producer = graph.producer.get(waiting.pop())
        if producer is not None and producer not in ops and graph.ops[producer].is_view:
            ops.add(producer)
            waiting.extend(graph.ops[producer].inputs)
    return Layer(graph, tuple(sorted(ops)), analysis)


def single_layer(analysis: Analysis, ops: Sequence[int]) -> tuple[Layer, ...]:
    """Return the kernel ``ops`` as one fused layer, or as none if it has nothing to do."""
    layer = layer_of(analysis, ops)
    return () if layer is None else (layer,)


def layers_by_pattern(analysis: Analysis, ops: Sequence[int]) -> tuple[Layer, ...]:
    """Return the kernel ``ops`` cut into layers of at most one complex operator, in order (GraphTurbo, section 4.1)."""
    return analysis.of(_layers_by_pattern, tuple(ops))


def _layers_by_pattern(analysis: Analysis, ops: tuple[int, ...]) -> tuple[Layer, ...]:
    found = (layer_of(analysis, fused) for fused in fixed_pattern_layers(analysis.graph, list(ops)))
    return tuple(layer for layer in found if layer is not None)
