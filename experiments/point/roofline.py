"""Least times of a run and of its layers: arithmetic at the peak, operands and results moved once, and the start.

The roofline has arithmetic and bytes only. A small layer takes many times as long on every machine, as its launch and
the first and last accesses to memory take what they take: that is its start, which the machine states.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import LayerFigures
from dsascape.hw_models import AnyHardware
from dsascape.hw_models.common.product_types import product_type
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import MachineSchedule
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.batch.counting import operations_at
from dsascape.workloads.loopnest import LoopNest


@dataclass(frozen=True, slots=True)
class LayerBound:
    """Least times of a layer in seconds, and bytes of its operands and results; all its runs and copies together."""

    layer: Layer
    roofline_s: float
    """Its multiply-accumulates at the peak of their dtype, its other operations at that of the vector units, or its
    bytes at the off-chip bandwidth."""
    starting_s: float
    """Time that its runs take however little they compute (`MachineSpec.layer_start_ps`)."""
    least_bytes: float
    """Bytes read of each operand, and of each result, once; of a table, the rows that are read."""
    outer: tuple[str, ...]
    """Memories beyond those of single cores, whose traffic a good schedule keeps near these bytes."""


def roofline_s(outcome: Outcome, hardware: AnyHardware) -> float:
    """Return the least seconds of the run on its machine: arithmetic at the peak, or what has to be moved off the chip.

    That is each input and weight, and each result, once; other operations than multiply-accumulates count at the peak
    of the vector units.
    """
    record, graph = outcome.record, outcome.schedule.graph
    whole = operations_at(graph, record.batch)
    vector_ops = whole.simple + whole.special
    return max(
        _over(record.macs, record.peak_macs_per_s),
        _over(vector_ops, hardware.vector_ops_per_s(record.dtype)),
        _least_bytes(outcome) / record.off_chip_bytes_per_s,
    )


def bounds_of_layers(
    outcome: Outcome, layers: Iterable[LayerFigures], hardware: AnyHardware
) -> dict[str, LayerBound]:
    """Return the least times of each layer by its label, on the machine of the run.

    Layers that a schedule does not list, and labels that several layers share, are left out.
    """
    computed = _layers_by_label(outcome.schedule)
    listed = [(figures, computed[figures.layer]) for figures in layers if figures.layer in computed]
    growing = outcome.schedule.graph.tensors_of_batch
    return {
        figures.layer: _bound(outcome, figures, layer, hardware, grows=not growing.isdisjoint(layer.outputs))
        for figures, layer in listed
    }


def _bound(
    outcome: Outcome, figures: LayerFigures, layer: Layer, hardware: AnyHardware, *, grows: bool
) -> LayerBound:
    """``grows``: whether the layer depends on the batch; what does not is needed once, however many compute it."""
    record = outcome.record
    copies = (1 if record.parts_share == "kernels" else record.parts_at_work) * record.iterations if grows else 1
    left, right = (each or record.dtype for each in layer.only_operand_dtypes or (record.dtype, record.dtype))
    peak = hardware.peak_macs_per_s(product_type(hardware.product_types, left, right, record.dtype))
    others = [work.operations for work in layer.tile_work(layer.sink.shape).nests]
    vector_ops = sum([operations.simple + operations.special for operations in others])
    computing_s = max(_over(layer.whole_macs, peak), _over(vector_ops, hardware.vector_ops_per_s(record.dtype)))
    own_bytes = _layer_bytes(layer)
    return LayerBound(
        layer=layer,
        roofline_s=copies * max(computing_s, own_bytes / record.off_chip_bytes_per_s),
        starting_s=figures.runs * hardware.layer_start_ps / PS_PER_S,
        least_bytes=copies * own_bytes,
        outer=tuple(outcome.program.shared_memories),
    )


def _over(operations: int, per_s: float) -> float:
    """Return the seconds of so many operations; 0 where the machine does not say how fast it computes them."""
    return operations / per_s if per_s else 0.0


def _layer_bytes(layer: Layer) -> float:
    """Return the bytes read of a layer's operands and written of its results, each once."""
    nests, storage, tensors = [compiled.nest for compiled in layer.nests], layer.graph.storage, layer.graph.tensors
    read, written = _read_elements(nests, storage), Counter[str]()
    for nest in nests:
        written[nest.write.tensor] += math.prod(nest.write.extents(nest.extents))
    operands = dict.fromkeys([storage[name] for name in layer.inputs])
    moved = [(tensors[name], read[name]) for name in operands]
    moved += [(tensors[name], written[name] or tensors[name].elements) for name in layer.outputs]
    return sum([tensor.bytes_of(min(elements, tensor.elements)) for tensor, elements in moved])


def _read_elements(nests: Iterable[LoopNest], storage: Mapping[str, str]) -> Counter[str]:
    """Return the elements read by each access of ``nests``, added up by the stored tensor: no less than are read."""
    read: Counter[str] = Counter()
    for nest in nests:
        for access in nest.reads:
            read[storage.get(access.tensor, access.tensor)] += math.prod(access.extents(nest.extents))
    return read


def _least_bytes(outcome: Outcome) -> float:
    """Return the bytes of what is read of each input and weight, and of each result; each row of a table once."""
    graph, record = outcome.schedule.graph, outcome.record
    read = _read_elements([nest for op in graph.ops for nest in op.nests], {})
    images, growing = record.batch / graph.batch, graph.tensors_of_batch
    total = 0.0
    for name, tensor in graph.tensors.items():
        copies = images if name in growing else 1.0
        if tensor.role != "activation":
            total += tensor.bytes_of(min(read[name], tensor.elements)) * copies
        elif name in graph.results:
            total += tensor.size_bytes * copies
    return total


def _layers_by_label(schedule: MachineSchedule) -> dict[str, Layer]:
    """Return the layer of each label; labels that several layers share are left out."""
    found: Sequence[tuple[str, Layer]] = [(layer.sink.name, layer) for _, layer in schedule.placed_layers]
    kinds = {(name, layer.ops) for name, layer in found}
    several = Counter(name for name, _ in kinds)
    return {name: layer for name, layer in found if several[name] == 1}
