"""The estimate of a layer's time with given tiles, before it is simulated: the machine's pipeline in closed form.

The slowest of DMA, on-chip path, broadcast and compute units sets the pace; the first load, one tile's computation and
the last store stand alone. Only the search for tiles uses this; every reported time is simulated.
"""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from scheduler.dsa.tiling.cuts import Cut
from scheduler.dsa.tiling.tiling import TileRequest
from scheduler.dsa.view import DsaView


class Choice(NamedTuple):
    """Tiles to be judged: the cut, where its operands wait meanwhile."""

    cut: Cut
    unit_ps: Sequence[int]
    """Time of every unit of a core at work for one tile."""
    staged: Mapping[str, int]
    prefetched: Container[str]
    distinct: Mapping[str, int]
    """Bytes of each operand that come from DDR at least once, for all cores."""


class Pace(NamedTuple):
    """The parts of an estimate, as far as they do not depend on how much the prefetch buffers hold."""

    paced_ps: float
    """What the slowest stage takes for all tiles but one."""
    first_loads: tuple[tuple[float, int], ...]
    """Of the first tile: the time of each load alone; where it comes ahead through a prefetch buffer, the bytes that it
    takes there, else 0."""
    starts_ps: tuple[int, int]
    """Of these: the start-ups of the on-chip units, and of the DMA."""
    one_ps: float
    """The computation of a tile and the last store."""

    def estimate_ps(self, prefetch_bytes: int) -> float:
        """Return the layer's estimated time if the local prefetch buffer holds ``prefetch_bytes``."""
        first_ps = 0.0
        for alone_ps, held_bytes in self.first_loads:
            if held_bytes and 2 * held_bytes < prefetch_bytes:
                first_ps += alone_ps * (2 * held_bytes / prefetch_bytes)
            else:  # what takes half of the prefetch buffer or more keeps others from coming in time
                first_ps += alone_ps
        on_chip_ps, dma_ps = self.starts_ps
        return self.paced_ps + (first_ps + on_chip_ps + dma_ps) + self.one_ps


class _Loads(NamedTuple):
    """Time of the loading stages, and of the first tile's loads alone."""

    ddr_bytes: float
    ddr_starts: float
    path_ps: float
    path_starts: int
    """What changes with a tile is moved together: as often as the operand that changes most often."""
    broadcast_ps: float
    broadcast_starts: int
    first: tuple[tuple[float, int], ...]


def pace(request: TileRequest, choice: Choice, view: DsaView) -> Pace:
    """Return the layer's estimate, which `Pace.estimate_ps` completes; no sizes of buffers are read for it."""
    cut = choice.cut
    tiles, passes = cut.tiles, max(cut.passes, 1)
    ddr_bytes, ddr_starts, path_ps, path_starts, broadcast_ps, broadcast_starts, first = _loads(request, choice, view)
    load_ps = view.dma_ps(ddr_bytes, max(ddr_starts - 1, 0))
    store_ps = last_ps = stored_bytes = 0.0
    if request.output_memory != "local_buffer":
        store_bytes = float(cut.work.output_bytes * request.cores)
        once = store_bytes / view.path_bytes_per_ps + view.path_startup_ps
        path_ps += once * tiles
        last_ps = once
        if request.output_memory == "ddr":
            stored_bytes = store_bytes * tiles
            bursts = max(min(tiles, stored_bytes / view.burst_bytes), 1.0)
            store_ps = view.dma_ps(stored_bytes, bursts - 1)
            last_ps += stored_bytes / bursts / view.ddr_bytes_per_ps + view.dma_startup_ps
    tile_ps = sum(choice.unit_ps)
    one_after_the_other = cut.work.between_bytes > 0  # what nests hand to each other has one buffer for all tiles
    computing = [tile_ps] if one_after_the_other else choice.unit_ps
    stages = [load_ps, store_ps, path_ps, broadcast_ps, *[once * passes for once in computing]]
    slowest = max(*stages, (ddr_bytes + stored_bytes) / view.ddr_bytes_per_ps)
    paced_ps = slowest * (1 - 1 / passes) + view.tuning.hidden_cost * (sum(stages) - slowest)
    on_chip_starts = (path_starts > 0) + (broadcast_starts > 0)
    starts_ps = on_chip_starts * view.path_startup_ps, view.dma_startup_ps * bool(ddr_starts)
    return Pace(paced_ps, first, starts_ps, tile_ps + last_ps)


def _loads(request: TileRequest, choice: Choice, view: DsaView) -> _Loads:
    staged, prefetched, has_prefetch = choice.staged, choice.prefetched, request.prefetch is not None
    ddr_bytes_per_ps, path_bytes_per_ps, burst_bytes = view.ddr_bytes_per_ps, view.path_bytes_per_ps, view.burst_bytes
    ddr_bytes = ddr_starts = path_ps = broadcast_ps = 0.0
    path_starts = broadcast_starts = 0
    first: list[tuple[float, int]] = []
    for name, times, from_ddr, is_broadcast, tile_bytes, _, needed_bytes, moved_bytes, _ in choice.cut.operands:
        goes_around = has_prefetch and name not in prefetched
        held_bytes = tile_bytes if has_prefetch and not goes_around else 0
        if is_broadcast:
            once = moved_bytes / view.broadcast_bytes_per_ps
            broadcast_ps += times * once
            broadcast_starts = times if times > broadcast_starts else broadcast_starts
        else:
            once = moved_bytes / path_bytes_per_ps
            path_ps += times * once
            path_starts = times if times > path_starts else path_starts
        first.append((once, held_bytes))
        if goes_around and from_ddr:
            first.append((choice.distinct[name] / ddr_bytes_per_ps, 0))  # nothing of it comes ahead
        if name in staged:
            whole = staged[name]
            ddr_bytes += whole
            ddr_starts += max(whole / burst_bytes, 1.0)
            first.append((min(max(needed_bytes, burst_bytes), whole) / ddr_bytes_per_ps, 0))
        elif from_ddr:
            ddr_bytes += needed_bytes * times * from_ddr
            ddr_starts = max(ddr_starts, times)
            first.append((needed_bytes * from_ddr / ddr_bytes_per_ps, held_bytes))
    path_ps += path_starts * view.path_startup_ps
    broadcast_ps += broadcast_starts * view.path_startup_ps
    return _Loads(ddr_bytes, ddr_starts, path_ps, path_starts, broadcast_ps, broadcast_starts, tuple(first))
