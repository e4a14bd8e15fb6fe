"""Reductions that all threads of a block compute together, and leave in shared memory for whoever reads them."""

from typing import Any

from tvm import tirx

from dsascape.tuner.codegen.gpu.phases import Block, Memory, Phase, index, loop, ravelled, sequence, unravelled, when
from dsascape.tuner.codegen.gpu.regions import Box
from dsascape.tuner.codegen.gpu.values import Reduced, Values, elements


def add_shared(block: Block, values: Values, reduced: Reduced, box: Box) -> None:
    """Add the phases that compute ``box`` of ``reduced``; it is read from shared memory from then on.

    Where there are more threads than elements, several share the iterations of one and put them together in halves.
    """
    wanted = elements(box.extents)
    sharing = 1
    while 2 * sharing * wanted <= block.threads and 2 * sharing <= elements(reduced.iterations):
        sharing *= 2
    result = block.shared(wanted, reduced.dtype)
    held = block.private(1, reduced.dtype)
    partial = block.scratch(reduced.dtype) if sharing > 1 else None
    at_once = block.threads // sharing
    for turn in range(-(-wanted // at_once)):
        block.parts.extend(_turn(values, reduced, box, (result, held, partial), (turn * at_once, sharing)))
    reduced.load = lambda place: result.load(None, ravelled(box.relative(place), box.extents))


def _turn(
    values: Values, reduced: Reduced, box: Box, memories: tuple[Memory, Memory, Memory | None], which: tuple[int, int]
) -> list[Phase]:
    """Return the phases for the elements from the first of ``which``, each computed by as many threads as it says."""
    result, held, partial = memories
    first, sharing = which
    wanted, total = elements(box.extents), elements(reduced.iterations)

    def number(thread: Any) -> Any:
        return first + (tirx.floordiv(thread, sharing) if sharing > 1 else thread)

    def accumulated(thread: Any) -> Any:
        inside = unravelled(tirx.min(number(thread), wanted - 1), box.extents)
        place = tuple(start + each for start, each in zip(box.starts, inside, strict=True))
        conditions = [number(thread) < wanted]
        conditions += [each < size for each, size in zip(place, reduced.shape, strict=True)]
        step = index("k")
        iteration = step * sharing + (tirx.floormod(thread, sharing) if sharing > 1 else 0)
        conditions += [iteration < total] if total % sharing else []
        term = values.added(reduced, place, unravelled(iteration, reduced.iterations))
        added = held.store(thread, 0, reduced.combined(held.load(thread, 0), term))
        count = -(-total // sharing)
        target = partial.store(thread, thread, held.load(thread, 0)) if partial is not None else _kept(thread)
        return sequence([held.store(thread, 0, reduced.neutral), loop(step, count, when(conditions, added)), target])

    def _kept(thread: Any) -> Any:
        return when([number(thread) < wanted], result.store(thread, number(thread), held.load(thread, 0)))

    def halved(width: int) -> Phase:
        def phase(thread: Any) -> Any:
            assert partial is not None
            both = reduced.combined(partial.load(thread, thread), partial.load(thread, thread + width))
            return when([tirx.floormod(thread, sharing) < width], partial.store(thread, thread, both))

        return phase

    def taken(thread: Any) -> Any:
        assert partial is not None
        conditions = [tirx.EQ(tirx.floormod(thread, sharing), 0), number(thread) < wanted]
        return when(conditions, result.store(thread, number(thread), partial.load(thread, thread)))

    if partial is None:
        return [accumulated]
    widths = [sharing >> shift for shift in range(1, sharing.bit_length())]
    return [accumulated, *(halved(width) for width in widths), taken]
