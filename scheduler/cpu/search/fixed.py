"""Tiles of a CPU's kernel that the user fixes: candidates of the search that have them, or candidates with them put in.

The search tries the candidates that have all fixed values by themselves. Only where none has them, every candidate gets
them in place of its own, and the search chooses among these.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Extents

_MOST_SHOWN = 4


class FixedTiles(NamedTuple):
    """Values that the user fixes for one kernel; None: searched. Sizes are by dimension of the sink."""

    where: str
    """Place in the file of pins, for messages."""
    tile: tuple[int | None, ...] | None = None
    depth: int | None = None
    """Iterations of the anchor's depth loop in a step."""
    depth_extent: int = 1
    """Iterations that it has: a fixed depth of that many is all of it."""
    register: tuple[int | None, ...] | None = None
    order: tuple[int, ...] | None = None
    vector_dim: int | None = None
    """Dimension along which vectors lie; -1: there are none."""
    parallel: int | None = None
    threads: int | None = None

    def has(self, tiles: LoopTiles, shape: Extents) -> bool:
        """Return whether ``tiles`` have the fixed values, parallel loops and threads aside."""
        fits_tile = self.tile is None or _equal(self.tile, tiles.tile, shape)
        fits_register = self.register is None or _equal(self.register, tiles.register, shape)
        depth = self.depth_extent if tiles.depth_step is None else tiles.depth_step
        fits_depth = self.depth is None or depth == self.depth
        fits_order = self.order is None or tiles.order == self.order
        return fits_tile and fits_register and fits_depth and fits_order and self.vector_dim in (None, tiles.vector_dim)

    def put_into(self, tiles: LoopTiles, shape: Extents) -> LoopTiles | None:
        """Return ``tiles`` with the fixed values in place of their own; None where these do not go together."""
        tile, register = _with(tiles.tile, self.tile), _with(tiles.register, self.register)
        if self.register is None:
            register = tuple(map(min, register, tile))
        elif self.tile is None:
            tile = tuple(map(max, register, tile))
        step = tiles.depth_step
        if self.depth is not None:
            step = None if self.depth >= self.depth_extent else self.depth
        along = tiles.vector_dim if self.vector_dim is None else self.vector_dim
        try:
            found = LoopTiles(tile, self.order or tiles.order, tiles.parallel, register, along, step, tiles.upstream)
        except ValueError:
            return None
        return found if all(map(int.__le__, tile, found.padded(shape))) else None


def _equal(fixed: Sequence[int | None], sizes: Extents, shape: Extents) -> bool:
    """Return whether all fixed sizes are those of ``sizes``; a size beyond the shape is all of it."""
    every = zip(fixed, sizes, shape, strict=True)
    return all(own is None or own == size or (own == whole and size > whole) for own, size, whole in every)


def _with(sizes: Extents, fixed: Sequence[int | None] | None) -> Extents:
    if fixed is None:
        return sizes
    return tuple([size if own is None else own for size, own in zip(sizes, fixed, strict=True)])


def with_fixed(layer: Layer, tried: Iterable[LoopTiles], fixed: FixedTiles) -> list[LoopTiles]:
    """Return the tiles among ``tried`` that have the fixed values, or all of them with these put in.

    Raises ``PinError`` where neither gives any.
    """
    every, shape = list(tried), layer.sink.shape
    found = [each for each in every if fixed.has(each, shape)]
    if not found:
        put_in = [fixed.put_into(each, shape) for each in every]
        found = list(dict.fromkeys([each for each in put_in if each is not None and fixed.has(each, shape)]))
    if not found:
        shown = "; ".join([_shown(each) for each in every[:_MOST_SHOWN]])
        raise PinError(
            f"{fixed.where}: no tiles of layer {layer.sink.name!r} have these values together; the search tries"
            f" {len(every)}, such as {shown}"
        )
    if fixed.parallel is not None:
        found = [replace(each, parallel=fixed.parallel) for each in found]
    return found


def _shown(tiles: LoopTiles) -> str:
    step = "all" if tiles.depth_step is None else str(tiles.depth_step)
    return f"tile {list(tiles.tile)} register {list(tiles.register)} order {list(tiles.order)} k {step}"
