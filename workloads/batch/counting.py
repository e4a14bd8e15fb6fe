"""What of a network grows with the batch: operations and bytes at a batch, counted from the network at another one.

A branch that depends on no image, such as a tracker's template or the image that many prompts share, is computed once
whatever the batch. Parts of a machine that share the batch each compute it; it still counts once.
"""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.loopnest import Operations


def with_sized_tensors(graph: Graph, tensors: frozenset[str]) -> Graph:
    """Return ``graph`` with its `batch_sized`: of ``tensors``, which have the batch, those that no input leads to."""
    reached = graph.tensors_of_batch
    apart = tuple(name for name in graph.tensors if name in tensors and name not in reached)
    return replace(graph, batch_sized=apart) if apart else graph


def operations_at(graph: Graph, batch: int, ops: Iterable[Op] | None = None) -> Operations:
    """Return the arithmetic of ``ops`` (by default all) at ``batch`` images, without what a machine computes twice."""
    reached, images = graph.tensors_of_batch, Fraction(batch, graph.batch)
    growing = once = Operations()
    for op in graph.ops if ops is None else ops:
        for nest in op.nests:
            if nest.write.tensor in reached:
                growing += nest.operations()
            else:
                once += nest.operations()
    return once + Operations(*(int(images * each) for each in (growing.macs, growing.simple, growing.special)))
