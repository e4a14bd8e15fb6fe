"""Work of tensor units on a loop program: instructions of rows, columns and a depth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models.gpu.spec import TensorUnits
from dsascape.scheduler.gpu.fronts import tensor_tiles
from dsascape.scheduler.kernels.cost.band import reached
from dsascape.scheduler.kernels.cost.placed import Placed
from dsascape.scheduler.kernels.cost.places import Position
from dsascape.scheduler.kernels.loops.columns import Size, by_row, least, most


@dataclass(frozen=True, slots=True)
class TensorWork:
    """Work of tensor units for one product, of all blocks."""

    instructions: Size
    tiles: Size
    """Sums of instructions that a warp accumulates at a time."""
    warps: Size
    """Warps of a block that compute."""

    def with_also(self, other: "TensorWork") -> "TensorWork":
        """Return the work of two statements."""
        return TensorWork(self.instructions + other.instructions, most(self.tiles, other.tiles), self.warps)


def tensor_work(
    placed: Placed, operands: Sequence[Position], staged: frozenset[str], units: TensorUnits
) -> TensorWork:  # fmt: skip
    """Return the work of a statement in loops of a tensor unit.

    Reductions inside of the loop that operands are staged in fill an instruction's depth together.
    """
    reduced = {name for _, value in placed.statement.reduced for name, _ in value.terms}
    reduced |= set() if placed.statement.run is None else {name for name, _ in placed.statement.run.terms}
    last = max([number for number, loop in enumerate(placed.around, 1) if loop.name in staged], default=0)
    rows: Size = 1
    columns: Size = 1
    products: Size = 1
    inside: Size = 1
    outside: Size = 1
    for number, loop in enumerate(placed.around):
        if loop.kind == "tensor" and loop.name not in reduced:
            left, right = [_distinct(place, loop.name, loop.extent) for place in operands]
            shared = least(left, right)
            products = products * shared
            rows, columns = rows * (left // shared), columns * (right // shared)
        elif number >= last and loop.name in reduced and loop.kind != "thread":
            inside = inside * loop.extent
        else:
            outside = outside * loop.extent
    tiles = by_row(lambda own, other: tensor_tiles(own, other, units), rows, columns) * products
    warps = math.prod([loop.extent for loop in placed.around if loop.kind == "thread"], start=1)
    return TensorWork(outside * -(-inside // units.depth) * tiles, tiles, warps)


def _distinct(place: Position, name: str, extent: Size) -> Size:
    """Return how many places iterations of a loop come to."""
    if name not in place.moving:
        return 1
    return extent if place.is_known else reached(place, {name: extent})
