"""Names of kernels and layers for people: ``#41 Conv+Relu 512x7x7`` (with multiplication signs).

A name has the number of the kernel in its plan, the types of its operators, and the shape of its output. The number
makes it unique within one plan; a layer of a kernel that has several adds its own, as in ``#41.2``.
"""

from collections.abc import Iterable

from dsascape.fusion.plan import FusionPlan
from dsascape.workloads.graph import Graph

_TIMES = "\N{MULTIPLICATION SIGN}"
_MOST_TYPES = 4
"""Largest number of operator types in a name; of more, the first ones and the last are named."""


def kernel_layer_name(plan: FusionPlan, group: int) -> str:
    """Return the name of a kernel: of its group's operators, and of the output of the last one that is no view."""
    graph, ops = plan.graph, plan.groups[group].ops
    last = next((op for op in reversed(ops) if _is_stored(graph, op)), ops[-1])
    return layer_name(str(group), graph, ops, graph.ops[last].outputs[0])


def layer_name(number: str, graph: Graph, ops: Iterable[int], output: str) -> str:
    """Return the name of the layer of the operators ``ops`` (positions in ``graph``) that writes ``output``.

    Views are not named, unless there is nothing else. The shape of the output is one image's: its first dimension is
    left out where it is the batch.
    """
    positions = sorted(ops)
    named = [op for op in positions if _is_stored(graph, op)] or positions
    types = [graph.ops[op].kind for op in named]
    if len(types) > _MOST_TYPES:
        types = [*types[: _MOST_TYPES - 1], "...", types[-1]]
    shape = graph.tensors[output].shape
    has_batch = len(shape) > 1 and shape[0] == graph.batch and not graph.no_batch
    has_batch = has_batch and (graph.batch == 1 or output in graph.tensors_of_batch)
    image = shape[1:] if has_batch else shape
    return " ".join([f"#{number}", "+".join(types), *([_TIMES.join(map(str, image))] if image else [])])


def _is_stored(graph: Graph, op: int) -> bool:
    """Whether an operator is no view: its output is a stored tensor of its own."""
    output = graph.ops[op].outputs[0]
    return graph.storage[output] == output
