"""Lines of the first cache that one access of a warp to the GPU's memory touches.

The cache looks up one line in a pass, as wide as all banks of shared memory, with which it shares the path to the
threads. Threads of a warp that ask for neighbours share a line; where a step from thread to thread is a row of
channels, each takes a pass of its own. As with bank conflicts, all threads of a warp move alike while they go on with
their parts, so that the first access of each stands for the others.
"""

import math
from collections.abc import Sequence

import numpy as np

from dsascape.hw_models.gpu.spec import WORD_BYTES
from dsascape.scheduler.gpu.conflicts import Moves, Threads, addresses_of, moves_of
from dsascape.scheduler.gpu.nests import BlockNest
from dsascape.scheduler.gpu.parts import Parts, copied_shape
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.loops.nodes import strides_of
from dsascape.scheduler.kernels.loops.steps import RowPadding
from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access
from dsascape.workloads.memo import memoized_in_process


def further_lines(
    nest: BlockNest, access: Access, order: Sequence[int], threads: Threads, elements: int, element_bytes: float,
    view: GpuView,
) -> float:  # fmt: skip
    """Return the passes of one access of a warp beyond those that its bytes take, in the mean over all warps.

    ``order``: dimensions of the tensor as they lie in memory; ``elements``: neighbours that a thread takes at once.
    """
    moves = moves_of(nest, access, dict(zip(order, _strides(access.shape, order), strict=True)), threads)
    return _further(moves, elements, element_bytes, view.spec.sms.warp, view.spec.sms.shared.banks)


def copied_at_once(nest: BlockNest, operand: int, parts: Parts, rows: RowPadding | None, view: GpuView) -> float:
    """Return the bytes of an operand that one instruction of a thread copies to shared memory.

    As many neighbours as both memories have next to each other, in the tensor and in the copy; the first of them has to
    be a multiple of their number in both, wherever a block and a step begin.
    """
    element_bytes = nest.reads[operand].element_bytes
    most = max(view.tuning.vector_bytes, view.tuning.copied_bytes)
    found = 1 << (max(int(most / element_bytes), 1).bit_length() - 1)
    if view.tuning.vector_bytes >= most or not nest.is_copied(operand):
        return float(view.tuning.vector_bytes)
    moves, run = _copied_moves(nest, operand, parts, rows)
    while found > 1 and (run % found or any(stride % found for own in moves for _, stride in own[:-1])):
        found //= 2
    return max(found * element_bytes, view.tuning.vector_bytes)


def copied_lines(nest: BlockNest, operand: int, parts: Parts, rows: RowPadding | None, view: GpuView) -> float:
    """Return the further passes of one access of a warp that reads an operand for its copy in shared memory.

    Neighbouring threads copy neighbouring elements of the copy, which need not be neighbours in the tensor.
    """
    element_bytes = nest.reads[operand].element_bytes
    vector = max(int(copied_at_once(nest, operand, parts, rows, view) / element_bytes), 1)
    (_, there), run = _copied_moves(nest, operand, parts, rows)
    taken = min(vector, run)
    sms = view.spec.sms
    return _further((*there[:-1], (-(-run // taken), taken)), taken, element_bytes, sms.warp, sms.shared.banks)


def _copied_moves(
    nest: BlockNest, operand: int, parts: Parts, rows: RowPadding | None
) -> tuple[tuple[Moves, Moves], int]:  # fmt: skip
    """Return how a copy goes through shared memory and through the tensor, with the last dimensions as one run.

    And how many elements the run has: those of the dimensions that both go through without a gap.
    """
    assert parts.depth_step is not None
    read, access = nest.reads[operand], nest.compiled.nest.reads[operand]
    copied = copied_shape(nest, operand, parts.staged, parts.depth_step)
    shape = [copied[dim] for dim in read.order]
    here, there = strides_of(shape, rows), _strides(access.shape, read.order)
    run, place = 1, len(shape)
    while place and here[place - 1] == there[place - 1] == run:
        place -= 1
        run *= shape[place]
    moves = [tuple(zip(shape[:place], strides[:place], strict=True)) for strides in (here, there)]
    return ((*moves[0], (run, 1)), (*moves[1], (run, 1))), run


def loaded_shares(nest: BlockNest, threads: Threads, parts: Parts) -> tuple[float, float]:
    """Return the share of either operand that a thread loads where it keeps elements of a window in registers.

    The compiler writes out the taps along the last loop of a window, and what is inside of it, where that makes no more
    than so many multiply-accumulates; elements that several taps need are loaded once then.
    """
    loops, compiled = nest.compiled.nest.loops, nest.compiled
    taps = [n for n, each in enumerate(loops) if each.reduction and n != nest.depth_loop and each.extent > 1]
    if parts.depth_step is None or not taps:
        return 1.0, 1.0
    last, extent = taps[-1], loops[taps[-1]].extent
    if parts.elements * extent * -(-min(parts.depth_step, nest.depth) // threads.sharing) > _WRITTEN_OUT:
        return 1.0, 1.0
    own = compiled.loop_extents(threads.part)
    once = [1 if each.reduction else size for each, size in zip(loops, own, strict=True)]
    every = [extent if n == last else size for n, size in enumerate(once)]
    left, right = [
        math.prod([_different(index, every) / _different(index, once) for index in read.indices]) / extent
        for read in compiled.nest.reads[:2]
    ]
    return left, right


def _different(index: Index, extents: Sequence[int]) -> int:
    """Return how many elements of a dimension so many iterations of each loop touch."""
    found = {index.offset}
    for loop, stride in index.terms:
        found = {each + stride * number for each in found for number in range(extents[loop])}
    return len({each // index.divisor for each in found})


def _strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    return strides_of([shape[dim] for dim in order], None)


_WRITTEN_OUT = 256
"""Multiply-accumulates up to which nvcc writes loops out: 168 are seen in machine code."""
_MOST_THREADS = 4096
"""Threads that stand for all others of a copy, which go on in the same way."""


@memoized_in_process(65536)
def _further(moves: Moves, elements: int, element_bytes: float, warp: int, banks: int) -> float:
    if not banks:
        return 0.0
    inner, threads = [], 1
    for count, stride in reversed(moves):
        inner.append((min(count, -(-_MOST_THREADS // threads)), stride))
        threads *= inner[-1][0]
    width = banks * WORD_BYTES
    first = addresses_of(tuple(reversed(inner))) * element_bytes
    missing = -len(first) % warp
    rows = np.concatenate([first, np.repeat(first[-1:], missing)]).reshape(-1, warp)
    lines = np.concatenate([rows // width, (rows + elements * element_bytes - 1) // width], axis=1)
    lines.sort(axis=1)
    touched = 1 + (np.diff(lines, axis=1) > 0).sum(axis=1)
    least = max(elements * element_bytes * min(warp, len(first)) / width, 1.0)
    return float(np.maximum(touched - least, 0).mean())
