"""Cost model of a layer with given tiles: the machine's pipeline in closed form, without simulation.

The slowest of DMA, link between clusters, on-chip path, broadcast and compute units sets the pace; the first load, one
tile's computation and the last store stand alone. Only the search for tiles uses this; every reported time is
simulated.
"""

import math
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from dsascape.scheduler.dsa.tiling.cuts import Cut, CutOperand
from dsascape.scheduler.dsa.tiling.tiling import TileRequest
from dsascape.scheduler.dsa.view import DDR, LOCAL, DmaTiming, DsaView


class Choice(NamedTuple):
    """Tiling candidate to be estimated: its cut, and which operands are staged or prefetched."""

    cut: Cut
    unit_ps: Sequence[int]
    """Time in ps of each busy unit of a core for one tile."""
    staged: Mapping[str, int]
    prefetched: Container[str]
    distinct: Mapping[str, int]
    """Bytes of each operand in DDR, each byte counted once, for all cores."""


class _First(NamedTuple):
    """One load of the first tile, on chip or from DDR."""

    on_chip_ps: float
    """Uncontended time of an on-chip load; zero for a load from DDR."""
    ddr_bytes: float = 0.0
    held_bytes: int = 0
    """Bytes of the prefetch buffer that it occupies, if it is prefetched."""
    staged_bytes: int = 0
    """Bytes of its whole operand, if that is staged: the first load is at least a burst of it."""


class Stages(NamedTuple):
    """Demand of a layer's tiles on each pipeline stage, independent of DDR bandwidth."""

    passes: int
    ddr_bytes: float
    """Total bytes loaded from DDR."""
    ddr_loads: tuple[tuple[int, int], ...]
    """Loads of each operand from DDR as (bytes, times), one of them zero: all of its bytes if it is staged, loaded in
    bursts; else the number of times it is loaded, one transfer for all operands that change together."""
    stored_tiles: int
    """Number of output tiles that go to DDR."""
    stored_bytes: float
    path_ps: float
    broadcast_ps: float
    link_ps: float
    """Time of the exchanges over the link between clusters."""
    computing_ps: tuple[int, ...]
    """Total time of each concurrently busy unit."""
    first: tuple[_First, ...]
    on_chip_starts_ps: int
    """Start-up time of the first tile's on-chip loads."""
    tile_ps: int
    """Computation time of one tile."""
    last_ps: float
    """Time of the on-chip store of the last tile."""

    def estimate_ps(self, dma: DmaTiming, prefetch_bytes: int, hidden_cost: float) -> float:
        """Return the layer's estimated time in ps with a local prefetch buffer of ``prefetch_bytes``.

        ``hidden_cost``: share of the faster stages' time that is added to the slowest one's.
        """
        (
            passes, ddr_bytes, ddr_loads, stored_tiles, stored_bytes, path_ps, broadcast_ps, link_ps, computing_ps,
            first, on_chip_starts_ps, tile_ps, last_ps,
        ) = self  # fmt: skip
        bytes_per_ps, burst_bytes, dma_startup_ps, _ = dma
        starts = 0.0
        for staged_bytes, times in ddr_loads:
            if staged_bytes:
                starts += max(staged_bytes / burst_bytes, 1.0)
            elif times > starts:
                starts = float(times)
        load_ps = dma.moving_ps(ddr_bytes, max(starts - 1, 0))
        store_ps = 0.0
        if stored_tiles:
            bursts = max(min(stored_tiles, stored_bytes / burst_bytes), 1.0)
            store_ps = dma.moving_ps(stored_bytes, bursts - 1)
            last_ps += stored_bytes / bursts / bytes_per_ps + dma_startup_ps
        stages = [load_ps, store_ps, path_ps, broadcast_ps, link_ps, *computing_ps]
        together_ps = 0.0
        for stage_ps in stages:  # from Python 3.12 on `sum` rounds otherwise
            together_ps += stage_ps
        slowest_ps = max(*stages, (ddr_bytes + stored_bytes) / bytes_per_ps)
        paced_ps = slowest_ps * (1 - 1 / passes) + hidden_cost * (together_ps - slowest_ps)
        first_ps = 0.0
        for on_chip_ps, first_bytes, held_bytes, staged_bytes in first:
            loaded_bytes = min(max(first_bytes, burst_bytes), staged_bytes) if staged_bytes else first_bytes
            alone_ps = loaded_bytes / bytes_per_ps if loaded_bytes else on_chip_ps
            if held_bytes and 2 * held_bytes < prefetch_bytes:
                first_ps += alone_ps * (2 * held_bytes / prefetch_bytes)
            else:  # a version of half the prefetch buffer or more delays the others
                first_ps += alone_ps
        return paced_ps + (first_ps + on_chip_starts_ps + dma_startup_ps * bool(starts)) + (tile_ps + last_ps)


def _exchanges_ps(operand: CutOperand, staged_bytes: int, view: DsaView) -> float:
    """Return the time in ps in which a cluster receives an operand from others, once if it stays in the global buffer.

    ``staged_bytes``: bytes of the operand that stay there; 0 if its tiles pass through.
    """
    received_bytes = (staged_bytes or operand.needed_bytes * operand.from_ddr) * operand.linked
    once_ps = view.exchange_ps(received_bytes, operand.receivers) + view.exchange_startup_ps
    return once_ps if staged_bytes else operand.times * once_ps


def stages_of(request: TileRequest, choice: Choice, view: DsaView) -> Stages:
    """Return the demand of a layer's tiles on each stage; depends neither on buffer sizes nor on DDR."""
    cut, staged, prefetched, has_prefetch = choice.cut, choice.staged, choice.prefetched, request.prefetch is not None
    path_bytes_per_ps, broadcast_bytes_per_ps = view.path_bytes_per_ps, view.broadcast_bytes_per_ps
    ddr_bytes = path_ps = broadcast_ps = link_ps = 0.0
    path_starts = broadcast_starts = 0
    """Number of transfers on path and broadcast: operands that change with a tile are moved together."""
    first: list[_First] = []
    ddr_loads: list[tuple[int, int]] = []
    for operand in cut.operands:
        name, times, from_ddr, is_broadcast, tile_bytes, _, needed_bytes, moved_bytes, sharing, _, linked, _ = operand
        goes_around = has_prefetch and name not in prefetched
        held_bytes = tile_bytes if has_prefetch and not goes_around else 0
        if is_broadcast:
            once_ps = moved_bytes / broadcast_bytes_per_ps
            broadcast_ps += times * once_ps
            broadcast_starts = times if times > broadcast_starts else broadcast_starts
        else:
            once_ps = moved_bytes * (sharing if view.has_global_buffer else 1) / path_bytes_per_ps
            path_ps += times * once_ps
            path_starts = times if times > path_starts else path_starts
        first.append(_First(once_ps, 0.0, held_bytes))
        if goes_around and from_ddr:
            first.append(_First(0.0, choice.distinct[name] * (1 - linked)))  # nothing of it is prefetched
        staged_bytes = staged.get(name, 0)
        if linked:
            exchanges_ps = _exchanges_ps(operand, staged_bytes, view)
            link_ps += exchanges_ps
            first.append(_First(exchanges_ps / times))
            staged_bytes, from_ddr = math.ceil(staged_bytes * (1 - linked)), from_ddr * (1 - linked)
        if staged_bytes:
            ddr_bytes += staged_bytes
            ddr_loads.append((staged_bytes, 0))
            first.append(_First(0.0, needed_bytes, 0, staged_bytes))
        elif from_ddr:
            ddr_bytes += needed_bytes * times * from_ddr
            ddr_loads.append((0, times))
            first.append(_First(0.0, needed_bytes * from_ddr, held_bytes))
    path_ps += path_starts * view.path_startup_ps
    broadcast_ps += broadcast_starts * view.path_startup_ps
    stored_tiles, last_ps, stored_bytes = 0, 0.0, 0.0
    if request.output_memory != LOCAL:
        store_bytes = float(cut.work.output_bytes * request.cores)
        last_ps = store_bytes / path_bytes_per_ps + view.path_startup_ps
        path_ps += last_ps * cut.tiles
        if request.output_memory == DDR:
            stored_tiles, stored_bytes = cut.tiles, store_bytes * cut.tiles
    tile_ps, passes = sum(choice.unit_ps), max(cut.passes, 1)
    # intermediates between nests have one buffer for all tiles
    one_after_the_other = cut.work.between_bytes > 0 or request.layer.is_ordered
    computing = [tile_ps] if one_after_the_other else choice.unit_ps
    on_chip_starts = (path_starts > 0) + (broadcast_starts > 0)
    return Stages(
        passes, ddr_bytes, tuple(ddr_loads), stored_tiles, stored_bytes, path_ps, broadcast_ps, link_ps,
        tuple([once_ps * passes for once_ps in computing]), tuple(first), on_chip_starts * view.path_startup_ps,
        tile_ps, last_ps,
    )  # fmt: skip
