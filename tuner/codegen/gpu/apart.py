"""Results of another shape than the kernel's tiles: which elements of them a block stores.

A result whose dimensions are the sink's, of equal size or one, is cut like the sink: where the sink has one element, a
block stores all there are, and where the result has one, the first blocks store it. So a block needs of reductions what
its tile needs. Any other result is cut into runs of consecutive elements, as many as there are blocks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from dsascape.tuner.codegen.gpu.phases import index, loop, unravelled, when
from dsascape.tuner.codegen.gpu.regions import Box
from dsascape.tuner.codegen.gpu.values import Place, elements
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Extents

Located = tuple[Place, list[Any]]
"""An element, and the conditions under which the block stores it."""


@dataclass(frozen=True)
class Share:
    """What a block stores of a result."""

    count: int
    """Elements, of a whole share."""
    at: Callable[[Any], Located]
    """From a number below ``count`` to the element in the order of memory."""
    box: Box | None
    """What it is in the order of memory; None: a run of consecutive elements."""

    def stored(self, buffer: Any, value: Callable[[Place], Any], thread: Any, threads: int) -> Any:
        """Return the statement of one of ``threads`` that stores its elements of the share in ``buffer``."""
        turn = index("turn")
        number = turn * threads + thread
        place, conditions = self.at(number)
        if self.count % threads:
            conditions = [number < self.count, *conditions]
        body = when(conditions, tirx.BufferStore(buffer, value(place), list(place)))
        return loop(turn, -(-self.count // threads), body)


def share_of(tensor: Tensor, sink: Extents, starts: Sequence[Any], tile: Extents, block: tuple[Any, int]) -> Share:
    """Return what a block stores of ``tensor``, whose tile of the ``sink`` begins at ``starts``.

    ``block``: its number, and how many there are.
    """
    shape = tuple(tensor.shape[dim] for dim in tensor.order)
    begins, extents, conditions = [], [], []
    if len(shape) != len(sink):
        return _run(shape, *block)
    for dim in tensor.order:
        size, whole = tensor.shape[dim], sink[dim]
        if size != whole and min(size, whole) > 1:
            return _run(shape, *block)
        begins.append(starts[dim] if size == whole else tirx.const(0))
        extents.append(tile[dim] if size == whole else size)
        if size < whole and tile[dim] < whole:
            conditions.append(tirx.EQ(starts[dim], 0))
    return _boxed(Box(tuple(begins), tuple(extents)), shape, conditions)


def _boxed(box: Box, shape: Extents, conditions: Sequence[Any]) -> Share:
    def at(number: Any) -> Located:
        inside = unravelled(number, box.extents)
        place = tuple(start + each for start, each in zip(box.starts, inside, strict=True))
        cut = [each < size for each, size, part in zip(place, shape, box.extents, strict=True) if size % part]
        return place, [*conditions, *cut]

    return Share(elements(box.extents), at, box)


def _run(shape: Extents, block: Any, blocks: int) -> Share:
    total = elements(shape)
    count = -(-total // blocks)

    def at(number: Any) -> Located:
        place = block * count + number
        return tuple(unravelled(place, shape)), [place < total] if count * blocks > total else []

    return Share(count, at, None)
