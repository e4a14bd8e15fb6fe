"""Candidate tilings of a layer on one core: the buffers that they take, and the time.

Operands that fit the global buffer stay there while the layer runs, so that DDR is read once for them, in long bursts,
however often their tiles go to the cores. Weights that every core gets once can be fetched ahead, through the prefetch
buffers.
"""

from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from scheduler.dsa.allocation import fit
from scheduler.dsa.tiling.cuts import Cut, Cuts
from scheduler.dsa.tiling.estimate import Choice, estimate_ps
from scheduler.dsa.tiling.tiling import TileRequest, Tiling
from scheduler.dsa.unit_choice import unit_ps
from scheduler.dsa.view import DDR, LOCAL, DsaView
from scheduler.errors import ScheduleError
from workloads.loopnest import Extents


def burst_room_bytes(prefetch_bytes: int, operands: int) -> int:
    """Return the most bytes of a burst of each of ``operands`` that share the global prefetch buffer, two at a time."""
    return max(prefetch_bytes // (2 * operands), 1)


class Candidate(NamedTuple):
    """A cut with the place that its operands have, the buffers that it takes, and its price: see `Tiling`."""

    cut: Cut
    prefetched: Mapping[str, tuple[int, int]]
    staged: Mapping[str, int]
    local_buffers: tuple[int, ...]
    global_buffers: tuple[int, ...]
    prefetch_bytes: tuple[int, int]
    tile_bytes: int
    estimate_ps: float


class TileCandidates:
    """Candidates for one request, each with its price, whether they fit or not."""

    def __init__(self, request: TileRequest, view: DsaView) -> None:
        self._request = request
        self._view = view
        self._cuts = Cuts.of(request)
        self._unit_ps_known = request.layer.analysis.table(unit_ps)
        self.depth_extent = self._cuts.depth_extent
        """Iterations of the anchor's depth loop."""
        self._global_room = sum(request.global_gaps)
        self._burst = min(view.burst_bytes, max(self._global_room // view.tuning.store_bursts, 1))

    def candidate(self, tile: Extents, depth: int | None) -> Candidate:
        """Return ``tile`` elements and ``depth`` iterations in the order that loads fewest bytes.

        All weights that can be are prefetched, and as many operands staged as the global buffer has room for.
        """
        cut = self._cuts.least_loaded(tile, depth)
        prefetched = self._prefetchable(cut)
        return self._priced(cut, prefetched, self._staged(cut, prefetched))

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
        request, work = self._request, cut.work
        output = work.output_bytes if request.output_memory != LOCAL else 0
        burst_room = 0 if request.prefetch is None else burst_room_bytes(request.prefetch[1], max(len(prefetched), 1))
        buffers: list[int] = []
        tile_bytes = work.between_bytes + output
        near = far = 0
        """Bytes of the prefetch buffers."""
        for operand in cut.operands:
            size, slots = operand.streamed_bytes, 2 if operand.times > 1 else 1
            tile_bytes += size
            if operand.name in prefetched:
                near += size * slots
                far += 2 * min(cut.passing_bytes[operand.name], burst_room)
            else:
                buffers += [size] * slots
        buffers += [work.between_bytes, output, output] if cut.tiles > 1 else [work.between_bytes, output]
        choice = Choice(cut, self._unit_ps(cut), staged, prefetched, self._cuts.distinct)
        return Candidate(
            cut, prefetched, staged, tuple(buffers), self._global_buffers(cut, {*staged, *prefetched}, staged),
            (near, far), tile_bytes, estimate_ps(request, choice, self._view),
        )  # fmt: skip

    def _unit_ps(self, cut: Cut) -> Sequence[int]:
        request, view = self._request, self._view
        bandwidth = view.spec.local_buffer.bandwidth_bytes_per_s
        key = request.layer.signature, cut.tile, cut.depth, request.units, request.dtype, view.arithmetic, bandwidth
        return self._unit_ps_known.get(key, partial(unit_ps, cut.work, request.units, view, request.dtype))

    def _prefetchable(self, cut: Cut) -> dict[str, tuple[int, int]]:
        """Return the weights that every core gets once, version by version: those can be fetched ahead."""
        if self._request.prefetch is None:
            return {}
        distinct = self._cuts.distinct
        return {each.name: (each.versions, distinct[each.name]) for each in cut.operands if each.versions}

    def _staged(self, cut: Cut, prefetched: Container[str]) -> dict[str, int]:
        """Return the operands from DDR that the global buffer holds as a whole, smallest first, and their bytes."""
        if not self._view.global_buffer_bytes:
            return {}
        distinct, loads, passing_bytes = self._cuts.distinct, cut.loads, cut.passing_bytes
        left = [name for name in loads if name not in prefetched]
        staged: dict[str, int] = {}
        output = cut.work.output_bytes if self._request.output_memory != LOCAL else 0
        storing = self._storing(output) // 2
        for size, name in sorted([(distinct[name], name) for name in left if loads[name] > 1 and distinct[name]]):
            passing = sum([passing_bytes[other] for other in left if other != name and other not in staged])
            if fit((*staged.values(), size, passing, passing, storing, storing), self._request.global_gaps):
                staged[name] = size
        return staged

    def fits(self, candidate: Candidate) -> bool:
        """Whether all buffers of a candidate find their gaps, and its weights the prefetch buffers."""
        request = self._request
        if not fit(candidate.local_buffers, request.local_gaps):
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

    def _global_buffers(self, cut: Cut, elsewhere: Container[str], staged: Mapping[str, int]) -> tuple[int, ...]:
        """Return the layer's buffers in the global buffer: staged operands, two tiles of what has no place elsewhere.

        What is loaded together lies together; so do the output tiles of a burst.
        """
        if not self._view.global_buffer_bytes:
            return ()
        passing = sum([size for name, size in cut.passing_bytes.items() if name not in elsewhere])
        storing = self._storing(cut.work.output_bytes) // 2
        return (*staged.values(), passing, passing, storing, storing)

    def _storing(self, output_bytes: int) -> int:
        """Return the global buffer that output tiles on their way to DDR take: one burst collects, one leaves."""
        if self._request.output_memory != DDR:
            return 0
        tile = output_bytes * self._request.cores
        return 2 * (self._burst // tile * tile + tile) if tile < self._burst else 2 * tile
