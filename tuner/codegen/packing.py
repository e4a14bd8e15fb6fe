"""How weights lie for a kernel: in panels as wide as a register tile, in the order in which it reads them."""

from dataclasses import dataclass

import numpy as np

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.cpu.structure.anchors import Anchor
from dsascape.workloads.loopnest import Access, LoopNest
from dsascape.workloads.operators.registry import Array


@dataclass(frozen=True)
class Packing:
    """Panels of ``block`` elements of ``dim``: panel, the other dimensions in ``order``, place in the panel."""

    dim: int
    block: int
    order: tuple[int, ...]

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a packed tensor of ``shape``."""
        return (-(-shape[self.dim] // self.block), *(shape[dim] for dim in self.order), self.block)

    def __call__(self, weight: Array) -> Array:
        """Return ``weight`` packed; the last panel is filled up with zeros."""
        panels = -(-weight.shape[self.dim] // self.block)
        missing = panels * self.block - weight.shape[self.dim]
        widths = [(0, missing if dim == self.dim else 0) for dim in range(weight.ndim)]
        whole = np.pad(weight, widths).transpose(self.dim, *self.order)
        split = whole.reshape(panels, self.block, *whole.shape[1:])
        return np.ascontiguousarray(np.moveaxis(split, 1, -1))


def packing_of(nest: LoopNest, read: Access, anchor: Anchor, tiles: LoopTiles) -> Packing | None:
    """Return how the anchor's weight lies; None if vectors do not run along one of its dimensions."""
    along = nest.moving(nest.write.indices[anchor.vector_dim])
    dims = [dim for dim, index in enumerate(read.indices) if nest.moving(index) == along]
    if len(dims) != 1:
        return None
    rest = [dim for dim in range(len(read.indices)) if dim != dims[0]]
    plain = all(index.divisor == index.window == 1 and not index.opaque for index in read.indices)
    if not plain:
        return None
    place = {loop: p for p, loop in enumerate(anchor.reductions)}
    rest.sort(key=lambda dim: max((place.get(loop, -1) for loop, _ in read.indices[dim].terms), default=-1))
    return Packing(dims[0], tiles.register[anchor.vector_dim], tuple(rest))
