"""Candidate tilings of a layer on one core: buffer sizes and estimated time.

Operands that fit the global buffer are staged: they stay there while the layer runs, so that DDR is read once for them,
in long bursts, however often their tiles go to the cores. Weights that every core loads once can be prefetched through
the prefetch buffers.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dsascape.scheduler.dsa.deciding.unit_choice import tile_ps
from dsascape.scheduler.dsa.placing.allocation import fit
from dsascape.scheduler.dsa.tiling.cuts import Cut, Cuts
from dsascape.scheduler.dsa.tiling.encoding import asked, compiled_tiles, may_compile
from dsascape.scheduler.dsa.tiling.estimate import Choice, stages_of
from dsascape.scheduler.dsa.tiling.lattice import Halved, Lattice, Placed, Shape
from dsascape.scheduler.dsa.tiling.tiling import TileRequest, Tiling
from dsascape.scheduler.dsa.view import DDR, LOCAL, DsaView
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.wording import count
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized

if TYPE_CHECKING:
    from dsascape.scheduler.in_c.tiles import Tiles

_MOST_SEARCHED = 4_000
"""Size of the caches of lattices and of compiled searches per network."""


def burst_room_bytes(prefetch_bytes: int, operands: int) -> int:
    """Return the maximum burst size in bytes when ``operands`` share the global prefetch buffer, double-buffered."""
    return max(prefetch_bytes // (2 * operands), 1)


class Candidate(NamedTuple):
    """Tiling candidate: a cut, the placement of its operands, and its estimated time."""

    cut: Cut
    prefetched: Mapping[str, tuple[int, int]]
    staged: Mapping[str, int]
    placed: Placed
    estimate_ps: float

    @property
    def tile_bytes(self) -> int:
        return self.placed.tile_bytes


class TileCandidates:
    """Candidates for one tile request, with estimated times, whether they fit or not."""

    def __init__(self, request: TileRequest, view: DsaView) -> None:
        self._request = request
        self._view = view
        self._cuts = Cuts.of(request)
        self._like = request.apart_from_space
        self._rates = view.on_chip_rates
        self.depth_extent = self._cuts.depth_extent
        """Iterations of the layer's depth loops."""
        self.lattice = _lattice(request.layer, self._like, self._rates)
        """Lattice shared by requests that differ in free space alone, on machines with equal on-chip rates."""
        self._single_buffers = view.single_buffers and not request.doubled
        self._global_room = sum(request.global_gaps)
        near_bytes = 0 if request.prefetch is None else request.prefetch[0]
        self._paced_by = view.outer_timing, near_bytes, view.tuning.hidden_cost
        bursts = [view.outer_timing[view.outer_number[name]].burst_bytes for name, _ in request.stored_in]
        burst_bytes = min(max(bursts, default=0), max(self._global_room // view.tuning.store_bursts, 1))
        self._burst = burst_bytes if request.output_memory == DDR else 0

    def candidate(self, tile: Extents, depth: int | None) -> Candidate:
        """Return the candidate of ``tile`` elements and ``depth`` iterations, in the order that loads fewest bytes.

        All eligible weights are prefetched, and as many operands staged as fit the global buffer.
        """
        shape = self._shape(tile, depth)
        staged = self._staged(shape)
        return self._priced(shape, staged, self._placed(shape, staged))

    def least_ps(self) -> float:
        """Return an approximate lower bound in ps: the longer of computing and loading a core's part in one piece.

        Computing: the busiest unit; loading: all bytes from each outer memory once. Only tiles of strided reads may be
        faster, as they skip the elements in between.
        """
        whole, loaded = self._cuts.least_loaded(self._request.part, None), [0.0] * len(self._view.outer)
        for name, route in self._request.routes.items():
            for memory, share in route.loaded_from:
                loaded[self._view.outer_number[memory]] += self._cuts.distinct[name] * (share / route.from_outside)
        timed = zip(loaded, self._view.outer_timing, strict=True)
        return max([*self._unit_ps(whole), *[size_bytes / timing.bytes_per_ps for size_bytes, timing in timed]])

    def halved(self, way: Halved) -> Candidate:
        """Return the candidate of a lattice point, as `candidate` does, with cached derived data."""
        shape = way.shape
        if shape is None:
            shape = way.shape = self._shape(way.tile, way.depth)
        staged = self._staged(shape)
        names = tuple(staged)
        placed = way.placed.get(names)
        if placed is None:
            placed = way.placed[names] = self._placed(shape, staged)
        return self._priced(shape, staged, placed)

    def searched(self) -> Candidate | None:
        """Return the best candidate of the compiled search; None if that cannot be used, or none fits."""
        request, view = self._request, self._view
        if not may_compile() or any(size is not None for size in request.fixed):
            return None
        compiled = _compiled(request.layer, self._like, self._rates)
        if compiled is None:
            return None
        try:
            best = compiled.search(asked(request, self._burst, view))
        except (ValueError, OverflowError):  # more or larger gaps than the compiled search supports
            return None
        return None if best is None else self.halved(self.lattice.at(best[0]))

    def _shape(self, tile: Extents, depth: int | None) -> Shape:
        cut = self._cuts.least_loaded(tile, depth)
        prefetched, passing = self._prefetchable(cut), cut.passing_bytes
        again = tuple([(size, name, passing[name]) for size, name in cut.reloaded if name not in prefetched])
        return Shape(cut, prefetched, again, sum([passing[name] for name in cut.loads if name not in prefetched]))

    def decided(
        self, tile: Extents, depth: int | None, order: tuple[int, ...], prefetched: Sequence[str],
        staged: Sequence[str], store_burst_bytes: int,
    ) -> Tiling:  # fmt: skip
        """Return the tiling with these decisions; raise ``ScheduleError`` for impossible ones."""
        cut = self._cuts.ordered(tile, depth, order)
        if not cut.is_possible:
            rounds = cut.work.rounds
            raise ScheduleError(
                f"depth {depth}: tiles of {count(rounds, 'sequential iteration')} cannot be cut in depth"
            )
        can = self._prefetchable(cut)
        for name in prefetched:
            if name not in can:
                raise ScheduleError(f"{name!r} cannot be prefetched: only weights that every core loads once can be")
        for name in staged:
            if name not in cut.loads or name in prefetched or not self._cuts.distinct[name]:
                raise ScheduleError(f"{name!r} cannot be staged: it is prefetched, or does not come from DDR")
        self._burst = store_burst_bytes
        kept = {name: self._cuts.distinct[name] for name in staged}
        shape = Shape(cut, {name: can[name] for name in prefetched}, (), 0)
        return self.tiling(self._priced(shape, kept, self._placed(shape, kept)))

    def tiling(self, candidate: Candidate) -> Tiling:
        """Return the tiling of a candidate, with all derived fields."""
        cut, placed = candidate.cut, candidate.placed
        return Tiling(
            part=self._request.part, computed=self._request.layer.computed_part(self._request.part, cut.tile),
            tile=cut.tile, order=cut.order, depth=cut.depth,
            depth_extent=self._request.layer.depth_extent_of(cut.tile),
            loads=cut.loads, prefetched=candidate.prefetched, staged=candidate.staged,
            local_buffers=placed.local_buffers, global_buffers=self._global_buffers(candidate),
            prefetch_bytes=(placed.near_bytes, self._far_bytes(candidate)), store_burst_bytes=self._burst,
            tile_bytes=placed.tile_bytes, estimate_ps=candidate.estimate_ps,
        )  # fmt: skip

    def _priced(self, shape: Shape, staged: Mapping[str, int], placed: Placed) -> Candidate:
        """Return the candidate of a cut with placed operands, with its estimated time."""
        return Candidate(shape.cut, shape.prefetched, staged, placed, placed.stages.estimate_ps(*self._paced_by))

    def _placed(self, shape: Shape, staged: Mapping[str, int]) -> Placed:
        """Return the derived data of a cut with its operands' placement, which no free space and no DDR decides."""
        request, cut, prefetched = self._like, shape.cut, shape.prefetched
        work = cut.work
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
        passing = {n: size for n, size in cut.passing_bytes.items() if n not in prefetched and n not in staged}
        again_bytes = sum([size for name, size in passing.items() if cut.loads.get(name, 1) > 1])
        choice = Choice(cut, self._unit_ps(cut), staged, prefetched, self._cuts.distinct)
        stages = stages_of(request, choice, self._rates)
        passing_bytes = sum(passing.values())
        return Placed(tuple(buffers), sum(buffers), near, ahead, passing_bytes, again_bytes, tile_bytes, stages)

    def _unit_ps(self, cut: Cut) -> Sequence[int]:
        request = self._request
        return tile_ps(request.layer, cut.tile, cut.depth, request.units, self._view.computing, request.dtype)

    def _prefetchable(self, cut: Cut) -> Mapping[str, tuple[int, int]]:
        """Return the weights eligible for prefetch: those that every core loads once, version by version."""
        return {} if self._request.prefetch is None else cut.ahead

    def _staged(self, shape: Shape) -> dict[str, int]:
        """Return the bytes of each operand from DDR that fits the global buffer as a whole, smallest first."""
        staged: dict[str, int] = {}
        if not shape.reloaded or not self._view.global_buffer_bytes or shape.reloaded[0][0] > self._global_room:
            return staged
        passing, again = shape.passing_bytes, sum([own for _, _, own in shape.reloaded])
        for size, name, own in shape.reloaded:
            buffers = (*staged.values(), size, *self._passing(shape.cut, passing - own, again - own))
            if fit(buffers, self._request.global_gaps):
                staged[name], passing, again = size, passing - own, again - own
        return staged

    def fits(self, candidate: Candidate) -> bool:
        """Return whether all buffers of a candidate fit the gaps, and its weights the prefetch buffers."""
        request, placed = self._request, candidate.placed
        if not candidate.cut.is_possible:
            return False
        if request.prefetch is not None:
            near_bytes, far_bytes = request.prefetch
            if placed.near_bytes > near_bytes or self._far_bytes(candidate) > far_bytes:
                return False
        if placed.local_bytes > request.local_gaps[0] and not fit(placed.local_buffers, request.local_gaps):
            return False
        return fit(self._global_buffers(candidate), request.global_gaps)

    def _far_bytes(self, candidate: Candidate) -> int:
        """Return the bytes of global prefetch buffer for weights in flight: two bursts of each, or two tiles."""
        if self._request.prefetch is None:
            return 0
        burst_room = burst_room_bytes(self._request.prefetch[1], max(len(candidate.prefetched), 1))
        return sum([2 * (size if size < burst_room else burst_room) for size in candidate.placed.ahead_bytes])

    def shortage(self, candidate: Candidate) -> str:
        """Return the error message for a candidate that does not fit: bytes needed, bytes free, what to raise."""
        request = self._request
        return (
            f"layer {request.layer.sink.name!r}: its smallest tile needs {candidate.placed.local_bytes} B of local"
            f" buffer and {sum(self._global_buffers(candidate))} of global buffer; {sum(request.local_gaps)} and"
            f" {self._global_room} are free: raise local_buffer.capacity or global_buffer.capacity"
        )

    def _global_buffers(self, candidate: Candidate) -> tuple[int, ...]:
        """Return the sizes of the layer's buffers in the global buffer: staged operands, two tiles of the others."""
        if not self._view.global_buffer_bytes:
            return ()
        placed = candidate.placed
        return (*candidate.staged.values(), *self._passing(candidate.cut, placed.passing_bytes, placed.again_bytes))

    def _passing(self, cut: Cut, passing_bytes: int, again_bytes: int) -> tuple[int, int, int, int]:
        """Return the sizes of both buffers of the global buffer for operands passing through, then of both for outputs.

        Operands that are loaded together share a buffer; so do the output tiles of a burst. With
        `DsaView.single_buffers` the second is for operands that are loaded several times, ``again_bytes`` of the
        ``passing_bytes``, and for outputs of several tiles.
        """
        storing = self._storing(cut.work.output_bytes) // 2
        if not self._single_buffers:
            return passing_bytes, passing_bytes, storing, storing
        return passing_bytes, again_bytes, storing, storing if cut.tiles > 1 else 0

    def _storing(self, output_bytes: int) -> int:
        """Return the bytes of global buffer for output tiles on their way to DDR: two bursts, double-buffered."""
        if self._request.output_memory != DDR:
            return 0
        tile = output_bytes * self._request.cores
        return 2 * (self._burst // tile * tile + tile) if tile < self._burst else 2 * tile


@memoized(most=_MOST_SEARCHED, by_identity=True)
def _lattice(layer: Layer, request: TileRequest, view: DsaView) -> Lattice:
    """Return the lattice of tilings of a layer, whose points keep their `Shape` and `Placed` once these are computed.

    Both are functions of the arguments: `TileRequest.apart_from_space` and `DsaView.on_chip_rates`.
    """
    del view
    return Lattice((*request.part, request.searched_depth), layer.depth_extents[1:], request.fixed)


@memoized(most=_MOST_SEARCHED, by_identity=True)
def _compiled(layer: Layer, request: TileRequest, view: DsaView) -> "Tiles | None":
    """Return the compiled searcher of such requests; None if it does not support them."""
    del layer
    return compiled_tiles(request, Cuts.of(request), view)
