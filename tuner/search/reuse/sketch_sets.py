"""Sketches that an operator has, by their kinds, and on a GPU as far as its loops say."""

from collections.abc import Callable
from dataclasses import replace

from dsascape.tuner.search.reuse.operators import Operator, SketchSet

SketchesOf = Callable[[Operator], SketchSet]
"""The kinds of sketches of an operator, one entry for each, in whichever order; its own are not known yet."""

MULTI_LEVEL = "multi-level tile"
TWO_LEVEL = "two-level tile"
CROSS_THREAD = "cross-thread reduction"
TENSOR = "tensor-unit tile"
"""Multi-level tile for warps, whose products tensor units compute; not among the paper's."""
FUSED = "multi-level tile, fused"
"""On a CPU: what follows the sums is computed inside of their tiles."""
APART = "multi-level tile, apart"
"""On a CPU: what follows the sums has loops of its own."""
PARTIAL_SUMS = "partial sums"
PLAIN = "plain loops"
_WARP = 32
"""Threads of a warp."""


def gpu_sketches(operator: Operator) -> SketchSet:
    """Return the sketches that Ansor's rules derive for one operator on a GPU.

    A contraction uses data again and is tiled at several levels; where it has fewer elements than reduction
    iterations, threads can also share a reduction. Anything else is tiled at two levels, and its reduction is shared
    from more iterations on than a warp has threads.
    """
    is_contraction, loops = operator.kind.is_contraction, operator.loops
    tiled = MULTI_LEVEL if is_contraction else TWO_LEVEL
    enough = loops.space_size if is_contraction else _WARP
    return (CROSS_THREAD, tiled) if loops.reduction_size > enough else (tiled,)


def with_sketches(operator: Operator, sketches_of: SketchesOf = gpu_sketches) -> Operator:
    """Return an operator with its sketches."""
    unknown = replace(operator, sketches=())
    return replace(operator, sketches=tuple(sorted(sketches_of(unknown))))
