"""AGO's Fig. 13, simulated: pairs of convolutions with the operators between them, in one kernel and in two.

The paper takes four sub-graphs of two complex operators each, pointwise and depthwise, from MobileNet-V2 and MNasNet.
Here it is every such pair in these networks: a layer of the fixed patterns, and the layer that is its only consumer.
AGO takes the faster of one kernel and two, AGO-NI (AGO without intensive fusion) always two.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.fusion.ago.weights import is_complex
from dsascape.fusion.fixed_pattern import fixed_pattern_layers
from dsascape.hw_models import load_hardware
from dsascape.scheduler import Placing
from dsascape.workloads import Graph, load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.subgraph import Subgraph

NETWORKS = ("mobilenet-v2", "mnasnet")
BATCHES = (1, 4)
Pair = tuple[str, tuple[int, ...], tuple[int, ...]]
"""Kinds of the two convolutions ("pointwise, depthwise"), and the positions of each layer's operators."""


def figure13(paper: Mapping[str, Any], machines: Sequence[str]) -> str:
    """Return a table of AGO-NI's loss of speed against AGO, by machine, batch and kind of pair, with the means.

    ``paper``: the printed figures (``ago/paper.yaml``). ``machines``: names of presets.
    """
    rows: list[tuple[object, ...]] = []
    losses: list[float] = []
    for machine in machines:
        for batch in BATCHES:
            losses_of: dict[str, list[float]] = {}
            for name in NETWORKS:
                for kind, loss in _losses(name, machine, batch):
                    losses_of.setdefault(kind, []).append(loss)
            for kind, of_kind in sorted(losses_of.items()):
                fused = sum(loss > 0 for loss in of_kind)
                rows.append((machine, batch, kind, len(of_kind), fused, 100 * mean(of_kind), 100 * max(of_kind)))
                losses += of_kind
    columns = ("machine", "batch", "pair", "pairs", "in one kernel", "AGO-NI loses, mean [%]", "most [%]")
    means = f"Mean of all pairs: {mean(losses):.0%} (paper, four pairs: {paper['fig13_loss']['no_intensive']:.0%})."
    return f"{markdown(columns, rows)}\n\n{means}"


def _losses(network: str, machine: str, batch: int) -> Iterator[tuple[str, float]]:
    """Yield the kind of each pair and the fraction of AGO's speed lost by two separate kernels (0..1)."""
    graph = load_network(network, batch=batch)
    costs = Placing(hardware=load_hardware(machine), parts=1, dtype="fp32").costs(Analysis(graph))
    for kind, first, second in pairs(graph):
        two_kernels_s = costs.kernel_s(first) + costs.kernel_s(second)
        yield kind, 1 - min(costs.kernel_s((*first, *second)), two_kernels_s) / two_kernels_s


def pairs(graph: Graph) -> Iterator[Pair]:
    """Yield pairs of pointwise or depthwise convolution layers in which the second is the first's only consumer."""
    layers = [tuple(layer) for layer in fixed_pattern_layers(graph, list(range(len(graph.ops))))]
    layer_of = {op: layer for layer in layers for op in layer}
    for first in layers:
        sink = Subgraph(graph, first).sink
        readers = {layer_of[reader] for reader in graph.consumers[sink.name]} - {first}
        kinds = [_kind(graph, layer) for layer in (first, *readers)]
        if len(readers) == 1 and all(kinds):
            yield f"{kinds[0]}, {kinds[1]}", first, next(iter(readers))


def _kind(graph: Graph, layer: Sequence[int]) -> str:
    """Return "pointwise" or "depthwise" for the layer's convolution; "" for any other layer."""
    for op in (graph.ops[position] for position in layer if is_complex(graph, position)):
        shape = graph.tensors[op.inputs[1]].shape
        if op.kind != "Conv" or len(shape) != len(graph.tensors[op.outputs[0]].shape):
            return ""
        inputs, *window = shape[1:]
        if all(size == 1 for size in window):
            return "pointwise"
        return "depthwise" if inputs == 1 else ""
    return ""
