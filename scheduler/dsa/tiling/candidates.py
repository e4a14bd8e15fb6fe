"""Candidate tilings of a layer on one core: the buffers that they take, how often operands are loaded, the time.

Operands that fit the global buffer stay there while the layer runs, so that DDR is read once for them, in long bursts,
however often their tiles go to the cores. Weights that every core gets once can be fetched ahead, through the prefetch
buffers.
"""

import math
import operator
from collections.abc import Container, Iterable, Mapping, Sequence

from scheduler.dsa.allocation import fit
from scheduler.dsa.tiling.estimate import Choice, estimate_ps
from scheduler.dsa.tiling.tiling import TileRequest, Tiling
from scheduler.dsa.unit_choice import unit_ps
from scheduler.dsa.view import DDR, LOCAL, DsaView
from scheduler.errors import ScheduleError
from scheduler.kernels.layer import DEPTH, Layer, TileWork
from scheduler.parts import filled
from workloads.analysis import Table
from workloads.loopnest import Extents

Cut = tuple[Extents, int | None, tuple[int, ...]]
"""Tile, depth and order of a tiling."""
UnitTimes = Table[Sequence[int]]
"""Time of every unit of a core at work, by layer and tile."""


def burst_room_bytes(prefetch_bytes: int, operands: int) -> int:
    """Return the most bytes of a burst of each of ``operands`` that share the global prefetch buffer, two at a time."""
    return max(prefetch_bytes // (2 * operands), 1)


def operands_filled(layer: Layer, box: Extents, part: Extents, names: Iterable[str]) -> dict[str, float]:
    """Return of each operand the share that there is of equal parts, where cores' ``part`` s of ``box`` are uneven.

    What is short of the last parts is spread over all of their tiles.
    """
    depends = layer.dependencies
    dims = {name: sorted(depends.get(name, frozenset()) - {DEPTH}) for name in names}
    return {name: filled([box[d] for d in along], [part[d] for d in along]) for name, along in dims.items()}


class TileCandidates:
    """Tilings for one request, each with its price, whether they fit or not.

    ``unit_times`` keeps how long the units of this machine take for tiles of layers.
    """

    def __init__(self, request: TileRequest, view: DsaView, unit_times: UnitTimes) -> None:
        self._request = request
        self._view = view
        self._unit_times = unit_times
        layer = request.layer
        self._depends = layer.dependencies
        loop, nest = layer.depth_loop, layer.contraction
        self.depth_extent = nest.loops[loop].extent if nest is not None and loop is not None else 1
        """Iterations of the anchor's depth loop."""
        self._orders = self._candidate_orders(layer.sink.order)
        whole = layer.tile_work(request.box)
        self._distinct = {
            name: math.ceil(whole.operand_bytes.get(name, 0) * route.from_ddr) for name, route in request.routes.items()
        }
        self._filled = operands_filled(layer, request.box, request.part, request.routes)
        self._global_room = sum(request.global_gaps)
        self._burst = min(view.burst_bytes, max(self._global_room // view.tuning.store_bursts, 1))

    def _candidate_orders(self, order: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the memory order, and the orders with one operand's dimensions outermost: it is loaded least."""
        orders = {order: None}
        for name in self._request.routes:
            outer = [dim for dim in order if dim in self._depends.get(name, ())]
            orders[tuple(outer + [dim for dim in order if dim not in outer])] = None
        return list(orders)

    def tiling(self, tile: Extents, depth: int | None) -> Tiling:
        """Return the tiling of ``tile`` elements and ``depth`` iterations in the order that loads fewest bytes.

        All weights that can be are prefetched, and as many operands staged as the global buffer has room for.
        """
        work, counts, steps = self._cut(tile, depth)
        order, loads = self._best_order(counts, steps, work)
        prefetched = self._prefetchable(order, counts, steps, loads)
        output = work.output_bytes if self._request.output_memory != LOCAL else 0
        staged = self._staged({n: t for n, t in loads.items() if n not in prefetched}, work, output)
        return self._tiling((tile, depth, order), work, loads, prefetched, staged)

    def decided(self, cut: Cut, prefetched: Sequence[str], staged: Sequence[str], store_burst_bytes: int) -> Tiling:
        """Return the tiling of which all that can be decided is given; raise ``ScheduleError`` for what cannot be."""
        tile, depth, order = cut
        work, counts, steps = self._cut(tile, depth)
        loads = self._loads([*((dim, counts[dim]) for dim in order), (DEPTH, steps)], work)
        can = self._prefetchable(order, counts, steps, loads)
        for name in prefetched:
            if name not in can:
                raise ScheduleError(f"{name!r} cannot be prefetched: only weights that every core gets once can be")
        for name in staged:
            if name not in loads or name in prefetched or not self._distinct[name]:
                raise ScheduleError(f"{name!r} cannot be staged: it is prefetched, or does not come from DDR")
        self._burst = store_burst_bytes
        kept = {name: self._distinct[name] for name in staged}
        return self._tiling(cut, work, loads, {name: can[name] for name in prefetched}, kept)

    def _cut(self, tile: Extents, depth: int | None) -> tuple[TileWork, list[int], int]:
        """Return a tile's work, the tiles per dimension, and the steps along the depth."""
        counts = [-(-whole // part) for whole, part in zip(self._request.part, tile, strict=True)]
        steps = 1 if depth is None else -(-self.depth_extent // depth)
        return self._request.layer.tile_work(tile, depth), counts, steps

    def _tiling(
        self, cut: Cut, work: TileWork, loads: dict[str, int],
        prefetched: dict[str, tuple[int, int]], staged: dict[str, int],
    ) -> Tiling:  # fmt: skip
        """Return the tiling of a cut with all figures that follow from it."""
        request, (tile, depth, order) = self._request, cut
        counts = [-(-whole // part) for whole, part in zip(request.part, tile, strict=True)]
        steps = 1 if depth is None else -(-self.depth_extent // depth)
        streamed = {name: math.ceil(work.operand_bytes[name] * request.routes[name].streamed) for name in loads}
        output = work.output_bytes if request.output_memory != LOCAL else 0
        tiles = math.prod(counts)
        slots = {name: size * (2 if loads[name] > 1 else 1) for name, size in streamed.items()}
        buffers = [
            streamed[name] for name in slots if name not in prefetched for _ in range(2 if loads[name] > 1 else 1)
        ]
        buffers += [work.internal_bytes, output, *([output] if tiles > 1 else [])]
        burst_room = 0 if request.prefetch is None else burst_room_bytes(request.prefetch[1], max(len(prefetched), 1))
        in_flight = (
            sum(slots[name] for name in prefetched),
            sum(2 * min(self._cluster_bytes(name, work), burst_room) for name in prefetched),
        )
        choice = Choice(
            work, self._unit_ps(work, tile, depth), loads, staged, prefetched, self._distinct, tiles, steps
        )
        return Tiling(
            part=request.part, tile=tile, order=order, depth=depth, depth_extent=self.depth_extent, loads=loads,
            prefetched=prefetched, staged=staged, local_buffers=tuple(buffers),
            global_buffers=self._global_buffers(work, {*staged, *prefetched}, staged),
            prefetch_bytes=in_flight, store_burst_bytes=self._burst,
            tile_bytes=sum(streamed.values()) + work.internal_bytes + output,
            estimate_ps=estimate_ps(request, choice, self._view),
        )  # fmt: skip

    def _unit_ps(self, work: TileWork, tile: Extents, depth: int | None) -> Sequence[int]:
        request, view = self._request, self._view
        key = request.layer.signature, tile, depth, request.units, request.dtype
        return self._unit_times.get(key, lambda: unit_ps(work, request.units, view, request.dtype))

    def _best_order(
        self, counts: Sequence[int], steps: int, work: TileWork
    ) -> tuple[tuple[int, ...], dict[str, int]]:
        """Return the first of the orders that load fewest bytes, and how often each operand is loaded then."""
        best: dict[tuple[tuple[int, int], ...], tuple[int, tuple[int, ...], dict[str, int]]] = {}
        for order in self._orders:
            trips = [(dim, counts[dim]) for dim in order if counts[dim] > 1]
            key = tuple(trips)
            if key not in best:  # orders differ only in the dimensions that are cut
                loads = self._loads([*trips, (DEPTH, steps)], work)
                best[key] = sum([n * work.operand_bytes[name] for name, n in loads.items()]), order, loads
        _, order, loads = min(best.values(), key=_bytes_loaded)
        return order, loads

    def _loads(self, trips: Sequence[tuple[int, int]], work: TileWork) -> dict[str, int]:
        """Return how often each operand is loaded: once per change of a loop it depends on, or of one outside that.

        ``trips``: loops and how often they go round, outermost first.
        """
        loads = {}
        for name in self._request.routes:
            if name in work.operand_bytes:
                depends = self._depends.get(name, frozenset())
                times = rounds = 1
                for loop, count in trips:
                    rounds *= count
                    if count > 1 and loop in depends:
                        times = rounds
                loads[name] = times
        return loads

    def _staged(self, loads: Mapping[str, int], work: TileWork, output_bytes: int) -> dict[str, int]:
        """Return the operands from DDR that the global buffer holds as a whole, smallest first, and their bytes."""
        if not self._view.global_buffer_bytes:
            return {}
        staged: dict[str, int] = {}
        storing = self._storing(output_bytes) // 2
        for name in sorted(loads, key=lambda n: (self._distinct[n], n)):
            size = self._distinct[name]
            if loads[name] > 1 and size:
                passing = sum(self._cluster_bytes(other, work) for other in loads if other not in (*staged, name))
                if fit((*staged.values(), size, passing, passing, storing, storing), self._request.global_gaps):
                    staged[name] = size
        return staged

    def fits(self, tiling: Tiling) -> bool:
        """Whether all buffers of ``tiling`` find their gaps, and its weights the prefetch buffers."""
        request = self._request
        if not (fit(tiling.local_buffers, request.local_gaps) and fit(tiling.global_buffers, request.global_gaps)):
            return False
        return request.prefetch is None or all(
            used <= size for used, size in zip(tiling.prefetch_bytes, request.prefetch, strict=True)
        )

    def shortage(self, tiling: Tiling) -> str:
        """Return what is missing for ``tiling``, and what to raise."""
        request = self._request
        return (
            f"layer {request.layer.sink.name!r}: its smallest tile needs {sum(tiling.local_buffers)} bytes of local"
            f" buffer and {sum(tiling.global_buffers)} of global buffer; {sum(request.local_gaps)} and"
            f" {self._global_room} are free: raise local_buffer.capacity or global_buffer.capacity"
        )

    def _prefetchable(
        self, order: Sequence[int], counts: Sequence[int], steps: int, loads: Mapping[str, int]
    ) -> dict[str, tuple[int, int]]:
        """Return the weights that every core gets once, version by version: those can be fetched ahead."""
        request = self._request
        if request.prefetch is None:
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
        request, route = self._request, self._request.routes[name]
        cluster_bytes = math.ceil(work.operand_bytes.get(name, 0) * route.from_ddr) * request.cores
        return math.ceil(cluster_bytes / route.cores_sharing * self._filled[name])

    def _global_buffers(self, work: TileWork, elsewhere: Container[str], staged: Mapping[str, int]) -> tuple[int, ...]:
        """Return the layer's buffers in the global buffer: staged operands, two tiles of what has no place elsewhere.

        What is loaded together lies together; so do the output tiles of a burst.
        """
        if not self._view.global_buffer_bytes:
            return ()
        passing = sum(self._cluster_bytes(name, work) for name in self._request.routes if name not in elsewhere)
        storing = self._storing(work.output_bytes) // 2
        return (*staged.values(), passing, passing, storing, storing)

    def _storing(self, output_bytes: int) -> int:
        """Return the global buffer that output tiles on their way to DDR take: one burst collects, one leaves."""
        if self._request.output_memory != DDR:
            return 0
        tile = output_bytes * self._request.cores
        return 2 * (self._burst // tile * tile + tile) if tile < self._burst else 2 * tile


_bytes_loaded = operator.itemgetter(0)
