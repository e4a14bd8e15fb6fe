"""Steps of a layer: the search over blocks, threads and stages, judged by the machine model.

The search is small and always finds the same. Candidates are tiles. Each has a bound, the time of its busiest pipe or
memory, from about what its blocks issue (`scheduler.gpu.rough`). They are looked at in the order of their bounds, with
latencies, waves, and the traffic that the order of their blocks makes, until no bound is near the best time. The best
few are costed on their loop programs (`scheduler.gpu.cost`), as they are and with rows padded against bank conflicts.
Of nearly equal times the least traffic wins, that of DRAM first, then the time, then what is tried first. Products
whose blocks fit into no SM are computed without staging.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from dsascape.hw_models.gpu.occupancy import occupancy
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.gpu.bounds import Grids
from dsascape.scheduler.gpu.candidates import candidates, grid_orders, runs
from dsascape.scheduler.gpu.clusters import clustered
from dsascape.scheduler.gpu.cost.padding import padded
from dsascape.scheduler.gpu.fixed import FixedTiles, with_fixed
from dsascape.scheduler.gpu.fronts import tried_by
from dsascape.scheduler.gpu.residency import Found
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.traffic import once_bytes
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.gpu.work import Grid, estimate_ps, grid_of, off_chip_of, rough_grid
from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import named, numbered
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.wording import count
from dsascape.workloads.memo import Table, memoized

_MOST_LAYERS = 2_000
"""Whose grids are kept."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """The steps of a layer, and how long its kernel is estimated to take, launch included."""

    steps: Steps
    """Steps of the kernel; tensors go by their numbers, so that equal layers have equal steps (`sources.numbered`)."""
    order: tuple[int, ...]
    """Order of the grid's dimensions."""
    estimate_ps: float
    moved_bytes: tuple[float, float]
    """From and to DRAM, from and to the L2."""

    def steps_of(self, layer: Layer) -> Steps:
        """Return the steps of ``layer``, or of an equal one."""
        return named(NaiveProgram(layer), self.steps)


class _Rough(NamedTuple):
    """Tiles with about the time that they take, with the best order of their blocks."""

    estimate_ps: float
    tiles: GpuTiles


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
    first = _most_promising(layer, view)
    every = [] if first is None else _costed(layer, Found(), first, view)
    return (1 + view.tuning.time_for_traffic) * min([each.estimate_ps for each in every], default=math.inf)


def _most_promising(layer: Layer, view: GpuView) -> GpuTiles | None:
    """Return the tiles that are costed in any case, in the first order of their blocks."""
    tried = sorted(_tried(layer, view), key=partial(_promise, layer, view))[:_FEW]
    rough = [(estimate_ps(grid, view, 0.0), number) for number, grid in enumerate(
        [_rough_grid(layer, tiles, view) for tiles in tried]
    )]  # fmt: skip
    least_ps, number = min(rough, default=(math.inf, 0))
    return None if least_ps == math.inf else replace(tried[number], order=grid_orders(layer)[0])


_FAR, _FURTHER = 1.5, 3
"""Over ``_FAR`` times its rough estimate, the best program has ``_FURTHER`` times the candidates costed against it."""
_FEW = 4
"""Tiles costed for an upper bound of a layer's time: the best of them takes hardly longer than the best of all."""
_THREADS_OF_BLOCK = 128
"""Threads per block of the most promising tiles: enough to hide latencies, and several blocks fit on an SM."""


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
    """Return whether steps make a block of ``layer`` that an SM holds, which is where `choose_tiling` gives some."""

    def fits(grids: Grids) -> bool:
        held = (
            tiles for tiles, grid in zip(grids.tiles, grids.listed, strict=True)
            if occupancy(view.spec.sms, grid.needs).blocks
        )
        return any(_are_made(layer, tiles, view.code) for tiles in itertools.islice(held, _FEW))

    return fits(_known_grids(layer, view)) or fits(_grids(layer, runs(layer, view), view))


@memoized
def _are_made(layer: Layer, tiles: GpuTiles, view: GpuView) -> bool:
    """Return whether there are steps for a kernel in ``tiles``."""
    try:
        loop_program(NaiveProgram(layer), steps_of(layer, tiles, view.spec.sms.warp, view.tensor))
    except StepError:
        return False
    return True


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
    best = _best(layer, found, _grids(layer, tiles, view), view, orders, is_fixed=True)
    if best is None:
        needs = rough_grid(layer, tiles[0], view).needs
        raise PinError(
            f"{fixed.where}: no SM of {view.spec.name} holds a block of layer {layer.sink.name!r} with these values: it"
            f" takes {count(needs.threads, 'thread')} of {count(needs.registers_per_thread, 'register')} and"
            f" {needs.shared_bytes} B of"
            " shared memory"
        )
    return best


def _grids(layer: Layer, tried: Iterable[GpuTiles], view: GpuView) -> Grids:
    own = [clustered(layer, tiles, view) for tiles in dict.fromkeys(tried)]
    return Grids.of(own, [rough_grid(layer, tiles, view) for tiles in own])


def _rough_grid(layer: Layer, tiles: GpuTiles, view: GpuView) -> Grid:
    """Return about the grid of ``tiles``, with its blocks in clusters where that pays."""
    return rough_grid(layer, clustered(layer, tiles, view), view)


def _best(
    layer: Layer, found: Found, grids: Grids, view: GpuView, orders: Sequence[tuple[int, ...]] | None = None, *,
    is_fixed: bool = False,
) -> Tiling | None:  # fmt: skip
    """Return the best of ``grids``, in ``orders`` if these are given; None if no SM holds a block of any.

    ``is_fixed``: no others may be taken.
    """
    worth = 1 + view.tuning.time_for_traffic
    first = None if is_fixed else _most_promising(layer, view)
    costed = [] if first is None else _costed(layer, found, first, view)
    shortest_ps = min([each.estimate_ps for each in costed], default=math.inf)
    tried: set[GpuTiles] = set()
    for most in (view.tuning.costed, _FURTHER * view.tuning.costed):
        left = most
        rough = _in_order(layer, found, grids, view, orders, shortest_ps if tried else 0.0)
        if tried and rough and shortest_ps <= _FAR * rough[0].estimate_ps:
            break
        for each in [each for each in rough if each.tiles not in tried]:
            if shortest_ps < math.inf and (not left or each.estimate_ps > worth * shortest_ps):
                break
            own = _costed(layer, found, each.tiles, view)
            tried.add(each.tiles)
            costed += own
            left -= bool(own)
            shortest_ps = min([shortest_ps, *[tiling.estimate_ps for tiling in own]])
    near = [each for each in costed if each.estimate_ps <= worth * shortest_ps]
    return min(near, key=lambda tiling: (tiling.moved_bytes, tiling.estimate_ps), default=None)


def _in_order(
    layer: Layer, found: Found, grids: Grids, view: GpuView, orders: Sequence[tuple[int, ...]] | None, most_ps: float
) -> list[_Rough]:
    """Return the candidates whose bounds are near the best rough time, fastest first, each with its best order.

    ``most_ps``: those with bounds of no more than that, too.
    """
    least_bytes = once_bytes(layer, found)
    bounds_ps = grids.bounds_ps(view, least_bytes)
    worth = 1 + view.tuning.time_for_traffic
    tried: list[_Rough] = []
    shortest_ps = math.inf
    for number in np.argsort(bounds_ps, kind="stable").tolist():
        if bounds_ps[number] > max(worth * shortest_ps, most_ps):
            break
        tiles, grid = grids.tiles[number], grids.listed[number]
        at_least_ps = estimate_ps(grid, view, least_bytes)
        if at_least_ps == math.inf or at_least_ps > max(worth * shortest_ps, most_ps):
            continue
        by_order = [
            (off_chip_of(layer, grid, order, view).left(found), place, order)
            for place, order in enumerate(orders or grid_orders(layer))
        ]
        dram_bytes, _, order = min(by_order)
        taken_ps = estimate_ps(grid, view, dram_bytes)
        tried.append(_Rough(taken_ps, replace(tiles, order=order)))
        shortest_ps = min(shortest_ps, taken_ps)
    return sorted(tried, key=lambda each: each.estimate_ps)


def _costed(layer: Layer, found: Found, tiles: GpuTiles, view: GpuView) -> list[Tiling]:
    """Return ``tiles`` as steps, and these with rows padded where they have bank conflicts, costed as loop programs.

    Empty where no SM holds a block of them, or no steps make it.
    """
    clusters = clustered(layer, tiles, view)
    try:
        plain = steps_of(layer, clusters, view.spec.sms.warp, view.tensor)
        grid = grid_of(layer, plain, view)
    except StepError:
        return []
    ways = [(plain, grid)]
    if view.spec.sms.shared.banks and grid.code.issued.further_passes and view.tuning.padding_words:
        steps = padded(layer, plain, view)
        ways += [] if steps == plain else [(steps, grid_of(layer, steps, view))]
    costed = []
    for steps, own in ways:
        dram_bytes = off_chip_of(layer, own, tiles.order, view).left(found)
        taken_ps = estimate_ps(own, view, dram_bytes)
        if taken_ps < math.inf:
            costed.append(Tiling(
                numbered(NaiveProgram(layer), steps), tiles.order, taken_ps, (dram_bytes, own.l2_bytes)
            ))  # fmt: skip
    return costed
