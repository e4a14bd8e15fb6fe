"""Lower bound on the DDR traffic of any layout of a plan, before core binding and placement."""

import math
from collections.abc import Container, Mapping

from dsascape.fusion.plan import FusionPlan, Split
from dsascape.scheduler.graphturbo.instances import needs_of_first
from dsascape.scheduler.graphturbo.splitting import tensor_matches
from dsascape.scheduler.kernels.cut import layers_by_pattern
from dsascape.scheduler.kernels.layer import Layer, layer_needs
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import Box, box_volume, full_box
from dsascape.workloads.memo import memoized
from dsascape.workloads.regions import required_regions


def least_bytes(analysis: Analysis, plan: FusionPlan | None = None, room_bytes: float = math.inf) -> int:
    """Return a lower bound on the bytes moved to and from DDR by a plan; by every plan, if ``plan`` is None.

    Results are stored once, inputs loaded as far as they are read. Weights are loaded once per group; once per instance
    where the cut does not move them and the first instance needs them whole, assuming that the others do as well.
    ``room_bytes``: size of a cluster's local buffers together, or of its global one, whichever is larger: outputs of
    an instance that fit neither go to DDR.
    """
    every_op = tuple(range(len(analysis.graph.ops)))
    read, graph = analysis.of(_read_bytes), analysis.graph
    least = sum([graph.tensors[name].size_bytes for name in graph.outputs])
    least += sum([read.get(name, 0) for name in graph.inputs])
    if plan is None:
        return least + _weights_of(analysis, every_op)
    for group in plan.groups:
        least += _weights_of_group(analysis, group.ops, group.split)
        for read_bytes in analysis.of(_read_again, group.ops):
            if read_bytes > group.instances * room_bytes:  # all parts but one may fit
                least += 2 * (read_bytes - int((group.instances - 1) * room_bytes))
    return least


def share_read(layer: Layer) -> float:
    """Return a lower bound on the share of its operands' boxes that a layer reads: stride 3 over 2 elements: 2/3."""
    share = 1.0
    for nest in (compiled.nest for compiled in layer.nests):
        for index in (index for read in nest.reads for index in read.indices):
            reach = index.window
            for stride, extent in sorted((abs(stride), nest.loops[loop].extent) for loop, stride in index.terms):
                if stride > reach and extent > 1:
                    share *= reach / stride
                    reach = stride
                reach += stride * (extent - 1)
    return share


def _needed(analysis: Analysis) -> Mapping[str, Box]:
    """Return the box of every tensor that the network's results depend on."""
    graph = analysis.graph
    results = {name: full_box(graph.tensors[name].shape) for name in graph.outputs}
    return required_regions(graph, range(len(graph.ops)), results)


def _read_bytes(analysis: Analysis) -> Mapping[str, int]:
    """Return, per activation, the maximum over layers of the bytes that one layer reads at least."""
    graph, needed, largest = analysis.graph, analysis.of(_needed), dict[str, int]()
    for layer in layers_by_pattern(analysis, tuple(range(len(graph.ops)))):
        needs = layer_needs(layer, needed[layer.sink.name]) if layer.sink.name in needed else {}
        share = share_read(layer)
        for name in layer.inputs:
            if name in needs and graph.tensors[name].role != "weight":
                read_bytes = int(graph.tensors[name].bytes_of(box_volume(needs[name])) * share)
                largest[name] = max(largest.get(name, 0), read_bytes)
    return largest


def _read_again(analysis: Analysis, ops: tuple[int, ...]) -> list[int]:
    """Return the bytes read of each output of a group's layers that is no result of the network."""
    graph, read = analysis.graph, analysis.of(_read_bytes)
    results = {graph.storage[name] for name in graph.outputs}
    names = [name for layer in layers_by_pattern(analysis, ops) for name in layer.outputs]
    return [read[name] for name in names if name in read and name not in results]


@memoized
def _weights_of_group(analysis: Analysis, ops: tuple[int, ...], split: Split | None) -> int:
    if split is None:
        return _weights_of(analysis, ops)
    needs, matches = needs_of_first(analysis, ops, split), tensor_matches(analysis, ops, split.dim)
    tensors, stay = analysis.graph.tensors, [name for name, (dim, _) in matches.items() if dim is None]
    again = {name for name in stay if name in tensors and needs.get(name) == full_box(tensors[name].shape)}
    return _weights_of(analysis, ops, split.factor, again)


def _weights_of(analysis: Analysis, ops: tuple[int, ...], times: int = 1, again: Container[str] = ()) -> int:
    """Return the bytes of weights that the layers of ``ops`` read; those in ``again`` count ``times`` times."""
    total, needed = 0, analysis.of(_needed)
    for layer in layers_by_pattern(analysis, ops):
        box = needed.get(layer.sink.name)
        read = {} if box is None else layer.operand_bytes(tuple([hi - lo for lo, hi in box]))
        for name, size_bytes in read.items():
            tensor = layer.graph.tensors[name]
            if tensor.role == "weight":
                is_table = size_bytes < tensor.size_bytes  # of which other instances read other rows
                total += size_bytes * (times if name in again and not is_table else 1)
    return total
