"""Limits checked before lowering: DDR capacity and the number of instructions.

Limits that every schedule of a network would break are detected before the search, which takes long for large tensors.
"""

import math
from collections.abc import Sequence

from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models.text.quantities import format_bytes
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.schedule.schedule import Execution, LayerRun, Layout
from dsascape.scheduler.dsa.view import DDR, DsaView
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.cut import layer_of, layers_by_pattern
from dsascape.scheduler.kernels.layer import Layer, layer_needs
from dsascape.wording import count
from dsascape.workloads.loopnest import box_volume

_PER_PASS = 4
"""Approximate number of instructions per pass over a tile: loads, computation, store."""


def network_bytes(layout: Layout, view: DsaView) -> int:
    """Return one cluster's share of the bytes of weights and network inputs in DDR.

    A private part of DDR holds all weights that its cluster reads: of a layer that is divided among clusters, perhaps
    a part of them.
    """
    graph = layout.graph
    inputs_bytes = sum(graph.tensors[name].size_bytes for name in graph.inputs)
    if view.spec.ddr.sharing == "private":
        return _weight_bytes(layout) + inputs_bytes
    is_divided = any(run.divided is not None for run in layout.runs)  # then all clusters read the same inputs
    return graph.weight_bytes // view.clusters + inputs_bytes // (view.clusters if is_divided else 1)


def _weight_bytes(layout: Layout) -> int:
    """Return the bytes of weights of which a cluster has a copy: all, but of those that divided runs read, the part."""
    graph, most = layout.graph, dict[str, int]()
    for run in layout.runs:
        need = layer_needs(run.layer, run.box) if run.divided is not None else {}
        for name in run.layer.inputs:
            tensor = graph.tensors[name]
            size = tensor.bytes_of(box_volume(need[name])) if name in need else tensor.size_bytes
            if tensor.role == "weight":
                most[name] = max(most.get(name, 0), size)
    return graph.weight_bytes - sum(graph.tensors[name].size_bytes - size for name, size in most.items())


def ddr_bytes(layout: Layout, view: DsaView) -> int:
    """Return the bytes of DDR of the whole machine for weights, inputs and the peak of live tensors."""
    lives, end = layout.live_ranges, sum(len(instance.runs) for instance in layout.instances)
    change = [0] * (end + 1)
    written = {n: step for step, run in enumerate(layout.runs) for n in run.writes}
    for number, each in enumerate(layout.slices):
        if each.memory != DDR:
            continue
        live = lives.get(number, range(written[number], end))
        change[live.start] += each.size_bytes
        change[min(live.stop, end)] -= each.size_bytes
    alive = most = 0
    for step in change:
        alive += step
        most = max(most, alive)
    return (network_bytes(layout, view) + most) * view.spec.ddr_parts(view.clusters)


def check_ddr(layout: Layout, view: DsaView) -> None:
    """Raise ``ScheduleError`` if DDR cannot hold weights, inputs and the peak of live tensors."""
    if not layout.kernels:
        return
    capacity, needed = view.ddr_bytes, ddr_bytes(layout, view)
    weights = layout.graph.weight_bytes
    if weights > capacity:
        raise ScheduleError(
            f"{layout.graph.name}: one copy of its weights alone needs {format_bytes(weights)} of DDR, and all of it"
            f" {format_bytes(needed)} as scheduled; ddr.capacity is {format_bytes(capacity)}: raise it"
        )
    if needed > capacity:
        detail, stored = "", [each for each in layout.slices if each.memory == DDR]
        if stored:
            largest = max(stored, key=lambda each: each.size_bytes)
            detail = f", the largest of {format_bytes(largest.size_bytes)} on each cluster ({largest.tensor!r})"
        raise ScheduleError(
            f"{layout.graph.name}: weights, inputs and tensors{detail} need {format_bytes(needed)} of DDR at once;"
            f" ddr.capacity is {format_bytes(capacity)}: lower batch or sequence, or raise it"
        )


def check_instructions(
    runs: Sequence[LayerRun], executions: Sequence[Execution], view: DsaView, name: str
) -> None:
    """Raise ``ScheduleError``, naming the worst layer, if lowering would exceed ``tuning.most_instructions``."""
    passes = [_PER_PASS * execution.tiling.passes for execution in executions]
    total, most = sum(passes), view.tuning.most_instructions
    if total <= most:
        return
    worst = max(range(len(passes)), key=passes.__getitem__)
    run, tiling = runs[worst], executions[worst].tiling
    work = run.layer.tile_work(tiling.part)
    whole = sum(work.operand_bytes.values()) + work.between_bytes + 2 * work.output_bytes
    enough = math.ceil(whole / 1024) * 1024
    raise ScheduleError(
        f"{name}: about {count(total, 'instruction')} are needed, {most:,} are allowed (tuning.most_instructions):"
        " layer"
        f" {run.layer.sink.name!r} alone is cut into {count(tiling.passes, 'tile')} to fit local_buffer.capacity,"
        " which is"
        f" {format_bytes(view.local_buffer_bytes)}; a core's whole part of it would fit {format_bytes(enough)}"
    )


def check_can_be_scheduled(costs: DsaCosts) -> None:
    """Raise ``ScheduleError`` for a network of which every schedule, whatever the plan, would break a limit.

    A tile of single elements has to fit the local buffer, for each layer of ``fixed-pattern`` or for its operators one
    by one; and a layer needs at least as many tiles as its output fills the local buffers of all cores.
    """
    analysis, view = costs.analysis, costs.view
    graph, local_bytes = analysis.graph, view.local_buffer_bytes
    layers = layers_by_pattern(analysis, tuple(range(len(graph.ops))))
    least = []
    for layer in layers:
        needed = layer.smallest_bytes
        if needed > local_bytes:
            alone = (layer_of(analysis, (position,)) for position in layer.ops)
            if max(each.smallest_bytes for each in alone if each is not None) > local_bytes:
                raise ScheduleError(
                    f"{graph.name}: layer {layer.sink.name!r}: its smallest tile needs at least {needed:,} B"
                    f" of local buffer; local_buffer.capacity is {local_bytes:,}: raise it"
                )
        least.append(_PER_PASS * math.ceil(_result_bytes(layer) / (costs.cores * local_bytes)))
    total, most = sum(least), view.tuning.most_instructions
    if total > most:
        worst = layers[max(range(len(least)), key=least.__getitem__)]
        raise ScheduleError(
            f"{graph.name}: at least {count(total, 'instruction')} are needed, {most:,} are allowed"
            f" (tuning.most_instructions): the result of layer {worst.sink.name!r} alone has"
            f" {format_bytes(_result_bytes(worst))} on each cluster, and local_buffer.capacity is"
            f" {format_bytes(local_bytes)} on each of {count(costs.cores, 'core')}"
        )


def has_too_many_instances(plan: FusionPlan, costs: DsaCosts) -> bool:
    """Return whether even one tile per layer and instance would exceed the allowed number of instructions."""
    layers = (group.instances * len(layers_by_pattern(costs.analysis, group.ops)) for group in plan.groups)
    return _PER_PASS * sum(layers) > costs.view.tuning.most_instructions


def _result_bytes(layer: Layer) -> int:
    tensors = layer.graph.tensors
    return sum(tensors[name].size_bytes for name in layer.outputs)
