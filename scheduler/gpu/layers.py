"""The layers that a group of operators runs as on a GPU: one, or several where it cannot be one kernel."""

from collections.abc import Sequence

from dsascape.scheduler.gpu.tiling import has_tiling
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cut import layer_of, layers_by_pattern, layers_in_order
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.memo import memoized
from dsascape.workloads.nest_by_nest import written_out


def layers_of(analysis: Analysis, ops: Sequence[int], view: GpuView) -> tuple[Layer, ...]:
    """Return the layers of the kernels of ``ops``, of the network written out, in order.

    A recurrence's steps are a kernel by themselves. A group of which no block fits into an SM is cut: into layers of at
    most one complex operator, and these into operators.
    """
    return _layers_of(analysis, tuple(sorted(ops)), view.timing)


@memoized
def _layers_of(analysis: Analysis, ops: tuple[int, ...], view: GpuView) -> tuple[Layer, ...]:
    if any(nest.exchanged for op in ops for nest in analysis.graph.ops[op].nests):
        return layers_in_order(analysis, ops)
    out = analysis.of(written_out, frozenset[int]())
    written, every = out.analysis, out.ops(ops)
    whole = layer_of(written, every)
    if whole is None:
        return ()
    if has_tiling(whole, view.of(whole)):
        return (whole,)
    found: list[Layer] = []
    for layer in layers_by_pattern(written, every):
        if has_tiling(layer, view.of(layer)):
            found.append(layer)
        else:
            found += [alone for op in layer.ops if (alone := layer_of(written, (op,))) is not None]
    return tuple(found)
