"""Cost of a layout before its tiles are known: its traffic off the chip and between the buffers, its launches."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fusion.plan import FusionPlan
from hw_models.quantities import PS_PER_S
from scheduler.dsa.costs import DsaCosts
from scheduler.dsa.needs import whole_needs
from scheduler.dsa.schedule import LayerRun, Layout, TensorSlice
from scheduler.dsa.view import DDR, GLOBAL, LOCAL
from scheduler.graphturbo.instances import needs_of_first
from scheduler.graphturbo.splitting import tensor_matches
from scheduler.kernels.cut import layers_by_pattern
from scheduler.kernels.layer import Layer, layer_needs
from workloads.analysis import Analysis
from workloads.loopnest import box_volume, full_box, intersect

_OF_NETWORK = -1
"""In the place of a slice: weights and inputs of the network, which lie in DDR."""


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
    each = [read for run in runs for read in _read_by(run, slices)]
    ddr_bytes = sum([size_bytes for number, size_bytes in each if number == _OF_NETWORK])
    return Reads(ddr_bytes, tuple([read for read in each if read[0] != _OF_NETWORK]))


def _read_by(run: LayerRun, slices: Sequence[TensorSlice]) -> Iterator[tuple[int, int]]:
    """Yield the slices that ``run`` reads, each with the bytes read of it, and all its weights and inputs as one."""
    tensors, needs = run.layer.graph.tensors, whole_needs(run)
    ddr_bytes = _weights_read(run.layer, run.extents)
    for name in run.layer.inputs:
        if name not in needs or tensors[name].role == "weight":
            continue
        if name not in run.reads:
            ddr_bytes += box_volume(needs[name]) * tensors[name].element_bytes
        for number in run.reads.get(name, ()):
            met = intersect(needs[name], slices[number].box)
            if met is not None:
                yield number, box_volume(met) * tensors[name].element_bytes
    if ddr_bytes:
        yield _OF_NETWORK, ddr_bytes


def apart_s(costs: DsaCosts, layout: Layout) -> float:
    """Return about the least seconds that the layers of ``layout`` take one after the other.

    Each takes as long as its traffic off the chip, which begins when the first load has started up, or as its
    arithmetic between its first load and its last store, whichever is more.
    """
    view, slices, total_ps = costs.view, layout.slices, float(layout.kernels * costs.view.spec.launch_ps)
    bytes_per_ps = costs.most_off_chip_bytes_per_s / PS_PER_S
    on_chip_ps = view.path_startup_ps if view.has_global_buffer else 0
    load_ps, store_ps = view.dma_startup_ps + on_chip_ps, view.spec.dma.store.startup_ps + on_chip_ps
    loading = {DDR: load_ps, GLOBAL: on_chip_ps, LOCAL: 0}
    storing = {DDR: store_ps, GLOBAL: on_chip_ps, LOCAL: 0}
    for run in layout.runs:
        read = [(_memory(number, slices), size_bytes) for number, size_bytes in _read_by(run, slices)]
        written = [(_memory(number, slices), slices[number].size_bytes) for number in run.writes]
        ddr_bytes = sum([size_bytes for memory, size_bytes in (*read, *written) if memory == DDR])
        computing_ps = costs.computing_ps(run.layer, run.binding.part_extents(run.extents))
        computing_ps += max([loading[memory] for memory, _ in read], default=0)
        computing_ps += max([storing[memory] for memory, _ in written], default=0)
        moving_ps = ddr_bytes / bytes_per_ps + (view.dma_startup_ps if DDR in dict(read) else 0)
        total_ps += max(moving_ps, computing_ps)
    return total_ps / PS_PER_S


def _memory(number: int, slices: Sequence[TensorSlice]) -> str:
    return DDR if number == _OF_NETWORK else slices[number].memory


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


def least_bytes(analysis: Analysis, plan: FusionPlan | None = None) -> int:
    """Return what has to go to or from DDR with the instances of a plan; with any plan, without one.

    Results go once, and of inputs what is read. Weights are loaded once by a group; by each of its instances where the
    cut moves nothing of them and the first instance needs them whole.
    """
    least = analysis.of(_ends_bytes)
    if plan is None:
        return least + _weights_of(analysis, tuple(range(len(analysis.graph.ops))))
    known = analysis.table(_weights_of_group)
    for number, group in enumerate(plan.groups):
        least += known.get((group.ops, group.split), partial(_weights_of_group, analysis, plan, number))
    return least


def _weights_of_group(analysis: Analysis, plan: FusionPlan, number: int) -> int:
    group = plan.groups[number]
    if group.split is None:
        return _weights_of(analysis, group.ops)
    needs, matches = needs_of_first(analysis, plan, number), tensor_matches(analysis, group.ops, group.split.dim)
    weights = [tensor for name, tensor in analysis.graph.tensors.items() if tensor.role == "weight" and name in needs]
    whole = {each.name for each in weights if needs[each.name] == full_box(each.shape)}
    still = {name for name in whole if matches.get(name, (0, False))[0] is None}
    return _weights_of(analysis, group.ops, group.split.factor, still)


def _ends_bytes(analysis: Analysis) -> int:
    """Return the bytes of the network's results, and of its inputs what at least one layer reads."""
    graph, read = analysis.graph, dict[str, int]()
    for layer in layers_by_pattern(analysis, tuple(range(len(graph.ops)))):
        needs = layer_needs(layer, full_box(layer.sink.shape))
        for name in set(graph.inputs).intersection(needs, layer.inputs):
            read[name] = max(read.get(name, 0), box_volume(needs[name]) * graph.tensors[name].element_bytes)
    return sum(read.values()) + sum([graph.tensors[name].size_bytes for name in graph.outputs])


def _weights_of(analysis: Analysis, ops: tuple[int, ...], times: int = 1, again: Container[str] = ()) -> int:
    """Return the bytes of weights that the layers of ``ops`` read; those ``again`` are read so many ``times``."""
    total = 0
    for layer in layers_by_pattern(analysis, ops):
        tensors = layer.graph.tensors
        for name, size_bytes in layer.tile_work(layer.sink.shape).operand_bytes.items():
            if tensors[name].role == "weight":
                is_table = size_bytes < tensors[name].size_bytes  # of which other instances read other rows
                total += size_bytes * (times if name in again and not is_table else 1)
    return total


def _weights_read(layer: Layer, extents: Sequence[int]) -> int:
    """Return the bytes of weights that ``layer`` reads for so much of its output: of a table, the rows looked up."""
    work, tensors = layer.tile_work(tuple(extents)), layer.graph.tensors
    return sum(size for name, size in work.operand_bytes.items() if tensors[name].role == "weight")
