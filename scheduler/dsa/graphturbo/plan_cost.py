"""Cost of a layout before tiling: off-chip traffic, on-chip traffic and launches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.placing.needs import whole_needs
from dsascape.scheduler.dsa.schedule.schedule import LayerRun, Layout, TensorSlice
from dsascape.scheduler.dsa.view import DDR, GLOBAL, LOCAL
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import box_volume, intersect

_OF_NETWORK = -1
"""Pseudo slice number for the network's weights and inputs, which are in DDR."""


def cost_s(costs: DsaCosts, moved_bytes: Mapping[str, int], launches: int) -> float:
    """Return the seconds of one cluster's traffic, given by memory, and of its launches, without any overlap."""
    on_chip_s = sum(moved_bytes.get(memory.name, 0) / memory.bytes_per_s for memory in costs.on_chip)
    return moved_bytes[DDR] / costs.most_off_chip_bytes_per_s + on_chip_s + launches * costs.launch_s


@dataclass(frozen=True, slots=True)
class Reads:
    """Bytes that the runs of a layout read, independent of its slices' placement."""

    ddr_bytes: int
    """Bytes read of the network's weights and inputs, which are in DDR."""
    slice_bytes: tuple[tuple[int, int], ...]
    """(Slice number, bytes read), one entry for each run that reads a slice."""


def reads_of(runs: Sequence[LayerRun], slices: Sequence[TensorSlice]) -> Reads:
    """Return the bytes that ``runs`` read of weights, inputs and ``slices``.

    Every run is assumed to read the box that it needs once, including elements skipped by strides, which small tiles do
    not load (1 x 1 convolutions of stride 2: half of the rows).
    """
    each = [read for run in runs for read in _read_by(run, slices)]
    ddr_bytes = sum([size_bytes for number, size_bytes in each if number == _OF_NETWORK])
    return Reads(ddr_bytes, tuple([read for read in each if read[0] != _OF_NETWORK]))


def _read_by(run: LayerRun, slices: Sequence[TensorSlice]) -> Iterator[tuple[int, int]]:
    """Yield (slice number, bytes read) for ``run``, with all of its weights and inputs as one pseudo slice."""
    tensors, needs = run.layer.graph.tensors, whole_needs(run)
    ddr_bytes = _weights_read(run.layer, run.extents)
    for name in run.layer.inputs:
        if name not in needs or tensors[name].role == "weight":
            continue
        if name not in run.reads:
            ddr_bytes += tensors[name].bytes_of(box_volume(needs[name]))
        for number in run.reads.get(name, ()):
            met = intersect(needs[name], slices[number].box)
            if met is not None:
                yield number, tensors[name].bytes_of(box_volume(met))
    if ddr_bytes:
        yield _OF_NETWORK, ddr_bytes


def no_overlap_s(costs: DsaCosts, layout: Layout) -> float:
    """Return an approximate lower bound in seconds on the layers of ``layout`` run in sequence, without overlap.

    Each layer takes the longer of its off-chip traffic, begun after the first load's start-up, and its arithmetic with
    the start-ups of its first load and its last store.
    """
    view, slices, total_ps = costs.view, layout.slices, float(layout.kernels * costs.view.spec.launch_ps)
    bytes_per_ps = costs.most_off_chip_bytes_per_s / PS_PER_S
    on_chip_ps = view.path_startup_ps if view.has_global_buffer else 0
    loading = {LOCAL: 0, GLOBAL: on_chip_ps}
    loading |= {level.name: level.load.channel.startup_ps + on_chip_ps for level in view.outer}
    storing = {LOCAL: 0, GLOBAL: on_chip_ps}
    storing |= {level.name: level.store.channel.startup_ps + on_chip_ps for level in view.outer}
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
    """Return the bytes of outputs, inputs and weights that one cluster moves to and from each memory but local buffers.

    ``reads``: bytes that the layout's runs read; computed if None. Data that only passes through the global buffer is
    not counted there.
    """
    slices = layout.slices
    bytes_read = reads_of(layout.runs, slices) if reads is None else reads
    total = {DDR: bytes_read.ddr_bytes, GLOBAL: 0, LOCAL: 0}
    for each in slices:
        total[each.memory] = total.get(each.memory, 0) + each.size_bytes
    for number, size_bytes in bytes_read.slice_bytes:
        total[slices[number].memory] += size_bytes
    return {memory: size_bytes for memory, size_bytes in total.items() if memory != LOCAL}


def _weights_read(layer: Layer, extents: Sequence[int]) -> int:
    """Return the bytes of weights read for ``extents`` of the layer's output; of a table, only the rows looked up."""
    work, tensors = layer.tile_work(tuple(extents)), layer.graph.tensors
    return sum(size for name, size in work.operand_bytes.items() if tensors[name].role == "weight")
