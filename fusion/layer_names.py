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
    ops = plan.groups[group].ops
    last = next((op for op in reversed(ops) if not plan.graph.ops[op].is_view), ops[-1])
    return layer_name(str(group), plan.graph, ops, plan.graph.ops[last].outputs[0])


def layer_name(number: str, graph: Graph, ops: Iterable[int], output: str) -> str:
    """Return the name of the layer of the operators ``ops`` (positions in ``graph``) that writes ``output``.

    Views are not named, unless there is nothing else. The shape of the output is one image's: its first dimension is
    left out where it is the batch.
    """
    operators = [graph.ops[position] for position in sorted(ops)]
    types = [op.kind for op in operators if not op.is_view] or [op.kind for op in operators]
    if len(types) > _MOST_TYPES:
        types = [*types[: _MOST_TYPES - 1], "...", types[-1]]
    shape = graph.tensors[output].shape
    image = shape[1:] if len(shape) > 1 and shape[0] == graph.batch and not graph.no_batch else shape
    return " ".join([f"#{number}", "+".join(types), *([_TIMES.join(map(str, image))] if image else [])])
