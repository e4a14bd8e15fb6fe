"""Softmaxes between two products, computed piece by piece along the second product's depth with running statistics.

The maximum and the sum of a softmax can be accumulated while its results are used: what was made with earlier ones is
multiplied by a factor when they change (Dao et al., FlashAttention, 2022, algorithm 1). So a kernel holds a piece of
the scores at a time, and never all of a row.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.scheduler.kernels.compiled import CompiledNest
from dsascape.workloads.graph import Op
from dsascape.workloads.loopnest import Index, LoopNest, Operations


@dataclass(frozen=True, slots=True)
class Softmax:
    """Tensors of a softmax over one dimension."""

    rows: str
    """Its result."""
    exponentials: str
    maximum: str
    total: str
    """Sum of the exponentials; the result is these times what becomes of it."""
    columns: int
    """Dimension of the exponentials that it goes along."""
    loop: int
    """Number of that loop in the nests of both statistics."""


def softmax_of(op: Op) -> Softmax | None:
    """Return the tensors of a softmax that can be computed with running statistics; None for any other operator."""
    if op.kind != "Softmax" or [nest.running for nest in op.nests] != [True, False, True, False]:
        return None
    maximum, exponentials, total, rows = op.nests
    loops = {reduction_loops_of(nest) for nest in (maximum, total)}
    if len(loops) != 1 or len(*loops) != 1:
        return None
    ((loop,),) = loops
    along = [dim for dim, index in enumerate(total.reads[0].indices) if index == Index(((loop, 1),))]
    if len(along) != 1:
        return None
    written = rows.write.tensor, exponentials.write.tensor, maximum.write.tensor, total.write.tensor
    return Softmax(*written, along[0], loop)


def streamed_with(anchor: LoopNest, nests: Sequence[CompiledNest]) -> frozenset[LoopNest]:
    """Return the `LoopNest.running` reductions in front of ``anchor`` that go along its longest reduction loop.

    ``nests`` in reverse order of execution. Empty where another reduction than these goes along that loop.
    """
    if not any(compiled.nest.running for compiled in nests):
        return frozenset()
    depth = max(reduction_loops_of(anchor), key=lambda loop: anchor.loops[loop].extent, default=None)
    along: dict[str, int] = {}  # dimension of each tensor that moves with the depth
    found: list[LoopNest] = []
    if depth is not None:
        _follow(anchor, depth, along)
    for compiled in nests:
        nest = compiled.nest
        if nest.write.tensor in along:
            terms = nest.write.indices[along[nest.write.tensor]].terms
            if len(terms) == 1 and terms[0][1] == 1:
                _follow(nest, terms[0][0], along)
        if nest is not anchor and _reduces_along(nest, along):
            if not nest.running:
                return frozenset()
            found.append(nest)
    return frozenset(found)


def _follow(nest: LoopNest, loop: int, along: dict[str, int]) -> None:
    """Add to ``along`` the dimension of each tensor read that ``loop`` moves element by element."""
    for read in nest.reads:
        dims = [dim for dim, index in enumerate(read.indices) if index == Index(((loop, 1),))]
        if dims:
            along.setdefault(read.tensor, dims[0])


def _reduces_along(nest: LoopNest, along: dict[str, int]) -> bool:
    """Whether a reduction loop moves a dimension in ``along``."""
    moving = {read.indices[along[read.tensor]].terms for read in nest.reads if read.tensor in along}
    return any(((loop, 1),) in moving for loop in reduction_loops_of(nest))


def reduction_loops_of(nest: LoopNest) -> tuple[int, ...]:
    """Return the reduction loops of more than one iteration."""
    return tuple([number for number, loop in enumerate(nest.loops) if loop.reduction and loop.extent > 1])


class Corrected:
    """Operations of a tile's nests, visited in reverse order; sums are corrected once for each piece of the depth."""

    def __init__(self, summed: LoopNest | None, streamed: frozenset[LoopNest]) -> None:
        """Begin a tile. ``summed``: the nest accumulated piece by piece; ``streamed``: empty for no corrections."""
        self._summed = summed
        self._streamed = streamed
        self._sums = 0

    def operations(self, compiled: CompiledNest, extents: Sequence[int]) -> Operations:
        """Return the operations of ``extents`` iterations; the first statistic met also corrects what is summed up."""
        made = compiled.operations(extents)
        if self._streamed and compiled.nest is self._summed:
            self._sums = math.prod([extents[loop] for loop in compiled.counted])
        elif self._sums and compiled.nest in self._streamed:
            made, self._sums = made + Operations(simple=self._sums), 0
        return made
