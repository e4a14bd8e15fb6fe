"""Kernel-by-kernel schedule of any plan: each kernel is one fused layer, all tensors go through DDR.

Clusters that share every kernel each compute a part of every layer (`placing.division`).
"""

from collections.abc import Callable, Iterator, Sequence

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.execution import decide
from dsascape.scheduler.dsa.deciding.pinned_memories import with_pinned_memories, with_results_on_chip
from dsascape.scheduler.dsa.deciding.runs import evaluate_schedule
from dsascape.scheduler.dsa.pins import pinned_binding
from dsascape.scheduler.dsa.placing.binding import Binding, plain_binding
from dsascape.scheduler.dsa.placing.core_choice import LoadedTogether
from dsascape.scheduler.dsa.schedule.limits import ddr_bytes
from dsascape.scheduler.dsa.schedule.schedule import BufferScope, Instance, LayerRun, Layout, Schedule, TensorSlice
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.cut import single_layer
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Box, box_volume, full_box


def kernel_by_kernel(plan: FusionPlan, costs: DsaCosts, policy: str = "") -> Schedule:
    """Return the schedule that launches the plan's kernels in sequence; tiles overlap inside a kernel only.

    Where clusters may exchange operands over a link, the fastest by simulation of the ways to use it (`over_link`).
    """
    schedule = decide(through_ddr(plan, costs), costs, policy)
    if not costs.view.exchanges_over_link:
        return schedule
    best = evaluate_schedule(schedule, costs)
    for layout in over_link(plan, costs):
        try:
            other = evaluate_schedule(decide(layout, costs, policy), costs)
        except ScheduleError:  # what stays in the global buffers leaves too little for tiles
            continue
        best = min(best, other, key=lambda evaluated: evaluated.seconds)
    return best.schedule


LayersOf = Callable[[Analysis, Sequence[int]], tuple[Layer, ...]]
"""Function from a network and the operators of a kernel to its layers in order; none if all operators are views."""


def through_ddr(plan: FusionPlan, costs: DsaCosts, layers_of: LayersOf = single_layer) -> Layout:
    """Return the layout of the plan's kernels in order, their layers over whole outputs, all tensors in DDR.

    A layer's output is divided among the clusters if these share every kernel. Where the clusters' parts of DDR are
    private, and too small for copies of all weights that the fastest divisions read, weights are divided too.
    """
    return _fitting(plan, costs, layers_of, links=False)


def over_link(plan: FusionPlan, costs: DsaCosts, layers_of: LayersOf = single_layer) -> Iterator[Layout]:
    """Yield the layouts of `through_ddr` that use the link between clusters; none where they have none.

    In all of them, operands that several clusters need alike are loaded together where that is estimated to be faster.
    In the second, results also stay in the clusters' global buffers as far as they fit there, each part where it has
    been computed: other clusters receive it over the link.
    """
    if not costs.view.exchanges_over_link:
        return
    together = _fitting(plan, costs, layers_of, links=True)
    yield together
    kept = with_results_on_chip(together, costs)
    if kept.slices != together.slices:
        yield kept


def _fitting(plan: FusionPlan, costs: DsaCosts, layers_of: LayersOf, *, links: bool) -> Layout:
    layout = _laid_out(plan, costs, layers_of, saves_weights=False, links=links)
    view = costs.view
    if view.divides_kernels and view.spec.ddr.sharing == "private" and ddr_bytes(layout, view) > view.ddr_bytes:
        return _laid_out(plan, costs, layers_of, saves_weights=True, links=links)
    return layout


def _laid_out(
    plan: FusionPlan, costs: DsaCosts, layers_of: LayersOf, *, saves_weights: bool, links: bool
) -> Layout:
    graph, divides = plan.graph, costs.view.divides_kernels
    slices: list[TensorSlice] = []
    holds: dict[str, int] = {}
    instances = []
    for number, group in enumerate(plan.groups):
        layers = layers_of(costs.analysis, group.ops)
        runs = []
        for layer in layers:
            divided, together = None, LoadedTogether()
            if divides:
                divided, _, together = costs.division_of(layer, saves_weights=saves_weights, links=links)
            box = full_box(layer.sink.shape) if divided is None else divided.part(full_box(layer.sink.shape), 0)
            binding = _bound(layer, box, costs, together)
            reads = {name: (holds[name],) for name in layer.inputs if name in holds}
            written = []
            for name in layer.outputs:
                holds[name] = len(slices)
                written.append(len(slices))
                whole = stored(graph, name, full_box(graph.tensors[name].shape), "ddr", binding)
                slices.append(of_clusters(whole, divided))
            names = tuple([layer.inputs[position] for position, _ in together])
            runs.append(LayerRun(layer, box, binding, reads, tuple(written), divided, names))
        name = layers[-1].sink.name if layers else f"views {number}"
        instances.append(Instance(name, number, tuple(runs)))
    return with_pinned_memories(Layout(plan, tuple(instances), tuple(slices)), costs)


def _bound(layer: Layer, box: Box, costs: DsaCosts, together: LoadedTogether) -> Binding:
    """Return the binding of a layer's output box: the one that is pinned, else the one with the least estimate."""
    extents = tuple([hi - lo for lo, hi in box])
    pinned = pinned_binding(costs.pin_of(layer), layer, extents, costs.cores, costs.view.tuning.most_padding)
    return pinned or costs.binding_of(layer, extents, together)


def stored(graph: Graph, name: str, box: Box, memory: BufferScope, binding: Binding) -> TensorSlice:
    """Return the slice for ``box`` of a tensor; a binding of another rank is replaced by a plain one."""
    tensor = graph.tensors[name]
    if len(binding.factors) != len(box):
        binding = plain_binding([hi - lo for lo, hi in box], tensor.order, binding.cores)
    return TensorSlice(name, box, memory, binding, tensor.bytes_of(box_volume(box)))


def of_clusters(whole: TensorSlice, divided: Binding | None) -> TensorSlice:
    """Return the slice of which each cluster stores its part by ``divided``, or all of it if that is None."""
    if divided is None:
        return whole
    return whole._replace(size_bytes=whole.size_bytes // divided.cores, divided=divided)
