"""Schedules in which every kernel is one launch that goes through DDR: what the layer-by-layer policies share."""

from collections.abc import Callable, Sequence

from fusion.plan import FusionPlan
from scheduler.binding import Binding, plain_binding
from scheduler.schedule import BufferScope, Instance, LayerRun, Piece, Schedule
from scheduler.work import Layer
from workloads.graph import Graph
from workloads.loopnest import Box, box_volume, full_box

CutIntoLayers = Callable[[Graph, Sequence[int]], tuple[Layer, ...]]


def through_ddr(plan: FusionPlan, cores: int, dtype: str, cut: CutIntoLayers, policy: str) -> Schedule:
    """Return the schedule that runs the plan's kernels one after the other, all tensors in DDR."""
    graph = plan.graph
    pieces: list[Piece] = []
    holds: dict[str, int] = {}
    instances = []
    for number, group in enumerate(plan.groups):
        runs = []
        for layer in cut(graph, group.ops):
            box = full_box(layer.sink.shape)
            binding = layer_binding(layer, box, cores)
            reads = {name: (holds[name],) for name in layer.inputs if name in holds}
            written = []
            for name in layer.outputs:
                holds[name] = len(pieces)
                written.append(len(pieces))
                pieces.append(stored(graph, name, full_box(graph.tensors[name].shape), "ddr", binding))
            runs.append(LayerRun(layer, box, binding, reads, tuple(written)))
        name = runs[-1].layer.sink.name if runs else f"views {number}"
        instances.append(Instance(name, number, tuple(runs)))
    return Schedule(graph, plan, dtype, tuple(instances), tuple(pieces), policy)


def layer_binding(layer: Layer, box: Box, cores: int) -> Binding:
    """Return the plain binding of a layer's output box."""
    return plain_binding([hi - lo for lo, hi in box], layer.sink.order, cores)


def stored(graph: Graph, name: str, box: Box, scope: BufferScope, binding: Binding) -> Piece:
    """Return the piece of ``box`` of a tensor; a binding of another rank means one that is spread evenly."""
    tensor = graph.tensors[name]
    if len(binding.factors) != len(box):
        binding = plain_binding([hi - lo for lo, hi in box], tensor.order, binding.cores)
    return Piece(name, box, scope, binding, box_volume(box) * tensor.element_bytes)
