"""Tiles of a layer on one core: small enough for the local buffer, in an order that reloads little.

A tile halves each dimension of a core's part some number of times. The search halves what helps most until the tile
fits, then climbs: halve one dimension, double one, or trade one for another, while the estimated time falls. The
estimate is the pipeline of the machine: the slowest of DMA, on-chip path and compute units sets the pace, the first
load and the last store stand alone. Operands that fit the global buffer stay there while the layer runs, so that DDR is
read once for them, in long bursts, however often their tiles go to the cores.
"""

import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.device import ScheduleError, ScratchpadDevice
from scheduler.work import DEPTH, Extents, Layer, TileWork

MOST_TILES = 16
"""Per core and layer, unless the local buffer forces more: beyond it overlap gains nothing and simulation costs."""
WORTHWHILE = 0.99
"""A change has to bring the estimate down to this share."""
HIDDEN_COST = 0.1
"""Share of the faster stages' time that counts all the same: overlap is never perfect, and idle stages save energy."""
EXPOSED_AHEAD = 0.5
"""Share of the first load that counts for weights that are fetched ahead, since the last layers' cannot be hidden; and
share of all loads that counts for what cannot be fetched ahead although there are windows."""
AROUND = 0.8
"""Weights go around the windows only if that brings the estimate down to this share: it does not see other layers."""
MOST_CLIMBS = 12
BURST_STARTUPS = 8
"""Operands that stay in the global buffer are fetched in bursts that last this many DMA start-ups."""


class TilingError(ScheduleError):
    """A layer of which not even the smallest tile fits."""


@dataclass(frozen=True, slots=True)
class Route:
    """How an operand reaches the local buffers: which share of it comes from where; the rest is there already."""

    from_ddr: float
    from_global: float
    sharing: int
    """How many cores need the same bytes."""

    @property
    def streamed(self) -> float:
        return self.from_ddr + self.from_global


@dataclass(frozen=True, slots=True)
class Tiling:
    """``tile`` elements per sink dimension, outer dimensions first in ``order``; ``depth`` iterations per pass."""

    part: Extents
    tile: Extents
    order: tuple[int, ...]
    depth: int | None
    depth_extent: int
    loads: Mapping[str, int]
    """How often each streamed operand is loaded into the local buffer."""
    ahead: Mapping[str, tuple[int, int]]
    """Weights that are fetched ahead through the windows: how many versions a core gets, bytes for all cores."""
    staged: Mapping[str, int]
    """Operands from DDR that stay in the global buffer while the layer runs, with their bytes."""
    buffer_bytes: int
    """Local buffer that the tiles in flight take."""
    staging_bytes: int
    """Global buffer that staged operands, and two tiles of everything else on its way, take."""
    window_bytes: tuple[int, int]
    """Of the local and the global window: what the weights in flight take."""
    tile_bytes: int
    """Of one tile alone: its operands and its output once."""
    estimate_ps: float

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(-(-whole // part) for whole, part in zip(self.part, self.tile, strict=True))

    @property
    def depth_steps(self) -> int:
        return 1 if self.depth is None else -(-self.depth_extent // self.depth)

    def with_names(self, names: Sequence[str]) -> "Tiling":
        """Return the tiling of an equal layer whose streamed operands, in the same order, have other names."""
        renamed = dict(zip(self.loads, names, strict=True))
        return replace(
            self,
            loads={renamed[name]: times for name, times in self.loads.items()},
            ahead={renamed[name]: parts for name, parts in self.ahead.items()},
            staged={renamed[name]: size for name, size in self.staged.items()},
        )

    def steps(self) -> Iterator[tuple[tuple[int, ...], Extents, int, int | None]]:
        """Yield (position per dimension, extents, depth step, depth iterations) of every tile in order."""
        counts = self.counts
        for place in itertools.product(*(range(counts[dim]) for dim in self.order)):
            position = [0] * len(counts)
            for dim, where in zip(self.order, place, strict=True):
                position[dim] = where
            extents = tuple(
                min(size, whole - where * size)
                for size, whole, where in zip(self.tile, self.part, position, strict=True)
            )
            for step in range(self.depth_steps):
                depth = None if self.depth is None else min(self.depth, self.depth_extent - step * self.depth)
                yield tuple(position), extents, step, depth


@dataclass(frozen=True, slots=True)
class TileRequest:
    """What a tiling is asked for: a layer, one core's part, where operands are, where the output goes, the space."""

    layer: Layer
    box: Extents
    """Of the sink, on all cores of the cluster together."""
    part: Extents
    cores: int
    routes: Mapping[str, Route]
    """Per streamed operand; operands that are resident in the local buffer are not listed."""
    output_scope: str
    budget_bytes: int
    staging_bytes: int
    """Global buffer that may hold operands and tiles passing through."""
    dtype: str
    windows: tuple[int, int] | None = None
    """Bytes of local and global buffer that weights are fetched ahead through; None: they are not."""


def choose_tiling(request: TileRequest, device: ScratchpadDevice) -> Tiling:
    """Return the best tiling found; raise ``TilingError`` when not even single elements fit.

    Where the windows force small tiles, weights go around them if that is estimated to be faster.
    """
    if request.windows is None:
        return _Search(request, device).run()
    try:
        through = _Search(request, device).run()
    except TilingError:
        return _Search(replace(request, windows=None), device).run()
    if _tiles(through) <= MOST_TILES:
        return through
    try:
        around = _Search(replace(request, windows=None), device).run()
    except TilingError:
        return through
    return around if around.estimate_ps < AROUND * through.estimate_ps else through


_Halvings = tuple[int, ...]
"""How often each sink dimension is halved; the last entry is the depth."""


class _Search:
    def __init__(self, request: TileRequest, device: ScratchpadDevice) -> None:
        self._request = request
        self._device = device
        layer = request.layer
        self._depends = layer.dependencies
        loop, nest = layer.depth_loop, layer.contraction
        self._depth_extent = nest.loops[loop].extent if nest is not None and loop is not None else 1
        self._limits = tuple(max(size - 1, 0).bit_length() for size in (*request.part, self._depth_extent))
        self._orders = self._candidate_orders(layer.sink.order)
        whole = layer.tile_work(request.box)
        self._distinct = {
            name: math.ceil(whole.operand_bytes.get(name, 0) * route.from_ddr) for name, route in request.routes.items()
        }
        self._found: dict[_Halvings, Tiling] = {}
        self._has_global = device.global_buffer_bytes > 0

    def _candidate_orders(self, order: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the memory order, and the orders with one operand's dimensions outermost: it is loaded least."""
        orders = {order: None}
        for name in self._request.routes:
            outer = [dim for dim in order if dim in self._depends.get(name, ())]
            orders[tuple(outer + [dim for dim in order if dim not in outer])] = None
        return list(orders)

    def run(self) -> Tiling:
        current: _Halvings = (0,) * len(self._limits)
        best = self._tiling(current)
        while not self._fits(best):
            options = [h for h in self._halved(current) if self._tiling(h).tile_bytes < best.tile_bytes]
            if not options:
                raise self._too_small(best)
            before = best
            current = min(options, key=lambda h: (self._price(self._tiling(h), before), h))
            best = self._tiling(current)
        tight = any(current)
        for _ in range(MOST_CLIMBS):
            options = [h for h in self._neighbours(current, trades=tight) if self._allowed(self._tiling(h), best)]
            if not options:
                break
            candidate = min(options, key=lambda h: (self._tiling(h).estimate_ps, h))
            if self._tiling(candidate).estimate_ps >= best.estimate_ps * WORTHWHILE:
                break
            current, best = candidate, self._tiling(candidate)
        return best

    def _too_small(self, tiling: Tiling) -> TilingError:
        request = self._request
        return TilingError(
            f"layer {request.layer.sink.name!r}: its smallest tile needs {tiling.buffer_bytes} bytes of local buffer"
            f" and {tiling.staging_bytes} of global buffer; {request.budget_bytes} and {request.staging_bytes} are free:"
            " raise local_buffer.capacity or global_buffer.capacity"
        )

    def _allowed(self, tiling: Tiling, best: Tiling) -> bool:
        return self._fits(tiling) and _tiles(tiling) <= max(MOST_TILES, _tiles(best))

    @staticmethod
    def _price(option: Tiling, before: Tiling) -> float:
        """Return time lost per byte saved: the price of fitting."""
        return (option.estimate_ps - before.estimate_ps) / (before.tile_bytes - option.tile_bytes)

    def _fits(self, tiling: Tiling) -> bool:
        request = self._request
        if tiling.buffer_bytes > request.budget_bytes or tiling.staging_bytes > request.staging_bytes:
            return False
        return request.windows is None or all(
            used <= size for used, size in zip(tiling.window_bytes, request.windows, strict=True)
        )

    def _ahead(
        self, order: Sequence[int], counts: Sequence[int], steps: int, loads: Mapping[str, int]
    ) -> dict[str, tuple[int, int]]:
        """Return the weights that every core gets once, version by version: those can be fetched ahead."""
        request = self._request
        if request.windows is None:
            return {}
        trips = {**{dim: counts[dim] for dim in order}, DEPTH: steps}
        tensors = request.layer.graph.tensors
        found = {}
        for name, times in loads.items():
            versions = math.prod(trips[loop] for loop in self._depends.get(name, ()))
            if tensors[name].role == "weight" and request.routes[name].from_ddr == 1.0 and versions == times:
                found[name] = versions, self._distinct[name]
        return found

    def _cluster_bytes(self, name: str, work: TileWork) -> int:
        """Return the bytes of an operand's tile that come from DDR for all cores together."""
        route = self._request.routes[name]
        return math.ceil(work.operand_bytes.get(name, 0) * route.from_ddr) * self._request.cores // route.sharing

    def _staging(self, work: TileWork, elsewhere: Container[str], staged: Mapping[str, int]) -> int:
        """Return the global buffer that the layer takes: staged operands, two tiles of what has no place elsewhere."""
        if not self._has_global:
            return 0
        total = sum(staged.values())
        total += sum(2 * self._cluster_bytes(name, work) for name in self._request.routes if name not in elsewhere)
        return total + self._storing(work.output_bytes)

    def _storing(self, output_bytes: int) -> int:
        """Return the global buffer that output tiles on their way to DDR take: one burst collects, one leaves."""
        if self._request.output_scope != "ddr":
            return 0
        tile = output_bytes * self._request.cores
        return 2 * (burst_bytes(self._device) // tile * tile + tile) if tile < burst_bytes(self._device) else 2 * tile

    def _halved(self, halvings: _Halvings) -> Iterator[_Halvings]:
        for place, limit in enumerate(self._limits):
            if halvings[place] < limit:
                yield (*halvings[:place], halvings[place] + 1, *halvings[place + 1 :])

    def _doubled(self, halvings: _Halvings) -> Iterator[_Halvings]:
        for place, times in enumerate(halvings):
            if times:
                yield (*halvings[:place], times - 1, *halvings[place + 1 :])

    def _neighbours(self, halvings: _Halvings, *, trades: bool) -> Iterator[_Halvings]:
        yield from self._halved(halvings)
        for doubled in self._doubled(halvings) if trades else ():
            yield doubled
            yield from (trade for trade in self._halved(doubled) if trade != halvings)

    def _tiling(self, halvings: _Halvings) -> Tiling:
        if halvings not in self._found:
            self._found[halvings] = self._evaluate(halvings)
        return self._found[halvings]

    def _evaluate(self, halvings: _Halvings) -> Tiling:
        """Return the tiling of ``halvings`` in the order that loads fewest bytes."""
        request = self._request
        tile = tuple(-(-size // 2**times) for size, times in zip(request.part, halvings, strict=False))
        depth = -(-self._depth_extent // 2 ** halvings[-1]) if halvings[-1] else None
        work = request.layer.tile_work(tile, depth)
        counts = [-(-whole // part) for whole, part in zip(request.part, tile, strict=True)]
        steps = 1 if depth is None else -(-self._depth_extent // depth)
        order, loads = min(
            ((order, self._loads(order, counts, steps, work)) for order in self._orders),
            key=lambda option: sum(times * work.operand_bytes[name] for name, times in option[1].items()),
        )
        streamed = {name: math.ceil(work.operand_bytes[name] * request.routes[name].streamed) for name in loads}
        output = work.output_bytes if request.output_scope != "local_buffer" else 0
        tiles = math.prod(counts)
        ahead = self._ahead(order, counts, steps, loads)
        slots = {name: size * (2 if loads[name] > 1 else 1) for name, size in streamed.items()}
        buffers = sum(size for name, size in slots.items() if name not in ahead)
        buffers += work.internal_bytes + output * (2 if tiles > 1 else 1)
        staged = self._staged({n: t for n, t in loads.items() if n not in ahead}, work, output)
        window = (
            sum(slots[name] for name in ahead),
            sum(2 * self._cluster_bytes(name, work) for name in ahead),
        )
        return Tiling(
            part=request.part, tile=tile, order=order, depth=depth, depth_extent=self._depth_extent, loads=loads,
            ahead=ahead, staged=staged, buffer_bytes=buffers, staging_bytes=self._staging(work, {*staged, *ahead}, staged),
            window_bytes=window, tile_bytes=sum(streamed.values()) + work.internal_bytes + output,
            estimate_ps=self._estimate(work, loads, staged, ahead, tiles, steps),
        )  # fmt: skip

    def _loads(self, order: Sequence[int], counts: Sequence[int], steps: int, work: TileWork) -> dict[str, int]:
        """Return how often each operand is loaded: once per change of a loop it depends on, or of one outside that."""
        trips = [*(counts[dim] for dim in order), steps]
        loops = [*order, DEPTH]
        loads = {}
        for name in self._request.routes:
            if name in work.operand_bytes:
                depends = self._depends.get(name, frozenset())
                inner = max((p for p, loop in enumerate(loops) if loop in depends and trips[p] > 1), default=-1)
                loads[name] = math.prod(trips[: inner + 1])
        return loads

    def _staged(self, loads: Mapping[str, int], work: TileWork, output_bytes: int) -> dict[str, int]:
        """Return the operands from DDR that the global buffer holds as a whole, smallest first, and their bytes."""
        if not self._has_global:
            return {}
        request = self._request
        free = request.staging_bytes - self._storing(output_bytes)
        passing = {name: 2 * self._cluster_bytes(name, work) for name in loads}
        free -= sum(passing.values())
        staged = {}
        for name in sorted(loads, key=lambda n: (self._distinct[n], n)):
            size = self._distinct[name]
            if loads[name] > 1 and size and size <= free + passing[name]:
                staged[name] = size
                free += passing[name] - size
        return staged

    def _estimate(  # noqa: PLR0913 - the parts of a tiling
        self, work: TileWork, loads: Mapping[str, int], staged: Mapping[str, int], ahead: Container[str],
        tiles: int, steps: int,
    ) -> float:  # fmt: skip
        """Return the pipeline's time in picoseconds: slowest stage throughout, first load, last store."""
        request, device = self._request, self._device
        passes = tiles * steps
        ddr = path = ddr_starts = broadcast_ps = first_ps = 0.0
        path_starts = 0
        for name, times in loads.items():
            route = request.routes[name]
            distinct = work.operand_bytes[name] * request.cores / route.sharing
            if route.sharing > 1 and device.broadcasts:
                once = distinct * route.streamed / device.broadcast_bytes_per_ps + device.path_startup_ps
                broadcast_ps += times * once
            else:
                once = distinct * route.streamed / device.path_bytes_per_ps + device.path_startup_ps
                path += distinct * times * route.streamed
                path_starts += times
            exposed = EXPOSED_AHEAD if name in ahead else 1.0
            first_ps += once * exposed
            if request.windows is not None and name not in ahead and route.from_ddr:
                first_ps += EXPOSED_AHEAD * self._distinct[name] / device.ddr_bytes_per_ps
            if name in staged:
                ddr += staged[name]
                ddr_starts += max(staged[name] / burst_bytes(device), 1.0)
                burst = min(max(distinct, burst_bytes(device)), staged[name])
                first_ps += burst / device.ddr_bytes_per_ps
            elif route.from_ddr:
                ddr += distinct * times * route.from_ddr
                ddr_starts = max(ddr_starts, times)
                first_ps += distinct * route.from_ddr / device.ddr_bytes_per_ps * exposed
        load_ps = ddr / device.ddr_bytes_per_ps + ddr_starts * device.dma_startup_ps
        store = work.output_bytes * request.cores
        stored = store_ps = 0.0
        if request.output_scope != "local_buffer":
            path += store * tiles
            path_starts += tiles
            stored = store / device.path_bytes_per_ps + device.path_startup_ps
        if request.output_scope == "ddr":
            bursts = max(min(tiles, store * tiles / burst_bytes(device)), 1.0)
            store_ps = store * tiles / device.ddr_bytes_per_ps + bursts * device.dma_startup_ps
            stored += store_ps / bursts
        shared_ps = (ddr + store * tiles * (request.output_scope == "ddr")) / device.ddr_bytes_per_ps
        path_ps = path / device.path_bytes_per_ps + path_starts * device.path_startup_ps
        stages = [load_ps, store_ps, shared_ps, path_ps, broadcast_ps]
        compute_ps = list(device.compute_ps(work, request.dtype).values())
        stages += [once * passes for once in compute_ps]
        hidden = sum(stages) - shared_ps - max(stages)
        first_ps += device.dma_startup_ps * bool(ddr_starts) + sum(compute_ps) + stored
        return max(stages) * (1 - 1 / max(passes, 1)) + HIDDEN_COST * hidden + first_ps


def _tiles(tiling: Tiling) -> int:
    return math.prod(tiling.counts) * tiling.depth_steps


def burst_bytes(device: ScratchpadDevice) -> int:
    """Return the size of a DMA burst that makes its start-up small."""
    return max(int(BURST_STARTUPS * device.dma_startup_ps * device.ddr_bytes_per_ps), 1)
