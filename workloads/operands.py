"""Check that operands have the shapes that their operator's loop nests assume, once at import."""

from collections.abc import Iterable

from dsascape.wording import count
from dsascape.workloads.loopnest import Access, LoopNest


def misfit(nests: Iterable[LoopNest]) -> str | None:
    """Return a message about the first operand whose shape does not fit ``nests``, None if all fit.

    A dimension that space loops step through element by element must have as many elements as they have iterations,
    likewise a reduction over a single loop. Windows, padding and data-dependent accesses are checked by the operator.
    """
    for nest in nests:
        for read in nest.reads:
            for dim, size in enumerate(read.shape):
                steps = _steps(nest, read, dim)
                if steps is not None and steps != size:
                    return (
                        f"reads {read.tensor!r} of shape {list(read.shape)}; needs {count(steps, 'element')} in"
                        f" dimension {dim}"
                    )
    return None


def _steps(nest: LoopNest, read: Access, dim: int) -> int | None:
    """Return the number of elements that loops step through one by one from the first on; None for other accesses."""
    index = read.indices[dim]
    plain = not index.opaque and index.offset == 0 and index.divisor == index.window == 1
    if not plain or not index.terms:
        return None
    if len(index.terms) > 1 and any(nest.loops[loop].reduction for loop, _ in index.terms):
        return None
    steps = 1
    for loop, stride in reversed(index.terms):
        if stride != steps:
            return None
        steps *= nest.loops[loop].extent
    return steps
