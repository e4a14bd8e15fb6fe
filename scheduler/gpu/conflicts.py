"""Bank conflicts of the copies of a product's operands in shared memory, and the padding of rows that avoids them.

Where an access of a thread begins follows from the parts that threads compute, and from how the copy lies in memory.
While a thread goes on with its part, and with the depth, all threads of a warp move alike: conflicts stay those of the
first elements. A thread takes neighbours at once (`GpuTuning.vector_bytes`) as far as its part has them and rows keep
them aligned; windows that move by single elements are kept in registers. Copies for tensor units are stored so that
rows are exchanged within groups of banks (swizzled), which costs neither passes nor bytes. Of tensors that threads
compute for each other no conflicts are counted.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dsascape.hw_models.gpu.banks import passes_per_access
from dsascape.hw_models.gpu.spec import WORD_BYTES
from dsascape.scheduler.gpu.nests import BlockNest, nests_of
from dsascape.scheduler.gpu.parts import Parts, copied_shape, parts_of
from dsascape.scheduler.gpu.tiles import GpuTiles, Rows
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.nodes import stored_elements, strides_of
from dsascape.scheduler.kernels.loops.steps import RowPadding
from dsascape.workloads.loopnest import Access, Extents
from dsascape.workloads.memo import memoized_in_process

Moves = tuple[tuple[int, int], ...]
"""Iterations of each loop that threads are numbered along, outermost first, and by how many elements it moves."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads that compute parts of a contraction's result at a time."""

    box: Extents
    """Elements of each dimension of the result."""
    part: Extents
    """Elements of each dimension that one thread computes."""
    order: tuple[int, ...]
    """Dimensions; threads are numbered along the last one."""
    sharing: int = 1
    """Neighbours that share the reduction of a part."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """Accesses of a block's threads to the copy of one operand."""

    moves: Moves
    elements: int
    """Neighbours that a thread takes at once."""
    element_bytes: float

    def further_passes(self, warp: int, banks: int) -> float:
        """Return the further passes of one access of a warp, in the mean over all warps."""
        return _passes_of_moves(self.moves, self.elements, self.element_bytes, warp, banks)


@memoized_in_process(65536)
def _passes_of_moves(moves: Moves, elements: int, element_bytes: float, warp: int, banks: int) -> float:
    return passes_per_access(addresses_of(moves), elements, element_bytes, warp, banks)


def addresses_of(moves: Moves) -> NDArray[np.int64]:
    """Return by thread the element that its access begins with."""
    found = np.zeros(1, dtype=np.int64)
    for count, stride in moves:
        found = (found[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
    return found


def threads_of(nest: BlockNest, number: int, layer: Layer, tiles: GpuTiles) -> Threads | None:
    """Return the threads that compute a contraction of a block; None where the result has the sink's other dimensions.

    Threads of the last contraction have parts of the sink, whose dimensions need not be those of its result.
    """
    written = nest.compiled.nest.write
    if nest.front is not None:
        front = tiles.fronts[nest.front]
        box = nest.box(nests_of(layer).works(layer, tiles.tile, tiles.stream)[number].extents)
        return Threads(front.at_once or box, front.part, nest.order)
    if written.shape != layer.sink.shape:
        return None
    if nest.is_of_block:
        box = nest.box(nests_of(layer).works(layer, tiles.tile, tiles.stream)[number].extents)
        return Threads(box, tuple(map(min, tiles.part, box)), nest.order)
    return Threads(tiles.tile, tiles.part, tuple(layer.sink.order), tiles.split)


def accesses_of(
    nest: BlockNest, operand: int, threads: Threads, parts: Parts, rows: RowPadding | None, vector_bytes: int
) -> Accesses:
    """Return the accesses of ``threads`` to the copy of an operand whose rows are padded by ``rows``."""
    assert parts.depth_step is not None
    of_step = min(parts.depth_step, nest.depth)
    threads = replace(threads, sharing=min(threads.sharing, of_step))  # others have no element of a step
    read, access = nest.reads[operand], nest.compiled.nest.reads[operand]
    shape = copied_shape(nest, operand, parts.staged, parts.depth_step)
    strides = dict(zip(read.order, strides_of([shape[dim] for dim in read.order], rows), strict=True))
    moves = moves_of(nest, access, strides, threads)
    inner = next((dim for dim in reversed(read.order) if shape[dim] > 1), read.order[-1] if read.order else 0)
    apart = [strides[dim] for dim in read.order if dim != inner and shape[dim] > 1]
    run = _run(nest, operand, inner, threads, parts) if read.order else 1
    return Accesses(moves, _vector(run, [*apart, *[stride for _, stride in moves]], read.element_bytes, vector_bytes),
                    read.element_bytes)  # fmt: skip


def moves_of(nest: BlockNest, access: Access, strides: Mapping[int, int], threads: Threads) -> Moves:
    """Return how an access moves from thread to thread; ``strides``: elements between neighbours of each dimension."""
    steps = [step for dim in threads.order for step in _steps_along(nest, dim, threads)]
    if threads.sharing > 1 and nest.depth_loop is not None:
        steps.append((threads.sharing, nest.depth_loop, 1))
    return tuple([(count, _moved(access, strides, loop, own)) for count, loop, own in steps if count > 1])


def _moved(access: Access, strides: Mapping[int, int], loop: int, iterations: int) -> int:
    """Return by how many elements of a copy so many iterations of a loop move an access.

    Divided indices move by the iterations that divide, whatever begins between them.
    """
    return sum([
        strides[dim] * (stride * iterations // index.divisor)
        for dim, index in enumerate(access.indices) for own, stride in index.terms if own == loop
    ])  # fmt: skip


def _steps_along(nest: BlockNest, dim: int, threads: Threads) -> Iterator[tuple[int, int, int]]:
    """Yield the steps of threads along a dimension of the result, of which several loops may write parts.

    Their number, the loop that they go along, and the iterations of each.
    """
    left, part = threads.box[dim], threads.part[dim]
    loops = sorted(nest.compiled.nest.write.indices[dim].terms, key=lambda term: -term[1])
    for loop, stride in loops:
        own = max(part // stride, 1)
        iterations = -(-left // stride)
        yield -(-iterations // own), loop, own
        left = min(left, stride)


def _run(nest: BlockNest, operand: int, inner: int, threads: Threads, parts: Parts) -> int:
    """Return how many neighbours along the innermost dimension of a copy a thread takes one after the other."""
    index, loops = nest.compiled.nest.reads[operand].indices[inner], nest.compiled.nest.loops
    if index.divisor != 1:
        return 1
    own = nest.compiled.loop_extents(threads.part)
    found = 1
    for loop, stride in index.terms:
        if stride != 1:
            continue
        if not loops[loop].reduction:
            found = max(found, own[loop])
        elif loop == nest.depth_loop:
            assert parts.depth_step is not None
            found = max(found, 1 if threads.sharing > 1 else min(parts.depth_step, parts.staged[loop]))
        else:
            found = max(found, parts.staged[loop])
    return found


def _vector(run: int, strides: Sequence[int], element_bytes: float, vector_bytes: int) -> int:
    """Return how many neighbours are taken at once: a power of two that the run has and all strides keep aligned."""
    most = max(1, min(int(vector_bytes / element_bytes), run))
    found = 1 << (most.bit_length() - 1)
    while found > 1 and any(stride % found for stride in strides):
        found //= 2
    return found


def copy_passes(nest: BlockNest, operand: int, parts: Parts, rows: RowPadding | None, view: GpuView) -> float:
    """Return the further passes of one access of a warp that fills the copy of an operand.

    Neighbouring threads fill neighbouring elements, so that there are none where rows follow each other.
    """
    if rows is None:
        return 0.0
    assert parts.depth_step is not None
    read = nest.reads[operand]
    shape = copied_shape(nest, operand, parts.staged, parts.depth_step)
    sms = view.spec.sms
    return _passes_of_copy(
        tuple([shape[dim] for dim in read.order]), rows, read.element_bytes, view.tuning.vector_bytes, sms.warp,
        sms.shared.banks,
    )  # fmt: skip


@memoized_in_process(65536)
def _passes_of_copy(
    shape: Extents, rows: RowPadding, element_bytes: float, vector_bytes: int, warp: int, banks: int
) -> float:
    strides = strides_of(shape, rows)
    apart = [stride for stride, size in zip(strides[:-1], shape[:-1], strict=True) if size > 1]
    vector = _vector(shape[-1] if shape else 1, [*apart, *shape[-1:]], element_bytes, vector_bytes)
    addresses = addresses_of(tuple(zip(shape, strides, strict=True)))[::vector]
    return passes_per_access(addresses, vector, element_bytes, warp, banks)


def padded(layer: Layer, tiles: GpuTiles, view: GpuView) -> GpuTiles:
    """Return ``tiles`` with the rows of copies padded where threads of a warp would meet in a bank, else as they are.

    Of the paddings that are tried it is the one with the fewest passes, then the one with the fewest bytes.
    """
    nests = nests_of(layer)
    fronts = list(tiles.fronts)
    rows: Rows = ()
    for number, nest in enumerate(nests.nests):
        parts = parts_of(nests, number, layer, tiles, view.spec.sms.warp)
        if parts is None or parts.depth_step is None or parts.unit == "tensor":
            continue
        threads = threads_of(nest, number, layer, tiles)
        if threads is None:
            continue
        own = tuple([_rows(nest, operand, threads, parts, view) for operand in range(min(len(nest.reads), 2))])
        if not any(own):
            continue
        if nest.front is None:
            rows = own
        else:
            fronts[nest.front] = replace(fronts[nest.front], rows=own)
    return replace(tiles, fronts=tuple(fronts), rows=rows)


def _rows(nest: BlockNest, operand: int, threads: Threads, parts: Parts, view: GpuView) -> RowPadding | None:
    """Return the padding of an operand's rows with the fewest passes.

    Of equal ones it is one that leaves rows where a copy may bring several elements at a time, with the fewest bytes.
    """
    sms, read, vector_bytes = view.spec.sms, nest.reads[operand], view.tuning.vector_bytes
    if not nest.is_copied(operand):
        return None
    assert parts.depth_step is not None

    def passes(rows: RowPadding | None) -> float:
        accesses = accesses_of(nest, operand, threads, parts, rows, vector_bytes)
        return accesses.further_passes(sms.warp, sms.shared.banks) / accesses.elements

    copied = copied_shape(nest, operand, parts.staged, parts.depth_step)
    shape = [copied[dim] for dim in read.order]
    best, chosen = passes(None), None
    whole = max(int(view.tuning.copied_bytes / read.element_bytes), 1)

    def worth(rows: RowPadding) -> tuple[bool, int]:
        return rows.elements % whole > 0, stored_elements(shape, rows)

    for rows in sorted(paddings(shape, read.element_bytes, view.tuning), key=worth):
        if best == 0:
            break
        found = passes(rows)
        if found < best:
            best, chosen = found, rows
    return chosen


def paddings(shape: Sequence[int], element_bytes: float, tuning: GpuTuning) -> Iterator[RowPadding]:
    """Yield paddings for rows of a copy of ``shape``, outermost dimension first, that move rows to other banks.

    For each number of dimensions that may make up a row: a few words, up to whole vectors, and a vector more.
    """
    word, whole = max(int(WORD_BYTES / element_bytes), 1), max(int(tuning.vector_bytes / element_bytes), 1)
    most = word * tuning.padding_words
    for dims in range(1, len(shape)):
        if shape[len(shape) - dims - 1] == 1:
            continue
        row = math.prod(shape[len(shape) - dims :])
        aligned = -row % whole
        for elements in sorted({*range(word, most + 1, word), aligned, aligned + whole}):
            if 0 < elements <= most:
                yield RowPadding(elements, dims)
