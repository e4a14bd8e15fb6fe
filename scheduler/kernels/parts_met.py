"""Which share of small tiles meets a part of what several loop nests put together, such as a concatenation."""

import math
from collections.abc import Collection, Iterable, Sequence

from dsascape.workloads.loopnest import Extents, LoopNest


class Shares:
    """For what share of the tiles of a layer each nest has something to do; asked for the last nest first."""

    def __init__(self, put_together: Collection[str]) -> None:
        self._put_together = put_together
        self.by_tensor: dict[str, float] = {}
        """Of the tensors read so far: the share of tiles that need some of it; above one if several nests read it."""
        self.usual: dict[str, Extents] = {}
        """Elements per dimension that most of these tiles need of it: what they meet is one part of many."""
        self._most: dict[str, float] = {}

    def of(self, nest: LoopNest, tile: Extents, read: Sequence[Extents]) -> float:
        """Return the share of tiles for which ``nest`` writes something, where they need such a tile of its tensor.

        ``read``: elements per dimension that it then reads of each tensor.
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
        """Return the share of tiles that need some of each of ``names``, but for what all of them need."""
        return {name: share for name in names if (share := self.by_tensor.get(name, 1.0)) < 1}


def share_met(nest: LoopNest, tile: Extents) -> float:
    """Return the mean share of its own extents that ``nest`` writes of such a tile of what it writes a part of.

    A tile that is smaller than the part meets it as often as the part is large; a larger one holds of all its parts
    together no more than it has elements.
    """
    share = 1.0
    for index, size, extent in zip(nest.write.indices, nest.write.shape, tile, strict=True):
        part = math.prod([nest.loops[loop].extent for loop, _ in index.terms])
        if 0 < part < size:
            share *= max(part, extent) / size
    return share
