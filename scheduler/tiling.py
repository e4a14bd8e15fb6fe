"""Tiles of a layer on one core: small enough for the local buffer, in an order that reloads little.

The tile is found by descent: from a core's whole part, the dimension whose halving helps most is halved until the
tile fits, and further while the estimated time falls. The estimate is the pipeline of the machine: the slowest of DMA,
on-chip path and compute units sets the pace, the first load and the last store stand alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.device import ScratchpadDevice
from scheduler.work import Extents, Layer, TileWork

MOST_TILES = 64
"""Per core and layer, unless the local buffer forces more: beyond it overlap gains nothing and simulation costs."""


class TilingError(ValueError):
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
    """How often each streamed operand is loaded."""
    buffer_bytes: int
    """Local buffer that the tiles in flight take."""
    estimate_ps: float

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(-(-whole // part) for whole, part in zip(self.part, self.tile, strict=True))

    @property
    def depth_steps(self) -> int:
        return 1 if self.depth is None else -(-self.depth_extent // self.depth)

    def with_names(self, names: Sequence[str]) -> "Tiling":
        """Return the tiling of an equal layer whose streamed operands, in the same order, have other names."""
        return replace(self, loads=dict(zip(names, self.loads.values(), strict=True)))

    def steps(self) -> Iterator[tuple[tuple[int, ...], Extents, int, int | None]]:
        """Yield (position per dimension, extents, depth step, depth iterations) of every tile in order."""
        counts = self.counts
        ordered = [range(counts[dim]) for dim in self.order]
        for place in _product(ordered):
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


def _product(ranges: Sequence[range]) -> Iterator[tuple[int, ...]]:
    if not ranges:
        yield ()
        return
    for first in ranges[0]:
        for rest in _product(ranges[1:]):
            yield (first, *rest)


@dataclass(frozen=True, slots=True)
class TileRequest:
    """What a tiling is asked for: a layer, one core's part, where operands are, where the output goes, the space."""

    layer: Layer
    part: Extents
    cores: int
    routes: Mapping[str, Route]
    """Per streamed operand; operands that are resident in the local buffer are not listed."""
    output_scope: str
    budget_bytes: int
    staging_bytes: int
    """Global buffer that may hold tiles passing through."""
    dtype: str


def choose_tiling(request: TileRequest, device: ScratchpadDevice) -> Tiling:
    """Return the best tiling found; raise ``TilingError`` when not even single elements fit."""
    return _Search(request, device).run()


@dataclass(frozen=True, slots=True)
class _Candidate:
    tile: Extents
    depth: int | None


class _Search:
    def __init__(self, request: TileRequest, device: ScratchpadDevice) -> None:
        self._request = request
        self._device = device
        layer = request.layer
        self._depends = layer.dependencies
        loop = layer.depth_loop
        nest = layer.contraction
        self._depth_extent = nest.loops[loop].extent if nest is not None and loop is not None else 1
        order = layer.sink.order
        self._orders = self._candidate_orders(order)
        self._works: dict[_Candidate, TileWork] = {}

    def _candidate_orders(self, order: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the memory order, and the orders with one operand's dimensions outermost: it is loaded least."""
        orders = {order: None}
        for name in self._request.routes:
            outer = [dim for dim in order if dim in self._depends.get(name, ())]
            orders[tuple(outer + [dim for dim in order if dim not in outer])] = None
        return list(orders)

    def run(self) -> Tiling:
        start = _Candidate(self._request.part, None)
        best = self._evaluate(start)
        current, fits = start, self._fits(best)
        while True:
            options = [(self._evaluate(c), c) for c in self._halvings(current)]
            if not options:
                break
            if not fits:
                # towards fitting: least time among those that shrink the buffers most sensibly
                tiling, current = min(options, key=lambda o: (not self._fits(o[0]), self._shrink_cost(o[0], best)))
                best, fits = tiling, self._fits(tiling)
                continue
            allowed = [o for o in options if self._fits(o[0]) and self._tiles(o[0]) <= MOST_TILES]
            if not allowed:
                break
            tiling, candidate = min(allowed, key=lambda o: o[0].estimate_ps)
            if tiling.estimate_ps >= best.estimate_ps:
                break
            best, current = tiling, candidate
        if not fits:
            request = self._request
            raise TilingError(
                f"layer {request.layer.sink.name!r}: its smallest tile needs {best.buffer_bytes} bytes, the local buffer"
                f" has {request.budget_bytes} for it; raise local_buffer.capacity"
            )
        return best

    @staticmethod
    def _tiles(tiling: Tiling) -> int:
        return math.prod(tiling.counts) * tiling.depth_steps

    @staticmethod
    def _shrink_cost(option: Tiling, before: Tiling) -> float:
        """Return time gained or lost per byte saved: the price of fitting."""
        saved = before.buffer_bytes - option.buffer_bytes
        if saved <= 0:
            return math.inf
        return (option.estimate_ps - before.estimate_ps) / saved

    def _fits(self, tiling: Tiling) -> bool:
        return tiling.buffer_bytes <= self._request.budget_bytes and self._staged(tiling) <= self._request.staging_bytes

    def _staged(self, tiling: Tiling) -> int:
        """Return the global buffer that two tiles of everything from and to DDR take at once."""
        request = self._request
        work = self._work(_Candidate(tiling.tile, tiling.depth))
        total = 0
        for name, route in request.routes.items():
            total += int(work.operand_bytes.get(name, 0) * route.from_ddr) * request.cores // route.sharing
        if request.output_scope == "ddr":
            total += work.output_bytes * request.cores
        return 2 * total

    def _halvings(self, candidate: _Candidate) -> Iterator[_Candidate]:
        for dim, size in enumerate(candidate.tile):
            if size > 1:
                yield _Candidate((*candidate.tile[:dim], -(-size // 2), *candidate.tile[dim + 1 :]), candidate.depth)
        depth = self._depth_extent if candidate.depth is None else candidate.depth
        if depth > 1:
            yield _Candidate(candidate.tile, -(-depth // 2))

    def _work(self, candidate: _Candidate) -> TileWork:
        if candidate not in self._works:
            self._works[candidate] = self._request.layer.tile_work(candidate.tile, candidate.depth)
        return self._works[candidate]

    def _evaluate(self, candidate: _Candidate) -> Tiling:
        """Return the tiling of ``candidate`` in the order that loads fewest bytes."""
        request = self._request
        work = self._work(candidate)
        counts = [-(-whole // part) for whole, part in zip(request.part, candidate.tile, strict=True)]
        steps = 1 if candidate.depth is None else -(-self._depth_extent // candidate.depth)
        order, loads = min(
            ((order, self._loads(order, counts, steps, work)) for order in self._orders),
            key=lambda option: sum(times * work.operand_bytes[name] for name, times in option[1].items()),
        )
        buffers = sum(
            math.ceil(work.operand_bytes[name] * request.routes[name].streamed) * (2 if times > 1 else 1)
            for name, times in loads.items()
        )
        buffers += work.internal_bytes
        tiles = math.prod(counts)
        if request.output_scope != "local_buffer":
            buffers += work.output_bytes * (2 if tiles > 1 else 1)
        return Tiling(
            part=request.part, tile=candidate.tile, order=order, depth=candidate.depth,
            depth_extent=self._depth_extent, loads=loads, buffer_bytes=buffers,
            estimate_ps=self._estimate(work, loads, tiles, steps),
        )  # fmt: skip

    def _loads(self, order: Sequence[int], counts: Sequence[int], steps: int, work: TileWork) -> dict[str, int]:
        """Return how often each operand is loaded: once per change of a dimension it depends on, or outside one."""
        loads = {}
        trips = [counts[dim] for dim in order]
        for name in self._request.routes:
            if name not in work.operand_bytes:
                continue
            depends = self._depends.get(name, frozenset())
            innermost = max((place for place, dim in enumerate(order) if dim in depends and counts[dim] > 1), default=-1)
            times = math.prod(trips[: innermost + 1])
            if steps > 1:
                times = math.prod(trips) * steps
            loads[name] = times
        return loads

    def _estimate(self, work: TileWork, loads: Mapping[str, int], tiles: int, steps: int) -> float:
        """Return the pipeline's time in picoseconds: slowest stage throughout, first load, last store."""
        request, device = self._request, self._device
        passes = tiles * steps
        ddr = path = 0.0
        ddr_starts = path_starts = 0
        for name, times in loads.items():
            route = request.routes[name]
            distinct = work.operand_bytes[name] * request.cores / route.sharing
            path += distinct * times * route.streamed
            path_starts += times
            if route.from_ddr:
                ddr += distinct * times * route.from_ddr
                ddr_starts = max(ddr_starts, times)
        store = work.output_bytes * request.cores
        stored = 0.0
        if request.output_scope != "local_buffer":
            path += store * tiles
            stored = store / device.path_bytes_per_ps + device.path_startup_ps
        if request.output_scope == "ddr":
            ddr += store * tiles
            stored += store / device.ddr_bytes_per_ps + device.dma_startup_ps
        ddr_ps = ddr / device.ddr_bytes_per_ps + ddr_starts * device.dma_startup_ps
        path_ps = path / device.path_bytes_per_ps + path_starts * device.path_startup_ps
        compute_ps = [times * passes for times in device.compute_ps(work, request.dtype).values()]
        first = (ddr_ps + path_ps) / max(passes, 1)
        slowest = max(ddr_ps, path_ps, *compute_ps, 0.0)
        last = sum(compute_ps) / max(passes, 1) + stored
        return slowest + first + last
