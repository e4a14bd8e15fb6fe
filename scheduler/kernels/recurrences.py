"""Layers whose results need earlier results of their own: running sums, the steps of a recurrent network.

Such a layer is one operator by itself (`scheduler.kernels.cut.layers_in_order`). A core of a CPU runs through the
sequential dimensions from one end to the other; only the others are split over cores and vectorised. Where a step is a
product over all results of the step before, cores synchronise after every step, and each keeps its part of a step's
operands in its own caches as far as it fits. On a GPU such a step is a grid of its own.
"""

import math

from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.memo import memoized


@memoized
def ordered_dims(layer: Layer) -> tuple[int, ...]:
    """Return the sequential dimensions of the sink; worked out once for equal layers."""
    dims: set[int] = set()
    for nest in [compiled.nest for compiled in layer.nests]:
        if nest.write.tensor == layer.sink.name:
            loops, indices = dict(nest.ordered), nest.write.indices
            dims |= {dim for dim, index in enumerate(indices) if any(loop in loops for loop, _ in index.terms)}
    return tuple(sorted(dims))


def step_dims(layer: Layer) -> tuple[int, ...]:
    """Return the dimensions of the sink along which a step needs all results of the step before."""
    return () if layer.contraction is None else ordered_dims(layer)


def waiting_steps(layer: Layer) -> int:
    """Return the number of steps after each of which all cores synchronise; 1 if there are none."""
    return math.prod([layer.sink.shape[dim] for dim in step_dims(layer)])


def elements_inside(layer: Layer) -> int:
    """Return the elements of the sink computed per sequential step; 0 if no dimension is sequential."""
    ordered = ordered_dims(layer)
    if not ordered:
        return 0
    memory = layer.sink.order
    innermost = max(memory.index(dim) for dim in ordered)
    return math.prod([layer.sink.shape[dim] for dim in memory[innermost + 1 :]])
