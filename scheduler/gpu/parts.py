"""The parts in which a block computes one contraction, and what one of them asks of a thread or warp.

The parts of the last contraction are those of the sink's tile, each with threads of its own. A contraction in front has
parts of its own: all threads of the block take them in turns, and what is staged is staged anew for each turn.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dsascape.scheduler.gpu.nests import BlockNest, BlockNests, NestWork, Product
from dsascape.scheduler.gpu.tiles import ComputeUnit, GpuTiles
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Access, Extents, LoopNest
from dsascape.workloads.spaced import used_extents


@dataclass(frozen=True, slots=True)
class Parts:
    """Division of one contraction's products among the threads of a block."""

    own: Product
    """Product of one part, with the whole depth."""
    whole: Product
    """Product of all parts together, without what parts at edges compute twice."""
    elements: int
    """Sums of a part."""
    number: int
    """Parts, each of which one thread (warp, on tensor units) computes, or several that share its reduction."""
    working: int
    """Threads (warps) that issue what a part takes, in all turns together."""
    depth: int
    """Iterations of the reduction that each of them does."""
    turns: int
    """Parts that a thread (warp) computes, one after the other, each turn with steps of its own."""
    unit: ComputeUnit
    depth_step: int | None
    """Iterations of the longest reduction loop that are staged at a time; None: nothing is."""
    staged: Sequence[int]
    """Iterations of each loop whose operands are staged in one turn, all steps together."""

    @property
    def at_once(self) -> int:
        """Threads (warps) that compute at the same time."""
        return -(-self.working // self.turns)


def parts_of(nests: BlockNests, number: int, layer: Layer, tiles: GpuTiles, warp: int) -> Parts | None:
    """Return the parts of a nest; None if it is no contraction of two operands."""
    nest = nests.nests[number]
    if not nest.is_tiled:
        return None
    work = nests.works(layer, tiles.tile, tiles.stream)[number]
    whole = nest.product(work.extents, work.operations.macs)
    assert whole is not None
    if nest.front is not None:
        return _of_front(nest, work, whole, tiles, warp)
    own, parts = nests.product(layer, tiles.part, stream=tiles.stream), tiles.parts(tiles.tile)
    assert own is not None
    if nest.is_of_block:  # its results lie in shared memory: it is cut into parts as large as those of the tile
        rows, columns = min(own.rows, whole.rows), min(own.columns, whole.columns)
        own = Product(rows, columns, whole.depth, whole.number)
        parts = -(-whole.rows // rows) * -(-whole.columns // columns)
    depth = -(-own.depth // (tiles.split * tiles.shares))
    elements = math.prod(tiles.part)
    return Parts(
        own, whole, elements, parts, parts * tiles.split, depth, 1, tiles.unit, tiles.depth_step, work.extents,
    )  # fmt: skip


def _of_front(nest: BlockNest, work: NestWork, whole: Product, tiles: GpuTiles, warp: int) -> Parts:
    assert nest.front is not None
    front = tiles.fronts[nest.front]
    box = nest.box(work.extents)
    own = nest.product_of(front.part)
    assert own is not None
    at_once = box if front.at_once is None else front.at_once
    times = math.prod([-(-size // each) for size, each in zip(box, at_once, strict=True)])
    number = math.prod([-(-size // part) for size, part in zip(at_once, front.part, strict=True)])
    workers = tiles.threads(warp) // (warp if front.unit == "tensor" else 1)
    turns = times * -(-number // workers)
    staged = work.extents if front.at_once is None else nest.compiled.loop_extents(at_once)
    elements, every = math.prod(front.part), times * number
    return Parts(
        own, whole, elements, every, every, own.depth, turns, front.unit, front.depth_step, staged
    )  # fmt: skip


def staged_bytes(nest: BlockNest, parts: Parts, step: int) -> int:
    """Return the bytes of the two operands, if they come from outside, of one turn for ``step`` of the depth."""
    return sum(operands_bytes(nest, parts.staged, step))


def copied_shape(nest: BlockNest, operand: int, extents: Sequence[int], step: int) -> Extents:
    """Return the elements of each dimension of an operand's copy, for ``step`` of the depth of ``extents``."""
    stepped = list(extents)
    if nest.depth_loop is not None:
        stepped[nest.depth_loop] = min(step, stepped[nest.depth_loop])
    return tuple(_copied(nest.compiled.nest, nest.compiled.nest.reads[operand], stepped))


def operands_bytes(nest: BlockNest, extents: Sequence[int], step: int) -> tuple[int, int]:
    """Return the bytes of either operand, 0 if it lies in shared memory, for ``step`` of the depth of ``extents``."""
    data, weight = [
        0 if read.source == "shared"
        else math.ceil(math.prod(copied_shape(nest, operand, extents, step)) * read.element_bytes)
        for operand, read in enumerate(nest.reads[:2])
    ]
    return data, weight


def sharing(threads: int, elements: int, iterations: int) -> int:
    """Return how many of a block's threads share a reduction of so many iterations, for each of so many elements.

    They are a power of two, as their sums are put together in halves; each has an iteration at least.
    """
    count = 1
    while 2 * count * elements <= threads and 2 * count <= iterations:
        count *= 2
    return count


def sharing_of(nests: BlockNests, number: int, work: NestWork, tiles: GpuTiles, warp: int) -> int:
    """Return how many threads share each reduction of the statistics ``number``, of which a block does ``work``."""
    nest = nests.nests[number]
    loops = [place for place, loop in enumerate(nest.compiled.nest.loops) if loop.reduction]
    executed = used_extents(nest.spaced, work.extents)
    return sharing(tiles.threads(warp), work.outputs, math.prod([executed[loop] for loop in loops]))


def slots(nest: BlockNest, step: int, stages: int) -> int:
    """Return how many steps of the depth are in shared memory or on their way at a time, of ``stages`` at most."""
    return min(stages, -(-nest.depth // step))


def _copied(nest: LoopNest, read: Access, extents: Sequence[int]) -> Iterator[int]:
    """Yield the elements of each dimension that a copy has for so many iterations of each loop, padding included.

    An index that is divided moves with tiles where these are whole multiples of the divisor; else a copy has all that
    the nest ever reads of the dimension, in tiles that stick out, too.
    """
    every = [(0, -(-loop.extent // each) * each) for loop, each in zip(nest.loops, extents, strict=True)]
    for index, size in zip(read.indices, read.shape, strict=True):
        spread = sum([abs(stride) * (extents[loop] - 1) for loop, stride in index.terms])
        if index.opaque or index.table or index.clamp:
            yield size
        elif index.divisor == 1:
            yield spread + index.window
        elif all(
            extents[loop] * stride % index.divisor == 0 or extents[loop] == nest.loops[loop].extent
            for loop, stride in index.terms
        ):
            first = index.offset + sum([min(stride, 0) * (extents[loop] - 1) for loop, stride in index.terms])
            yield (first % index.divisor + spread) // index.divisor + index.window
        else:
            undivided = replace(index, divisor=1, window=1, rounding="floor").span(every)
            yield (undivided[1] - 1) // index.divisor - undivided[0] // index.divisor + index.window
