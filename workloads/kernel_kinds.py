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
    """Return the reduction loops that share a dimension of an operand with another loop: those of a window."""
    return {
        loop
        for read in nest.reads
        for index in read.indices
        if len([term for term, _ in index.terms if nest.loops[term].extent > 1]) > 1
        for loop, _ in index.terms
        if nest.loops[loop].reduction and nest.loops[loop].extent > 1
    }
