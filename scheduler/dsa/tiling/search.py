"""Tiles of a layer on one core: small enough for the local buffer, in an order that reloads little.

A tile halves each dimension of a core's part some number of times. The search halves what helps most until the tile
fits, then climbs: halve one dimension, double one, or trade one for another, while the estimated time falls. Where that
ends with many tiles, or the layer has several products, it is done again from a part that is cut along its depth, and
the better is taken. The estimate is the pipeline of the machine: the slowest of DMA, on-chip path and compute units
sets the pace, the first load and the last store stand alone.

On request, tiles are those of GraphTurbo's text (section 4.1) where these fit.
"""

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from scheduler.dsa.tiling.candidates import Candidate, TileCandidates
from scheduler.dsa.tiling.tiling import TileRequest, Tiling
from scheduler.dsa.view import DsaView
from scheduler.errors import ScheduleError
from scheduler.parts import divisors

_TILED_DIMS = 2
"""Dimensions that GraphTurbo's text tiles: the two outermost."""


class TilingError(ScheduleError):
    """A layer of which not even the smallest tile fits."""


def choose_tiling(request: TileRequest, view: DsaView) -> Tiling:
    """Return the best tiling found; raise ``TilingError`` when not even single elements fit.

    Where the prefetch buffers force small tiles, weights go around them if that is estimated to be faster. That is not
    tried where computing in one piece, or loading everything once, would not be faster either.
    """
    if request.paper_tiles:
        for asked in (request, replace(request, prefetch=None)):
            found = paper_tiling(asked, view)
            if found is not None:
                return found
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


def paper_tiling(request: TileRequest, view: DsaView) -> Tiling | None:
    """Return GraphTurbo's tiles (section 4.1); None if they do not fit however small.

    The two outermost dimensions of the layer's output are tiled, each by the largest divisor of its extent with which
    everything fits, the outermost first; no other dimension is, nor the depth.
    """
    candidates = TileCandidates(request, view)
    tile = list(request.part)
    for dim in request.layer.sink.order[:_TILED_DIMS]:
        for size in divisors(request.part[dim]):
            tile[dim] = size
            found = candidates.candidate(tuple(tile), None)
            if candidates.fits(found):
                return candidates.tiling(found)
    return None


_Halvings = tuple[int, ...]
"""How often each sink dimension is halved; the last entry is the depth."""
_MOST_NEIGHBOURS = 4_000


class _Search:
    def __init__(self, request: TileRequest, view: DsaView) -> None:
        self._request = request
        self._tuning = view.tuning
        self._candidates = TileCandidates(request, view)
        self._extents = (*request.part, self._candidates.depth_extent)
        self._limits = tuple(max(size - 1, 0).bit_length() for size in self._extents)
        self._found: dict[_Halvings, Candidate] = {}
        self._fitting: dict[_Halvings, bool] = {}
        self._made: dict[_Halvings, tuple[int, int]] = {}
        """Tiles and passes."""
        self._pieces: list[list[int]] = [
            [-(-size // -(-size >> times)) for times in range(limit + 1)]
            for size, limit in zip(self._extents, self._limits, strict=True)
        ]
        """Of each dimension: into how many pieces so many halvings cut it."""
        self._has_several_products = sum(nest.contraction for nest in request.layer.nests) > 1

    def run(self) -> Tiling:
        whole: _Halvings = (0,) * len(self._limits)
        best = self._from(whole)
        depth_halvings = self._tuning.depth_halvings
        has_many = best.cut.passes > self._tuning.most_tiles  # little room: small products may do better than thin ones
        if (has_many or self._has_several_products) and self._limits[-1] > depth_halvings:
            other = self._from((*whole[:-1], depth_halvings))
            best = min(best, other, key=_estimate_ps)
        pipelined = [c for c in self._in_memory_order() if c.estimate_ps * self._tuning.overlapped < best.estimate_ps]
        # the finest: the next layer begins the sooner
        return self._candidates.tiling(pipelined[-1] if pipelined else best)

    def _from(self, current: _Halvings) -> Candidate:
        """Return what is found from ``current`` on: halved until it fits, then changed as long as that helps."""
        best = self._candidate(current)
        while not self._fits(current):
            options = [h for h in _halved(current, self._limits) if self._candidate(h).tile_bytes < best.tile_bytes]
            if not options:
                raise TilingError(self._candidates.shortage(best))
            before = best
            current = min(options, key=lambda h: (self._price(self._candidate(h), before), h))
            best = self._candidate(current)
        tight, idle, seen = any(current), 0, {current}
        for _ in range(self._tuning.most_climbs):
            most_tiles = max(self._tuning.most_tiles, best.cut.tiles)
            most_passes = max(self._tuning.most_passes, best.cut.passes)
            near = sorted(
                (self._candidate(h).estimate_ps, h) for h in _neighbours(current, self._limits, trades=tight)
                if h not in seen and self._is_allowed(h, most_tiles, most_passes)
            )  # fmt: skip
            fastest = next((h for _, h in near if self._fits(h)), None)
            if fastest is None:
                break
            current = fastest
            here = self._candidate(current)
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

        Their tiles are complete one after the other, in the order in which the next layer reads them.
        """
        halvings = [0] * len(self._limits)
        for dim in self._request.layer.sink.order if self._request.overlaps else ():
            while halvings[dim] < self._limits[dim]:
                halvings[dim] += 1
                here = tuple(halvings)
                cut = self._candidate(here).cut
                if max(cut.loads.values(), default=1) > 1 or cut.passes > self._tuning.most_tiles:
                    return
                if self._fits(here):
                    yield self._candidate(here)

    @staticmethod
    def _price(option: Candidate, before: Candidate) -> float:
        """Return time lost per byte saved: the price of fitting."""
        return (option.estimate_ps - before.estimate_ps) / (before.tile_bytes - option.tile_bytes)

    def _is_allowed(self, halvings: _Halvings, most_tiles: int, most_passes: int) -> bool:
        """Return whether they make so few tiles, and with the steps along the depth so few passes."""
        found = self._made.get(halvings)
        if found is None:
            *along, steps = map(operator.getitem, self._pieces, halvings)
            tiles = math.prod(along)
            found = self._made[halvings] = tiles, tiles * steps
        tiles, passes = found
        return tiles <= most_tiles and passes <= most_passes

    def _fits(self, halvings: _Halvings) -> bool:
        found = self._fitting.get(halvings)
        if found is None:
            found = self._fitting[halvings] = self._candidates.fits(self._candidate(halvings))
        return found

    def _candidate(self, halvings: _Halvings) -> Candidate:
        found = self._found.get(halvings)
        if found is None:
            found = self._found[halvings] = self._candidates.halved(halvings)
        return found


@lru_cache(_MOST_NEIGHBOURS)
def _neighbours(halvings: _Halvings, limits: _Halvings, *, trades: bool) -> Sequence[_Halvings]:
    """Return what one dimension halved makes of ``halvings``; and one doubled, or one traded for another."""
    found = _halved(halvings, limits)
    for doubled in _doubled(halvings) if trades else ():
        found.append(doubled)
        found += [trade for trade in _halved(doubled, limits) if trade != halvings]
    return found


def _halved(halvings: _Halvings, limits: _Halvings) -> list[_Halvings]:
    return [
        (*halvings[:place], halvings[place] + 1, *halvings[place + 1 :])
        for place, limit in enumerate(limits)
        if halvings[place] < limit
    ]


def _doubled(halvings: _Halvings) -> Iterator[_Halvings]:
    for place, times in enumerate(halvings):
        for fewer in dict.fromkeys((times - 1, 0)) if times else ():  # 0: an operand may stay from there on only
            yield (*halvings[:place], fewer, *halvings[place + 1 :])


_estimate_ps = operator.attrgetter("estimate_ps")
