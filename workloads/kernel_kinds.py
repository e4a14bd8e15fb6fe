"""Kinds of kernels by what their loops compute most of, as libraries divide their code: the keys of efficiencies."""

from collections.abc import Sequence

from dsascape.workloads.loopnest import LoopNest

PRODUCT, CONVOLUTION, DEPTHWISE, OTHER = "product", "convolution", "depthwise", "other"


def kind_of_kernel(nests: Sequence[LoopNest]) -> str:
    """Return the kind of the nest with the most multiply-accumulates; ``other`` where none has any.

    ``depthwise`` reduces over a window alone, ``convolution`` over a window and channels, ``product`` over loops that
    each run along one dimension of an operand: matrix products and convolutions of one element by one.
    """
    largest = max(nests, key=lambda nest: nest.operations(nest.extents).macs, default=None)
    if largest is None or not largest.operations(largest.extents).macs:
        return OTHER
    windows = _window_loops(largest)
    if not windows:
        return PRODUCT
    channels = [
        loop for loop, each in enumerate(largest.loops) if each.reduction and each.extent > 1 and loop not in windows
    ]
    return CONVOLUTION if channels else DEPTHWISE


def _window_loops(nest: LoopNest) -> set[int]:
    """Return the reduction loops of a window: each shares a dimension of an operand with a loop over results.

    That loop moves this operand alone. A loop over groups, which shares the channels' dimension with the channels of a
    group, moves the weights as well, and makes no window of them.
    """
    moving = [frozenset([loop for index in read.indices for loop, _ in index.terms]) for read in nest.reads]
    found = set()
    for read in nest.reads:
        for index in read.indices:
            terms = [loop for loop, _ in index.terms if nest.loops[loop].extent > 1]
            alone = [loop for loop in terms if sum(loop in each for each in moving) == 1]
            if any(not nest.loops[loop].reduction for loop in alone):
                found |= {loop for loop in terms if nest.loops[loop].reduction}
    return found
