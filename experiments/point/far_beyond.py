"""Warnings about answers far beyond what a machine needs at least, which name the layer and the cause.

Two limits, each a hint at a form that a model or a schedule does badly with, or at a machine that does not fit the
network: a latency of many times the roofline, and a layer that moves its operands many times.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import BETWEEN_LAYERS, LayerFigures
from dsascape.hw_models.text.quantities import PS_PER_S, format_bytes, format_ps
from dsascape.scheduler import AnyKind, MachineSchedule
from dsascape.scheduler.kernels.layer import Layer
from dsascape.wording import count
from dsascape.workloads.graph import Graph

MOST_TIMES_ROOFLINE = 50
"""Latency, in multiples of the roofline, above which an answer has a warning."""
MOST_READINGS = 100
"""How often a layer may move the bytes of its operands and results through a memory beyond those of single cores
without a warning."""
_LEAST_SHARE = 0.05
"""Share of the latency below which a layer is not worth a warning."""
_Cause = Callable[[LayerFigures, Layer | None], str]


def warnings_of(outcome: Outcome, layers: Sequence[LayerFigures], kind: AnyKind) -> tuple[str, ...]:
    """Return a sentence for a latency far beyond the roofline, and one for each layer that moves too many bytes.

    ``kind`` is that of the machine.
    """
    computed = _layers_by_label(outcome.schedule)
    cause = partial(_cause, kind)
    return (*_beyond_roofline(outcome, layers, computed, cause), *_moved_often(outcome, layers, computed, cause))


def roofline_s(outcome: Outcome) -> float:
    """Return the least seconds of the run: its multiply-accumulates at the peak, or what it has to move off the chip.

    That is each input and weight, and each result, once.
    """
    record = outcome.record
    computing_s = record.macs / record.peak_macs_per_s if record.peak_macs_per_s else 0.0
    return max(computing_s, _least_bytes(outcome) / record.off_chip_bytes_per_s)


def _least_bytes(outcome: Outcome) -> float:
    """Return the bytes of what is read of each input and weight, and of each result; each row of a table once."""
    graph, record = outcome.schedule.graph, outcome.record
    read: Counter[str] = Counter()
    for op in graph.ops:
        for nest in op.nests:
            for access in nest.reads:
                read[access.tensor] += math.prod(access.extents(nest.extents))
    images = record.batch / max(graph.batch, 1)
    total = 0.0
    for name, tensor in graph.tensors.items():
        if tensor.role != "activation":
            own = tensor.bytes_of(min(read[name], tensor.elements))
            total += own if tensor.role == "weight" else own * images
        elif name in graph.results:
            total += tensor.size_bytes * images
    return total


def _beyond_roofline(
    outcome: Outcome, layers: Sequence[LayerFigures], computed: Mapping[str, Layer], cause: _Cause
) -> Iterator[str]:
    record, least_s = outcome.record, roofline_s(outcome)
    if not least_s or record.latency_s <= MOST_TIMES_ROOFLINE * least_s or not layers:
        return
    worst = max(layers, key=lambda layer: layer.critical_s)
    waited, waiting = max(record.critical.items(), key=lambda item: item[1], default=("", 0.0))
    yield (
        f"the latency is {record.latency_s / least_s:,.0f} times the roofline, {format_ps(round(least_s * PS_PER_S))}:"
        f" {waiting:.0%} of it waits for {waited}; longest is {_named(worst)} with"
        f" {worst.critical_s / record.latency_s:.0%}, {cause(worst, computed.get(worst.layer))}"
    )


def _moved_often(
    outcome: Outcome, layers: Sequence[LayerFigures], computed: Mapping[str, Layer], cause: _Cause
) -> Iterator[str]:
    record, outer = outcome.record, outcome.program.shared_memories
    for figures in layers:
        layer = computed.get(figures.layer)
        if layer is None or figures.critical_s < _LEAST_SHARE * record.latency_s:
            continue
        copies = 1 if record.parts_share == "kernels" else record.parts_at_work
        least = _bytes_of(layer.graph, layer) * copies * record.iterations
        memory = next((name for name in outer if figures.traffic_bytes.get(name, 0) > MOST_READINGS * least), None)
        if memory is not None and least:
            moved = figures.traffic_bytes[memory]
            yield (
                f"{_named(figures)} moves {format_bytes(moved)} at {memory}, {moved / least:,.0f} times its operands"
                f" and results of {format_bytes(least)}; {cause(figures, layer)}"
            )


def _bytes_of(graph: Graph, layer: Layer) -> int:
    return sum([graph.tensors[name].size_bytes for name in {*layer.inputs, *layer.outputs}])


def _named(figures: LayerFigures) -> str:
    return "the launching of kernels" if figures.layer == BETWEEN_LAYERS else f"layer {figures.shown}"


def _cause(kind: AnyKind, figures: LayerFigures, layer: Layer | None) -> str:
    """Return why a layer takes long, as far as its loops say so; else the resource that limits it."""
    limited = f"limited by {figures.limited_by}"
    if layer is None:
        return limited
    steps = max([work.rounds for work in layer.tile_work(layer.sink.shape).nests], default=1)
    if steps > 1:
        return f"{limited}: its {count(steps, 'step')} follow each other, and each reads its operands"
    slow = kind.why_slow(layer)
    return f"{limited}: {slow}" if slow else limited


def _layers_by_label(schedule: MachineSchedule) -> dict[str, Layer]:
    """Return the layer of each label; labels that several layers share are left out."""
    found = [(layer.sink.name, layer) for _, layer in schedule.placed_layers]
    kinds = {(name, layer.ops) for name, layer in found}
    several = Counter(name for name, _ in kinds)
    return {name: layer for name, layer in found if several[name] == 1}
