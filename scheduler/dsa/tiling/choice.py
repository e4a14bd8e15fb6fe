"""Tiles for each layer run of a schedule; equal layers in equal places are searched once.

First the tiles are sought that would be best with the buffers to themselves, which depends on the layer alone. Only
where they do not fit beside what else is kept, a search for just that room follows.
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


def asked_alike(request: TileRequest) -> Hashable:
    """Return all of ``request`` but its gaps and the names of operands: equal layers in equal places ask alike."""
    layer, routes = request.layer, request.routes
    ways = tuple([(place, routes[name]) for place, name in enumerate(layer.inputs) if name in routes])
    return (
        layer.signature, ways, request.box, request.part, request.cores, request.units, request.output_memory,
        request.prefetch, request.overlaps, request.paper_tiles, request.dtype,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownTilings:
    """Tilings that have been found for one machine, whatever the network; bounded."""

    tilings: Table[Tiling] = field(default_factory=lambda: Table(_MOST_TILINGS))


@dataclass(frozen=True, slots=True)
class TileChooser:
    """Finds tilings on a machine whose buffers leave ``local_bytes`` and ``global_bytes`` where nothing is kept."""

    view: DsaView
    local_bytes: int
    global_bytes: int
    known: KnownTilings

    def choose(self, request: TileRequest) -> Tiling:
        """Return the tiling for ``request``; raise ``ScheduleError`` if not even the smallest tile fits."""
        try:
            alone = self._found(request, (self.local_bytes,), (self.global_bytes,))
            fits = fit(alone.local_buffers, request.local_gaps) and fit(alone.global_buffers, request.global_gaps)
            tiling = alone if fits else self._found(request, request.local_gaps, request.global_gaps)
        except TilingError as error:
            raise ScheduleError(f"{request.layer.graph.name}: {error}") from error
        return tiling.with_names(tuple(request.routes))  # it may have been found for an equal layer

    def _found(self, request: TileRequest, local_gaps: tuple[int, ...], global_gaps: tuple[int, ...]) -> Tiling:
        """Return the tiling for ``request`` in these gaps, whatever its own are."""
        key = asked_alike(request), local_gaps, global_gaps, self.view.ddr_bytes_per_ps

        def choose() -> Tiling:
            return choose_tiling(replace(request, local_gaps=local_gaps, global_gaps=global_gaps), self.view)

        return self.known.tilings.get(key, choose)
