"""Tiles for each layer run of a schedule; equal layers in equal places are searched once.

First the tiles are sought that would be best with the buffers to themselves, which depends on the layer alone. Only
where they do not fit beside what else is kept, a search for just that room follows.
"""

from dataclasses import dataclass, field, replace

from scheduler.allocation import fit
from scheduler.device import ScheduleError, ScratchpadDevice
from scheduler.tile_search import TilingError, choose_tiling
from scheduler.tiling import TileRequest, Tiling

TilingCache = dict[tuple[object, ...], Tiling]


@dataclass(frozen=True, slots=True)
class TileChooser:
    """Finds tilings on ``device``, whose buffers leave ``local_bytes`` and ``shared_bytes`` where nothing is kept."""

    device: ScratchpadDevice
    local_bytes: int
    shared_bytes: int
    cache: TilingCache
    _seen: set[tuple[int, ...]] = field(default_factory=set)

    def choose(self, request: TileRequest) -> Tiling:
        """Return the tiling for ``request``; raise ``ScheduleError`` if not even the smallest tile fits."""
        if request.layer.ops not in self._seen:  # the whole part decides on units, whether its tiles are known or not
            self._seen.add(request.layer.ops)
            self.device.compute_ps(request.layer.tile_work(request.part), request.dtype)
        try:
            alone = self._found(replace(request, local_gaps=(self.local_bytes,), shared_gaps=(self.shared_bytes,)))
            if fit(alone.buffers, request.local_gaps) and fit(alone.staging, request.shared_gaps):
                tiling = alone
            else:
                tiling = self._found(request)
        except TilingError as error:
            raise ScheduleError(f"{request.layer.graph.name}: {error}") from error
        names = tuple(request.routes)  # of this layer: the tiling may have been found for an equal one
        return tiling if tuple(tiling.loads) == names else tiling.with_names(names)

    def _found(self, request: TileRequest) -> Tiling:
        layer, routes = request.layer, request.routes
        ways = tuple((place, routes[name]) for place, name in enumerate(layer.inputs) if name in routes)
        rest = (
            request.box, request.part, request.cores, request.output_scope, request.local_gaps, request.shared_gaps,
            request.windows, request.overlaps, request.paper_tiles, request.dtype, self.device.ddr_bytes_per_ps,
        )  # fmt: skip
        key = (layer.signature, ways, rest)
        if key not in self.cache:
            self.cache[key] = choose_tiling(request, self.device)
        return self.cache[key]
