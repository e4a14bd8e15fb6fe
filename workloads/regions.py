"""Regions of tensors that a tile of the outputs needs, followed backwards through fused operators.

Regions of tiles that differ only in position are computed for one tile and translated to the others. Instances of a
sub-graph are such tiles, and so are the parts of different cores, as long as no halo, stride or border interferes:
along a batch or output channels all input regions translate with the tile.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Access, Box, Index, LoopNest, hull
from dsascape.workloads.subgraph import PlacedNest, Subgraph, follow_back

_STAYS = -1


class _MovesOtherwiseError(Exception):
    """A box that is not translated by as many elements along one dimension as the outputs' boxes are."""


def required_regions(graph: Graph, ops: Sequence[int], wanted: Mapping[str, Box]) -> dict[str, Box]:
    """Return, per tensor that ``ops`` read or write, the box needed to compute the boxes ``wanted``.

    ``ops`` in ascending order. Halos accumulate; a tensor needed twice gets the box around both needs. Tensors of which
    nothing is needed are not in the result.
    """
    return follow_back(Subgraph(graph, tuple(ops)).nests_backwards(), wanted, _boxes_read, hull)


def _boxes_read(placed: PlacedNest, tile: Box) -> Iterator[tuple[str, Box]]:
    ranges = placed.nest.ranges_for(tile)
    if ranges is None:
        return
    for read in placed.nest.reads:
        box = read.region(ranges)
        if box is not None:
            yield read.tensor, box


def placed_regions(
    analysis: Analysis, ops: Sequence[int], wanted: Mapping[str, Box], *, of: Collection[str] = (), once: bool = False
) -> Mapping[str, Box]:
    """Return `required_regions`, cached per tile shape and translated to the tile's position where that is possible.

    ``of``: tensors that the caller needs, empty for all; others may be returned too. ``once``: do not cache the result
    for a tile that is not translated, because it will not be requested again.
    """
    ops = tuple(ops)
    wanted, moves = at_origin(analysis, ops, wanted)
    if once and not moves:
        return required_regions(analysis.graph, ops, wanted)
    regions: Mapping[str, Box] = analysis.of(_required_regions, ops, tuple(wanted.items()))
    if moves and of:
        regions = {name: regions[name] for name in of if name in regions}
    for move in moves:
        regions = {name: move.of(name, box) for name, box in regions.items()}
    return regions


class Move(NamedTuple):
    """Translation of tensor boxes by ``by`` elements, along one dimension of each tensor in ``along``."""

    by: int
    along: Mapping[str, int]

    def of(self, name: str, box: Box) -> Box:
        """Return ``box`` of tensor ``name``, translated."""
        return _moved(box, self.along[name], self.by) if name in self.along else box

    def back(self, name: str, box: Box) -> Box:
        """Return ``box`` of tensor ``name``, translated back."""
        return _moved(box, self.along[name], -self.by) if name in self.along else box


def at_origin(
    analysis: Analysis, ops: tuple[int, ...], wanted: Mapping[str, Box]
) -> tuple[Mapping[str, Box], Sequence[Move]]:
    """Return the output boxes ``wanted``, translated to begin at 0 where all input regions follow, and the moves back.

    Questions about the relative positions of regions have the same answer for the translated boxes.
    """
    names, moves = tuple(wanted), list[Move]()
    for dim, (lo, _) in enumerate(wanted[names[0]]):
        if lo and (not names[1:] or all(len(box) > dim and box[dim][0] == lo for box in wanted.values())):
            along = analysis.of(_moving_dims, ops, names, dim)
            if along is not None:
                moves.append(Move(lo, along))
                wanted = {name: _moved(box, dim, -lo) for name, box in wanted.items()}
    return wanted, moves


def _required_regions(
    analysis: Analysis, ops: tuple[int, ...], wanted: tuple[tuple[str, Box], ...]
) -> Mapping[str, Box]:
    return required_regions(analysis.graph, ops, dict(wanted))


def _moving_dims(
    analysis: Analysis, ops: tuple[int, ...], outputs: tuple[str, ...], dim: int
) -> Mapping[str, int] | None:
    return moving_dims(analysis.graph, ops, outputs, dim)


def _moved(box: Box, dim: int, by: int) -> Box:
    lo, hi = box[dim]
    return (*box[:dim], (lo + by, hi + by), *box[dim + 1 :])


def moving_dims(graph: Graph, ops: Sequence[int], outputs: Sequence[str], dim: int) -> Mapping[str, int] | None:
    """Return, per tensor, the dimension along which its box translates when those of ``outputs`` do along ``dim``.

    All translate by the same number of elements; tensors that are not listed stay put. None if any box changes in
    another way.
    """

    def operands(placed: PlacedNest, along: int) -> list[tuple[str, int]]:
        return [(read.tensor, _follows(placed.nest, along, read)) for read in placed.nest.reads]

    nests = Subgraph(graph, tuple(ops)).nests_backwards()
    try:
        dims = follow_back(nests, dict.fromkeys(outputs, dim), operands, _same_dim)
    except _MovesOtherwiseError:
        return None
    return {name: along for name, along in dims.items() if along != _STAYS}


def _same_dim(one: int, other: int) -> int:
    """Return the dimension along which the hull of two boxes translates: theirs, if it is the same."""
    if one != other:
        raise _MovesOtherwiseError
    return one


def _follows(nest: LoopNest, dim: int, read: Access) -> int:
    """Return the dimension along which ``read`` translates when the written tile does along ``dim``."""
    if dim == _STAYS:
        return _STAYS
    index = nest.moving(nest.write.indices[dim])
    if not index.terms:
        raise _MovesOtherwiseError
    loop = index.terms[0][0]
    plain = Index(terms=((loop, 1),))
    moving = _uses(read, loop)
    extent = nest.loops[loop].extent
    if nest.bound is not None and loop in (nest.bound.outer, nest.bound.inner):
        raise _MovesOtherwiseError
    if index != plain or _uses(nest.write, loop) != [dim] or loop in dict(nest.ordered) or loop in nest.exchanged:
        raise _MovesOtherwiseError
    if not moving:
        return _STAYS
    place = moving[0]
    if moving != [place] or nest.moving(read.indices[place]) != plain or read.shape[place] < extent:
        raise _MovesOtherwiseError
    return place


def _uses(access: Access, loop: int) -> list[int]:
    """Return the dimensions of a tensor that depend on ``loop``."""
    return [place for place, index in enumerate(access.indices) if any(term == loop for term, _ in index.terms)]
