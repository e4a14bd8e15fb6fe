"""What tiles of a layer on one core cost: the buffers that they take, how often operands are loaded, the time.

Operands that fit the global buffer stay there while the layer runs, so that DDR is read once for them, in long bursts,
however often their tiles go to the cores. Weights that every core gets once can be fetched ahead, through the windows.
"""

import math
import operator
from collections.abc import Container, Mapping, Sequence

from scheduler.allocation import fit
from scheduler.device import ScratchpadDevice
from scheduler.prefetch import ahead_room
from scheduler.tile_estimate import Choice, estimate_ps
from scheduler.tiling import TileRequest, Tiling, burst_bytes
from scheduler.work import DEPTH, Extents, TileWork

_BURSTS_AT_LEAST = 8
"""Bursts of output tiles that the free part of the global buffer holds: they shrink where it is small."""


class TileCandidates:
    """Tilings for one request, each with its price, whether they fit or not."""

    def __init__(self, request: TileRequest, device: ScratchpadDevice) -> None:
        self._request = request
        self._device = device
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

    def tiling(self, tile: Extents, depth: int | None) -> Tiling:
        """Return the tiling of ``tile`` elements and ``depth`` iterations in the order that loads fewest bytes."""
        request = self._request
        work = request.layer.tile_work(tile, depth)
        counts = [-(-whole // part) for whole, part in zip(request.part, tile, strict=True)]
        steps = 1 if depth is None else -(-self.depth_extent // depth)
        order, loads = self._best_order(counts, steps, work)
        streamed = {name: math.ceil(work.operand_bytes[name] * request.routes[name].streamed) for name in loads}
        output = work.output_bytes if request.output_scope != "local_buffer" else 0
        tiles = math.prod(counts)
        ahead = self._ahead(order, counts, steps, loads)
        slots = {name: size * (2 if loads[name] > 1 else 1) for name, size in streamed.items()}
        buffers = [streamed[name] for name in slots if name not in ahead for _ in range(2 if loads[name] > 1 else 1)]
        buffers += [work.internal_bytes, output, *([output] if tiles > 1 else [])]
        staged = self._staged({n: t for n, t in loads.items() if n not in ahead}, work, output)
        window = (
            sum(slots[name] for name in ahead),
            sum(2 * min(self._cluster_bytes(name, work), self._ahead_room(len(ahead))) for name in ahead),
        )
        choice = Choice(work, loads, staged, ahead, self._distinct, tiles, steps)
        staging = self._staging(work, {*staged, *ahead}, staged)
        return Tiling(
            part=request.part, tile=tile, order=order, depth=depth, depth_extent=self.depth_extent, loads=loads,
            ahead=ahead, staged=staged, buffers=tuple(buffers), staging=staging,
            window_bytes=window, store_burst_bytes=self._burst,
            tile_bytes=sum(streamed.values()) + work.internal_bytes + output,
            estimate_ps=estimate_ps(request, choice, self._device),
        )  # fmt: skip

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

    def fits(self, tiling: Tiling) -> bool:
        """Whether all buffers of ``tiling`` find their gaps, and its weights the windows."""
        request = self._request
        if not (fit(tiling.buffers, request.local_gaps) and fit(tiling.staging, request.shared_gaps)):
            return False
        return request.windows is None or all(
            used <= size for used, size in zip(tiling.window_bytes, request.windows, strict=True)
        )

    def shortage(self, tiling: Tiling) -> str:
        """Return what is missing for ``tiling``, and what to raise."""
        request = self._request
        return (
            f"layer {request.layer.sink.name!r}: its smallest tile needs {tiling.buffer_bytes} bytes of local buffer"
            f" and {tiling.staging_bytes} of global buffer; {sum(request.local_gaps)} and {self._staging_room} are"
            " free: raise local_buffer.capacity or global_buffer.capacity"
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


_bytes_loaded = operator.itemgetter(0)
