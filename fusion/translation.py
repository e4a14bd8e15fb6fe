"""Regions of tiles that differ only in where they lie: worked out for one of them, moved to the others.

Instances of a sub-graph are such tiles, and so are the parts of different cores, as long as no halo, stride or border
comes between: along a batch or output channels all needs of a tile move with it.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from fusion.regions import required_regions
from workloads.graph import Graph
from workloads.loopnest import Access, Box, Index, LoopNest

_STAYS = -1
_CHANGES = -2


def placed_regions(
    graph: Graph, ops: Sequence[int], wanted: Mapping[str, Box], *, once: bool = False
) -> Mapping[str, Box]:
    """Return `required_regions`; what has been worked out for a tile serves all that lie elsewhere.

    ``once``: a tile that could not be moved here from elsewhere is not kept, as nobody will ask for it again.
    """
    ops, names = tuple(ops), tuple(wanted)
    moves: list[tuple[int, Mapping[str, int]]] = []
    for dim, (lo, _) in enumerate(wanted[names[0]]):
        if lo and all(len(box) > dim and box[dim][0] == lo for box in wanted.values()):
            moving = graph.derived(("moving", ops, names, dim), partial(moving_dims, graph, ops, names, dim))
            if moving is not None:
                moves.append((lo, moving))
                wanted = {name: _moved(box, dim, -lo) for name, box in wanted.items()}
    if once and not moves:
        return required_regions(graph, ops, wanted)
    key = ("regions", ops, tuple(wanted.items()))
    regions: Mapping[str, Box] = graph.derived(key, partial(required_regions, graph, ops, wanted))
    for by, moving in moves:
        regions = {name: _moved(box, moving[name], by) if name in moving else box for name, box in regions.items()}
    return regions


def _moved(box: Box, dim: int, by: int) -> Box:
    lo, hi = box[dim]
    return (*box[:dim], (lo + by, hi + by), *box[dim + 1 :])


def moving_dims(graph: Graph, ops: Sequence[int], outputs: Sequence[str], dim: int) -> Mapping[str, int] | None:
    """Return the tensors whose boxes move as those of ``outputs`` move along ``dim``, and along which dimension.

    They move by as many elements, and those that are not listed stay where they are; None if any box changes
    otherwise.
    """
    found = dict.fromkeys(outputs, dim)
    for position in reversed(ops):
        for nest in reversed(graph.ops[position].nests):
            for read in nest.reads if nest.write.tensor in found else ():
                moving = _follows(nest, found[nest.write.tensor], read)
                if moving == _CHANGES or found.setdefault(read.tensor, moving) != moving:
                    return None
    return {name: along for name, along in found.items() if along != _STAYS}


def _follows(nest: LoopNest, dim: int, read: Access) -> int:
    """Return along which dimension ``read`` moves when the tile of what is written moves along ``dim``."""
    if dim == _STAYS:
        return _STAYS
    index = nest.write.indices[dim]
    if not index.terms:
        return _CHANGES
    loop = index.terms[0][0]
    plain = Index(terms=((loop, 1),))
    moving = _uses(read, loop)
    extent = nest.loops[loop].extent
    if index != plain or _uses(nest.write, loop) != [dim]:
        return _CHANGES
    if not moving:
        return _STAYS
    place = moving[0]
    return place if moving == [place] and read.indices[place] == plain and read.shape[place] >= extent else _CHANGES


def _uses(access: Access, loop: int) -> list[int]:
    """Return the dimensions of a tensor that depend on ``loop``."""
    return [place for place, index in enumerate(access.indices) if any(term == loop for term, _ in index.terms)]
