"""Layers of a kernel: sets of operators whose loops are fused, including the views in front of them."""

from collections.abc import Iterable, Sequence

from dsascape.fusion.fixed_pattern import fixed_pattern_layers
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nest_by_nest import Winograd, written_out
from dsascape.workloads.winograd.operators import fits


def layer_of(analysis: Analysis, ops: Iterable[int]) -> Layer | None:
    """Return the layer of ``ops``; None if all of them are views.

    Views behind the last operator are left to their consumers; views in front of it, of any group, become part of the
    layer. So layers read and write stored tensors only.
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
    """Return the kernel ``ops`` as one fused layer; an empty tuple if all of them are views."""
    layer = layer_of(analysis, ops)
    return () if layer is None else (layer,)


def only_convolution(analysis: Analysis, ops: Sequence[int], size: int) -> Winograd:
    """Return the kernel's convolution for tiles of ``size``, if it can be computed by Winograd's algorithm.

    None where the kernel has another operator that reduces, or where ``size`` is 0.
    """
    return frozenset() if not size else frozenset([(op, size) for op in analysis.of(_only_convolution, tuple(ops))])


def _only_convolution(analysis: Analysis, ops: tuple[int, ...]) -> tuple[int, ...]:
    graph = analysis.graph
    reducing = [op for op in ops if any(nest.has_reduction for nest in graph.ops[op].nests)]
    return tuple(reducing) if len(reducing) == 1 and fits(graph.ops[reducing[0]], graph.tensors) else ()


def layers_by_pattern(analysis: Analysis, ops: Sequence[int]) -> tuple[Layer, ...]:
    """Return the kernel ``ops`` cut into layers of at most one complex operator, in order (GraphTurbo, section 4.1)."""
    return analysis.of(_layers_by_pattern, tuple(ops))


def layers_in_order(
    analysis: Analysis, ops: Sequence[int], transposed: frozenset[int] = frozenset(), winograd: Winograd = frozenset()
) -> tuple[Layer, ...]:
    """Return the kernel ``ops`` as the layers that a machine runs in sequence, in the network written out nest by nest.

    There is one layer, unless operators hold several products (then each layer has at most one), or an operator's
    results need earlier results of its own or are copies of operands (then it is a layer by itself). Convolutions of
    ``winograd`` stay one layer: their transforms and products run tile by tile.
    """
    return analysis.of(_layers_in_order, tuple(ops), transposed, winograd)


def _layers_in_order(
    analysis: Analysis, ops: tuple[int, ...], transposed: frozenset[int], winograd: Winograd
) -> tuple[Layer, ...]:
    out = analysis.of(written_out, transposed, winograd)
    written, every = out.analysis, out.ops(sorted(ops))
    graph = written.graph
    tiled = sum([len(out.ops_of[op]) - 1 for op, _ in winograd if op in ops])
    if len(every) == len(ops) + tiled and not any(nest.ordered for op in every for nest in graph.ops[op].nests):
        return single_layer(written, every)
    layers: list[Layer] = []
    together: list[int] = []
    for op in (*every, None):
        is_alone = op is not None and (op in out.copies or any(nest.ordered for nest in graph.ops[op].nests))
        if op is None or is_alone:
            layers += layers_by_pattern(written, together)
            together = []
        if op is not None and is_alone:
            layers += single_layer(written, (op,))
        elif op is not None:
            together.append(op)
    return tuple(layers)


def _layers_by_pattern(analysis: Analysis, ops: tuple[int, ...]) -> tuple[Layer, ...]:
    layers = (layer_of(analysis, fused) for fused in fixed_pattern_layers(analysis.graph, list(ops)))
    return tuple(layer for layer in layers if layer is not None)
