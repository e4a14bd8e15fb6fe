"""Cuts of one core's part of a layer into tiles: what follows from a cut alone, whatever the machine has room for.

The points of a sweep differ in buffers and bandwidths, but try the same cuts of the same layers. So cuts are kept with
the network.
"""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from dsascape.scheduler.dsa.tiling.tiling import TileRequest
from dsascape.scheduler.kernels.layer import DEPTH, Layer, TileWork
from dsascape.scheduler.parts import filled
from dsascape.workloads.analysis import Table
from dsascape.workloads.loopnest import Extents

_MOST_LAYERS = 2_000
"""Of one network, at different places: each may have hundreds of cuts."""
_MOST_CUTS = 1_000
"""Of one layer at one place."""


def operands_filled(layer: Layer, box: Extents, part: Extents, names: Iterable[str]) -> dict[str, float]:
    """Return of each operand the share that there is of equal parts, where cores' ``part`` s of ``box`` are uneven.

    What is short of the last parts is spread over all of their tiles.
    """
    depends = layer.dependencies
    dims = {name: sorted(depends.get(name, frozenset()) - {DEPTH}) for name in names}
    return {name: filled([box[d] for d in along], [part[d] for d in along]) for name, along in dims.items()}


class CutOperand(NamedTuple):
    """A streamed operand of a layer that is cut in a certain way."""

    name: str
    times: int
    """How often it is loaded into the local buffer."""
    from_ddr: float
    is_broadcast: bool
    tile_bytes: int
    """Of the local buffer, where all of it comes tile by tile."""
    streamed_bytes: int
    """Of one tile that is brought to one core."""
    needed_bytes: float
    """Of one tile, by all cores together, what they share counted once."""
    moved_bytes: float
    """Of these, what is not in the local buffers already."""
    versions: int
    """Of a weight that every core gets once, part by part: how many parts. Zero for all others."""


class Cut(NamedTuple):
    """A core's part of a layer cut into tiles, and what this makes of its operands."""

    tile: Extents
    order: tuple[int, ...]
    """Dimensions of the sink, the outermost first."""
    depth: int | None
    work: TileWork
    """Of a tile that no edge cuts short."""
    operands: tuple[CutOperand, ...]
    loads: Mapping[str, int]
    """How often each of them is loaded."""
    passing_bytes: Mapping[str, int]
    """By operand: what of a tile comes from DDR, for all cores together."""
    ahead: Mapping[str, tuple[int, int]]
    """Weights that every core gets once, version by version: how many versions, and their bytes for all cores."""
    reloaded: tuple[tuple[int, str], ...]
    """What comes from DDR and is loaded several times, the smallest first: bytes for all cores, and operand."""
    tiles: int
    depth_steps: int

    @property
    def is_possible(self) -> bool:
        """Whether no iteration begins before the one that it needs has been added up over the whole depth."""
        return self.depth_steps == 1 or self.work.rounds == 1

    @property
    def passes(self) -> int:
        """Tiles times steps along the depth."""
        return self.tiles * self.depth_steps


class Cuts:
    """The cuts of one layer at one place: a box of its sink, one core's part of that, the routes of its operands."""

    def __init__(self, request: TileRequest) -> None:
        layer = request.layer
        self._layer = layer
        self._part = request.part
        self._cores = request.cores
        self._routes = request.routes
        self._depends = layer.dependencies
        self.depth_extent = math.prod(layer.depth_extents)
        """Iterations of the layer's depth loops."""
        self.orders = self._candidate_orders(layer.sink.order)
        """Dimensions of the sink, the outermost first: what is tried."""
        whole = layer.tile_work(request.box)
        self.distinct: Mapping[str, int] = {
            name: math.ceil(whole.operand_bytes.get(name, 0) * route.from_ddr) for name, route in request.routes.items()
        }
        """Bytes of each operand that come from DDR at least once, for all cores."""
        self.filled: Mapping[str, float] = operands_filled(layer, request.box, request.part, request.routes)
        """Of each operand the share that there is of equal parts."""
        self._known: Table[Cut] = Table(_MOST_CUTS)

    @staticmethod
    def of(request: TileRequest) -> "Cuts":
        """Return the cuts that ``request`` asks for, with all that have been tried for whatever machine."""
        layer = request.layer
        key = layer.ops, request.box, request.part, request.cores, tuple(request.routes.items())
        return layer.analysis.table(Cuts, _MOST_LAYERS).get(key, partial(Cuts, request))

    def _candidate_orders(self, order: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the memory order, and the orders with one operand's dimensions outermost: it is loaded least."""
        orders = {order: None}
        for name in self._routes:
            outer = [dim for dim in order if dim in self._depends.get(name, ())]
            orders[tuple(outer + [dim for dim in order if dim not in outer])] = None
        return list(orders)

    def least_loaded(self, tile: Extents, depth: int | None) -> Cut:
        """Return the cut into ``tile`` elements and ``depth`` iterations in the order that loads fewest bytes."""
        return self._known.get((tile, depth), partial(self._least_loaded, tile, depth))

    def _least_loaded(self, tile: Extents, depth: int | None) -> Cut:
        """Try all orders that differ in the dimensions that are cut; the first of equals is taken."""
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
        """Return the cut in a certain order."""
        counts, steps = self._counts(tile, depth)
        trips = [*((dim, counts[dim]) for dim in order), (DEPTH, steps)]
        return self._cut(tile, depth, order, self._loads(trips, self._layer.tile_work(tile, depth)))

    def _counts(self, tile: Extents, depth: int | None) -> tuple[list[int], int]:
        """Return the tiles per dimension, and the steps along the depth."""
        counts = [-(-whole // part) for whole, part in zip(self._part, tile, strict=True)]
        return counts, 1 if depth is None else -(-self.depth_extent // depth)

    def _loads(self, trips: Sequence[tuple[int, int]], work: TileWork) -> dict[str, int]:
        """Return how often each operand is loaded: once per change of a loop it depends on, or of one outside that.

        ``trips``: loops and how often they go round, outermost first.
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
                loads[name] = times
        return loads

    def _cut(self, tile: Extents, depth: int | None, order: tuple[int, ...], loads: Mapping[str, int]) -> Cut:
        """Return the cut with all that follows from it."""
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
        return CutOperand(
            name, times, route.from_ddr, route.broadcast, tile_bytes, math.ceil(tile_bytes * route.streamed),
            needed, needed * route.streamed, versions if comes_ahead else 0,
        )  # fmt: skip

    def _passing_bytes(self, name: str, work: TileWork) -> int:
        route = self._routes[name]
        cluster_bytes = math.ceil(work.operand_bytes.get(name, 0) * route.from_ddr) * self._cores
        return math.ceil(cluster_bytes / route.cores_sharing * self.filled[name])


_bytes_loaded = operator.itemgetter(0)
