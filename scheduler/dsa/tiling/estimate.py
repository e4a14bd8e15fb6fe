"""The estimate of a layer's time with given tiles, before it is simulated: the machine's pipeline in closed form.

The slowest of DMA, on-chip path, broadcast and compute units sets the pace; the first load, one tile's computation and
the last store stand alone. Only the search for tiles uses this; every reported time is simulated.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
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
    first: list[tuple[float, int]] = field(default_factory=list)


def pace(request: TileRequest, choice: Choice, view: DsaView) -> Pace:
    """Return the layer's estimate, which `Pace.estimate_ps` completes; no sizes of buffers are read for it."""
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
    paced_ps = slowest * (1 - 1 / passes) + view.tuning.hidden_cost * (sum(stages) - slowest)
    on_chip_starts = (loads.path_starts > 0) + (loads.broadcast_starts > 0)
    starts_ps = on_chip_starts * view.path_startup_ps, view.dma_startup_ps * bool(loads.ddr_starts)
    return Pace(paced_ps, tuple(loads.first), starts_ps, tile_ps + last_ps)


def _loads(request: TileRequest, choice: Choice, view: DsaView) -> _Loads:
    total = _Loads()
    ddr_bytes_per_ps, path_bytes_per_ps, burst_bytes = view.ddr_bytes_per_ps, view.path_bytes_per_ps, view.burst_bytes
    for operand in choice.cut.operands:
        name, times = operand.name, operand.times
        goes_around = request.prefetch is not None and name not in choice.prefetched
        held_bytes = operand.tile_bytes if request.prefetch is not None and not goes_around else 0
        if operand.is_broadcast:
            once = operand.moved_bytes / view.broadcast_bytes_per_ps
            total.broadcast_ps += times * once
            total.broadcast_starts = max(total.broadcast_starts, times)
        else:
            once = operand.moved_bytes / path_bytes_per_ps
            total.path_ps += times * once
            total.path_starts = max(total.path_starts, times)
        total.first.append((once, held_bytes))
        if goes_around and operand.from_ddr:
            total.first.append((choice.distinct[name] / ddr_bytes_per_ps, 0))  # nothing of it comes ahead
        if name in choice.staged:
            whole = choice.staged[name]
            total.ddr_bytes += whole
            total.ddr_starts += max(whole / burst_bytes, 1.0)
            total.first.append((min(max(operand.needed_bytes, burst_bytes), whole) / ddr_bytes_per_ps, 0))
        elif operand.from_ddr:
            total.ddr_bytes += operand.needed_bytes * times * operand.from_ddr
            total.ddr_starts = max(total.ddr_starts, times)
            total.first.append((operand.needed_bytes * operand.from_ddr / ddr_bytes_per_ps, held_bytes))
    startup_ps = view.path_startup_ps
    total.path_ps += total.path_starts * startup_ps
    total.broadcast_ps += total.broadcast_starts * startup_ps
    return total
