"""Whether an operator's operands have the shapes that its loop nests take them to have: checked once, at import."""

from collections.abc import Iterable

from dsascape.workloads.loopnest import Access, LoopNest


def misfit(nests: Iterable[LoopNest]) -> str | None:
    """Return what does not fit, or None.

    A dimension that space loops step through element by element has as many elements as they have iterations; a
    reduction over a single loop likewise. Windows, padding and what data chooses are for the operator to check.
    """
    for nest in nests:
        for read in nest.reads:
            for dim, size in enumerate(read.shape):
                steps = _steps(nest, read, dim)
                if steps is not None and steps != size:
                    return (
                        f"reads {read.tensor!r} of shape {list(read.shape)}; needs {steps} elements in dimension {dim}"
                    )
    return None


def _steps(nest: LoopNest, read: Access, dim: int) -> int | None:
    """Return the elements that loops step through one by one from the first on, None if they do otherwise."""
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
