"""Cuts of one core's part of a layer into tiles, with data that does not depend on buffer sizes and bandwidths.

The points of a sweep differ in buffers and bandwidths, but try the same cuts of the same layers. So cuts are cached
with the network.
"""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dsascape.scheduler.dsa.tiling.tiling import Route, TileRequest
from dsascape.scheduler.kernels.layer import DEPTH, Layer
from dsascape.scheduler.kernels.tile_work import TileWork
from dsascape.scheduler.parts import filled
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import Memos, memoized

_MOST_LAYERS = 2_000
"""Size of the cache of layers per network, by part and routes; each may have hundreds of cuts."""
_MOST_CUTS = 1_000
"""Size of the cache of cuts per layer with its part and routes."""


def operands_filled(layer: Layer, box: Extents, part: Extents, names: Iterable[str]) -> dict[str, float]:
    """Return, per operand, the fraction of the padded per-core parts of ``box`` that holds data.

    It is below 1 where the cores' parts are uneven; the shortfall is spread over all tiles.
    """
    depends = layer.dependencies
    dims = {name: sorted(depends.get(name, frozenset()) - {DEPTH}) for name in names}
    return {name: filled([box[d] for d in along], [part[d] for d in along]) for name, along in dims.items()}


class CutOperand(NamedTuple):
    """A streamed operand of a cut layer."""

    name: str
    times: int
    """Number of times it is loaded into the local buffer."""
    outside: tuple[tuple[str, float, float], ...]
    """Memories beyond the global buffer from which it is loaded, with the share that each has of all of it, and of what
    comes from beyond the global buffer."""
    is_broadcast: bool
    tile_bytes: int
    """Bytes of one core's tile, resident parts included."""
    streamed_bytes: int
    """Bytes of one core's tile that are brought to its local buffer."""
    needed_bytes: float
    """Bytes of one tile for all cores together, shared bytes counted once."""
    moved_bytes: float
    """Bytes of one tile for all cores together that are not resident, shared bytes counted once."""
    cores_sharing: int
    """Number of cores that need the same bytes."""
    versions: int
    """Number of versions of a weight eligible for prefetch (loaded once by every core, part by part); 0 for others."""
    from_clusters: float
    """Share of all of it that other clusters send over their link."""
    linked: float
    """Their share of what comes from beyond the global buffer."""
    receivers: int
    """Number of clusters that receive each byte sent."""


class Cut(NamedTuple):
    """A cut of a core's part of a layer into tiles, with the resulting loads of its operands."""

    tile: Extents
    order: tuple[int, ...]
    """Dimensions of the sink, the outermost first."""
    depth: int | None
    work: TileWork
    """Work of a full tile, not cut short by an edge."""
    operands: tuple[CutOperand, ...]
    loads: Mapping[str, int]
    """Number of times each operand is loaded."""
    passing_bytes: Mapping[str, int]
    """Bytes from DDR per tile of each operand, for all cores."""
    ahead: Mapping[str, tuple[int, int]]
    """Weights eligible for prefetch: (versions, total bytes for all cores)."""
    reloaded: tuple[tuple[int, str], ...]
    """Operands from DDR that are loaded several times, the smallest first: (bytes for all cores, operand)."""
    tiles: int
    depth_steps: int

    @property
    def is_possible(self) -> bool:
        """Whether the cut respects sequential iterations, which need results summed over the whole depth."""
        return self.depth_steps == 1 or self.work.rounds == 1

    @property
    def passes(self) -> int:
        """Tiles times steps along the depth."""
        return self.tiles * self.depth_steps


class Cuts:
    """Cuts of one layer for a box of its sink, one core's part of that, and the routes of its operands."""

    memo_key = memo_identity = None
    """All cuts that are stored here belong to the one layer, part and routes."""

    def __init__(
        self, layer: Layer, box: Extents, part: Extents, cores: int, routes: Mapping[str, Route], *, reloads: bool
    ) -> None:
        self.memos: Memos = {}
        self._layer = layer
        self._part = part
        self._cores = cores
        self._routes = routes
        self._reloads = reloads
        self._depends = layer.dependencies
        self.depth_extent = math.prod(layer.depth_extents)
        """Iterations of the layer's depth loops."""
        self.orders = self._candidate_orders(layer.sink.order)
        """Candidate orders of the sink dimensions, the outermost first."""
        whole = layer.tile_work(box)
        self.distinct: Mapping[str, int] = {
            name: math.ceil(whole.operand_bytes.get(name, 0) * route.from_outside)
            for name, route in routes.items()
        }
        """Bytes of each operand in DDR, each byte counted once, for all cores."""
        self.filled: Mapping[str, float] = operands_filled(layer, box, part, routes)
        """Fraction of the padded per-core parts that holds data, per operand (`operands_filled`)."""

    @staticmethod
    def of(request: TileRequest) -> "Cuts":
        """Return the cuts for ``request``, cached with the network for all machines."""
        routes = tuple(request.routes.items())
        return _cuts(request.layer, request.box, request.part, request.cores, routes, request.reloads)

    def _candidate_orders(self, order: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the memory order, and for each operand the order that loads it least: its dimensions outermost."""
        orders = {order: None}
        for name in self._routes:
            outer = [dim for dim in order if dim in self._depends.get(name, ())]
            orders[tuple(outer + [dim for dim in order if dim not in outer])] = None
        return list(orders)

    @memoized(most=_MOST_CUTS)
    def least_loaded(self, tile: Extents, depth: int | None) -> Cut:
        """Return the cut into ``tile`` elements and ``depth`` iterations in the order that loads fewest bytes.

        All orders that differ in the dimensions that are cut are tried; the first is taken on a tie.
        """
        counts, steps = self._counts(tile, depth)
        work = self._layer.tile_work(tile, depth)
        best: dict[tuple[tuple[int, int], ...], tuple[int, tuple[int, ...], dict[str, int]]] = {}
        for order in self.orders:
            trips = [(dim, counts[dim]) for dim in order if counts[dim] > 1]
            key = tuple(trips)
            if key not in best:
                loads = self._loads([*trips, (DEPTH, steps)], work)
                best[key] = sum([n * work.operand_bytes[name] for name, n in loads.items()]), order, loads
        _, order, loads = min(best.values(), key=_bytes_loaded)
        return self._cut(tile, depth, order, loads)

    def ordered(self, tile: Extents, depth: int | None, order: tuple[int, ...]) -> Cut:
        """Return the cut into ``tile`` elements and ``depth`` iterations in the given order of dimensions."""
        counts, steps = self._counts(tile, depth)
        trips = [*((dim, counts[dim]) for dim in order), (DEPTH, steps)]
        return self._cut(tile, depth, order, self._loads(trips, self._layer.tile_work(tile, depth)))

    def _counts(self, tile: Extents, depth: int | None) -> tuple[list[int], int]:
        """Return the number of tiles per dimension, and of steps along the depth."""
        computed = self._layer.computed_part(self._part, tile)
        counts = [-(-whole // part) for whole, part in zip(computed, tile, strict=True)]
        return counts, 1 if depth is None else -(-self._layer.depth_extent_of(tile) // depth)

    def _loads(self, trips: Sequence[tuple[int, int]], work: TileWork) -> dict[str, int]:
        """Return the loads of each operand: once per change of a loop it depends on, or of a loop outside that.

        Where every tile reloads its operands, once per tile and step along the depth.

        ``trips``: loops with their trip counts, outermost first.
        """
        loads = {}
        for name in self._routes:
            if name in work.operand_bytes:
                depends = self._depends.get(name, frozenset())
                times = rounds = 1
                for loop, count in trips:
                    rounds *= count
                    if count > 1 and loop in depends:
                        times = rounds
                loads[name] = rounds if self._reloads else times
        return loads

    def _cut(self, tile: Extents, depth: int | None, order: tuple[int, ...], loads: Mapping[str, int]) -> Cut:
        """Return the cut with its derived data."""
        counts, steps = self._counts(tile, depth)
        work = self._layer.tile_work(tile, depth)
        trips = {**{dim: counts[dim] for dim in order}, DEPTH: steps}
        operands = tuple([self._operand(name, times, work, trips) for name, times in loads.items()])
        passing = {name: self._passing_bytes(name, work) for name in self._routes}
        ahead = {each.name: (each.versions, self.distinct[each.name]) for each in operands if each.versions}
        again = sorted([(self.distinct[name], name) for name, n in loads.items() if n > 1 and self.distinct[name]])
        return Cut(
            tile, order, depth, work, operands, loads, passing, ahead, tuple(again), math.prod(counts), steps
        )  # fmt: skip

    def _operand(self, name: str, times: int, work: TileWork, trips: Mapping[int, int]) -> CutOperand:
        route, tile_bytes = self._routes[name], work.operand_bytes[name]
        versions = math.prod(trips[loop] for loop in self._depends.get(name, ()))
        is_weight = self._layer.graph.tensors[name].role == "weight"
        comes_ahead = is_weight and route.from_ddr == 1.0 and versions == times
        needed = tile_bytes * self._cores / route.cores_sharing
        outside = tuple([(memory, share, share / route.from_outside) for memory, share in route.loaded_from])
        return CutOperand(
            name, times, outside, route.broadcast, tile_bytes, math.ceil(tile_bytes * route.streamed),
            needed, needed * route.streamed, route.cores_sharing, versions if comes_ahead else 0, route.from_clusters,
            route.linked, route.receivers,
        )  # fmt: skip

    def _passing_bytes(self, name: str, work: TileWork) -> int:
        route = self._routes[name]
        cluster_bytes = math.ceil(work.operand_bytes.get(name, 0) * route.from_outside) * self._cores
        return math.ceil(cluster_bytes / route.cores_sharing * self.filled[name])


@memoized(most=_MOST_LAYERS, by_identity=True)
def _cuts(
    layer: Layer, box: Extents, part: Extents, cores: int, routes: tuple[tuple[str, Route], ...], reloads: bool
) -> Cuts:
    return Cuts(layer, box, part, cores, dict(routes), reloads=reloads)


_bytes_loaded = operator.itemgetter(0)
