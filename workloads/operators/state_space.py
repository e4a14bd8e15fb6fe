"""Selective scan of state spaces (Mamba; Gu and Dao, 2023): tokens in order, a state carried from one to the next."""

from collections.abc import Sequence

from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import at, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, operator

_MAC = Operations(macs=1)
_STATE = Operations(simple=4, special=1)
"""Of each element of a state: step times rate, its exponential, the decay, the new part, and their sum."""
_SKIP = Operations(simple=1)


def _shapes(context: NodeContext) -> list[tuple[Sequence[int], str]]:
    data, rates = context.input(0), context.input(2)
    length = int(context.attributes["length"])
    return [((data.shape[0], length, data.shape[2]), data.dtype), ((data.shape[0], *rates.shape), data.dtype)]


@operator("dsascape::ScanChunk", shapes=_shapes, layout="row_major", partial=True)
def _scan_chunk(context: NodeContext) -> Lowered:
    """Update a state for each channel token by token, and read it out; return the outputs and the last state.

    Inputs: data and steps [batch, tokens, channels], rates [channels, states], what enters and what leaves
    [batch, tokens, states], the share of the data that skips the state [channels], the state before
    [batch, channels, states]. The chunk has ``length`` tokens from ``first`` on.
    """
    data, steps, rates, entering, leaving, skipping, start = (context.input(place) for place in range(7))
    batch, tokens, channels = data.shape
    states = rates.shape[1]
    for place, shape in enumerate(
        (data.shape, data.shape, (channels, states), *2 * ((batch, tokens, states),), (channels,))
    ):
        context.expect(place, *shape)
    context.expect(6, batch, channels, states)
    length = int(context.attributes["length"])
    held = Tensor(f"{context.results[0].name}:states", (batch, length, channels, states), data.dtype, "activation")
    b, t, d, n = range(4)
    now = Index(((t, 1),), offset=int(context.attributes["first"]))
    of_channels = [Access(each.name, each.shape, (at(b), now, at(d))) for each in (data, steps)]
    enters, leaves = (Access(each.name, each.shape, (at(b), now, at(n))) for each in (entering, leaving))
    loops = Loop("b", batch), Loop("t", length), Loop("d", channels), Loop("n", states)
    reads = (*of_channels, whole(rates, (d, n)), enters, whole(start, (b, d, n)))
    before = Access(held.name, held.shape, (at(b), Index(((t, 1),), offset=-1), at(d), at(n)))
    nests = [LoopNest("state", loops, reads, whole(held, (b, t, d, n)), per_output=_STATE, carried=before)]
    summed = *loops[:3], Loop("n", states, reduction=True)
    reads = (whole(held, (b, t, d, n)), leaves, of_channels[0], whole(skipping, (d,)))
    nests.append(LoopNest("output", summed, reads, whole(context.results[0], (b, t, d)), _MAC, _SKIP))
    last = context.optional_output(1)
    if last is not None:
        end = Access(held.name, held.shape, (at(0), Index(offset=length - 1), at(1), at(2)))
        nests.append(LoopNest("last", (loops[b], loops[d], loops[n]), (end,), whole(last, (0, 1, 2))))
    return Lowered(tuple(nests), (held,))
