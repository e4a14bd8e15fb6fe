"""Cost of a layout before its tiles are known: its traffic off the chip and between the buffers, its launches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusion.plan import FusionPlan
from scheduler.dsa.costs import DsaCosts
from scheduler.dsa.needs import whole_needs
from scheduler.dsa.schedule import LayerRun, Layout, TensorSlice
from scheduler.dsa.view import DDR, GLOBAL, LOCAL
from scheduler.kernels.cut import layers_by_pattern
from scheduler.kernels.layer import Layer
from workloads.analysis import Analysis
from workloads.loopnest import box_volume, intersect


def cost_s(costs: DsaCosts, moved_bytes: Mapping[str, int], launches: int) -> float:
    """Return the seconds of one cluster's traffic, by memory, and of its launches, as if memories took turns."""
    on_chip_s = sum(moved_bytes.get(memory.name, 0) / memory.bytes_per_s for memory in costs.on_chip)
    return moved_bytes[DDR] / costs.most_off_chip_bytes_per_s + on_chip_s + launches * costs.launch_s


@dataclass(frozen=True, slots=True)
class Reads:
    """What the runs of a layout read, wherever its slices lie."""

    ddr_bytes: int
    """Of weights and inputs of the network, which lie in DDR."""
    slice_bytes: tuple[tuple[int, int], ...]
    """Numbers of slices, and bytes read of them: one entry for each run that reads one."""


def reads_of(runs: Sequence[LayerRun], slices: Sequence[TensorSlice]) -> Reads:
    """Return what ``runs`` read of weights, inputs and ``slices``.

    Every run is taken to read once what it needs, as a box: with what strides jump over, which small tiles do not bring
    (1 x 1 convolutions of stride 2: half of the rows).
    """
    ddr_bytes, slice_bytes = 0, list[tuple[int, int]]()
    for run in runs:
        tensors, needs = run.layer.graph.tensors, whole_needs(run)
        ddr_bytes += _weights_read(run.layer, run.extents)
        for name in run.layer.inputs:
            if name not in needs or tensors[name].role == "weight":
                continue
            if name not in run.reads:
                ddr_bytes += box_volume(needs[name]) * tensors[name].element_bytes
            for number in run.reads.get(name, ()):
                met = intersect(needs[name], slices[number].box)
                if met is not None:
                    slice_bytes.append((number, box_volume(met) * tensors[name].element_bytes))
    return Reads(ddr_bytes, tuple(slice_bytes))


def moved_bytes(layout: Layout, reads: Reads | None = None) -> dict[str, int]:
    """Return the bytes of outputs, inputs and weights that one cluster moves to and from DDR and the global buffer.

    ``reads``: what the layout's runs read, where that is known. What only passes through the global buffer is not
    counted there.
    """
    slices = layout.slices
    known = reads_of(layout.runs, slices) if reads is None else reads
    total = {DDR: known.ddr_bytes, GLOBAL: 0, LOCAL: 0}
    for each in slices:
        total[each.memory] += each.size_bytes
    for number, size_bytes in known.slice_bytes:
        total[slices[number].memory] += size_bytes
    return {memory: total[memory] for memory in (DDR, GLOBAL)}


def least_bytes(analysis: Analysis, plan: FusionPlan | None = None, instances: Sequence[int] = ()) -> int:
    """Return what has to go to or from DDR with so many instances of each group of a plan; of any, without one.

    Inputs and results go once, the weights of a group once per instance.
    """
    graph = analysis.graph
    least = sum(graph.tensors[name].size_bytes for name in (*graph.inputs, *graph.outputs))
    if plan is None:
        return least + _weights_of(analysis, tuple(range(len(graph.ops))))
    for group, times in zip(plan.groups, instances, strict=True):
        least += times * analysis.of(_weights_of, group.ops)
    return least


def _weights_of(analysis: Analysis, ops: tuple[int, ...]) -> int:
    return sum(_weights_read(layer, layer.sink.shape) for layer in layers_by_pattern(analysis, ops))


def _weights_read(layer: Layer, extents: Sequence[int]) -> int:
    """Return the bytes of weights that ``layer`` reads for so much of its output: of a table, the rows looked up."""
    work, tensors = layer.tile_work(tuple(extents)), layer.graph.tensors
    return sum(size for name, size in work.operand_bytes.items() if tensors[name].role == "weight")
