"""Tiles of a GPU's kernel that the user fixes: candidates of the search that have them, or candidates with them put in.

The search tries the candidates that have all fixed values by themselves. Only where none has them, every candidate gets
them in place of its own, but for kernels with contractions in front of the last, whose tiles depend on each other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from dsascape.scheduler.errors import PinError
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.tiles import ComputeUnit, GpuTiles
from dsascape.scheduler.kernels.layer import Layer
from dsascape.wording import count
from dsascape.workloads.loopnest import Extents

_MOST_SHOWN = 4


class FixedTiles(NamedTuple):
    """Values that the user fixes for one kernel; None: searched. Sizes are by dimension of the sink."""

    where: str
    """Place in the file of pins, for messages."""
    warp: int
    tile: tuple[int | None, ...] | None = None
    depth: int | None = None
    part: tuple[int | None, ...] | None = None
    order: tuple[int, ...] | None = None
    split: int | None = None
    stages: int | None = None
    shares: int | None = None
    unit: ComputeUnit | None = None
    threads: int | None = None
    staged: bool | None = None

    def has(self, tiles: GpuTiles) -> bool:
        """Return whether ``tiles`` have the fixed values, the order of the grid aside."""
        return (
            (self.tile is None or _equal(self.tile, tiles.tile))
            and (self.part is None or _equal(self.part, tiles.part))
            and self.depth in (None, tiles.depth_step)
            and self.staged in (None, tiles.depth_step is not None)
            and self.split in (None, tiles.split)
            and self.stages in (None, tiles.stages)
            and self.shares in (None, tiles.shares)
            and self.unit in (None, tiles.unit)
            and self.threads in (None, tiles.threads(self.warp))
        )

    def put_into(self, tiles: GpuTiles) -> GpuTiles | None:
        """Return ``tiles`` with the fixed values in place of their own; None where these do not go together."""
        tile, part = _with(tiles.tile, self.tile), _with(tiles.part, self.part)
        part = tuple(map(min, part, tile)) if self.part is None else part
        tile = tuple(map(max, part, tile)) if self.tile is None else tile
        step = tiles.depth_step if self.depth is None or tiles.depth_step is None else self.depth
        try:
            return replace(
                tiles, tile=tile, part=part, depth_step=step, split=self.split or tiles.split,
                stages=self.stages or tiles.stages, shares=self.shares or tiles.shares,
            )  # fmt: skip
        except ValueError:
            return None


def _equal(fixed: Sequence[int | None], sizes: Extents) -> bool:
    return all(own in (None, size) for own, size in zip(fixed, sizes, strict=True))


def _with(sizes: Extents, fixed: Sequence[int | None] | None) -> Extents:
    if fixed is None:
        return sizes
    return tuple([size if own is None else own for size, own in zip(sizes, fixed, strict=True)])


def with_fixed(layer: Layer, tried: Iterable[GpuTiles], fixed: FixedTiles) -> list[GpuTiles]:
    """Return the tiles among ``tried`` that have the fixed values, or all of them with these put in.

    Raises ``PinError`` where neither gives any.
    """
    every, shape = list(dict.fromkeys(tried)), layer.sink.shape
    found = [each for each in every if fixed.has(each)]
    if not found and not nests_of(layer).fronts:
        put_in = [fixed.put_into(each) for each in every]
        found = [each for each in dict.fromkeys(put_in) if each is not None and fixed.has(each)]
        found = [each for each in found if all(map(int.__le__, each.tile, shape)) and _is_possible(layer, each)]
    if not found:
        shown = "; ".join([_shown(each, fixed.warp) for each in every[:_MOST_SHOWN]])
        raise PinError(
            f"{fixed.where}: no block of layer {layer.sink.name!r} has these values together; the search tries"
            f" {len(every)}, such as {shown}"
        )
    return found


def _is_possible(layer: Layer, tiles: GpuTiles) -> bool:
    """Return whether the layer has the product that tensor units need, and iterations for all that share them."""
    nests = nests_of(layer)
    if tiles.unit == "tensor" and nests.product(layer, tiles.part) is None:
        return False
    return tiles.shares <= nests.shared_iterations


def _shown(tiles: GpuTiles, warp: int) -> str:
    stages = count(tiles.stages, "stage")
    staged = "nothing staged" if tiles.depth_step is None else f"k {tiles.depth_step} in {stages}"
    return (
        f"tile {list(tiles.tile)} part {list(tiles.part)} on {tiles.unit}, {count(tiles.threads(warp), 'thread')},"
        f" {staged}, split {tiles.split}"
    )
