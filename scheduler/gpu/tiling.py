"""Tiles of a layer: the search over blocks, threads and stages, judged by the machine model.

The search is small and always finds the same. Every candidate has a bound: how long it takes if the L2 passes on no
more than what the layer reads and writes once. The candidates are looked at in the order of their bounds, now with the
traffic that the order of their blocks really makes, until the best found is no slower than the next bound. Of equal
times the least traffic wins, that of DRAM first, then what is tried first. Products whose blocks fit into no SM are
computed without staging.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from scheduler.gpu.candidates import candidates, grid_orders, runs
from scheduler.gpu.tiles import GpuTiles
from scheduler.gpu.view import GpuView
from scheduler.gpu.work import Grid, estimate_ps, make_grid, off_chip_of
from scheduler.kernels.layer import Layer
from workloads.analysis import Table

_MOST_LAYERS = 2_000
"""Whose grids are kept."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiles of a layer, and how long its kernel is estimated to take, launch included."""

    tiles: GpuTiles
    estimate_ps: float
    moved_bytes: tuple[float, float]
    """From and to DRAM, from and to the L2."""

    @property
    def rank(self) -> tuple[float, tuple[float, float]]:
        """Return what is compared: the time, and of equal times the traffic."""
        return self.estimate_ps, self.moved_bytes


class KnownTiles:
    """What is worth keeping between runs on one machine."""

    def __init__(self) -> None:
        self.tilings: Table[Tiling | None] = Table()


def choose_tiling(layer: Layer, view: GpuView, known: KnownTiles) -> Tiling | None:
    """Return the tiling of ``layer`` that is estimated to be fastest; equal layers get the same.

    None: no block of it fits into an SM.
    """
    key = layer.signature, view.timing_key
    return known.tilings.get(key, partial(_search, layer, view))


def _search(layer: Layer, view: GpuView) -> Tiling | None:
    table = layer.analysis.table(_grids, _MOST_LAYERS)
    found = _best(layer, table.get((layer.signature, view.code_key), partial(_grids, layer, view)), view)
    return found or _best(layer, [make_grid(layer, tiles, view) for tiles in runs(layer, view)], view)


def _best(layer: Layer, grids: Sequence[Grid], view: GpuView) -> Tiling | None:
    """Return the best of ``grids``; None if no SM holds a block of any."""
    once = _once_bytes(layer)
    bounds = [
        (estimate_ps(grid, view, once), grid.filled * grid.l2_bytes, number) for number, grid in enumerate(grids)
    ]
    best: Tiling | None = None
    for bound_ps, moved, number in sorted(bounds):
        if bound_ps == math.inf or (best is not None and best.estimate_ps <= bound_ps):
            break
        grid = grids[number]
        for order in grid_orders(layer):
            dram_bytes = off_chip_of(layer, grid, order, view).total
            tried = Tiling(replace(grid.tiles, order=order), estimate_ps(grid, view, dram_bytes), (dram_bytes, moved))
            if best is None or tried.rank < best.rank:
                best = tried
    return best


def _grids(layer: Layer, view: GpuView) -> list[Grid]:
    return [make_grid(layer, tiles, view) for tiles in dict.fromkeys(candidates(layer, view))]


def _once_bytes(layer: Layer) -> float:
    """Return the bytes of what the layer reads and writes."""
    work = layer.tile_work(layer.sink.shape)
    return sum(work.operand_bytes.values()) + work.output_bytes
