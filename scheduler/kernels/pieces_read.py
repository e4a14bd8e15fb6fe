"""Regions of a tensor that a tile reads, for layers that read one tensor at several places.

A gated linear unit reads both halves of its operand, token shifting the same rows moved by one: there the larger of two
regions does not cover both. Each region is kept with its position, for a tile at the origin of the output and away from
borders, so positions may lie before the first element.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dsascape.workloads.loopnest import Access, Extents, LoopNest

Place = tuple[int, ...]


class Piece(NamedTuple):
    """Region of a tensor that a tile reads: first element and number of elements per dimension."""

    first: Place
    extents: Extents

    @property
    def elements(self) -> int:
        return math.prod(self.extents)


def joined(known: tuple[Piece, ...], further: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Return the union of two sets of pieces; two merge where their hull holds no more elements than both together."""
    pieces = list(known)
    for piece in further:
        both = piece
        place = 0
        while place < len(pieces):
            around = _around(pieces[place], both)
            if around.elements <= pieces[place].elements + both.elements:
                both = around
                del pieces[place]
                place = 0
            else:
                place += 1
        pieces.append(both)
    return tuple(pieces)


def _around(one: Piece, other: Piece) -> Piece:
    first = tuple(map(min, one.first, other.first))
    ends = [
        max(a + length_a, b + length_b)
        for a, length_a, b, length_b in zip(one.first, one.extents, other.first, other.extents, strict=True)
    ]
    return Piece(first, tuple([end - begin for begin, end in zip(first, ends, strict=True)]))


def stacked(pieces: Sequence[Piece]) -> Extents:
    """Return the extents of all pieces placed side by side along the dimension in which their positions differ most."""
    dims = range(len(pieces[0].first))
    extents = [max(piece.extents[dim] for piece in pieces) for dim in dims]
    if len(pieces) > 1:
        widest_dim = max(dims, key=lambda dim: len({piece.first[dim] for piece in pieces}))
        extents[widest_dim] = sum(piece.extents[widest_dim] for piece in pieces)
    return tuple(extents)


def elements_of(pieces: Sequence[Piece], shape: Sequence[int]) -> int:
    """Return the number of elements in the pieces, each clipped to ``shape``; at most the whole tensor's."""
    total = sum(math.prod(map(min, piece.extents, shape)) for piece in pieces)
    return min(total, math.prod(shape))


def first_iterations(nest: LoopNest, written: Place, extents: Sequence[int]) -> Place:
    """Return the first iteration of each loop that writes from position ``written`` on.

    ``extents``: iterations per loop; a loop that runs in full begins at 0.
    """
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
    """Return the first element per dimension that ``extents`` iterations per loop, begun at ``first``, read."""
    ranges = [(begin, begin + length) for begin, length in zip(first, extents, strict=True)]
    return tuple([
        index.touched(ranges, size)[0] if index.opaque else index.span(ranges)[0]
        for index, size in zip(read.indices, read.shape, strict=True)
    ])  # fmt: skip


def reads_apart(nests: Sequence[LoopNest]) -> bool:
    """Return whether one tensor may be read at several places: several accesses read it, and some index is shifted."""
    read = [access.tensor for nest in nests for access in nest.reads]
    if len(set(read)) == len(read):
        return False
    indices = [index for nest in nests for access in (*nest.reads, nest.write) for index in access.indices]
    return any(index.offset or index.table or any(stride < 0 for _, stride in index.terms) for index in indices)
