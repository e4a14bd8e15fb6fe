"""Limits that a schedule is held against before it is lowered: the room in DDR, and the number of instructions."""

import math
from collections.abc import Sequence

from hw_models.quantities import format_bytes
from scheduler.dsa.schedule import Execution, LayerRun, Layout
from scheduler.dsa.view import DDR, DsaView
from scheduler.errors import ScheduleError
from workloads.graph import Graph

_PER_PASS = 4
"""Instructions of one pass over a tile, about: loads, computation, store."""


def network_bytes(graph: Graph, view: DsaView) -> int:
    """Return what weights and network inputs take of DDR, as one cluster's share: where it is private, all weights."""
    copies = 1 if view.spec.ddr.sharing == "private" else view.clusters
    return graph.weight_bytes // copies + sum(graph.tensors[name].size_bytes for name in graph.inputs)


def check_ddr(layout: Layout, view: DsaView) -> None:
    """Raise ``ScheduleError`` where DDR cannot hold the network and what is alive in it at once."""
    if not layout.kernels:
        return
    lives, end = layout.live_ranges, sum(len(instance.runs) for instance in layout.instances)
    change = [0] * (end + 1)
    stored = [(number, each) for number, each in enumerate(layout.slices) if each.memory == DDR]
    written = {n: step for step, run in enumerate(layout.runs) for n in run.writes}
    for number, each in stored:
        live = lives.get(number, range(written[number], end))
        change[live.start] += each.size_bytes
        change[min(live.stop, end)] -= each.size_bytes
    alive = most = 0
    for step in change:
        alive += step
        most = max(most, alive)
    capacity = view.spec.ddr.capacity_bytes
    needed = (network_bytes(layout.graph, view) + most) * view.spec.ddr_parts(view.clusters)
    if needed > capacity:
        beside = ""
        if stored:
            largest = max((each for _, each in stored), key=lambda each: each.size_bytes)
            beside = f", the largest of {format_bytes(largest.size_bytes)} on each cluster ({largest.tensor!r})"
        raise ScheduleError(
            f"{layout.graph.name}: weights, inputs and tensors{beside} need {format_bytes(needed)} of DDR at once;"
            f" ddr.capacity is {format_bytes(capacity)}: lower the batch or raise it"
        )


def check_instructions(
    runs: Sequence[LayerRun], executions: Sequence[Execution], view: DsaView, name: str
) -> None:
    """Raise ``ScheduleError`` where lowering would write more instructions than are allowed; name the worst layer."""
    passes = [_PER_PASS * execution.tiling.passes for execution in executions]
    total, most = sum(passes), view.tuning.most_instructions
    if total <= most:
        return
    worst = max(range(len(passes)), key=passes.__getitem__)
    run, tiling = runs[worst], executions[worst].tiling
    work = run.layer.tile_work(tiling.part)
    whole = sum(work.operand_bytes.values()) + work.internal_bytes + 2 * work.output_bytes
    enough = math.ceil(whole / 1024) * 1024
    raise ScheduleError(
        f"{name}: about {total:,} instructions are needed, {most:,} are allowed (tuning.most_instructions): layer"
        f" {run.layer.sink.name!r} alone is cut into {tiling.passes:,} tiles to fit local_buffer.capacity, which is"
        f" {format_bytes(view.local_buffer_bytes)}; a core's whole part of it would fit {format_bytes(enough)}"
    )
