"""How long a layer takes with given tiles, before it is simulated: the pipeline of the machine in closed form.

The slowest of DMA, on-chip path, broadcast and compute units sets the pace; the first load, one tile's computation and
the last store stand alone. Only the search for tiles uses this; every reported time is simulated.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from scheduler.device import ScratchpadDevice
from scheduler.tiling import TileRequest, burst_bytes
from scheduler.work import TileWork

HIDDEN_COST = 0.1
"""Share of the faster stages' time that counts all the same: overlap is never perfect, and idle stages save energy."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Tiles to be judged: the work of one, how often each operand is loaded, where operands wait meanwhile."""

    work: TileWork
    loads: Mapping[str, int]
    staged: Mapping[str, int]
    ahead: Container[str]
    distinct: Mapping[str, int]
    """Bytes of each operand that come from DDR at least once, for all cores."""
    tiles: int
    depth_steps: int

    @property
    def passes(self) -> int:
        """Times that the units work on a tile."""
        return max(self.tiles * self.depth_steps, 1)


@dataclass(slots=True)
class _Loads:
    """Time of the loading stages, and of the first tile's loads alone."""

    ddr_bytes: float = 0.0
    ddr_starts: float = 0.0
    path_ps: float = 0.0
    broadcast_ps: float = 0.0
    first_ps: float = 0.0


def estimate_ps(request: TileRequest, choice: Choice, device: ScratchpadDevice) -> float:
    """Return the layer's estimated time in picoseconds."""
    loads = _loads(request, choice, device)
    load_ps = loads.ddr_bytes / device.ddr_bytes_per_ps + loads.ddr_starts * device.dma_startup_ps
    store_bytes = float(choice.work.output_bytes * request.cores)
    path_ps, store_ps, last_ps, stored_bytes = loads.path_ps, 0.0, 0.0, 0.0
    if request.output_scope != "local_buffer":
        once = store_bytes / device.path_bytes_per_ps + device.path_startup_ps
        path_ps += once * choice.tiles
        last_ps = once
    if request.output_scope == "ddr":
        stored_bytes = store_bytes * choice.tiles
        bursts = max(min(choice.tiles, stored_bytes / burst_bytes(device)), 1.0)
        store_ps = stored_bytes / device.ddr_bytes_per_ps + bursts * device.dma_startup_ps
        last_ps += store_ps / bursts
    shared_ps = (loads.ddr_bytes + stored_bytes) / device.ddr_bytes_per_ps
    compute_ps = list(device.compute_ps(choice.work, request.dtype).values())
    stages = [load_ps, store_ps, path_ps, loads.broadcast_ps, *(once * choice.passes for once in compute_ps)]
    slowest = max(*stages, shared_ps)
    first_ps = loads.first_ps + device.dma_startup_ps * bool(loads.ddr_starts)
    one_ps = sum(compute_ps) + last_ps
    paced_ps = slowest * (1 - 1 / choice.passes) + HIDDEN_COST * (sum(stages) - slowest)
    return paced_ps + first_ps + one_ps


def _loads(request: TileRequest, choice: Choice, device: ScratchpadDevice) -> _Loads:
    total = _Loads()
    for name, times in choice.loads.items():
        route = request.routes[name]
        tile_bytes = choice.work.operand_bytes[name] * request.cores / route.sharing
        moved = tile_bytes * route.streamed
        exposed = 1.0
        if request.windows is not None and name in choice.ahead:
            held = 2 * choice.work.operand_bytes[name] / max(request.windows[0], 1)
            exposed = min(held, 1.0)  # what takes half of its window or more keeps others from coming in time
        if route.sharing > 1 and device.broadcasts:
            once = moved / device.broadcast_bytes_per_ps + device.path_startup_ps
            total.broadcast_ps += times * once
        else:
            once = moved / device.path_bytes_per_ps + device.path_startup_ps
            total.path_ps += times * once
        total.first_ps += once * exposed
        if request.windows is not None and name not in choice.ahead and route.from_ddr:
            total.first_ps += choice.distinct[name] / device.ddr_bytes_per_ps  # nothing of it comes ahead
        if name in choice.staged:
            whole = choice.staged[name]
            total.ddr_bytes += whole
            total.ddr_starts += max(whole / burst_bytes(device), 1.0)
            total.first_ps += min(max(tile_bytes, burst_bytes(device)), whole) / device.ddr_bytes_per_ps
        elif route.from_ddr:
            total.ddr_bytes += tile_bytes * times * route.from_ddr
            total.ddr_starts = max(total.ddr_starts, times)
            total.first_ps += tile_bytes * route.from_ddr / device.ddr_bytes_per_ps * exposed
    return total
