"""Operators of several loop nests split into one operator per tensor that they write.

Nests of one operator pass internal tensors to each other, tile by tile. Where a tile is too large for that, because it
holds a whole line that is reduced first and scaled afterwards, the nests have to run one after the other over the whole
tensor: then their internal tensors become tensors of the network.
"""

from collections.abc import Collection
from dataclasses import replace

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.loopnest import LoopNest


def with_operators_split(analysis: Analysis, ops: tuple[int, ...]) -> Analysis:
    """Return the network with the operators at positions ``ops`` split; the same analysis where none can be."""
    graph = graph_with_operators_split(analysis.graph, ops)
    return analysis if graph is analysis.graph else Analysis(graph, made_of=analysis)


def graph_with_operators_split(graph: Graph, ops: Collection[int]) -> Graph:
    """Return ``graph`` with the operators at positions ``ops`` split, as far as they can be.

    ``Graph.with_batch`` returns them whole again.
    """
    wanted, tensors = set(ops), dict(graph.tensors)
    ops_out: list[Op] = []
    names = {op.name for op in graph.ops}
    for position, op in enumerate(graph.ops):
        parts = _parts(op) if position in wanted and not any(t.name in tensors for t in op.internals) else (op,)
        if len(parts) > 1 and not any(part.name in names for part in parts[:-1]):
            tensors.update({tensor.name: tensor for tensor in op.internals})
            names.update(part.name for part in parts)
            ops_out += parts
        else:
            ops_out.append(op)
    return graph if len(ops_out) == len(graph.ops) else replace(graph, ops=tuple(ops_out), tensors=tensors)


def _parts(op: Op) -> tuple[Op, ...]:
    """Return one operator per tensor that ``op`` writes, in the order in which the tensors are complete.

    The last one keeps the name. Returns ``op`` alone where a nest reads a tensor that is incomplete by then.
    """
    nests: dict[str, list[LoopNest]] = {}
    for nest in op.nests:
        nests[nest.write.tensor] = [*nests.pop(nest.write.tensor, []), nest]
    complete: set[str] = {*op.inputs}
    parts: list[Op] = []
    for written, own in nests.items():
        reads = tuple(dict.fromkeys(read.tensor for nest in own for read in nest.reads if read.tensor != written))
        if not complete.issuperset(reads):
            return (op,)
        complete.add(written)
        name = op.name if len(parts) == len(nests) - 1 else f"{op.name}:{written.rpartition(':')[2]}"
        parts.append(Op(name, op.kind, reads, (written,), tuple(own)))
    return tuple(parts)
