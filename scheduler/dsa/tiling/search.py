"""Tile search for a layer on one core: tiles that fit the local buffer, in an order with few reloads.

A tile halves each dimension of a core's part some number of times. The search halves the most profitable dimension
until the tile fits, then climbs: halve one dimension, double one, or trade one for another, while the estimated time
falls. If that ends with many tiles, or the layer has several products, a second search starts from a part that is cut
along its depth, and the better result is taken. The cost model is the pipeline of the machine: the slowest of DMA,
on-chip path and compute units sets the pace, the first load and the last store do not overlap.

On request, tiles are those of GraphTurbo's text (section 4.1) where these fit.
"""

import math
import operator
from collections.abc import Iterator
from dataclasses import replace

from dsascape.scheduler.dsa.tiling.candidates import Candidate, TileCandidates
from dsascape.scheduler.dsa.tiling.fixed import checked, nothing_fits
from dsascape.scheduler.dsa.tiling.lattice import Halved
from dsascape.scheduler.dsa.tiling.tiling import TilePin, TileRequest, Tiling
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.errors import PinError, ScheduleError
from dsascape.scheduler.parts import divisors

_TILED_DIMS = 2
"""Dimensions that GraphTurbo's text tiles: the two outermost."""


class TilingError(ScheduleError):
    """Raised for a layer of which not even the smallest tile fits."""


def choose_tiling(request: TileRequest, view: DsaView) -> Tiling:
    """Return the best tiling found; raise ``TilingError`` if not even single elements fit.

    Reductions that are no products, and sequential products, are accumulated piece by piece only if nothing fits
    otherwise, or where a core has so few results that cutting these leaves little to overlap. With
    `DsaView.single_buffers` the result is no slower by estimate than with two buffers for all tiles.

    Raises ``PinError`` for tiles that the user fixes (``request.pin``) and that the layer cannot have.
    """
    if request.pin is not None:
        return _with_fixed(request, request.pin, view)
    if not view.single_buffers:
        return _chosen(request, view)
    return min(_chosen(request, view), *_doubled(request, view), key=_estimate_ps)


def _doubled(request: TileRequest, view: DsaView) -> Iterator[Tiling]:
    """Yield the best tiling found that fits with two buffers for all that passes through the global buffer, if any.

    The search is local, so with more free space it may end at a slower tiling.
    """
    try:
        found = _chosen(replace(request, doubled=True), view)
    except TilingError:
        return
    kept = tuple(found.prefetched), tuple(found.staged)
    candidates = TileCandidates(request, view)
    tiling = candidates.decided(found.tile, found.depth, found.order, *kept, found.store_burst_bytes)
    yield replace(tiling, estimate_ps=found.estimate_ps)


def _with_fixed(request: TileRequest, pin: TilePin, view: DsaView) -> Tiling:
    """Return the best tiling found that has the fixed sizes."""
    request = replace(checked(request, pin), paper_tiles=False)
    if pin.prefetched is False:
        request = replace(request, prefetch=None)
    try:
        if pin.prefetched:
            return _prefetching(request, pin, view)
        return _best_tiling(request, view) if request.in_pieces else _chosen(request, view)
    except PinError:
        raise
    except TilingError as error:
        try:
            without = _chosen(replace(request, pin=None, in_pieces=False), view)
        except TilingError:
            without = None
        raise nothing_fits(pin, request, without, str(error)) from error


def _chosen(request: TileRequest, view: DsaView) -> Tiling:
    in_pieces = replace(request, in_pieces=True)
    can_cut = not request.cuts_depth and bool(request.layer.depth_loops)
    try:
        whole = _best_tiling(request, view)
    except TilingError:
        if not can_cut:
            raise
        return _best_tiling(in_pieces, view)
    if not can_cut or request.layer.is_ordered or math.prod(request.part) >= view.tuning.most_tiles:
        return whole
    cut = _best_tiling(in_pieces, view)
    return cut if cut.estimate_ps < view.tuning.worthwhile * whole.estimate_ps else whole


def _best_tiling(request: TileRequest, view: DsaView) -> Tiling:
    """Return the best tiling found with weights prefetched, if there are prefetch buffers, or not.

    Where the prefetch buffers force small tiles, weights bypass them if that is estimated to be faster. This is pruned
    if computing in one piece, or loading everything once, would not be faster either.
    """
    if request.paper_tiles:
        for variant in (request, replace(request, prefetch=None)):
            tiling = paper_tiling(variant, view)
            if tiling is not None:
                return tiling
    if request.prefetch is None:
        return _Search(request, view).run()
    try:
        through = _Search(request, view).run()
    except TilingError:
        return _Search(replace(request, prefetch=None), view).run()
    fast_enough_ps = view.tuning.around_prefetch * through.estimate_ps
    if through.passes <= view.tuning.most_tiles or TileCandidates(request, view).least_ps() >= fast_enough_ps:
        return through
    try:
        around = _Search(replace(request, prefetch=None), view).run()
    except TilingError:
        return through
    return around if around.estimate_ps < fast_enough_ps else through


def _prefetching(request: TileRequest, pin: TilePin, view: DsaView) -> Tiling:
    """Return the best tiling found, with its weights prefetched; raise ``PinError`` if none of them can be."""
    through = _Search(request, view).run()
    if not through.prefetched:
        raise PinError(
            f"{pin.where}: prefetch: layer {request.layer.sink.name!r} has no weights that every core loads once in"
            f" tiles {through}"
        )
    return through


def paper_tiling(request: TileRequest, view: DsaView) -> Tiling | None:
    """Return GraphTurbo's tiles (section 4.1); None if they do not fit however small.

    The two outermost dimensions of the layer's output are tiled, each by the largest divisor of its extent with which
    all buffers fit, the outermost first; no other dimension is tiled, nor the depth.
    """
    candidates = TileCandidates(request, view)
    tile = list(request.part)
    for dim in request.layer.sink.order[:_TILED_DIMS]:
        for size in divisors(request.part[dim]):
            tile[dim] = size
            candidate = candidates.candidate(tuple(tile), None)
            if candidates.fits(candidate):
                return candidates.tiling(candidate)
    return None


class _Search:
    def __init__(self, request: TileRequest, view: DsaView) -> None:
        self._request = request
        self._tuning = view.tuning
        self._candidates = TileCandidates(request, view)
        self._lattice = self._candidates.lattice
        self._lattice.forget()
        self._found: dict[Halved, Candidate] = {}
        self._fitting: dict[Halved, bool] = {}
        self._has_several_products = sum(nest.contraction for nest in request.layer.nests) > 1

    def run(self) -> Tiling:
        compiled = self._candidates.searched()
        return self._candidates.tiling(compiled or self._best())

    def _best(self) -> Candidate:
        limits = self._lattice.limits
        whole = (0,) * len(limits)
        best = self._from(self._lattice.at(whole))
        depth_halvings = self._tuning.depth_halvings
        has_many = best.cut.passes > self._tuning.most_tiles  # little room: small products may do better than thin ones
        if (has_many or self._has_several_products) and limits[-1] > depth_halvings:
            other = self._from(self._lattice.at((*whole[:-1], depth_halvings)))
            best = min(best, other, key=_estimate_ps)
        pipelined = [c for c in self._in_memory_order() if c.estimate_ps * self._tuning.overlapped < best.estimate_ps]
        # the finest: the next layer begins the sooner
        return pipelined[-1] if pipelined else best

    def _from(self, current: Halved) -> Candidate:
        """Return the local optimum reached from ``current``: halved until it fits, then improved step by step."""
        lattice, candidate = self._lattice, self._candidate
        best = candidate(current)
        while not self._fits(current):
            options = [way for way in lattice.finer(current) if candidate(way).tile_bytes < best.tile_bytes]
            if not options:
                raise TilingError(self._candidates.shortage(best))
            before = best
            current = min(options, key=lambda way: (self._price(candidate(way), before), way.halvings))
            best = candidate(current)
        tight, idle, seen = any(current.halvings), 0, {current}
        for _ in range(self._tuning.most_climbs):
            most_tiles = max(self._tuning.most_tiles, best.cut.tiles)
            most_passes = max(self._tuning.most_passes, best.cut.passes)
            near = sorted([
                (candidate(way).estimate_ps, way.halvings, way) for way in lattice.near(current, trades=tight)
                if way.tiles <= most_tiles and way.passes <= most_passes and way not in seen
            ])  # fmt: skip
            fastest = next((way for _, _, way in near if self._fits(way)), None)
            if fastest is None:
                break
            current = fastest
            here = candidate(current)
            seen.add(current)
            if here.estimate_ps < best.estimate_ps * self._tuning.worthwhile:
                best, idle = here, 0
            else:
                idle += 1
                if idle > self._tuning.plateau_steps:
                    break
        return best

    def _in_memory_order(self) -> Iterator[Candidate]:
        """Yield candidates that cut the output from the outermost dimension inwards and load everything once.

        Their tiles are finished in the order in which the next layer reads them.
        """
        limits = self._lattice.limits
        halvings = [0] * len(limits)
        for dim in self._request.layer.sink.order if self._request.overlaps else ():
            while halvings[dim] < limits[dim]:
                halvings[dim] += 1
                here = self._lattice.at(tuple(halvings))
                cut = self._candidate(here).cut
                if max(cut.loads.values(), default=1) > 1 or cut.passes > self._tuning.most_tiles:
                    return
                if self._fits(here):
                    yield self._candidate(here)

    @staticmethod
    def _price(option: Candidate, before: Candidate) -> float:
        """Return the estimated time lost per byte saved."""
        return (option.estimate_ps - before.estimate_ps) / (before.tile_bytes - option.tile_bytes)

    def _fits(self, way: Halved) -> bool:
        fits = self._fitting.get(way)
        if fits is None:
            fits = self._fitting[way] = self._candidates.fits(self._candidate(way))
        return fits

    def _candidate(self, way: Halved) -> Candidate:
        candidate = self._found.get(way)
        if candidate is None:
            candidate = self._found[way] = self._candidates.halved(way)
        return candidate


_estimate_ps = operator.attrgetter("estimate_ps")
