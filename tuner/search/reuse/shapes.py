"""Shapes of a tiled operator on a GPU, and what they cost: BShape, TShape and LShape (ETO, section 5.1).

A block computes a box of the result, fetching operands to shared memory part by part of the reduction; each thread
computes a box of that box, or several pieces of one that are interleaved with those of other threads (virtual split).
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dsascape.hw_models.gpu.banks import passes_of
from dsascape.hw_models.gpu.spec import WORD_BYTES
from dsascape.scheduler.gpu.cost.warps import addresses_of
from dsascape.scheduler.parts import divisors
from dsascape.tuner.search.reuse.operators import ReuseError
from dsascape.wording import count
from dsascape.workloads.loopnest import Access, Extents, LoopNest

LINE_BYTES = 32
"""Bytes of a request for a cache line: a sector."""
BANKS = 32
"""Banks of shared memory, each of one word, as the authors' code has them on any machine."""
WARP = 32


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes of one program: of a block, of a thread, and of the fetches."""

    block: Extents
    """BShape: elements of each dimension of the result that a block computes."""
    virtual: Extents
    """First part of TShape: pieces along each dimension, between those of other threads."""
    thread: Extents
    """Second part of TShape: elements of each dimension of a piece."""
    loads: Extents
    """LShape: fetches along each reduction loop."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod([
            size // (pieces * own) for size, pieces, own in zip(self.block, self.virtual, self.thread, strict=True)
        ])  # fmt: skip


class MajorNest:
    """The loop nest that does most of an operator's work, and how its operands lie in memory."""

    def __init__(
        self, nest: LoopNest, orders: Mapping[str, Sequence[int]] | None = None, element_bytes: int = 4,
        line_bytes: int = LINE_BYTES,
    ) -> None:  # fmt: skip
        """``orders``: dimensions of tensors as they lie in memory, outermost first; else they lie as they are numbered.

        ``line_bytes``: bytes that are requested at once.

        Raises ``ReuseError`` where several loops make up a dimension of the result.
        """
        self.nest, self.element_bytes, self.line_bytes = nest, element_bytes, line_bytes
        self._best_blocks: dict[int, Extents] = {}
        self.orders = {} if orders is None else orders
        moving = [[loop for loop, _ in index.terms if nest.loops[loop].extent > 1] for index in nest.write.indices]
        if any(len(loops) > 1 for loops in moving):
            raise ReuseError(f"{nest.name}: several loops make up a dimension of its result")
        self.space_loops = tuple([loops[0] if loops else None for loops in moving])
        self.reduction_loops = tuple([number for number, loop in enumerate(nest.loops) if loop.reduction])

    @cached_property
    def space(self) -> Extents:
        """Iterations of the space loops, by dimension of the result."""
        return tuple([1 if loop is None else self.nest.loops[loop].extent for loop in self.space_loops])

    @cached_property
    def reduction(self) -> Extents:
        """Iterations of the reduction loops."""
        return tuple([self.nest.loops[loop].extent for loop in self.reduction_loops])

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Dimensions of the result as they lie in memory; threads are numbered along the last one."""
        return self.order_of(self.nest.write)

    @cached_property
    def inputs(self) -> tuple[Access, ...]:
        """Operands of the reduction: a bias is none."""
        own = [read for read in self.nest.reads if any(map(read.uses, self.reduction_loops))]
        return tuple(own) or self.nest.reads

    def order_of(self, access: Access) -> tuple[int, ...]:
        """Return the dimensions of a tensor as they lie in memory, outermost first."""
        return tuple(self.orders.get(access.tensor, range(len(access.shape))))

    def _extents(self, box: Sequence[int], fetch: Sequence[int]) -> list[int]:
        extents = [1] * len(self.nest.loops)
        for loop, size in zip(self.space_loops, box, strict=True):
            if loop is not None:
                extents[loop] = size
        for loop, size in zip(self.reduction_loops, fetch, strict=True):
            extents[loop] = size
        return extents

    def operand(self, read: Access, box: Sequence[int], fetch: Sequence[int]) -> Extents:
        """Return the elements of each dimension of an operand that ``box`` needs for so much of the reduction."""
        return read.extents(self._extents(box, fetch))

    def fetched(self, block: Sequence[int], loads: Sequence[int]) -> int:
        """Return the elements of all operands that a block has in shared memory at a time: M of one block."""
        fetch = self.fetch(loads)
        return sum([math.prod(self.operand(read, block, fetch)) for read in self.inputs])

    def fetch(self, loads: Sequence[int]) -> Extents:
        """Return the iterations of each reduction loop that one fetch is for."""
        return tuple([-(-extent // count) for extent, count in zip(self.reduction, loads, strict=True)])

    def requests(self, block: Extents) -> int:
        """Return the requests for lines of all operands of the first block, requested at once: its BShape cost."""
        return sum([self._lines(read, block) for read in self.inputs])

    def best_block(self, blocks: int) -> Extents:
        """Return `best_block_shape`, worked out once for each number of blocks."""
        if blocks not in self._best_blocks:
            self._best_blocks[blocks] = best_block_shape(self, blocks)
        return self._best_blocks[blocks]

    def _lines(self, read: Access, block: Extents) -> int:
        order, box = self.order_of(read), self.operand(read, block, self.reduction)
        own, whole = [box[dim] for dim in order], [read.shape[dim] for dim in order]
        run, left = 1, len(own)
        while left:  # a run goes on into the next dimension where it has all of one
            left -= 1
            run *= own[left]
            if own[left] < whole[left]:
                break
        starts = np.zeros(1, dtype=np.int64)
        for dim in range(left):
            stride = math.prod(whole[dim + 1 :])
            starts = (starts[:, None] + np.arange(own[dim], dtype=np.int64) * stride).reshape(-1)
        first = starts * self.element_bytes // self.line_bytes
        last = ((starts + run) * self.element_bytes - 1) // self.line_bytes
        return int((last - first + 1).sum())

    def thread_cost(self, block: Extents, virtual: Extents, thread: Extents, loads: Extents) -> int:
        """Return the conflict-free requests to shared memory of a block's threads: its TShape cost.

        For each operand: (warps + the worst bank conflict of a warp) x elements that a thread loads. A conflict of 1 is
        none. What a thread needs, it loads once; conflicts are those of the threads' first elements.
        """
        shape = tuple([size // (pieces * own) for size, pieces, own in zip(block, virtual, thread, strict=True)])
        warps = -(-math.prod(shape) // WARP)
        fetch = self.fetch(loads)
        own = tuple([pieces * each for pieces, each in zip(virtual, thread, strict=True)])
        return sum([
            (warps + self._conflict(number, shape, thread, block, fetch)) * math.prod(self.operand(read, own, fetch))
            for number, read in enumerate(self.inputs)
        ])  # fmt: skip

    def _conflict(self, number: int, shape: Extents, thread: Extents, block: Extents, fetch: Extents) -> int:
        """Return how many words of one bank the threads of a warp ask for at a time, at worst."""
        strides = self._strides(self.inputs[number], block, fetch)
        moves = tuple([(shape[dim], strides[dim] * thread[dim]) for dim in self.order])
        return worst_conflict(moves, self.element_bytes)

    def _strides(self, read: Access, block: Extents, fetch: Extents) -> list[int]:
        """Return by how many elements of a copy the address moves with each dimension of the result."""
        box = self.operand(read, block, fetch)
        found, inside = [0] * len(block), 1
        for dim in reversed(self.order_of(read)):
            index = read.indices[dim]
            for loop, stride in index.terms:
                if loop in self.space_loops:
                    found[self.space_loops.index(loop)] += inside * stride // index.divisor
            inside *= box[dim]
        return found


@lru_cache(maxsize=65536)
def worst_conflict(moves: tuple[tuple[int, int], ...], element_bytes: int) -> int:
    """Return how many words of one bank a warp's threads ask for at a time, at worst: 1 where there is no conflict.

    ``moves``: iterations of the fused loops of threads, outermost first, and the elements that each moves an address.
    """
    words = addresses_of(moves) * element_bytes // WORD_BYTES
    missing = -len(words) % WARP
    by_warp = np.concatenate([words, np.repeat(words[-1:], missing)]).reshape(-1, WARP)
    return int(passes_of(by_warp, BANKS).max())


def block_shapes(nest: MajorNest, blocks: int) -> Iterator[Extents]:
    """Yield all shapes of blocks that make so many of them."""
    for counts in factorisations(blocks, nest.space):
        yield tuple([size // count for size, count in zip(nest.space, counts, strict=True)])


def best_block_shape(nest: MajorNest, blocks: int) -> Extents:
    """Return the shape of so many blocks with the fewest requests for lines (GetBShape); of equal ones, the first.

    All blocks are taken to request as many as the first. Raises ``ReuseError`` where no divisors make so many.
    """
    found = min(block_shapes(nest, blocks), key=nest.requests, default=None)
    if found is None:
        raise ReuseError(f"{nest.nest.name}: cannot be cut into {count(blocks, 'block')}")
    return found


def default_loads(nest: MajorNest, block: Extents, shared: float, cut: Sequence[int] | None = None) -> Extents:
    """Return fetches along one reduction loop whose shared memory is nearest to ``shared`` elements (GetLShape).

    ``cut``: reduction loops, by place, that may be cut; all of them if none are named. Of equal ones, the fewest.
    """
    return min(loads_along_one(nest, cut), key=lambda loads: (abs(nest.fetched(block, loads) - shared), sum(loads)))


def loads_along_one(nest: MajorNest, cut: Sequence[int] | None = None) -> Iterator[Extents]:
    """Yield all numbers of fetches of which one at most is above 1."""
    places = range(len(nest.reduction)) if cut is None else cut
    yield (1,) * len(nest.reduction)
    for place in places:
        for fetches in divisors(nest.reduction[place]):
            if fetches > 1:
                yield tuple([fetches if each == place else 1 for each in range(len(nest.reduction))])


def best_thread_shape(
    nest: MajorNest, block: Extents, threads: int, loads: Extents, *, with_virtual: bool = True
) -> tuple[Extents, Extents]:
    """Return the virtual split and the piece of least cost for so many threads (GetTShape).

    Of equal ones, it is that of the least split. Raises ``ReuseError`` where no divisors of the block make so many.
    """
    found = min(
        _thread_shapes(block, threads, with_virtual=with_virtual),
        key=lambda pair: (nest.thread_cost(block, pair[0], pair[1], loads), math.prod(pair[0]), pair[0]), default=None,
    )  # fmt: skip
    if found is None:
        raise ReuseError(f"{nest.nest.name}: a block of {list(block)} cannot have {count(threads, 'thread')}")
    return found


def _thread_shapes(block: Extents, threads: int, *, with_virtual: bool) -> Iterator[tuple[Extents, Extents]]:
    for counts in factorisations(threads, block):
        own = [size // count for size, count in zip(block, counts, strict=True)]
        for virtual in itertools.product(*[divisors(each) if with_virtual else (1,) for each in own]):
            yield tuple(virtual), tuple([each // pieces for each, pieces in zip(own, virtual, strict=True)])


def factorisations(number: int, sizes: Sequence[int]) -> Iterator[Extents]:
    """Yield all ways to write ``number`` as a product of divisors of ``sizes``, one of each, in a fixed order."""
    if not sizes:
        if number == 1:
            yield ()
        return
    for first in divisors(math.gcd(number, sizes[0])):
        for rest in factorisations(number // first, sizes[1:]):
            yield (first, *rest)
