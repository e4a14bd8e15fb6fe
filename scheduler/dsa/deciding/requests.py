"""Tile requests for every layer run of a layout: operands, units, halo exchange, free space.

None of it depends on DDR bandwidth, so requests are computed once for all machines that differ in DDR alone. Runs with
equal requests share one tile search.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from dsascape.scheduler.dsa.costs import DsaCosts
from dsascape.scheduler.dsa.deciding.unit_choice import Units
from dsascape.scheduler.dsa.pins import pinned_units, tile_pin
from dsascape.scheduler.dsa.placing.free_space import Blocks, FreeSpace, KeptSlices
from dsascape.scheduler.dsa.placing.needs import (
    RunNeeds,
    exchange_rounds,
    outermost_memory,
    output_shares,
    outside_shares,
)
from dsascape.scheduler.dsa.schedule.schedule import HaloExchange, LayerRun, Layout, PrefetchBuffers
from dsascape.scheduler.dsa.tiling.choice import TileChooser, equivalence_key
from dsascape.scheduler.dsa.tiling.tiling import Route, TileRequest, Tiling
from dsascape.scheduler.dsa.view import GLOBAL, LOCAL, DsaView


class ExecutionOptions(NamedTuple):
    """Options of execution: prefetch buffers (None: no prefetching), overlap of layers, the paper's tiles."""

    prefetch: PrefetchBuffers | None
    overlaps_layers: bool
    paper_tiles: bool


class RunRequest(NamedTuple):
    """Decisions about a layer run before its tiles are chosen, and the free space for them."""

    routes: Mapping[str, Route]
    units: Units
    exchange: HaloExchange
    request: int
    """Index of its tile request in `TileRequests.requests`."""
    space: FreeSpace
    """Free space of the on-chip memories while it runs."""
    own: Blocks
    """Blocks of the slices that it writes."""
    freed: Blocks
    """Blocks of the slices that are dead once it has ended."""


class TileRequests(NamedTuple):
    """Tile requests of a layout: one entry per run, and the distinct requests, operand names aside."""

    runs: tuple[RunRequest, ...]
    requests: tuple[TileRequest, ...]

    def tilings(self, chooser: TileChooser) -> list[Tiling]:
        """Return the tiling of every request; raise ``ScheduleError`` if the smallest tiles of one do not fit."""
        return [chooser.choose(request) for request in self.requests]


def capacities(view: DsaView, prefetch: PrefetchBuffers | None) -> dict[str, int]:
    """Return the bytes that a cluster has of each on-chip memory, of local buffers a core, less its prefetch buffer."""
    own = {} if prefetch is None else {LOCAL: prefetch.local_address, GLOBAL: prefetch.global_address}
    return {LOCAL: view.local_buffer_bytes, GLOBAL: view.global_buffer_bytes, **view.room_bytes, **own}


def requests_of(layout: Layout, costs: DsaCosts, options: ExecutionOptions, needs: Sequence[RunNeeds]) -> TileRequests:
    """Return the tile requests of the runs of ``layout``; ``needs``: halos and routes of each run.

    Raises ``ScheduleError`` if an on-chip slice has no address.
    """
    builder = _RequestBuilder(layout, costs, options)
    kept = KeptSlices(layout, capacities(costs.view, options.prefetch), costs.view.tuning.most_gaps)
    runs: list[RunRequest] = []
    numbers: dict[Hashable, int] = {}
    requests: list[TileRequest] = []
    for step, (run, (core_bytes, routes)) in enumerate(zip(layout.runs, needs, strict=True)):
        own, space = kept.begin(run), kept.space()
        exchange = builder.exchange(run, core_bytes, space)
        request = builder.request(run, routes, exchange, space)
        key = equivalence_key(request), request.local_gaps, request.global_gaps
        number = numbers.setdefault(key, len(numbers))
        if number == len(requests):
            requests.append(request)
        runs.append(RunRequest(routes, request.units, exchange, number, space, own, kept.end(run, step)))
    return TileRequests(tuple(runs), tuple(requests))


class _RequestBuilder:
    def __init__(self, layout: Layout, costs: DsaCosts, options: ExecutionOptions) -> None:
        self._slices = layout.slices
        self._costs = costs
        self._view = costs.view
        self._options = options

    def exchange(self, run: LayerRun, core_bytes: int, space: FreeSpace) -> HaloExchange:
        """Return the halo exchange of ``core_bytes`` per core through half of the global buffer's largest gap.

        Without a global buffer, cores exchange halos directly.
        """
        if not core_bytes or not self._view.global_buffer_bytes:
            return HaloExchange(core_bytes)
        room_bytes = space.free_gaps(GLOBAL, 0, 1)[0] // 2
        return exchange_rounds(core_bytes, run.binding.cores, room_bytes)

    def request(
        self, run: LayerRun, routes: Mapping[str, Route], exchange: HaloExchange, space: FreeSpace
    ) -> TileRequest:
        """Return the tile request of a run; its buffers have to fit the gaps of ``space``."""
        options, tensors, part = self._options, run.layer.graph.tensors, run.binding.part_extents(run.extents)
        prefetch = options.prefetch
        step = max(self._view.local_buffer_bytes // self._view.tuning.gap_steps, 1)
        brings_activations = any(tensors[name].role != "weight" for name in routes)
        costs, pinned = self._costs, self._costs.pin_of(run.layer)
        shares = output_shares(run, self._slices)
        units = pinned_units(pinned, run.layer, part, self._view, costs.dtype) or costs.units_of(run.layer, part)
        return TileRequest(
            layer=run.layer, box=run.extents, part=part, cores=run.binding.cores,
            units=units, routes=routes, pin=tile_pin(pinned, run.layer),
            output_memory=outermost_memory(shares), stored_in=outside_shares(shares),
            dtype=self._costs.dtype, paper_tiles=options.paper_tiles,
            prefetch=None if prefetch is None else (prefetch.local_bytes, prefetch.global_bytes),
            local_gaps=space.free_gaps(LOCAL, exchange.core_bytes, step),
            global_gaps=space.free_gaps(GLOBAL, exchange.staged_bytes, 1),
            overlaps=options.overlaps_layers and not brings_activations and not exchange.core_bytes,
            reloads=self._view.spec.local_buffer.reloads,
        )  # fmt: skip
