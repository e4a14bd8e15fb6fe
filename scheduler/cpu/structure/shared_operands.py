"""Products of rows with rows, several of which share an operand, such as queries of heads that share keys."""

import math

from dsascape.scheduler.cpu.structure.nests import summed_run
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.passes import nests_in_order, passes_of
from dsascape.workloads.memo import memoized


@memoized
def shared_dims(layer: Layer) -> tuple[int, ...]:
    """Return the dimensions of the sink along which the larger operand of a product of rows with rows is the same.

    Queries of heads that share keys are an example. None where vectors lie along results, or where these dimensions
    are innermost in memory anyway.
    """
    sink, order = layer.sink, [dim for dim in layer.sink.order if layer.sink.shape[dim] > 1]
    products = [nest for nest in nests_in_order(layer) if nest.per_iteration.macs]
    if passes_of(layer) is None or len(products) != 1 or products[0].write.shape != sink.shape:
        return ()
    (nest,) = products
    larger = max(nest.reads[:2], key=lambda read: math.prod(read.shape))
    moved = [any(larger.uses(loop) for loop, _ in index.terms) for index in nest.write.indices]
    found = tuple([dim for dim in order if not moved[dim]])
    return found if found and tuple(order[-len(found) :]) != found and summed_run(layer, nest) else ()
