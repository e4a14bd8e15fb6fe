"""Tiles of a layer: the search over blocks, threads and stages, judged by the machine model.

The search is small and always finds the same. Every candidate has a bound, the time of its busiest pipe or memory. The
candidates are looked at in the order of their bounds, now with latencies, waves, and the traffic that the order of
their blocks makes, until no bound is near the best time found. Of nearly equal times the least traffic wins, that of
DRAM first, then the time, then what is tried first. Products whose blocks fit into no SM are computed without staging.
Candidates are listed without bank conflicts; those that may win are looked at as they are, and with rows padded.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.gpu.bounds import Grids
from dsascape.scheduler.gpu.candidates import candidates, grid_orders, runs
from dsascape.scheduler.gpu.clusters import clustered
from dsascape.scheduler.gpu.conflicts import padded
from dsascape.scheduler.gpu.fixed import FixedTiles, with_fixed
from dsascape.scheduler.gpu.fronts import tried_by
from dsascape.scheduler.gpu.residency import Found
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.traffic import once_bytes
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import Grid, estimate_ps, grid_of, make_grid, off_chip_of
from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.wording import count
from dsascape.workloads.memo import Table, memoized

_MOST_LAYERS = 2_000
"""Whose grids are kept."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiles of a layer, and how long its kernel is estimated to take, launch included."""

    tiles: GpuTiles
    estimate_ps: float
    moved_bytes: tuple[float, float]
    """From and to DRAM, from and to the L2."""


class KnownTiles:
    """Results that are kept between runs on one machine."""

    def __init__(self) -> None:
        self.tilings: Table[Tiling | None] = Table(function=choose_tiling)
        self.most_ps: Table[float] = Table(function=most_ps)


def choose_tiling(
    layer: Layer, found: Found, view: GpuView, known: KnownTiles, fixed: FixedTiles | None = None
) -> Tiling | None:
    """Return the tiling of ``layer`` that is estimated to be fastest; equal layers get the same.

    ``found``: what of its operands the L2 has, and which results stay there. None: no block of it fits into an SM.
    ``fixed``: values that the user fixes. Raises ``PinError`` where no block has them, or none of those fits.
    """
    part = view.timing
    make = partial(_search, layer, found, part) if fixed is None else partial(_fixed, layer, found, part, fixed)
    return known.tilings.get((layer.signature, found, part, fixed), make)


def most_ps(layer: Layer, view: GpuView, known: KnownTiles) -> float:
    """Return what the estimate of the tiling of ``layer`` is no more than, with an empty L2: what a few tiles take."""
    part = view.timing
    return known.most_ps.get((layer.signature, part), partial(_most_ps, layer, part))


def _most_ps(layer: Layer, view: GpuView) -> float:
    tried = sorted(_tried(layer, view), key=partial(_promise, layer, view))[:_FEW]
    bare = [_bare_grid(layer, tiles, view) for tiles in tried]
    grids = [own for grid in bare for own in _with_conflicts(layer, grid, view)]
    order, found = grid_orders(layer)[0], Found()
    taken_ps = [estimate_ps(grid, view, off_chip_of(layer, grid, order, view).left(found)) for grid in grids]
    return (1 + view.tuning.time_for_traffic) * min(taken_ps, default=math.inf)


_FEW = 4
"""So many tiles say how long a layer takes at most: the best of them takes hardly longer than the best of all."""
_THREADS_OF_BLOCK = 128
"""Of the most promising tiles: enough to hide latencies, and few enough for several blocks on an SM."""


def _promise(layer: Layer, view: GpuView, tiles: GpuTiles) -> tuple[bool, float, int]:
    """Return what puts promising tiles first: enough blocks, of not too many threads, each of which does much."""
    sms = view.spec.sms
    blocks = math.prod(tiles.blocks_along(layer.sink.shape))
    away = abs(math.log2(tiles.threads(sms.warp) / _THREADS_OF_BLOCK))
    return blocks < sms.count, away, -math.prod(tiles.part)


def least_ps(layer: Layer, view: GpuView) -> float:
    """Return what moving the data of ``layer`` once takes, or computing it, whichever is longer, with the launch.

    Of what is read with gaps, or where data says, less may move.
    """
    spec, nests = view.spec, [each.nest for each in layer.nests]
    size_bytes = 0
    if not any(index.opaque for nest in nests for read in nest.reads for index in read.indices):
        size_bytes = sum([each.used_bytes for each in footprints_of(layer).operands if not each.has_gaps])
    moving_ps = size_bytes * PS_PER_S / spec.dram.sustained_bytes_per_s
    peak_macs_per_s = spec.peak_macs_per_s(view.product or view.dtype)
    return spec.launch_ps + max(moving_ps, layer.whole_macs * PS_PER_S / peak_macs_per_s)


def _tried(layer: Layer, view: GpuView) -> Sequence[GpuTiles]:
    """Return the tiles that are tried for ``layer``, listed once for equal layers."""
    return _tiles(layer, tried_by(layer, view))


@memoized(most=_MOST_LAYERS)
def _tiles(layer: Layer, view: GpuView) -> Sequence[GpuTiles]:
    return tuple(dict.fromkeys(candidates(layer, view)))


def has_tiling(layer: Layer, view: GpuView) -> bool:
    """Return whether an SM holds a block of ``layer`` in any tiles, which is where `choose_tiling` finds some."""

    def fits(grids: Grids) -> bool:
        return any(occupancy(view.spec.sms, grid.needs).blocks for grid in grids.listed)

    return fits(_known_grids(layer, view)) or fits(_grids(layer, runs(layer, view), view))


def _known_grids(layer: Layer, view: GpuView) -> Grids:
    """Return the tiles that are tried for ``layer`` with what they come to, worked out once for equal layers."""
    return _grids_tried(layer, tried_by(layer, view))


@memoized(most=_MOST_LAYERS)
def _grids_tried(layer: Layer, view: GpuView) -> Grids:
    return _grids(layer, _tiles(layer, view), view)


def _search(layer: Layer, found: Found, view: GpuView) -> Tiling | None:
    grids = _known_grids(layer, view)
    return _best(layer, found, grids, view) or _best(layer, found, _grids(layer, runs(layer, view), view), view)


def _fixed(layer: Layer, found: Found, view: GpuView, fixed: FixedTiles) -> Tiling:
    """Return the best tiling with the fixed values."""
    tiles = with_fixed(layer, [*_tried(layer, view), *runs(layer, view)], fixed)
    if fixed.order is not None:
        tiles = [replace(each, order=fixed.order) for each in tiles]
    orders = None if fixed.order is None else (fixed.order,)
    best = _best(layer, found, _grids(layer, tiles, view), view, orders)
    if best is None:
        needs = make_grid(layer, tiles[0], view).needs
        raise PinError(
            f"{fixed.where}: no SM of {view.spec.name} holds a block of layer {layer.sink.name!r} with these values: it"
            f" takes {count(needs.threads, 'thread')} of {count(needs.registers_per_thread, 'register')} and"
            f" {needs.shared_bytes} B of"
            " shared memory"
        )
    return best


def _grids(layer: Layer, tried: Iterable[GpuTiles], view: GpuView) -> Grids:
    return Grids.of([_bare_grid(layer, tiles, view) for tiles in dict.fromkeys(tried)])


def _bare_grid(layer: Layer, tiles: GpuTiles, view: GpuView) -> Grid:
    """Return the grid of ``tiles`` with its blocks in clusters where that pays, without bank conflicts."""
    return make_grid(layer, clustered(layer, tiles, view), view, has_conflicts=False)


def _with_conflicts(layer: Layer, grid: Grid, view: GpuView) -> Sequence[Grid]:
    """Return a grid with its bank conflicts, and one with rows padded against them where it has any."""
    if not view.spec.sms.shared.banks:
        return (grid,)
    own = grid_of(layer, grid.tiles, view)
    if not own.code.issued.further_passes:
        return (own,)
    tiles = padded(layer, grid.tiles, view)
    return (own,) if tiles == grid.tiles else (own, grid_of(layer, tiles, view))


def _best(
    layer: Layer, found: Found, grids: Grids, view: GpuView, orders: Sequence[tuple[int, ...]] | None = None
) -> Tiling | None:
    """Return the best of ``grids``, in ``orders`` if these are given; None if no SM holds a block of any."""
    least_bytes = once_bytes(layer, found)
    bounds_ps = grids.bounds_ps(view, least_bytes)
    worth = 1 + view.tuning.time_for_traffic
    tried: list[Tiling] = []
    shortest_ps = math.inf
    for number in np.argsort(bounds_ps, kind="stable").tolist():
        if bounds_ps[number] > worth * shortest_ps:
            break
        grid = grids.listed[number]
        at_least_ps = estimate_ps(grid, view, least_bytes)
        if at_least_ps == math.inf or at_least_ps > worth * shortest_ps:
            continue
        for own, each in itertools.product(_with_conflicts(layer, grid, view), orders or grid_orders(layer)):
            dram_bytes = off_chip_of(layer, own, each, view).left(found)
            taken_ps = estimate_ps(own, view, dram_bytes)
            tried.append(Tiling(replace(own.tiles, order=each), taken_ps, (dram_bytes, own.l2_bytes)))
            shortest_ps = min(shortest_ps, taken_ps)
    near = [tiling for tiling in tried if tiling.estimate_ps <= worth * shortest_ps]
    return min(near, key=lambda tiling: (tiling.moved_bytes, tiling.estimate_ps), default=None)
