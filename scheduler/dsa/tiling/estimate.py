"""Cost model of a layer with given tiles: the machine's pipeline in closed form, without simulation.

The slowest of the paths to outer memories, link between clusters, on-chip path, broadcast and compute units sets the
pace; the first load, one tile's computation and the last store stand alone. Only the search for tiles uses this; every
reported time is simulated.
"""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from dsascape.scheduler.dsa.tiling.cuts import Cut, CutOperand
from dsascape.scheduler.dsa.tiling.tiling import TileRequest
from dsascape.scheduler.dsa.view import DDR, LOCAL, DsaView, LevelTiming


class Choice(NamedTuple):
    """Tiling candidate to be estimated: its cut, and which operands are staged or prefetched."""

    cut: Cut
    unit_ps: Sequence[int]
    """Time in ps of each busy unit of a core for one tile."""
    staged: Mapping[str, int]
    prefetched: Container[str]
    distinct: Mapping[str, int]
    """Bytes of each operand beyond the global buffer, each byte counted once, for all cores."""


class First(NamedTuple):
    """One load of the first tile, on chip or from an outer memory."""

    on_chip_ps: float
    """Uncontended time of an on-chip load; zero for a load from an outer memory."""
    level: int = 0
    """Number of the outer memory."""
    outer_bytes: float = 0.0
    held_bytes: int = 0
    """Bytes of the prefetch buffer that it occupies, if it is prefetched."""
    staged_bytes: float = 0.0
    """Bytes of its whole operand, if that is staged: the first load is at least a burst of it."""


class Moved(NamedTuple):
    """What a layer's tiles move to and from one outer memory."""

    loaded_bytes: float
    loads: tuple[tuple[float, int], ...]
    """Loads of each operand as (bytes, times), one of them zero: all of its bytes if it is staged, loaded in bursts;
    else the number of times it is loaded, one transfer for all operands that change together."""
    stored_tiles: int
    """Number of output tiles that go there."""
    stored_bytes: float

    def starts(self, burst_bytes: int) -> float:
        """Return the number of transfers of loads, if bursts have ``burst_bytes``."""
        starts = 0.0
        for staged_bytes, times in self.loads:
            if staged_bytes:
                starts += max(staged_bytes / burst_bytes, 1.0)
            elif times > starts:
                starts = float(times)
        return starts


class Stages(NamedTuple):
    """Demand of a layer's tiles on each pipeline stage, independent of the timing of outer memories."""

    passes: int
    moved: tuple[Moved, ...]
    """By outer memory, in the order of `DsaView.outer`."""
    path_ps: float
    broadcast_ps: float
    link_ps: float
    """Time of the exchanges over the link between clusters."""
    computing_ps: tuple[int, ...]
    """Total time of each concurrently busy unit."""
    first: tuple[First, ...]
    on_chip_starts_ps: int
    """Start-up time of the first tile's on-chip loads."""
    tile_ps: int
    """Computation time of one tile."""
    last_ps: float
    """Time of the on-chip store of the last tile."""

    def estimate_ps(self, timings: Sequence[LevelTiming], prefetch_bytes: int, hidden_cost: float) -> float:
        """Return the layer's estimated time in ps with a local prefetch buffer of ``prefetch_bytes``.

        ``timings``: of the outer memories. ``hidden_cost``: share of the faster stages' time that is added to the
        slowest one's.
        """
        (
            passes, moved, path_ps, broadcast_ps, link_ps, computing_ps, first, on_chip_starts_ps, tile_ps, last_ps,
        ) = self  # fmt: skip
        stages, busy_ps, startup_ps, leaving_ps = list[float](), list[float](), 0, 0.0
        for own, timing in zip(moved, timings, strict=True):
            starts, store_ps = own.starts(timing.burst_bytes), 0.0
            if starts:
                startup_ps = max(startup_ps, timing.startup_ps)
            if own.stored_tiles:
                bursts = max(min(own.stored_tiles, own.stored_bytes / timing.burst_bytes), 1.0)
                store_ps = timing.moving_ps(own.stored_bytes, bursts - 1)
                leaving_ps = max(leaving_ps, own.stored_bytes / bursts / timing.bytes_per_ps + timing.startup_ps)
            stages += [timing.moving_ps(own.loaded_bytes, max(starts - 1, 0)), store_ps]
            busy_ps.append((own.loaded_bytes + own.stored_bytes) / timing.bytes_per_ps)
        last_ps += leaving_ps
        stages += [path_ps, broadcast_ps, link_ps, *computing_ps]
        together_ps = 0.0
        for stage_ps in stages:  # from Python 3.12 on `sum` rounds otherwise
            together_ps += stage_ps
        slowest_ps = max(*stages, *busy_ps)
        paced_ps = slowest_ps * (1 - 1 / passes) + hidden_cost * (together_ps - slowest_ps)
        first_ps = 0.0
        for on_chip_ps, level, first_bytes, held_bytes, staged_bytes in first:
            timing = timings[level]
            loaded_bytes = min(max(first_bytes, timing.burst_bytes), staged_bytes) if staged_bytes else first_bytes
            alone_ps = loaded_bytes / timing.bytes_per_ps if loaded_bytes else on_chip_ps
            if held_bytes and 2 * held_bytes < prefetch_bytes:
                first_ps += alone_ps * (2 * held_bytes / prefetch_bytes)
            else:  # a version of half the prefetch buffer or more delays the others
                first_ps += alone_ps
        return paced_ps + (first_ps + on_chip_starts_ps + startup_ps) + (tile_ps + last_ps)


def _exchanges_ps(operand: CutOperand, staged_bytes: int | None, view: DsaView) -> float:
    """Return the time in ps in which a cluster receives an operand from others, once if it stays in the global buffer.

    ``staged_bytes``: bytes of the operand that stay there; None if its tiles pass through.
    """
    if staged_bytes is None:
        received_bytes = operand.needed_bytes * operand.from_clusters
        return (view.exchange_ps(received_bytes, operand.receivers) + view.exchange_startup_ps) * operand.times
    return view.exchange_ps(staged_bytes * operand.linked, operand.receivers) + view.exchange_startup_ps


def stages_of(request: TileRequest, choice: Choice, view: DsaView) -> Stages:
    """Return the demand of a layer's tiles on each stage; it depends on neither buffer sizes nor outer memories."""
    cut, staged, prefetched, has_prefetch = choice.cut, choice.staged, choice.prefetched, request.prefetch is not None
    path_bytes_per_ps, broadcast_bytes_per_ps = view.path_bytes_per_ps, view.broadcast_bytes_per_ps
    number, path_ps, broadcast_ps, link_ps = view.outer_number, 0.0, 0.0, 0.0
    path_starts = broadcast_starts = 0
    """Number of transfers on path and broadcast: operands that change with a tile are moved together."""
    first: list[First] = []
    loaded_bytes, loads = [0.0] * len(number), [list[tuple[float, int]]() for _ in number]
    for operand in cut.operands:
        name, times, outside, is_broadcast, tile_bytes, _, needed_bytes, moved_bytes, sharing, *_ = operand
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
        first.append(First(once_ps, held_bytes=held_bytes))
        for memory, share, part in outside:
            level = number[memory]
            if goes_around:
                first.append(First(0.0, level, choice.distinct[name] * part))  # nothing of it is prefetched
            if name in staged:
                loaded_bytes[level] += staged[name] * part
                loads[level].append((staged[name] * part, 0))
                first.append(First(0.0, level, needed_bytes * part, 0, staged[name] * part))
            else:
                loaded_bytes[level] += needed_bytes * times * share
                loads[level].append((0.0, times))
                first.append(First(0.0, level, needed_bytes * share, held_bytes))
        if operand.from_clusters:
            exchanges_ps = _exchanges_ps(operand, staged.get(name), view)
            link_ps += exchanges_ps
            first.append(First(exchanges_ps / times))
    path_ps += path_starts * view.path_startup_ps
    broadcast_ps += broadcast_starts * view.path_startup_ps
    stored_tiles, last_ps, stored_bytes = 0, 0.0, [0.0] * len(number)
    if request.output_memory != LOCAL:
        store_bytes = float(cut.work.output_bytes * request.cores)
        last_ps = store_bytes / path_bytes_per_ps + view.path_startup_ps
        path_ps += last_ps * cut.tiles
        if request.output_memory == DDR:
            stored_tiles = cut.tiles
            for memory, share in request.stored_in:
                stored_bytes[number[memory]] += store_bytes * cut.tiles * share
    tile_ps, passes = sum(choice.unit_ps), max(cut.passes, 1)
    # intermediates between nests have one buffer for all tiles
    one_after_the_other = cut.work.between_bytes > 0 or request.layer.is_ordered
    computing = [tile_ps] if one_after_the_other else choice.unit_ps
    on_chip_starts = (path_starts > 0) + (broadcast_starts > 0)
    moved = tuple([
        Moved(size_bytes, tuple(own), stored_tiles if stored else 0, stored)
        for size_bytes, own, stored in zip(loaded_bytes, loads, stored_bytes, strict=True)
    ])  # fmt: skip
    return Stages(
        passes, moved, path_ps, broadcast_ps, link_ps, tuple([once_ps * passes for once_ps in computing]),
        tuple(first), on_chip_starts * view.path_startup_ps, tile_ps, last_ps,
    )  # fmt: skip
