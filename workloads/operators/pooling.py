"""Pools: windows that reduce without weights."""

from dsascape.workloads.loopnest import Access, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import at, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, operator
from dsascape.workloads.operators.windows import window_of

_PER_TAP = {"LpPool": Operations(simple=2)}
_PER_OUTPUT = {"AveragePool": Operations(simple=1), "LpPool": Operations(special=1)}


@operator("MaxPool", "AveragePool", "LpPool", layout="channels_last")
def _pool(context: NodeContext) -> Lowered:
    data = context.input(0)
    kernel = context.ints("kernel_shape", ())
    window = window_of(context, kernel)
    batch, channels, *pixels = context.output.shape
    rank = len(kernel)
    loops = (
        Loop("n", batch),
        *(Loop(f"o{d}", size) for d, size in enumerate(pixels)),
        Loop("c", channels),
        *(Loop(f"k{d}", size, reduction=True) for d, size in enumerate(kernel)),
    )
    taps = tuple(window.gather(d, 1 + d, rank + 2 + d) for d in range(rank))
    read = Access(data.name, data.shape, (at(0), at(rank + 1), *taps))
    places = (0, rank + 1, *range(1, rank + 1))
    each = _PER_TAP.get(context.kind, Operations(simple=1))
    last = _PER_OUTPUT.get(context.kind, Operations())
    nests = (LoopNest(context.kind, loops, (read,), whole(o, places), each, last) for o in context.results)
    return Lowered(tuple(nests))
