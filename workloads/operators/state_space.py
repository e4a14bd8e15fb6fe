"""Selective scan of state spaces (Mamba; Gu and Dao, 2023): tokens in order, a state carried from one to the next."""

from collections.abc import Sequence

from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import at, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, operator

_STATE = Operations(simple=4, special=1)
"""Operations of one element of a state: step times rate, its exponential, the decay, the new part, their sum."""


def _shapes(context: NodeContext) -> list[tuple[Sequence[int], str]]:
    data, rates = context.input(0), context.input(2)
    return [((data.shape[0], int(context.attributes["length"]), *rates.shape), data.dtype)]


@operator("dsascape::ScanChunk", shapes=_shapes, layout="row_major", partial=True)
def _scan_chunk(context: NodeContext) -> Lowered:
    """Update a state for each channel token by token; return the states behind all tokens of a chunk.

    Inputs: data and steps [batch, tokens, channels], rates [channels, states], what enters [batch, tokens, states],
    the state before [batch, channels, states]. The chunk has ``length`` tokens from ``first`` on; the result is
    [batch, length, channels, states].
    """
    data, steps, rates, entering, start = (context.input(place) for place in range(5))
    batch, length, channels, states = context.output.shape
    tokens = data.shape[1]
    context.expect(1, *data.shape)
    context.expect(3, batch, tokens, states)
    context.expect(4, batch, channels, states)
    loops = Loop("b", batch), Loop("t", length), Loop("d", channels), Loop("n", states)
    b, t, d, n = range(4)
    now = Index(((t, 1),), offset=int(context.attributes["first"]))
    of_channels = [Access(each.name, each.shape, (at(b), now, at(d))) for each in (data, steps)]
    enters = Access(entering.name, entering.shape, (at(b), now, at(n)))
    reads = (*of_channels, whole(rates, (d, n)), enters, whole(start, (b, d, n)))
    before = None  # a single token follows the state that is read, none of its own
    if length > 1:
        before = Access(context.output.name, context.output.shape, (at(b), Index(((t, 1),), offset=-1), at(d), at(n)))
    write = whole(context.output, (b, t, d, n))
    return Lowered((LoopNest("ScanChunk", loops, reads, write, per_output=_STATE, carried=before),))
