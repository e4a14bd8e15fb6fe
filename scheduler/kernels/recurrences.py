"""Layers whose results need earlier ones of their own: running sums, the steps of a recurrent network.

Such a layer is an operator by itself (`scheduler.kernels.cut.layers_in_order`). A core of a CPU goes along the
dimensions that run in order from one end to the other; what is split over cores, and what lies in vectors, are the
others. Where a step is a product over all results of the step before, cores wait for each other after every step, and
each of them keeps its part of the operands of a step in its own caches as far as it fits. On a GPU such a step is a
grid of its own.
"""

import math

from dsascape.scheduler.kernels.layer import Layer


def ordered_dims(layer: Layer) -> tuple[int, ...]:
    """Return the dimensions of the sink that are computed in order."""
    found: set[int] = set()
    for nest in [compiled.nest for compiled in layer.nests]:
        if nest.write.tensor == layer.sink.name:
            loops, indices = dict(nest.ordered), nest.write.indices
            found |= {dim for dim, index in enumerate(indices) if any(loop in loops for loop, _ in index.terms)}
    return tuple(sorted(found))


def step_dims(layer: Layer) -> tuple[int, ...]:
    """Return the dimensions of the sink along which a step needs all results of the step before."""
    return () if layer.contraction is None else ordered_dims(layer)


def waiting_steps(layer: Layer) -> int:
    """Return the steps after each of which all cores wait for each other; 1 if none does."""
    return math.prod([layer.sink.shape[dim] for dim in step_dims(layer)])


def elements_inside(layer: Layer) -> int:
    """Return the elements of the sink that are computed between two that wait for each other; 0 if none does."""
    ordered = ordered_dims(layer)
    if not ordered:
        return 0
    memory = layer.sink.order
    innermost = max(memory.index(dim) for dim in ordered)
    return math.prod([layer.sink.shape[dim] for dim in memory[innermost + 1 :]])
