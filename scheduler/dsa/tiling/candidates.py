"""Candidate tilings of a layer on one core: the buffers that they take, and the time.

Operands that fit the global buffer stay there while the layer runs, so that DDR is read once for them, in long bursts,
however often their tiles go to the cores. Weights that every core gets once can be fetched ahead, through the prefetch
buffers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from scheduler.dsa.allocation import fit
from scheduler.dsa.tiling.cuts import Cut, Cuts
from scheduler.dsa.tiling.estimate import Choice, Pace, pace
from scheduler.dsa.tiling.tiling import TileRequest, Tiling
from scheduler.dsa.unit_choice import unit_ps
from scheduler.dsa.view import DDR, LOCAL, DsaView
from scheduler.errors import ScheduleError
from workloads.analysis import Table
from workloads.loopnest import Extents

_MOST_TABLES = 4_000
"""Of one network's layers, at different places on different machines."""
_MOST_PLACED = 1_000
"""Of one of these."""


def burst_room_bytes(prefetch_bytes: int, operands: int) -> int:
    """Return the most bytes of a burst of each of ``operands`` that share the global prefetch buffer, two at a time."""
    return max(prefetch_bytes // (2 * operands), 1)


class Candidate(NamedTuple):
    """A cut with the place that its operands have, the buffers that it takes, and its price: see `Tiling`."""

    cut: Cut
    prefetched: Mapping[str, tuple[int, int]]
    staged: Mapping[str, int]
    local_buffers: tuple[int, ...]
    local_bytes: int
    """Of all of these."""
    global_buffers: tuple[int, ...]
    prefetch_bytes: tuple[int, int]
    tile_bytes: int
    estimate_ps: float


class _Placed(NamedTuple):
    """What follows for a cut from the places of its operands, whatever there is room for: see `Candidate`."""

    local_buffers: tuple[int, ...]
    local_bytes: int
    """Of all of these."""
    near_bytes: int
    """Of the local prefetch buffer."""
    ahead_bytes: tuple[int, ...]
    """Of a tile of each prefetched operand: what comes from DDR, for all cores together."""
    passing_bytes: int
    """The same of all operands that are neither prefetched nor staged."""
    tile_bytes: int
    pace: Pace


class Shape(NamedTuple):
    """A cut with all that follows from it, whatever there is room for."""

    cut: Cut
    prefetched: Mapping[str, tuple[int, int]]
    """All weights that can be."""
    reloaded: tuple[tuple[int, str], ...]
    """The others that may be staged, the smallest first: bytes for all cores, and operand."""
    placed: _Placed | None
    """What follows where nothing is staged; None where that may be."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What has been tried for requests that differ in room alone, on machines with equal rates."""

    placed: Table[_Placed] = field(default_factory=lambda: Table(_MOST_PLACED))
    """By tile, depth, order and the places of the operands."""
    shapes: Table[Shape] = field(default_factory=lambda: Table(_MOST_PLACED))
    """By how often each dimension is halved, the depth last."""


class TileCandidates:
    """Candidates for one request, each with its price, whether they fit or not."""

    def __init__(self, request: TileRequest, view: DsaView) -> None:
        self._request = request
        self._view = view
        self._cuts = Cuts.of(request)
        computing = (
            request.layer.signature, request.units, request.dtype, view.arithmetic,
            view.spec.local_buffer.bandwidth_bytes_per_s,
        )  # fmt: skip
        times = request.layer.analysis.table(_known_times, _MOST_TABLES)
        self._unit_ps_known: Table[Sequence[int]] = times.get(computing, _known_times)
        """By tile and depth."""
        alike = self._cuts, request.output_memory, request.units, request.dtype, request.prefetch is None, view.rates
        self._known: _Known = request.layer.analysis.table(_Known, _MOST_TABLES).get(alike, _Known)
        self.depth_extent = self._cuts.depth_extent
        """Iterations of the anchor's depth loop."""
        self._global_room = sum(request.global_gaps)
        self._burst = min(view.burst_bytes, max(self._global_room // view.tuning.store_bursts, 1))

    def candidate(self, tile: Extents, depth: int | None) -> Candidate:
        """Return ``tile`` elements and ``depth`` iterations in the order that loads fewest bytes.

        All weights that can be are prefetched, and as many operands staged as the global buffer has room for.
        """
        return self._of_shape(self._shape(tile, depth))

    def halved(self, halvings: tuple[int, ...]) -> Candidate:
        """Return the same for a core's part with each dimension halved so many times; the last number is the depth's.

        The depth is as it is, in one piece, where that is not halved at all.
        """
        shape = self._known.shapes.known(halvings)
        if shape is None:
            extents = (*self._request.part, self.depth_extent)
            *tile, depth = [-(-size >> times) for size, times in zip(extents, halvings, strict=True)]
            make = partial(self._shape, tuple(tile), depth if halvings[-1] else None)
            shape = self._known.shapes.get(halvings, make)
        return self._of_shape(shape)

    def _shape(self, tile: Extents, depth: int | None) -> Shape:
        cut = self._cuts.least_loaded(tile, depth)
        prefetched = self._prefetchable(cut)
        again = [(size, name) for size, name in cut.reloaded if name not in prefetched]
        return Shape(cut, prefetched, tuple(again), None if again else self._placed(cut, prefetched, {}))

    def _of_shape(self, shape: Shape) -> Candidate:
        """Return a shape's candidate, with as many operands staged as there is room for."""
        if shape.placed is None:
            return self._priced(shape.cut, shape.prefetched, self._staged(shape))
        return self._in_place(shape.cut, shape.prefetched, {}, shape.placed)

    def decided(
        self, tile: Extents, depth: int | None, order: tuple[int, ...], prefetched: Sequence[str],
        staged: Sequence[str], store_burst_bytes: int,
    ) -> Tiling:  # fmt: skip
        """Return the tiling of which all that can be decided is given; raise ``ScheduleError`` for what cannot be."""
        cut = self._cuts.ordered(tile, depth, order)
        can = self._prefetchable(cut)
        for name in prefetched:
            if name not in can:
                raise ScheduleError(f"{name!r} cannot be prefetched: only weights that every core gets once can be")
        for name in staged:
            if name not in cut.loads or name in prefetched or not self._cuts.distinct[name]:
                raise ScheduleError(f"{name!r} cannot be staged: it is prefetched, or does not come from DDR")
        self._burst = store_burst_bytes
        kept = {name: self._cuts.distinct[name] for name in staged}
        return self.tiling(self._priced(cut, {name: can[name] for name in prefetched}, kept))

    def tiling(self, candidate: Candidate) -> Tiling:
        """Return a candidate with all figures that follow from it."""
        cut, chosen = candidate.cut, candidate
        return Tiling(
            part=self._request.part, tile=cut.tile, order=cut.order, depth=cut.depth, depth_extent=self.depth_extent,
            loads=cut.loads, prefetched=chosen.prefetched, staged=chosen.staged, local_buffers=chosen.local_buffers,
            global_buffers=chosen.global_buffers, prefetch_bytes=chosen.prefetch_bytes,
            store_burst_bytes=self._burst, tile_bytes=chosen.tile_bytes, estimate_ps=chosen.estimate_ps,
        )  # fmt: skip

    def _priced(
        self, cut: Cut, prefetched: Mapping[str, tuple[int, int]], staged: Mapping[str, int]
    ) -> Candidate:
        """Return the candidate of a cut whose operands have their places."""
        key = cut.tile, cut.depth, cut.order, tuple(prefetched), tuple(staged)
        placed = self._known.placed.get(key, partial(self._placed, cut, prefetched, staged))
        return self._in_place(cut, prefetched, staged, placed)

    def _in_place(
        self, cut: Cut, prefetched: Mapping[str, tuple[int, int]], staged: Mapping[str, int], placed: _Placed
    ) -> Candidate:
        """Return the candidate that ``placed`` follows from, with what depends on the room there is."""
        near_bytes = far = 0
        """Of the local prefetch buffer there is, and what is taken of the global one."""
        if self._request.prefetch is not None:
            near_bytes, far_bytes = self._request.prefetch
            burst_room = burst_room_bytes(far_bytes, max(len(prefetched), 1))
            far = sum([2 * (size if size < burst_room else burst_room) for size in placed.ahead_bytes])
        return Candidate(
            cut, prefetched, staged, placed.local_buffers, placed.local_bytes,
            self._global_buffers(cut, placed.passing_bytes, staged), (placed.near_bytes, far), placed.tile_bytes,
            placed.pace.estimate_ps(near_bytes),
        )  # fmt: skip

    def _placed(
        self, cut: Cut, prefetched: Mapping[str, tuple[int, int]], staged: Mapping[str, int]
    ) -> _Placed:
        """Return what follows for a cut from the places of its operands."""
        request, work = self._request, cut.work
        output = work.output_bytes if request.output_memory != LOCAL else 0
        buffers: list[int] = []
        tile_bytes = work.between_bytes + output
        near = 0
        for operand in cut.operands:
            size, slots = operand.streamed_bytes, 2 if operand.times > 1 else 1
            tile_bytes += size
            if operand.name in prefetched:
                near += size * slots
            else:
                buffers += [size] * slots
        buffers += [work.between_bytes, output, output] if cut.tiles > 1 else [work.between_bytes, output]
        ahead = tuple([cut.passing_bytes[operand.name] for operand in cut.operands if operand.name in prefetched])
        passing = [size for name, size in cut.passing_bytes.items() if name not in prefetched and name not in staged]
        choice = Choice(cut, self._unit_ps(cut), staged, prefetched, self._cuts.distinct)
        paced = pace(request, choice, self._view)
        return _Placed(tuple(buffers), sum(buffers), near, ahead, sum(passing), tile_bytes, paced)

    def _unit_ps(self, cut: Cut) -> Sequence[int]:
        request = self._request
        make = partial(unit_ps, cut.work, request.units, self._view, request.dtype)
        return self._unit_ps_known.get((cut.tile, cut.depth), make)

    def _prefetchable(self, cut: Cut) -> Mapping[str, tuple[int, int]]:
        """Return the weights that every core gets once, version by version: those can be fetched ahead."""
        return {} if self._request.prefetch is None else cut.ahead

    def _staged(self, shape: Shape) -> dict[str, int]:
        """Return the operands from DDR that the global buffer holds as a whole, smallest first, and their bytes."""
        staged: dict[str, int] = {}
        cut = shape.cut
        if not self._view.global_buffer_bytes or shape.reloaded[0][0] > self._global_room:
            return staged
        left = [name for name in cut.loads if name not in shape.prefetched]
        output = cut.work.output_bytes if self._request.output_memory != LOCAL else 0
        storing = self._storing(output) // 2
        for size, name in shape.reloaded:
            passing = sum([cut.passing_bytes[other] for other in left if other != name and other not in staged])
            if fit((*staged.values(), size, passing, passing, storing, storing), self._request.global_gaps):
                staged[name] = size
        return staged

    def fits(self, candidate: Candidate) -> bool:
        """Whether all buffers of a candidate find their gaps, and its weights the prefetch buffers."""
        request = self._request
        if candidate.local_bytes > request.local_gaps[0] and not fit(candidate.local_buffers, request.local_gaps):
            return False
        if not fit(candidate.global_buffers, request.global_gaps):
            return False
        near, far = candidate.prefetch_bytes
        return request.prefetch is None or (near <= request.prefetch[0] and far <= request.prefetch[1])

    def shortage(self, candidate: Candidate) -> str:
        """Return what is missing for a candidate, and what to raise."""
        request = self._request
        return (
            f"layer {request.layer.sink.name!r}: its smallest tile needs {sum(candidate.local_buffers)} bytes of local"
            f" buffer and {sum(candidate.global_buffers)} of global buffer; {sum(request.local_gaps)} and"
            f" {self._global_room} are free: raise local_buffer.capacity or global_buffer.capacity"
        )

    def _global_buffers(self, cut: Cut, passing: int, staged: Mapping[str, int]) -> tuple[int, ...]:
        """Return the layer's buffers in the global buffer: staged operands, two tiles of what has no place elsewhere.

        What is loaded together lies together; so do the output tiles of a burst.
        """
        if not self._view.global_buffer_bytes:
            return ()
        storing = self._storing(cut.work.output_bytes) // 2
        return (*staged.values(), passing, passing, storing, storing)

    def _storing(self, output_bytes: int) -> int:
        """Return the global buffer that output tiles on their way to DDR take: one burst collects, one leaves."""
        if self._request.output_memory != DDR:
            return 0
        tile = output_bytes * self._request.cores
        return 2 * (self._burst // tile * tile + tile) if tile < self._burst else 2 * tile


def _known_times() -> Table[Sequence[int]]:
    """Return a table of what computing tiles of a layer takes."""
    return Table(_MOST_PLACED)
