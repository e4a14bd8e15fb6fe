"""Reading a tensor through an operator that only moves elements: the access to what that operator reads."""

from collections.abc import Sequence
from dataclasses import replace

from dsascape.workloads.index import Index
from dsascape.workloads.loopnest import Access, Loop, LoopNest


def read_through(read: Access, move: LoopNest, loops: Sequence[Loop]) -> Access | None:
    """Return the access to the source of ``move`` at the elements that ``read`` takes of its result.

    ``loops`` are those of the nest that reads. An index that is not affine in them becomes opaque: the inner of several
    dimensions that were merged into one. It may disappear further back, as a repetition's does. Returns None where an
    element depends on more than one index.
    """
    found: dict[int, Index] = {}
    for index, written, size in zip(read.indices, move.write.indices, read.shape, strict=True):
        moving = [(loop, stride) for loop, stride in written.terms if move.loops[loop].extent > 1]
        if written.offset or index.window != 1 or index.rounding != "floor" or index.clamp or index.table:
            return None
        if len(moving) == 1 and moving[0][1] == 1:
            found[moving[0][0]] = index
            continue
        covers = index.divisor == 1 and index.span([(0, loop.extent) for loop in loops]) == (0, size)
        outermost = max([stride for _, stride in moving], default=1)
        for loop, stride in moving:
            is_affine = not index.opaque and covers and stride == outermost
            unknown = Index(tuple((term, 0) for term, _ in index.terms), opaque=True)
            found[loop] = Index(index.terms, index.offset, divisor=stride) if is_affine else unknown
    indices = []
    for source in move.reads[0].indices:
        terms = [(loop, stride) for loop, stride in source.terms if move.loops[loop].extent > 1]
        if source.opaque or source.divisor != 1 or source.window != 1 or source.clamp or len(terms) > 1:
            return None
        if not terms:
            indices.append(Index(offset=source.offset))
        elif terms[0][1] != 1 or source.offset or terms[0][0] not in found:
            return None
        else:
            indices.append(found[terms[0][0]])
    return Access(move.reads[0].tensor, move.reads[0].shape, tuple(indices))


def with_shared_loops_split(nest: LoopNest) -> LoopNest:
    """Return ``nest`` with each loop split in two of which several iterations in a row read the same elements.

    Query heads that share a key head, read at head divided by their number, become a loop of key heads and one inside.
    """
    for read in nest.reads:
        for index in read.indices:
            (loop, stride), *more = index.terms or ((0, 0),)
            extent = nest.loops[loop].extent
            is_shared = index.divisor > 1 and not more and stride == 1 and not index.offset and not index.opaque
            if is_shared and index.window == 1 and extent % index.divisor == 0:
                return with_shared_loops_split(_with_split_loop(nest, loop, index.divisor))
    return nest


def _with_split_loop(nest: LoopNest, loop: int, inner: int) -> LoopNest:
    """Return ``nest`` with ``loop`` split into an outer one and one of ``inner`` iterations, which comes next."""
    own = nest.loops[loop]
    parts = replace(own, extent=own.extent // inner), Loop(f"{own.name}'", inner, own.reduction)
    loops = (*nest.loops[:loop], *parts, *nest.loops[loop + 1 :])

    def split(index: Index) -> Index:
        shared = index.divisor == inner and index.terms == ((loop, 1),) and not index.offset
        if shared:
            return Index(((loop, 1),))
        terms: list[tuple[int, int]] = []
        for place, stride in index.terms:
            if place == loop:
                terms += [(loop, stride * inner), (loop + 1, stride)]
            else:
                terms.append((place + (place > loop), stride))
        return replace(index, terms=tuple(terms))

    def moved(access: Access) -> Access:
        return replace(access, indices=tuple(map(split, access.indices)))

    carried = None if nest.carried is None else moved(nest.carried)
    places = [place + (place > loop) for place in range(len(nest.loops))]
    bound = None if nest.bound is None else nest.bound.moved(places)
    return replace(
        nest, loops=loops, reads=tuple(map(moved, nest.reads)), write=moved(nest.write), carried=carried, bound=bound
    )
