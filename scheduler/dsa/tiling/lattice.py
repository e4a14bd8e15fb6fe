"""Lattice of tilings walked by the tile search: each sink dimension, and the depth, halved some number of times.

Each lattice point caches its derived data and neighbours, for all requests that differ in free space alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dsascape.scheduler.dsa.tiling.cuts import Cut
from dsascape.scheduler.dsa.tiling.estimate import Stages
from dsascape.scheduler.kernels.tile_work import whole_pieces
from dsascape.workloads.loopnest import Extents

Halvings = tuple[int, ...]
"""Number of halvings of each sink dimension; the last entry is the depth's."""
_MOST_WAYS = 4_000
"""Maximum number of points of one lattice before `Lattice.forget` drops them."""


class Shape(NamedTuple):
    """Tiling candidate before placement: a cut, and its operands that may be prefetched or staged."""

    cut: Cut
    prefetched: Mapping[str, tuple[int, int]]
    """Weights eligible for prefetch: (versions, total bytes for all cores)."""
    reloaded: tuple[tuple[int, str, int], ...]
    """Other operands eligible for staging, the smallest first: (bytes for all cores, operand, bytes of a tile passing
    through the global buffer)."""
    passing_bytes: int
    """Bytes from DDR per tile, for all cores, of operands that are not prefetched."""


class Placed(NamedTuple):
    """Costs and buffer sizes of a cut with placed operands, independent of free space and DDR bandwidth."""

    local_buffers: tuple[int, ...]
    local_bytes: int
    """Total size of the local buffers, in bytes."""
    near_bytes: int
    """Bytes occupied in the local prefetch buffer."""
    ahead_bytes: tuple[int, ...]
    """Bytes from DDR per tile, for all cores, of each prefetched operand."""
    passing_bytes: int
    """Bytes from DDR per tile, for all cores, of all operands that are neither prefetched nor staged."""
    again_bytes: int
    """Part of ``passing_bytes``: of operands that are loaded several times."""
    tile_bytes: int
    stages: Stages


class Halved:
    """Lattice point: one combination of halvings. Points of one lattice are compared by identity."""

    __slots__ = ("around", "depth", "finer", "halvings", "passes", "placed", "shape", "tile", "tiles")

    def __init__(
        self, halvings: Halvings, extents: Extents, inner: Extents = (), fixed: Sequence[int | None] = ()
    ) -> None:
        self.halvings = halvings
        *along, depth = [-(-size >> times) for size, times in zip(extents, halvings, strict=True)]
        depth = whole_pieces(inner, depth)
        if fixed:
            along = [size if own is None else own for size, own in zip(along, fixed[:-1], strict=True)]
            depth = depth if fixed[-1] is None else fixed[-1]
        self.tile = tuple(along)
        self.depth: int | None = depth if depth < extents[-1] or halvings[-1] else None
        """Iterations of the depth loops per step; None: all of them, in one piece."""
        *pieces, steps = [-(-size // part) for size, part in zip(extents, (*along, depth), strict=True)]
        self.tiles = math.prod(pieces)
        self.passes = self.tiles * steps
        """Tiles times steps along the depth."""
        self.shape: Shape | None = None
        self.placed: dict[tuple[str, ...], Placed] = {}
        """Derived data by the names of the staged operands."""
        self.finer: Sequence[Halved] | None = None
        """Cached result of `Lattice.finer`."""
        self.around: Sequence[Halved] | None = None
        """Cached result of `Lattice.near` with trades."""


class Lattice:
    """Lattice of all combinations of halvings of ``extents``; points are created on demand.

    Dimensions that ``fixed`` has a size for have that one in every point.
    """

    def __init__(self, extents: Extents, inner: Extents = (), fixed: Sequence[int | None] = ()) -> None:
        self._extents = extents
        self._inner = inner
        """Iterations of the inner depth loops: steps end on whole runs of these."""
        self._fixed = fixed
        limits = [max(size - 1, 0).bit_length() for size in extents]
        if fixed:
            limits = [most if own is None else 0 for most, own in zip(limits, fixed, strict=True)]
        self.limits: Halvings = tuple(limits)
        """Maximum number of halvings per dimension."""
        self._ways: dict[Halvings, Halved] = {}

    def forget(self) -> None:
        """Drop all points if there are too many. Must not be called while the lattice is being walked."""
        if len(self._ways) > _MOST_WAYS:
            self._ways = {}

    def at(self, halvings: Halvings) -> Halved:
        """Return the point with these halvings."""
        point = self._ways.get(halvings)
        if point is None:
            point = self._ways[halvings] = Halved(halvings, self._extents, self._inner, self._fixed)
        return point

    def finer(self, way: Halved) -> Sequence[Halved]:
        """Return the points with one dimension halved once more."""
        if way.finer is None:
            way.finer = [self.at(halvings) for halvings in self._halved(way.halvings)]
        return way.finer

    def near(self, way: Halved, *, trades: bool) -> Sequence[Halved]:
        """Return the points with one dimension halved; with ``trades`` also doubled, or one halved for another."""
        if not trades:
            return self.finer(way)
        if way.around is None:
            halvings_near = dict.fromkeys(self._halved(way.halvings))
            for doubled in _doubled(way.halvings):
                halvings_near[doubled] = None
                halvings_near |= dict.fromkeys(self._halved(doubled))
            way.around = [self.at(halvings) for halvings in halvings_near if halvings != way.halvings]
        return way.around

    def _halved(self, halvings: Halvings) -> list[Halvings]:
        return [
            (*halvings[:place], halvings[place] + 1, *halvings[place + 1 :])
            for place, limit in enumerate(self.limits)
            if halvings[place] < limit
        ]


def _doubled(halvings: Halvings) -> Iterator[Halvings]:
    for place, times in enumerate(halvings):
        for fewer in dict.fromkeys((times - 1, 0)) if times else ():  # 0: only then may an operand stay resident
            yield (*halvings[:place], fewer, *halvings[place + 1 :])
