"""What a plan costs before it is lowered: its traffic off the chip and between the buffers, its launches."""

from collections.abc import Mapping, Sequence
from functools import partial

from fusion.plan import FusionPlan
from scheduler.device import DsaDevice
from scheduler.layers import layers_by_pattern
from scheduler.schedule import Schedule, whole_needs
from scheduler.work import Layer
from workloads.loopnest import box_volume, intersect


def cost_ps(device: DsaDevice, moved_bytes: Mapping[str, int], launches: int) -> float:
    """Return the time of one cluster's traffic, by memory, and of its launches, as if nothing overlapped."""
    ddr_ps = moved_bytes["ddr"] / device.ddr_bytes_per_ps
    on_chip_ps = moved_bytes.get("global_buffer", 0) / device.path_bytes_per_ps
    return ddr_ps + on_chip_ps + launches * device.spec.launch_ps


def moved_bytes(schedule: Schedule) -> dict[str, int]:
    """Return the bytes of outputs, inputs and weights that one cluster moves to and from DDR and the global buffer.

    Every run is taken to read once what it needs. What only passes through the global buffer is not counted there.
    """
    tensors, pieces = schedule.graph.tensors, schedule.pieces
    total = {"ddr": 0, "global_buffer": 0, "local_buffer": 0}
    for piece in pieces:
        total[piece.scope] += piece.size_bytes
    for run in schedule.runs:
        total["ddr"] += _weights_read(run.layer, [hi - lo for lo, hi in run.box])
        needs = whole_needs(run)
        for name in run.layer.inputs:
            if name not in needs or tensors[name].role == "weight":
                continue
            held = [(pieces[p].scope, pieces[p].box) for p in run.reads.get(name, ())]
            for scope, box in held if name in run.reads else [("ddr", needs[name])]:
                met = intersect(needs[name], box)
                if met is not None:
                    total[scope] += box_volume(met) * tensors[name].element_bytes
    return {memory: total[memory] for memory in ("ddr", "global_buffer")}


def least_bytes(plan: FusionPlan, instances: Sequence[int]) -> int:
    """Return what has to go to or from DDR with so many instances of each group.

    Inputs and results go once, the weights of a group once per instance.
    """
    graph = plan.graph
    least = sum(graph.tensors[name].size_bytes for name in (*graph.inputs, *graph.outputs))
    for group, times in zip(plan.groups, instances, strict=True):
        layers = layers_by_pattern(graph, group.ops)
        least += times * graph.derived(("weights read", group.ops), partial(_weights_of, layers))
    return least


def _weights_of(layers: Sequence[Layer]) -> int:
    return sum(_weights_read(layer, layer.sink.shape) for layer in layers)


def _weights_read(layer: Layer, extents: Sequence[int]) -> int:
    """Return the bytes of weights that ``layer`` reads for so much of its output: of a table, the rows looked up."""
    work, tensors = layer.tile_work(tuple(extents)), layer.graph.tensors
    return sum(size for name, size in work.operand_bytes.items() if tensors[name].role == "weight")
