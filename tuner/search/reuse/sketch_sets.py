"""Sketches that an operator has on a GPU, by their kinds, as far as its loops say."""

from collections.abc import Callable

from dsascape.tuner.search.reuse.operators import IterationSpace, OperatorKind, SketchSet

SketchesOf = Callable[[OperatorKind, IterationSpace], SketchSet]
"""The kinds of sketches of an operator of a kind with such loops, in whichever order."""

MULTI_LEVEL = "multi-level tile"
TWO_LEVEL = "two-level tile"
CROSS_THREAD = "cross-thread reduction"
_WARP = 32
"""Threads of a warp."""


def gpu_sketches(kind: OperatorKind, loops: IterationSpace) -> SketchSet:
    """Return the sketches that Ansor's rules derive for one operator on a GPU.

    A contraction uses data again and is tiled at several levels; where it has fewer elements than reduction
    iterations, threads can also share a reduction. Anything else is tiled at two levels, and its reduction is shared
    from more iterations on than a warp has threads.
    """
    tiled = MULTI_LEVEL if kind.is_contraction else TWO_LEVEL
    enough = loops.space_size if kind.is_contraction else _WARP
    return (CROSS_THREAD, tiled) if loops.reduction_size > enough else (tiled,)
