"""Where, relative to a tile, what it needs of a tensor lies, for layers that read one tensor at several places.

A gated linear unit reads both halves of its operand, a look at neighbouring tokens the same rows moved by one: the
larger of two such needs is not all that is needed. Each need is kept with its place, for a tile at the origin of the
output and away from borders: places may lie before the first element.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dsascape.workloads.loopnest import Access, Extents, LoopNest

Place = tuple[int, ...]


class Piece(NamedTuple):
    """Elements that a tile needs of a tensor: the first one per dimension, and how many."""

    first: Place
    extents: Extents

    @property
    def elements(self) -> int:
        return math.prod(self.extents)


def joined(known: tuple[Piece, ...], further: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Return both needs; pieces become one where the box around them holds no more elements than they have together."""
    found = list(known)
    for piece in further:
        both = piece
        place = 0
        while place < len(found):
            around = _around(found[place], both)
            if around.elements <= found[place].elements + both.elements:
                both = around
                del found[place]
                place = 0
            else:
                place += 1
        found.append(both)
    return tuple(found)


def _around(one: Piece, other: Piece) -> Piece:
    first = tuple(map(min, one.first, other.first))
    ends = [
        max(a + length_a, b + length_b)
        for a, length_a, b, length_b in zip(one.first, one.extents, other.first, other.extents, strict=True)
    ]
    return Piece(first, tuple([end - begin for begin, end in zip(first, ends, strict=True)]))


def stacked(pieces: Sequence[Piece]) -> Extents:
    """Return the elements per dimension of all pieces put beside each other, along the dimension they lie apart in."""
    dims = range(len(pieces[0].first))
    extents = [max(piece.extents[dim] for piece in pieces) for dim in dims]
    if len(pieces) > 1:
        apart = max(dims, key=lambda dim: len({piece.first[dim] for piece in pieces}))
        extents[apart] = sum(piece.extents[apart] for piece in pieces)
    return tuple(extents)


def elements_of(pieces: Sequence[Piece], shape: Sequence[int]) -> int:
    """Return how many elements of a tensor of ``shape`` the pieces are, none of them larger than the tensor."""
    total = sum(math.prod(map(min, piece.extents, shape)) for piece in pieces)
    return min(total, math.prod(shape))


def first_iterations(nest: LoopNest, written: Place, extents: Sequence[int]) -> Place:
    """Return where the loops begin that write ``written`` and what follows; ``extents``: their iterations."""
    first = [0] * len(nest.loops)
    for index, begin in zip(nest.write.indices, written, strict=True):
        left = begin - index.offset
        for loop, stride in sorted(index.terms, key=lambda term: -term[1]):
            first[loop], left = divmod(left, stride)
    return tuple([
        0 if length >= loop.extent else begin
        for begin, length, loop in zip(first, extents, nest.loops, strict=True)
    ])  # fmt: skip


def first_read(read: Access, first: Place, extents: Sequence[int]) -> Place:
    """Return the first element of every dimension that the loops touch, from ``first`` on for ``extents``."""
    ranges = [(begin, begin + length) for begin, length in zip(first, extents, strict=True)]
    return tuple([
        index.touched(ranges, size)[0] if index.opaque else index.span(ranges)[0]
        for index, size in zip(read.indices, read.shape, strict=True)
    ])  # fmt: skip


def reads_apart(nests: Sequence[LoopNest]) -> bool:
    """Return whether one tensor may be read at different places: several accesses read it, and some place is moved."""
    read = [access.tensor for nest in nests for access in nest.reads]
    if len(set(read)) == len(read):
        return False
    indices = [index for nest in nests for access in (*nest.reads, nest.write) for index in access.indices]
    return any(index.offset or index.table or any(stride < 0 for _, stride in index.terms) for index in indices)
