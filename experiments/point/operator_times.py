"""Times, energies and bytes of each layer of a run, with its operators and shapes, for tables that other tools read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import (
    BETWEEN_LAYERS,
    layers_of,
    operators_of,
    spans_of_layers,
    works_of_layers,
)
from dsascape.hw_models import AnyHardware
from dsascape.hw_models.simulation.energy import background_w, energy_of_works_pj
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import kind_of
from dsascape.workloads.batch.counting import operations_at
from dsascape.workloads.graph import Graph, Tensor
from dsascape.workloads.loopnest import Operations
from dsascape.workloads.subgraph import Subgraph

_PJ = 1e-12


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that a layer reads or writes outside of it, at the batch of one cluster."""

    shape: tuple[int, ...]
    dtype: str
    is_weight: bool
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Figures of one layer for the whole batch: all its runs, and all clusters at work."""

    name: str
    """Name of the layer in its plan, such as ``#41 Conv+Relu 512x7x7``."""
    kernel: str
    """Number in that name; empty for launches that belong to no layer."""
    operators: tuple[str, ...]
    """Types of the operators, views left out."""
    nodes: tuple[str, ...]
    """Names of the operators in the file, views included."""
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    runs: int
    seconds: float
    """Time on the critical path; all layers' add up to the latency."""
    span_s: float
    """Time from the start of its first instruction to the end of its last, of all runs."""
    energy_j: float
    """Energy of its operations and transfers, and static power for its time on the critical path."""
    operations: Operations
    """Arithmetic of the operators, without padding and recomputation."""
    traffic_bytes: Mapping[str, int]
    limited_by: str
    after: tuple[int, ...]
    """Positions of the layers whose results it reads."""
    first_equal: int
    """Position of the first layer that computes the same on the same shapes; its own if it is the first."""


@dataclass(frozen=True, slots=True)
class ShapeTimes:
    """Figures of every layer of a network at one shape."""

    network: str
    hardware: str
    policy: str
    dtype: str
    batch: int
    """Batch of the whole machine."""
    context: int | None
    """Tokens in the caches of a language model; None for other networks."""
    tokens: int | None
    """Tokens of each sequence that a pass of a language model processes; None for other networks."""
    latency_s: float
    batch_of_shapes: int
    """Batch at which the shapes of operands are stated: that of one cluster in one iteration."""
    layers: tuple[OperatorTime, ...]


def shape_times(outcome: Outcome, hardware: AnyHardware, network: str) -> ShapeTimes:
    """Return the figures of every layer of a run on ``hardware``; ``network`` is its name without sizes."""
    record = outcome.record
    context, tokens = (
        int(record.language[name]) if name in record.language else None for name in ("context", "tokens")
    )
    return ShapeTimes(
        network, record.hardware, record.policy, record.dtype, record.batch, context, tokens, record.latency_s,
        outcome.schedule.graph.batch, operator_times(outcome, hardware),
    )  # fmt: skip


def operator_times(outcome: Outcome, hardware: AnyHardware) -> tuple[OperatorTime, ...]:
    """Return the figures of every layer of a run on ``hardware``, in the order in which they start."""
    graph, iterations = outcome.schedule.graph, outcome.record.iterations
    kind = kind_of(hardware)
    energy = kind.energy(kind.slowed(hardware, outcome.record.clock_share))
    energies_pj, always_w = energy_of_works_pj(outcome.program, energy), background_w(outcome.program, energy)
    works, spans_ps, nodes = works_of_layers(outcome), spans_of_layers(outcome), operators_of(outcome)
    figures = layers_of(outcome)
    position_of = {op.name: position for position, op in enumerate(graph.ops)}
    layer_of = {node: place for place, layer in enumerate(figures) for node in nodes.get(layer.layer, ())}
    keys = _keys(outcome)
    first: dict[object, int] = {}
    rows = []
    for place, layer in enumerate(figures):
        ops = tuple(sorted(position_of[node] for node in nodes.get(layer.layer, ())))
        dynamic_pj = math.fsum(count * energies_pj[number] for number, count in works[layer.layer].items())
        is_layer = layer.layer != BETWEEN_LAYERS
        rows.append(
            OperatorTime(
                name=layer.name,
                kernel=layer.name[1:].partition(" ")[0] if is_layer and layer.name.startswith("#") else "",
                operators=tuple(graph.ops[op].kind for op in ops if not graph.ops[op].is_view),
                nodes=tuple(graph.ops[op].name for op in ops),
                inputs=_operands(graph, ops, "stored_inputs"),
                outputs=_operands(graph, ops, "stored_outputs"),
                runs=layer.runs,
                seconds=layer.critical_s,
                span_s=spans_ps[layer.layer] / PS_PER_S * iterations,
                energy_j=dynamic_pj * _PJ * iterations + always_w * layer.critical_s,
                operations=operations_at(graph, outcome.record.batch, [graph.ops[op] for op in ops]),
                traffic_bytes=layer.traffic_bytes,
                limited_by=layer.limited_by,
                after=_after(graph, ops, layer_of, place),
                first_equal=first.setdefault((layer.layer in keys, keys.get(layer.layer, layer.layer)), place),
            )
        )
    return tuple(rows)


def _keys(outcome: Outcome) -> dict[str, object]:
    """Return a key of each layer by its label, equal for layers that compute the same on the same shapes."""
    layers = [layer for _, layer in outcome.schedule.placed_layers]
    kinds = {layer.sink.name: tuple(layer.graph.ops[op].kind for op in layer.ops) for layer in layers}
    return {layer.sink.name: (kinds[layer.sink.name], layer.signature) for layer in layers}


def _operands(graph: Graph, ops: tuple[int, ...], which: str) -> tuple[Operand, ...]:
    """Return the tensors behind a property of the operators as a set."""
    if not ops:
        return ()
    tensors: list[Tensor] = [graph.tensors[name] for name in getattr(Subgraph(graph, ops), which)]
    return tuple(Operand(each.shape, each.dtype, each.role == "weight", each.size_bytes) for each in tensors)


def _after(graph: Graph, ops: tuple[int, ...], layer_of: Mapping[str, int], own: int) -> tuple[int, ...]:
    read = [graph.producer[name] for op in ops for name in graph.ops[op].inputs if name in graph.producer]
    producers = {layer_of[graph.ops[op].name] for op in read if graph.ops[op].name in layer_of}
    return tuple(sorted(producers - {own}))
