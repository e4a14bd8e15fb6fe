"""Ways to halve a core's part of a layer: the lattice that the search for tiles walks.

Each dimension is halved some number of times, the depth too. What is known of one way is kept with it, for all requests
that differ in room alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dsascape.scheduler.dsa.tiling.cuts import Cut
from dsascape.scheduler.dsa.tiling.estimate import Stages
from dsascape.scheduler.kernels.layer import whole_pieces
from dsascape.workloads.loopnest import Extents

Halvings = tuple[int, ...]
"""How often each sink dimension is halved; the last entry is the depth."""
_MOST_WAYS = 4_000
"""Of one lattice."""


class Shape(NamedTuple):
    """A cut, and what there is to be decided about the places of its operands."""

    cut: Cut
    prefetched: Mapping[str, tuple[int, int]]
    """All weights that can be."""
    reloaded: tuple[tuple[int, str, int], ...]
    """The others that may be staged, the smallest first: bytes for all cores, operand, bytes of a tile on its way."""
    passing_bytes: int
    """Of a tile of all that is not prefetched: what comes from DDR, for all cores together."""


class Placed(NamedTuple):
    """What follows for a cut from the places of its operands, whatever there is room for and however fast DDR is."""

    local_buffers: tuple[int, ...]
    local_bytes: int
    """Of all of these."""
    near_bytes: int
    """Of the local prefetch buffer."""
    ahead_bytes: tuple[int, ...]
    """Of a tile of each prefetched operand: what comes from DDR, for all cores together."""
    passing_bytes: int
    """The same of all operands that are neither prefetched nor staged."""
    tile_bytes: int
    stages: Stages


class Halved:
    """One way to halve. Ways of one lattice are the same only if they are one object."""

    __slots__ = ("around", "depth", "finer", "halvings", "passes", "placed", "shape", "tile", "tiles")

    def __init__(self, halvings: Halvings, extents: Extents, inner: Extents = ()) -> None:
        self.halvings = halvings
        *along, depth = [-(-size >> times) for size, times in zip(extents, halvings, strict=True)]
        depth = whole_pieces(inner, depth)
        self.tile = tuple(along)
        self.depth: int | None = depth if halvings[-1] else None
        """Iterations of the depth loop in a step; None: all of them, in one piece."""
        *pieces, steps = [-(-size // part) for size, part in zip(extents, (*along, depth), strict=True)]
        self.tiles = math.prod(pieces)
        self.passes = self.tiles * steps
        """Tiles times steps along the depth."""
        self.shape: Shape | None = None
        self.placed: dict[tuple[str, ...], Placed] = {}
        """By what is staged."""
        self.finer: Sequence[Halved] | None = None
        """What `Lattice.finer` returns for it, once that was asked for."""
        self.around: Sequence[Halved] | None = None
        """What `Lattice.near` does, with trades."""


class Lattice:
    """All ways to halve dimensions of these extents, made when they are asked for."""

    def __init__(self, extents: Extents, inner: Extents = ()) -> None:
        self._extents = extents
        self._inner = inner
        """Iterations of the depth loops that lie inside another one: steps end where they do."""
        self.limits: Halvings = tuple([max(size - 1, 0).bit_length() for size in extents])
        """How often a dimension can be halved."""
        self._ways: dict[Halvings, Halved] = {}

    def forget(self) -> None:
        """Forget all ways if they have become many. Who still walks the lattice must not call this."""
        if len(self._ways) > _MOST_WAYS:
            self._ways = {}

    def at(self, halvings: Halvings) -> Halved:
        """Return the way to halve so often."""
        found = self._ways.get(halvings)
        if found is None:
            found = self._ways[halvings] = Halved(halvings, self._extents, self._inner)
        return found

    def finer(self, way: Halved) -> Sequence[Halved]:
        """Return the ways that halve one dimension once more."""
        if way.finer is None:
            way.finer = [self.at(halvings) for halvings in self._halved(way.halvings)]
        return way.finer

    def near(self, way: Halved, *, trades: bool) -> Sequence[Halved]:
        """Return the same; with ``trades`` also those with one dimension doubled, or one traded for another."""
        if not trades:
            return self.finer(way)
        if way.around is None:
            found = dict.fromkeys(self._halved(way.halvings))
            for doubled in _doubled(way.halvings):
                found[doubled] = None
                found |= dict.fromkeys(self._halved(doubled))
            way.around = [self.at(halvings) for halvings in found if halvings != way.halvings]
        return way.around

    def _halved(self, halvings: Halvings) -> list[Halvings]:
        return [
            (*halvings[:place], halvings[place] + 1, *halvings[place + 1 :])
            for place, limit in enumerate(self.limits)
            if halvings[place] < limit
        ]


def _doubled(halvings: Halvings) -> Iterator[Halvings]:
    for place, times in enumerate(halvings):
        for fewer in dict.fromkeys((times - 1, 0)) if times else ():  # 0: an operand may stay from there on only
            yield (*halvings[:place], fewer, *halvings[place + 1 :])
