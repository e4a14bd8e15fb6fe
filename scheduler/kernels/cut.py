"""Layers of a kernel: sets of operators whose loops are fused, including the views in front of them."""

from collections.abc import Iterable, Sequence

from dsascape.fusion.fixed_pattern import fixed_pattern_layers
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nest_by_nest import PATCHES, Algorithms, written_out
from dsascape.workloads.subgraph import Subgraph


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


def only_convolution(analysis: Analysis, ops: Sequence[int]) -> int | None:
    """Return the position of the kernel's convolution; None where it has none, or another operator that reduces."""
    return analysis.of(_only_convolution, tuple(ops))


def _only_convolution(analysis: Analysis, ops: tuple[int, ...]) -> int | None:
    graph = analysis.graph
    reducing = [op for op in ops if any(nest.has_reduction for nest in graph.ops[op].nests)]
    return reducing[0] if len(reducing) == 1 and graph.ops[reducing[0]].kind == "Conv" else None


def layers_by_pattern(analysis: Analysis, ops: Sequence[int]) -> tuple[Layer, ...]:
    """Return the kernel ``ops`` cut into layers of at most one complex operator, in order (GraphTurbo, section 4.1)."""
    return analysis.of(_layers_by_pattern, tuple(ops))


def layers_with_attention(analysis: Analysis, ops: Sequence[int]) -> tuple[Layer, ...]:
    """Return `layers_by_pattern`, with the two products around a softmax, and the softmax, as one layer.

    Only where the softmax is computed piece by piece along the keys (`Layer.streamed`), and nothing else reads scores.
    """
    return analysis.of(_layers_with_attention, tuple(ops))


def _layers_with_attention(analysis: Analysis, ops: tuple[int, ...]) -> tuple[Layer, ...]:
    layers = list(layers_by_pattern(analysis, ops))
    for softmax in [layer for layer in layers if layer.contraction is None and _runs_along(layer)]:
        before = [layer for layer in layers if layer.sink.name in softmax.inputs and layer.contraction is not None]
        behind = [layer for layer in layers if softmax.sink.name in layer.inputs and layer.contraction is not None]
        if len(before) != 1 or len(behind) != 1:
            continue
        whole = layer_of(analysis, (*before[0].ops, *softmax.ops, *behind[0].ops))
        if whole is not None and whole.streamed and whole.outputs == behind[0].outputs:
            layers[layers.index(behind[0])] = whole
            layers = [layer for layer in layers if layer not in (before[0], softmax)]
    return tuple(layers)


def _runs_along(layer: Layer) -> bool:
    """Return whether some reduction of a layer can be accumulated while its results are used."""
    return any(compiled.nest.running for compiled in layer.nests)


def layers_in_order(
    analysis: Analysis, ops: Sequence[int], transposed: frozenset[int] = frozenset(),
    algorithms: Algorithms = frozenset(), in_phases: frozenset[int] = frozenset(),
) -> tuple[Layer, ...]:  # fmt: skip
    """Return the kernel ``ops`` as the layers that a machine runs in sequence, in the network written out nest by nest.

    There is one layer, unless operators hold several products (then each layer has at most one), or an operator's
    results need earlier results of its own or are copies of operands (then it is a layer by itself). Convolutions of
    ``algorithms`` stay one layer, whose transforms and products run tile by tile; those of them that are ``in_phases``
    are three, each for the whole image: transforms of data, products, and transforms of results with what follows.
    Copies of operands that come from outside are made in front.
    """
    return analysis.of(_layers_in_order, tuple(ops), transposed, algorithms, in_phases)


def _layers_in_order(
    analysis: Analysis, ops: tuple[int, ...], transposed: frozenset[int], algorithms: Algorithms,
    in_phases: frozenset[int],
) -> tuple[Layer, ...]:  # fmt: skip
    out = analysis.of(written_out, transposed, algorithms)
    written, every = out.analysis, out.ops(sorted(ops))
    graph = written.graph
    phased = [op for op, algorithm in algorithms if op in ops and op in in_phases and algorithm != PATCHES]
    if phased:
        return _in_phases(written, every, out.ops_of[phased[0]])
    tiled = sum([len(out.ops_of[op]) - 1 for op, _ in algorithms if op in ops])
    if len(every) == len(ops) + tiled and not any(nest.ordered for op in every for nest in graph.ops[op].nests):
        return single_layer(written, every)
    rest = tuple([op for op in every if op not in out.copies])
    if len(rest) == len(ops) + tiled and _only_copies_first(written, every, out.copies):
        return (*[layer for op in every if op in out.copies for layer in single_layer(written, (op,))],
                *single_layer(written, rest))  # fmt: skip
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


def _in_phases(analysis: Analysis, ops: Sequence[int], winograd: Sequence[int]) -> tuple[Layer, ...]:
    """Return the layers of a kernel with Winograd's operators, in the order of `workloads.winograd.operators`."""
    columns, data, products, *_ = winograd
    first = Subgraph(analysis.graph, tuple(ops)).leading_to(columns) | {data}
    rest = tuple([op for op in ops if op not in first and op != products])
    phases = tuple(sorted(first)), (products,), rest
    return tuple([layer for phase in phases for layer in single_layer(analysis, phase)])


def _only_copies_first(analysis: Analysis, ops: Sequence[int], copies: frozenset[int]) -> bool:
    """Whether ``ops`` are a layer behind copies of operands: no copy is of what another of them computes."""
    graph = analysis.graph
    made = {name for op in ops if op not in copies for name in graph.ops[op].outputs}
    is_ordered = any(nest.ordered for op in ops for nest in graph.ops[op].nests)
    read = {graph.storage.get(name, name) for op in ops if op in copies for name in graph.ops[op].inputs}
    return not is_ordered and not read & made


def _layers_by_pattern(analysis: Analysis, ops: tuple[int, ...]) -> tuple[Layer, ...]:
    layers = (layer_of(analysis, fused) for fused in fixed_pattern_layers(analysis.graph, list(ops)))
    return tuple(layer for layer in layers if layer is not None)
