"""Kernel-by-kernel schedule of any plan: each kernel is one fused layer, all tensors go through DDR."""

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.execution import decide
from dsascape.scheduler.dsa.placing.binding import Binding, plain_binding
from dsascape.scheduler.dsa.schedule.schedule import BufferScope, Instance, LayerRun, Layout, Schedule, TensorSlice
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Box, box_volume, full_box


def kernel_by_kernel(plan: FusionPlan, costs: DsaCosts, policy: str = "") -> Schedule:
    """Return the schedule that launches the plan's kernels in sequence; tiles overlap inside a kernel only."""
    return decide(through_ddr(plan, costs), costs, policy)


def through_ddr(plan: FusionPlan, costs: DsaCosts) -> Layout:
    """Return the layout of the plan's kernels in order, each a layer over its whole output, all tensors in DDR."""
    graph = plan.graph
    slices: list[TensorSlice] = []
    holds: dict[str, int] = {}
    instances = []
    for number, group in enumerate(plan.groups):
        layer = layer_of(costs.analysis, group.ops)
        if layer is None:
            instances.append(Instance(f"views {number}", number, ()))
            continue
        box = full_box(layer.sink.shape)
        binding = layer_binding(layer, box, costs.cores, costs.view.tuning.most_padding)
        reads = {name: (holds[name],) for name in layer.inputs if name in holds}
        written = []
        for name in layer.outputs:
            holds[name] = len(slices)
            written.append(len(slices))
            slices.append(stored(graph, name, full_box(graph.tensors[name].shape), "ddr", binding))
        run = LayerRun(layer, box, binding, reads, tuple(written))
        instances.append(Instance(layer.sink.name, number, (run,)))
    return Layout(plan, tuple(instances), tuple(slices))


def layer_binding(layer: Layer, box: Box, cores: int, most_padding: float) -> Binding:
    """Return the plain binding of a layer's output box."""
    return plain_binding([hi - lo for lo, hi in box], layer.sink.order, cores, layer.together, most_padding)


def stored(graph: Graph, name: str, box: Box, memory: BufferScope, binding: Binding) -> TensorSlice:
    """Return the slice for ``box`` of a tensor; a binding of another rank is replaced by a plain one."""
    tensor = graph.tensors[name]
    if len(binding.factors) != len(box):
        binding = plain_binding([hi - lo for lo, hi in box], tensor.order, binding.cores)
    return TensorSlice(name, box, memory, binding, tensor.bytes_of(box_volume(box)))
