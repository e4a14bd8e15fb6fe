"""Tiles of a layer on one core: small enough for the local buffer, in an order that reloads little.

A tile halves each dimension of a core's part some number of times. The search halves what helps most until the tile
fits, then climbs: halve one dimension, double one, or trade one for another, while the estimated time falls. The
estimate is the pipeline of the machine: the slowest of DMA, on-chip path and compute units sets the pace, the first
load and the last store stand alone. Operands that fit the global buffer stay there while the layer runs, so that DDR is
read once for them, in long bursts, however often their tiles go to the cores.
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from scheduler.allocation import fit
from scheduler.device import ScheduleError, ScratchpadDevice
from scheduler.prefetch import ahead_room
from scheduler.tile_estimate import Choice, estimate_ps
from scheduler.tiling import TileRequest, Tiling, burst_bytes
from scheduler.work import DEPTH, TileWork

MOST_TILES = 8
"""Per core and layer, unless the local buffer forces more: beyond it overlap gains nothing and simulation costs."""
WORTHWHILE = 0.99
"""A change has to bring the estimate down to this share."""
AROUND = 0.8
"""Weights go around the windows only if that brings the estimate down to this share: it does not see other layers."""
_BURSTS_AT_LEAST = 8
"""Bursts of output tiles that the free part of the global buffer holds: they shrink where it is small."""
MOST_CLIMBS = 12
OVERLAPPED = 0.8
"""Share of its time that a layer counts for whose tiles follow each other as its output does in memory: other layers
compute meanwhile. As above, the estimate does not see them."""


class TilingError(ScheduleError):
    """A layer of which not even the smallest tile fits."""


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
        self._staging_room = sum(request.shared_gaps)
        self._burst = min(burst_bytes(device), max(self._staging_room // _BURSTS_AT_LEAST, 1))
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
        pipelined = [t for t in self._in_memory_order() if t.estimate_ps * OVERLAPPED < best.estimate_ps]
        return pipelined[-1] if pipelined else best  # the finest: the next layer begins the sooner

    def _in_memory_order(self) -> Iterator[Tiling]:
        """Yield tilings that cut the output from the outermost dimension inwards and load everything once.

        Their tiles are complete one after the other, in the order in which the next layer reads them.
        """
        halvings = [0] * len(self._limits)
        for dim in self._request.layer.sink.order if self._request.overlaps else ():
            while halvings[dim] < self._limits[dim]:
                halvings[dim] += 1
                tiling = self._tiling(tuple(halvings))
                if max(tiling.loads.values(), default=1) > 1 or _tiles(tiling) > MOST_TILES:
                    return
                if self._fits(tiling):
                    yield tiling

    def _too_small(self, tiling: Tiling) -> TilingError:
        request = self._request
        return TilingError(
            f"layer {request.layer.sink.name!r}: its smallest tile needs {tiling.buffer_bytes} bytes of local buffer"
            f" and {tiling.staging_bytes} of global buffer; {sum(request.local_gaps)} and {self._staging_room} are"
            " free: raise local_buffer.capacity or global_buffer.capacity"
        )

    def _allowed(self, tiling: Tiling, best: Tiling) -> bool:
        return self._fits(tiling) and _tiles(tiling) <= max(MOST_TILES, _tiles(best))

    @staticmethod
    def _price(option: Tiling, before: Tiling) -> float:
        """Return time lost per byte saved: the price of fitting."""
        return (option.estimate_ps - before.estimate_ps) / (before.tile_bytes - option.tile_bytes)

    def _fits(self, tiling: Tiling) -> bool:
        request = self._request
        if not (fit(tiling.buffers, request.local_gaps) and fit(tiling.staging, request.shared_gaps)):
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

    def _ahead_room(self, operands: int) -> int:
        """Return the largest burst of weights that are fetched ahead: larger versions come in several."""
        return 0 if self._request.windows is None else ahead_room(self._request.windows[1], operands)

    def _cluster_bytes(self, name: str, work: TileWork) -> int:
        """Return the bytes of an operand's tile that come from DDR for all cores together."""
        route = self._request.routes[name]
        return math.ceil(work.operand_bytes.get(name, 0) * route.from_ddr) * self._request.cores // route.sharing

    def _staging(self, work: TileWork, elsewhere: Container[str], staged: Mapping[str, int]) -> tuple[int, ...]:
        """Return the layer's buffers in the global buffer: staged operands, two tiles of what has no place elsewhere.

        What is loaded together lies together; so do the output tiles of a burst.
        """
        if not self._has_global:
            return ()
        passing = sum(self._cluster_bytes(name, work) for name in self._request.routes if name not in elsewhere)
        storing = self._storing(work.output_bytes) // 2
        return (*staged.values(), passing, passing, storing, storing)

    def _storing(self, output_bytes: int) -> int:
        """Return the global buffer that output tiles on their way to DDR take: one burst collects, one leaves."""
        if self._request.output_scope != "ddr":
            return 0
        tile = output_bytes * self._request.cores
        return 2 * (self._burst // tile * tile + tile) if tile < self._burst else 2 * tile

    def _halved(self, halvings: _Halvings) -> Iterator[_Halvings]:
        for place, limit in enumerate(self._limits):
            if halvings[place] < limit:
                yield (*halvings[:place], halvings[place] + 1, *halvings[place + 1 :])

    def _doubled(self, halvings: _Halvings) -> Iterator[_Halvings]:
        for place, times in enumerate(halvings):
            for fewer in dict.fromkeys((times - 1, 0)) if times else ():  # 0: an operand may stay from there on only
                yield (*halvings[:place], fewer, *halvings[place + 1 :])

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
        buffers = [streamed[name] for name in slots if name not in ahead for _ in range(2 if loads[name] > 1 else 1)]
        buffers += [output + work.internal_bytes, *([output] if tiles > 1 else [])]
        staged = self._staged({n: t for n, t in loads.items() if n not in ahead}, work, output)
        window = (
            sum(slots[name] for name in ahead),
            sum(2 * min(self._cluster_bytes(name, work), self._ahead_room(len(ahead))) for name in ahead),
        )
        choice = Choice(work, loads, staged, ahead, self._distinct, tiles, steps)
        staging = self._staging(work, {*staged, *ahead}, staged)
        return Tiling(
            part=request.part, tile=tile, order=order, depth=depth, depth_extent=self._depth_extent, loads=loads,
            ahead=ahead, staged=staged, buffers=tuple(buffers), staging=staging,
            window_bytes=window, store_burst_bytes=self._burst,
            tile_bytes=sum(streamed.values()) + work.internal_bytes + output,
            estimate_ps=estimate_ps(request, choice, self._device),
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
        staged: dict[str, int] = {}
        storing = self._storing(output_bytes) // 2
        for name in sorted(loads, key=lambda n: (self._distinct[n], n)):
            size = self._distinct[name]
            if loads[name] > 1 and size:
                passing = sum(self._cluster_bytes(other, work) for other in loads if other not in (*staged, name))
                if fit((*staged.values(), size, passing, passing, storing, storing), self._request.shared_gaps):
                    staged[name] = size
        return staged


def _tiles(tiling: Tiling) -> int:
    return math.prod(tiling.counts) * tiling.depth_steps
