"""What a schedule moves to and from DDR, and what any of the same sub-graphs has to: by it plans are compared."""

from collections.abc import Sequence

from scheduler.graphturbo.grouping import Grouped
from scheduler.layers import layers_by_pattern
from scheduler.schedule import Schedule, whole_needs
from scheduler.work import Layer
from workloads.graph import Graph
from workloads.loopnest import box_volume, full_box, intersect


def off_chip_bytes(schedule: Schedule) -> int:
    """Return the bytes that one cluster moves to and from DDR if every run reads what it needs of it once."""
    tensors, pieces = schedule.graph.tensors, schedule.pieces
    total = sum(piece.size_bytes for piece in pieces if piece.scope == "ddr")
    for run in schedule.runs:
        total += _weights_read(run.layer, [hi - lo for lo, hi in run.box])
        needs = whole_needs(run)
        for name in run.layer.inputs:
            if name not in needs or tensors[name].role == "weight":
                continue
            boxes = [full_box(tensors[name].shape)]
            if name in run.reads:
                boxes = [pieces[p].box for p in run.reads[name] if pieces[p].scope == "ddr"]
            met = (intersect(needs[name], box) for box in boxes)
            total += sum(box_volume(box) for box in met if box is not None) * tensors[name].element_bytes
    return total


def least_bytes(graph: Graph, grouped: Sequence[Grouped], *, in_instances: bool) -> int:
    """Return what has to go to or from DDR: inputs and results once, weights once, or once per instance."""
    least = sum(graph.tensors[name].size_bytes for name in (*graph.inputs, *graph.outputs))
    for group in grouped:
        layers = layers_by_pattern(graph, group.sub.ops)
        times = 1
        if in_instances and group.split is not None and len(layers) > 1:
            times = group.split.factor
        least += times * sum(_weights_read(layer, layer.sink.shape) for layer in layers)
    return least


def _weights_read(layer: Layer, extents: Sequence[int]) -> int:
    """Return the bytes of weights that ``layer`` reads for so much of its output: of a table, the rows looked up."""
    work, tensors = layer.tile_work(tuple(extents)), layer.graph.tensors
    return sum(size for name, size in work.operand_bytes.items() if tensors[name].role == "weight")
