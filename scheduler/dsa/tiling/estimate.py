"""The estimate of a layer's time with given tiles, before it is simulated: the machine's pipeline in closed form.

The slowest of DMA, on-chip path, broadcast and compute units sets the pace; the first load, one tile's computation and
the last store stand alone. Only the search for tiles uses this; every reported time is simulated.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(slots=True)
class _Loads:
    """Time of the loading stages, and of the first tile's loads alone."""

    ddr_bytes: float = 0.0
    ddr_starts: float = 0.0
    path_ps: float = 0.0
    path_starts: int = 0
    """What changes with a tile is moved together: as often as the operand that changes most often."""
    broadcast_ps: float = 0.0
    broadcast_starts: int = 0
    first_ps: float = 0.0


def estimate_ps(request: TileRequest, choice: Choice, view: DsaView) -> float:
    """Return the layer's estimated time in picoseconds."""
    cut = choice.cut
    passes = max(cut.passes, 1)
    loads = _loads(request, choice, view)
    load_ps = view.dma_ps(loads.ddr_bytes, max(loads.ddr_starts - 1, 0))
    store_bytes = float(cut.work.output_bytes * request.cores)
    path_ps, store_ps, last_ps, stored_bytes = loads.path_ps, 0.0, 0.0, 0.0
    if request.output_memory != "local_buffer":
        once = store_bytes / view.path_bytes_per_ps + view.path_startup_ps
        path_ps += once * cut.tiles
        last_ps = once
    if request.output_memory == "ddr":
        stored_bytes = store_bytes * cut.tiles
        bursts = max(min(cut.tiles, stored_bytes / view.burst_bytes), 1.0)
        store_ps = view.dma_ps(stored_bytes, bursts - 1)
        last_ps += stored_bytes / bursts / view.ddr_bytes_per_ps + view.dma_startup_ps
    ddr_ps = (loads.ddr_bytes + stored_bytes) / view.ddr_bytes_per_ps
    tile_ps = sum(choice.unit_ps)
    one_after_the_other = cut.work.between_bytes > 0  # what nests hand to each other has one buffer for all tiles
    computing = [tile_ps] if one_after_the_other else choice.unit_ps
    stages = [load_ps, store_ps, path_ps, loads.broadcast_ps, *[once * passes for once in computing]]
    slowest = max(*stages, ddr_ps)
    first_ps = loads.first_ps + view.dma_startup_ps * bool(loads.ddr_starts)
    one_ps = tile_ps + last_ps
    paced_ps = slowest * (1 - 1 / passes) + view.tuning.hidden_cost * (sum(stages) - slowest)
    return paced_ps + first_ps + one_ps


def _loads(request: TileRequest, choice: Choice, view: DsaView) -> _Loads:
    total = _Loads()
    ddr_bytes_per_ps, path_bytes_per_ps, burst_bytes = view.ddr_bytes_per_ps, view.path_bytes_per_ps, view.burst_bytes
    for operand in choice.cut.operands:
        name, times = operand.name, operand.times
        goes_around = request.prefetch is not None and name not in choice.prefetched
        exposed = 1.0
        if request.prefetch is not None and not goes_around:
            held = 2 * operand.tile_bytes / max(request.prefetch[0], 1)
            exposed = min(held, 1.0)  # what takes half of the prefetch buffer or more keeps others from coming in time
        if operand.is_broadcast:
            once = operand.moved_bytes / view.broadcast_bytes_per_ps
            total.broadcast_ps += times * once
            total.broadcast_starts = max(total.broadcast_starts, times)
        else:
            once = operand.moved_bytes / path_bytes_per_ps
            total.path_ps += times * once
            total.path_starts = max(total.path_starts, times)
        total.first_ps += once * exposed
        if goes_around and operand.from_ddr:
            total.first_ps += choice.distinct[name] / ddr_bytes_per_ps  # nothing of it comes ahead
        if name in choice.staged:
            whole = choice.staged[name]
            total.ddr_bytes += whole
            total.ddr_starts += max(whole / burst_bytes, 1.0)
            total.first_ps += min(max(operand.needed_bytes, burst_bytes), whole) / ddr_bytes_per_ps
        elif operand.from_ddr:
            total.ddr_bytes += operand.needed_bytes * times * operand.from_ddr
            total.ddr_starts = max(total.ddr_starts, times)
            total.first_ps += operand.needed_bytes * operand.from_ddr / ddr_bytes_per_ps * exposed
    startup_ps = view.path_startup_ps
    total.path_ps += total.path_starts * startup_ps
    total.broadcast_ps += total.broadcast_starts * startup_ps
    total.first_ps += ((total.path_starts > 0) + (total.broadcast_starts > 0)) * startup_ps
    return total
