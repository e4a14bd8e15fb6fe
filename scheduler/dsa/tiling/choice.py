"""Choice of tiles for each layer run of a schedule, cached for equal tile requests.

The first search assumes empty buffers, so that its result depends on the layer alone. Only if that tiling does not fit
the actual gaps, a second search for these follows.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from dsascape.scheduler.dsa.placing.allocation import fit
from dsascape.scheduler.dsa.tiling.search import TilingError, choose_tiling
from dsascape.scheduler.dsa.tiling.tiling import TileRequest, Tiling
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.errors import ScheduleError
from dsascape.workloads.analysis import Table

_MOST_TILINGS = 20_000


def equivalence_key(request: TileRequest) -> Hashable:
    """Return the cache key of a tile request without its gaps and operand names."""
    layer, routes = request.layer, request.routes
    ways = tuple([(place, routes[name]) for place, name in enumerate(layer.inputs) if name in routes])
    return (
        layer.signature, ways, request.box, request.part, request.cores, request.units, request.output_memory,
        request.stored_in, request.prefetch, request.overlaps, request.paper_tiles, request.dtype, request.pin,
        request.reloads,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class TilingCache:
    """Bounded cache of tilings for one machine, shared by networks and policies.

    All caches are equal, as arguments of memoized functions: no result depends on what has been stored before.
    """

    tilings: Table[Tiling] = field(default_factory=lambda: Table(_MOST_TILINGS, choose_tiling))

    def __hash__(self) -> int:
        return hash(TilingCache)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TilingCache)


@dataclass(frozen=True, slots=True)
class TileChooser:
    """Chooses tilings on a machine whose buffers have ``local_bytes`` and ``global_bytes`` when empty."""

    view: DsaView
    local_bytes: int
    global_bytes: int
    cache: TilingCache

    def choose(self, request: TileRequest) -> Tiling:
        """Return the tiling for ``request``; raise ``ScheduleError`` if not even the smallest tile fits."""
        try:
            alone = self._found(request, (self.local_bytes,), (self.global_bytes,))
            fits = fit(alone.local_buffers, request.local_gaps) and fit(alone.global_buffers, request.global_gaps)
            tiling = alone if fits else self._found(request, request.local_gaps, request.global_gaps)
        except TilingError as error:
            raise ScheduleError(f"{request.layer.graph.name}: {error}") from error
        return tiling.with_names(tuple(request.routes))  # it may come from the cache, for an equal layer

    def _found(self, request: TileRequest, local_gaps: tuple[int, ...], global_gaps: tuple[int, ...]) -> Tiling:
        """Return the cached or searched tiling for ``request`` in these gaps instead of its own."""
        view = self.view
        key = equivalence_key(request), local_gaps, global_gaps, view.outer_timing, view.single_buffers

        def choose() -> Tiling:
            return choose_tiling(replace(request, local_gaps=local_gaps, global_gaps=global_gaps), view)

        return self.cache.tilings.get(key, choose)
