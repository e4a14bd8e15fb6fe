"""Work of tensor units on a loop program: instructions of rows, columns and a depth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dsascape.hw_models.gpu.spec import TensorUnits
from dsascape.scheduler.gpu.fronts import tensor_tiles
from dsascape.scheduler.kernels.cost.placed import Placed
from dsascape.scheduler.kernels.cost.places import Position


@dataclass(frozen=True, slots=True)
class TensorWork:
    """Work of tensor units for one product, of all blocks."""

    instructions: int
    tiles: int
    """Sums of instructions that a warp accumulates at a time."""
    warps: int
    """Warps of a block that compute."""

    def with_also(self, other: "TensorWork") -> "TensorWork":
        """Return the work of two statements."""
        return TensorWork(self.instructions + other.instructions, max(self.tiles, other.tiles), self.warps)


def tensor_work(
    placed: Placed, operands: Sequence[Position], staged: frozenset[str], units: TensorUnits
) -> TensorWork:  # fmt: skip
    """Return the work of a statement in loops of a tensor unit.

    Reductions inside of the loop that operands are staged in fill an instruction's depth together.
    """
    reduced = {name for _, value in placed.statement.reduced for name, _ in value.terms}
    reduced |= set() if placed.statement.run is None else {name for name, _ in placed.statement.run.terms}
    last = max([number for number, loop in enumerate(placed.around, 1) if loop.name in staged], default=0)
    sizes = [1, 1, 1]  # rows, columns, products
    inside = outside = 1
    for number, loop in enumerate(placed.around):
        if loop.kind == "tensor" and loop.name not in reduced:
            left, right = [_distinct(place, loop.name, int(loop.extent)) for place in operands]
            sizes[2] *= min(left, right)
            sizes[0 if left > right else 1] *= max(left, right) // min(left, right)
        elif number >= last and loop.name in reduced and loop.kind != "thread":
            inside *= int(loop.extent)
        else:
            outside *= int(loop.extent)
    tiles = tensor_tiles(sizes[0], sizes[1], units) * sizes[2]
    warps = math.prod([int(loop.extent) for loop in placed.around if loop.kind == "thread"])
    return TensorWork(outside * -(-inside // units.depth) * tiles, tiles, warps)


def _distinct(place: Position, name: str, extent: int) -> int:
    """Return how many places iterations of a loop come to."""
    if name not in place.moving:
        return 1
    if place.is_known:
        return extent
    return int(np.unique(np.asarray(place.at({name: np.arange(extent)}))).size)
