"""Fraction of tiles that intersect each part of a tensor written by several loop nests, such as a concatenation."""

import math
from collections.abc import Collection, Iterable, Sequence

from dsascape.workloads.loopnest import Extents, LoopNest


class Shares:
    """Fraction of a layer's tiles for which each nest has any work; nests are visited from the last to the first."""

    def __init__(self, put_together: Collection[str]) -> None:
        self._put_together = put_together
        self.by_tensor: dict[str, float] = {}
        """Fraction of tiles that need any part of a tensor read so far; above one if several nests read it."""
        self.usual: dict[str, Extents] = {}
        """Elements per dimension that most of these tiles need of a tensor, as each intersects one part of many."""
        self._most: dict[str, float] = {}

    def of(self, nest: LoopNest, tile: Extents, read: Sequence[Extents]) -> float:
        """Return the fraction of tiles for which ``nest`` has work, where tiles need ``tile`` elements of its tensor.

        ``read``: elements per dimension that the nest then reads of each tensor.
        """
        if not self._put_together:
            return 1.0
        share = min(self.by_tensor.get(nest.write.tensor, 1.0), 1.0)
        if nest.write.tensor in self._put_together:
            share *= share_met(nest, tile)
        for name in {access.tensor for access in nest.reads}:
            self.by_tensor[name] = self.by_tensor.get(name, 0.0) + share
        for access, extents in zip(nest.reads, read, strict=True):
            if share > self._most.get(access.tensor, 0.0):
                self._most[access.tensor], self.usual[access.tensor] = share, extents
        return share

    def below_one(self, names: Iterable[str]) -> dict[str, float]:
        """Return the fraction of tiles that need each of ``names``, where it is below one."""
        return {name: share for name in names if (share := self.by_tensor.get(name, 1.0)) < 1}


def share_met(nest: LoopNest, tile: Extents) -> float:
    """Return the mean fraction of ``nest``'s own extents that it writes per tile of a tensor it writes a part of.

    A tile smaller than the part intersects it in proportion to the part's size; a larger tile cannot hold more of all
    parts together than its own elements.
    """
    share = 1.0
    for index, size, extent in zip(nest.write.indices, nest.write.shape, tile, strict=True):
        part = math.prod([nest.loops[loop].extent for loop, _ in index.terms])
        if 0 < part < size:
            share *= max(part, extent) / size
    return share
