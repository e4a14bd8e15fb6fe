"""Instructions of one layer run: tiles are loaded, computed and stored, double-buffered, so that the three overlap.

Loading the next version of an operand waits for the last use of the version two before it; computing a tile waits for
the store of the tile two before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.hw_models import Compute, MatrixShape, Work
from dsascape.hw_models.simulation.columns import column
from dsascape.scheduler.dsa.deciding.unit_choice import Assignment, assign, side_by_side
from dsascape.scheduler.dsa.lower.emit import (
    BETWEEN,
    ENTRY,
    HALO,
    OUTPUT,
    ROOM,
    SENT,
    SLOTS,
    Emitting,
    tile_of,
)
from dsascape.scheduler.dsa.lower.fetches import Fetches, gathered
from dsascape.scheduler.dsa.lower.loads import OperandLoader
from dsascape.scheduler.dsa.lower.prefetch import PrefetchUse
from dsascape.scheduler.dsa.lower.prefetch_buffer import Passing
from dsascape.scheduler.dsa.lower.stores import OutputStorer
from dsascape.scheduler.dsa.lower.streamed import TileBytes
from dsascape.scheduler.dsa.lower.tile_waits import Waits
from dsascape.scheduler.dsa.view import GLOBAL, LOCAL
from dsascape.scheduler.kernels.tile_work import TileWork
from dsascape.scheduler.programs.fragments import Fragment, FragmentBuffer, Outside
from dsascape.workloads.loopnest import Extents, LoopNest


@dataclass(frozen=True, slots=True)
class WrittenLayer:
    """Lowered layer run; positions are those in the fragment, -1 for none."""

    fragment: Fragment
    outside: tuple[Outside, ...]
    """External dependencies in the fragment's order; of those on space in a prefetch buffer only the first, as all of
    one buffer's are consecutive."""
    prefetch: tuple[Passing, ...]
    """Admissions to each prefetch buffer; empty if there are none."""
    done: tuple[int, ...]
    """Instruction that completes each tile."""
    first_compute: int
    first_stores: Mapping[str, int]
    """Position of the first transfer of outputs into each memory, by name."""
    fetches: tuple[Fetches, ...] = ()
    """Fetches of each operand that stays in the global buffer, until they are coalesced into bursts."""

    def in_bursts(self, burst_bytes: int) -> "WrittenLayer":
        """Return this layer run with all fetches coalesced into bursts of ``burst_bytes``."""
        coalesced = gathered(self.fragment, self.fetches, burst_bytes)
        first_compute, *first_stores = coalesced.moved(column((self.first_compute, *self.first_stores.values())))
        return replace(
            self,
            fragment=coalesced.fragment,
            prefetch=tuple([passing.moved(coalesced.moved) for passing in self.prefetch]),
            done=tuple(coalesced.moved(column(self.done))),
            first_compute=first_compute,
            first_stores=dict(zip(self.first_stores, first_stores, strict=True)),
            fetches=(),
        )


def written_layer(emitting: Emitting, prefetch: PrefetchUse | None, waits: Waits) -> WrittenLayer:
    """Return the instructions of a layer run; ``waits``: producer tiles that each tile waits for (`TileWaits`).

    Operands that stay in the global buffer are fetched version by version: see `WrittenLayer.in_bursts`.
    """
    return _LayerEmitter(emitting, prefetch, waits).run()


class _LayerEmitter:

    def __init__(self, emitting: Emitting, prefetch: PrefetchUse | None, waits: Waits) -> None:
        self._at = emitting
        self._prefetch = prefetch
        self._loader = OperandLoader(emitting, prefetch)
        self._storer = OutputStorer(emitting)
        self._waits = waits
        self._halo: int | None = None
        self._output = -1
        self._first_compute = -1
        self._done: list[int] = []
        """Instruction that completes each tile."""

    def run(self) -> WrittenLayer:
        """Add all tiles, in the tiling's order; return the lowered layer run."""
        tiling = self._at.execution.tiling
        last_depth = tiling.depth_steps - 1
        tiles = tiling.passes // tiling.depth_steps
        halo: list[int] | None = None
        last = -1
        jobs_by_shape: dict[tuple[Extents, int | None, bool], tuple[TileWork, list[list[int]], TileBytes]] = {}
        for position, extents, depth_step, depth in tiling.steps():
            key = extents, depth, depth_step == last_depth
            if key not in jobs_by_shape:
                work, jobs = self._jobs(extents, depth, last=depth_step == last_depth)
                jobs_by_shape[key] = work, jobs, self._loader.bytes_of(work)
            work, jobs, needed = jobs_by_shape[key]
            inputs = self._loader.load(position, depth_step, work, needed)
            if halo is None:  # after the first loads, which need not wait for the layer before
                halo = self._exchange_halos()
            written = self._written(len(self._done)) if depth_step == 0 else []
            partial_sums = [last] if depth_step else []
            waits = [*inputs, *halo, *written, *partial_sums]
            is_whole = depth_step == last_depth or bool(self._at.layer.streamed)
            between_bytes = work.between_bytes if is_whole else work.handed_bytes
            last = self._compute(jobs, work, waits, first=depth_step == 0, between_bytes=between_bytes)
            if depth_step == last_depth:
                self._done.append(last)
                self._storer.store(work, last, self._output, final=len(self._done) == tiles)
        self._loader.release()
        if self._halo is not None:
            self._at.writer.free(last, self._halo)
        firsts = self._first_compute, self._storer.first_stores
        prefetch = () if self._prefetch is None else self._prefetch.noted()
        fragment = self._at.writer.written()
        outside = tuple([what for what in fragment.outside if what.kind != ROOM or what.part == 0])
        return WrittenLayer(fragment, outside, prefetch, tuple(self._done), *firsts, self._loader.fetches)

    def _jobs(self, extents: tuple[int, ...], depth: int | None, *, last: bool) -> tuple[TileWork, list[list[int]]]:
        """Return a tile's work and its jobs: numbers of works, in groups that run concurrently, one after the other.

        Nests after the one that is accumulated piece by piece wait for the last pass over the depth.
        """
        at, layer, units = self._at, self._at.layer, self._at.execution.units
        work = layer.tile_work(extents, depth)
        assigned = assign(work, units, at.view, at.dtype)
        if not last:
            assigned = _up_to(layer.summed, assigned, layer.graph.storage)
        groups = merged(assigned, work, layer.graph.storage)
        if groups and groups[-1][1:]:  # waiting for a tile means waiting for one instruction
            unit, payload, _ = groups[-1][0]
            nothing = None if payload.shape is None else MatrixShape(0, 0, 0, 0)
            groups.append([(unit, Compute(dtype=payload.dtype, shape=nothing), 0)])
        return work, [
            [
                at.writer.work(Work(unit=unit, payload=payload, participants=at.active_cores), spent_ps)
                for unit, payload, spent_ps in group
            ]
            for group in groups
        ]

    def _written(self, tile: int) -> list[int]:
        """Return the external dependencies on the tiles of other runs that write what a tile reads."""
        waits = self._waits[tile] if self._waits else ()
        return [self._at.writer.outside(tile_of(writer, last)) for writer, last in waits]

    def _exchange_halos(self) -> list[int]:
        """Exchange halos: each core sends its border to the global buffer and reads what it lacks from there."""
        at = self._at
        size, rounds = at.execution.exchange.core_bytes, at.execution.exchange.rounds
        if not size:
            return []
        fetched: list[int] = []
        if not at.view.has_global_buffer:
            fetched.append(at.transfer("path_load", "exchange", (LOCAL, LOCAL), size))
        else:
            sent_in_all = min(size, at.code.held_bytes)
            for sent_bytes, fetched_bytes in zip(in_parts(sent_in_all, rounds), in_parts(size, rounds), strict=True):
                sent = at.transfer("path_store", "exchange", (LOCAL, GLOBAL), sent_bytes, fetched[-1:])
                buffer = FragmentBuffer(GLOBAL, sent_bytes, at.label(" exchange"), SENT)
                staging = at.writer.allocate(sent, buffer)
                fetched.append(at.transfer("path_load", "exchange", (GLOBAL, LOCAL), fetched_bytes, (sent,)))
                at.writer.free(fetched[-1], staging)
        buffer = FragmentBuffer(LOCAL, size, at.label(" exchange"), HALO)
        self._halo = at.writer.allocate(fetched[0], buffer)
        return fetched[-1:]

    def _compute(
        self, jobs: Sequence[Sequence[int]], work: TileWork, inputs: list[int], *, first: bool, between_bytes: int
    ) -> int:
        """Add the tile's computation, one nest after the other; return its last instruction.

        The first pass over the depth allocates the output tile, unless the output stays in the local buffer.
        Intermediates between nests, ``between_bytes``, are not double-buffered: the next tile waits for this one, as it
        does where loops are sequential.
        """
        at = self._at
        outgoing = at.output_memory != LOCAL
        after = list(inputs)
        if self._first_compute < 0:
            after.append(at.writer.outside(ENTRY))
        if first and outgoing:
            after.extend(self._storer.slot())
        if self._done and (between_bytes or at.layer.is_ordered):
            after.append(self._done[-1])
        done = between = -1
        for number, group in enumerate(jobs):
            after = [at.writer.add(job, at.label(), after) for job in group]
            done = after[0]
            if self._first_compute < 0:
                self._first_compute = done
            if number == 0 and first and outgoing:
                buffer = FragmentBuffer(LOCAL, work.output_bytes, at.label(), OUTPUT, len(self._done) % SLOTS)
                self._output = at.writer.allocate(done, buffer)
            if number == 0 and between_bytes:
                buffer = FragmentBuffer(LOCAL, between_bytes, at.label(" between nests"), BETWEEN)
                between = at.writer.allocate(done, buffer)
        if between_bytes:
            at.writer.free(done, between)
        self._loader.used_by(done)
        return done


def in_parts(size_bytes: int, parts: int) -> list[int]:
    """Return ``size_bytes`` in ``parts`` parts of nearly equal size."""
    return [size_bytes * (part + 1) // parts - size_bytes * part // parts for part in range(parts)]


def _up_to(summed: LoopNest | None, jobs: Sequence[Assignment], storage: Mapping[str, str]) -> list[Assignment]:
    """Return the jobs of the nest ``summed`` and of the nests that compute its operands, in order."""
    kept: list[Assignment] = []
    needed: set[str] = set()
    for job in reversed(jobs):
        nest = job.work.nest
        if (nest is summed and not job.follows) or nest.write.tensor in needed:
            kept.append(job)
            needed.update(storage.get(read.tensor, read.tensor) for read in nest.reads)
    return kept[::-1]


_Job = tuple[str, Compute, int]
"""Job of a unit: (unit, computation, uncontended time in ps)."""


def merged(jobs: Sequence[Assignment], work: TileWork, storage: Mapping[str, str]) -> list[list[_Job]]:
    """Return the tile's jobs with their traffic, in groups that run concurrently, one after the other.

    Consecutive jobs on one vector unit are merged: fused element operations pass values in registers. Only operands
    from outside, and results that leave the unit, pass through the local buffer. ``storage``: the tensor behind each
    view.
    """
    merged_groups: list[list[_Job]] = []
    groups = side_by_side(jobs)
    for place, group in enumerate(groups):
        local_bytes = _local_bytes(place, groups, work, storage)
        own = [
            (job.unit, replace(job.payload, traffic=((LOCAL, size),)), job.duration_ps)
            for job, size in zip(group, local_bytes, strict=True)
        ]
        if merged_groups and _goes_on(merged_groups[-1], own):
            merged_groups[-1] = [_both(before, further) for before, further in zip(merged_groups[-1], own, strict=True)]
        else:
            merged_groups.append(own)
    return merged_groups


def _goes_on(before: Sequence[_Job], further: Sequence[_Job]) -> bool:
    """Return whether the same vector units continue with further element operations."""
    payloads = [payload for _, payload, _ in (*before, *further)]
    same_units = [unit for unit, _, _ in before] == [unit for unit, _, _ in further]
    return same_units and all(payload.shape is None and payload.rounds == 1 for payload in payloads)


def _both(before: _Job, further: _Job) -> _Job:
    (unit, first, first_ps), (_, second, second_ps) = before, further
    payload = replace(
        first,
        macs=first.macs + second.macs,
        simple=first.simple + second.simple,
        special=first.special + second.special,
        traffic=((LOCAL, first.traffic[0][1] + second.traffic[0][1]),),
    )
    return unit, payload, first_ps + second_ps


def _local_bytes(
    place: int, groups: Sequence[Sequence[Assignment]], work: TileWork, storage: Mapping[str, str]
) -> list[int]:
    """Return the local buffer traffic in bytes of each unit in the group at ``place``."""
    group = groups[place]
    units = [[job.unit for job in each] for each in groups]
    handed_over = work.output_bytes if place and units[place - 1] != units[place] else 0
    written = work.output_bytes if place == len(groups) - 1 else 0
    if any(job.operand_bytes for job in group):
        return [job.operand_bytes + _of_part(job, written + handed_over) for job in group]
    if group[0].follows:
        return [_of_part(job, written + handed_over) for job in group]
    read = (storage.get(access.tensor, access.tensor) for access in group[0].work.nest.reads)
    external = sum(work.operand_bytes.get(name, 0) for name in read)
    return [_of_part(job, external + written + 2 * handed_over) for job in group]


def _of_part(job: Assignment, whole_bytes: int) -> int:
    part, whole = job.part
    return -(-whole_bytes * part // whole)
