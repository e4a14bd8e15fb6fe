"""One layer run's instructions: load, compute and store its tiles, two buffers each, so that the three overlap.

Loading the next version of an operand waits until the version before the last has been used; computing a tile waits
until the tile before the last has been stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hw_models import Buffer, Compute, Work
from scheduler.dsa.lower.emit import Emitting, address
from scheduler.dsa.lower.loads import OperandLoader
from scheduler.dsa.lower.prefetch import Prefetch
from scheduler.dsa.lower.stores import OutputStorer
from scheduler.dsa.lower.tile_waits import TileWaits
from scheduler.dsa.unit_choice import Assignment, assign
from scheduler.dsa.view import GLOBAL, LOCAL
from scheduler.kernels.layer import NestWork, TileWork
from workloads.loopnest import Extents, LoopNest


@dataclass(frozen=True, slots=True)
class Job:
    """A part of a tile's computation: which work it is, how long it takes."""

    work: int
    duration_ps: int


TileJobs = dict[tuple[object, ...], tuple[TileWork, list[Job]]]
"""Tiles of layers and their computation: instances of a sub-graph have many in common."""


class LayerEmitter:
    """Writes one layer run into a program.

    ``before``: what has to end before anything here computes; ``waits``: what else each tile waits for; ``jobs``: the
    tiles that are known already.
    """

    def __init__(
        self, emitting: Emitting, prefetch: Prefetch | None, before: tuple[int, ...], waits: TileWaits, jobs: TileJobs
    ) -> None:
        self._at = emitting
        self._loader = OperandLoader(emitting, prefetch)
        self._storer = OutputStorer(emitting)
        self._before = before
        self._waits = waits
        self._known_jobs = jobs
        self._halo: int | None = None
        self._output = -1
        self.first_compute = -1
        self.done: list[int] = []
        """By tile: the instruction that completes it."""

    @property
    def first_path_store(self) -> int:
        """Position of the first transfer of outputs into the global buffer."""
        return self._storer.first_path_store

    @property
    def first_dma_store(self) -> int:
        """Position of the first transfer of outputs into DDR."""
        return self._storer.first_dma_store

    def run(self) -> None:
        """Add all tiles, in the tiling's order."""
        tiling = self._at.execution.tiling
        last_depth = tiling.depth_steps - 1
        tiles = tiling.passes // tiling.depth_steps
        halo: list[int] | None = None
        last = -1
        known: dict[tuple[Extents, int | None, bool], tuple[TileWork, list[Job], Mapping[str, int]]] = {}
        for position, extents, depth_step, depth in tiling.steps():
            key = extents, depth, depth_step == last_depth
            if key not in known:
                work, jobs = self._jobs(extents, depth, last=depth_step == last_depth)
                known[key] = work, jobs, self._loader.streamed_bytes(work)
            work, jobs, streamed_bytes = known[key]
            inputs = self._loader.load(position, depth_step, work, streamed_bytes)
            if halo is None:  # behind the first loads, which need not wait for the layer before
                halo = self._exchange_halos()
            written = self._waits.next() if depth_step == 0 else []
            partial_sums = [last] if depth_step else []
            waits = [*inputs, *halo, *written, *partial_sums]
            between_bytes = work.between_bytes if depth_step == last_depth else work.handed_bytes
            last = self._compute(jobs, work, waits, first=depth_step == 0, between_bytes=between_bytes)
            if depth_step == last_depth:
                self.done.append(last)
                self._storer.store(work, last, self._output, final=len(self.done) == tiles)
        self._loader.release()
        if self._halo is not None:
            self._at.builder.free(last, self._halo)

    def _jobs(self, extents: tuple[int, ...], depth: int | None, *, last: bool) -> tuple[TileWork, list[Job]]:
        """Return a tile's work and its jobs; what follows the products waits for the last pass over the depth."""
        at, layer, units = self._at, self._at.run.layer, self._at.execution.units
        key = (layer.ops, at.active_cores, units, extents, depth, last)
        if key not in self._known_jobs:
            work = layer.tile_work(extents, depth)
            assigned = assign(work, units, at.view, at.dtype)
            if not last:
                assigned = _up_to(layer.contraction, assigned, layer.graph.storage)
            self._known_jobs[key] = work, [
                Job(
                    at.builder.work(Work(unit=unit, payload=payload, participants=at.active_cores)),
                    spent_ps,
                )
                for unit, payload, spent_ps in merged(assigned, work, layer.graph.storage)
            ]
        return self._known_jobs[key]

    def _exchange_halos(self) -> list[int]:
        """Fetch what other cores hold: each sends its border to the global buffer and reads what it lacks."""
        at = self._at
        size, rounds = at.execution.exchange.core_bytes, at.execution.exchange.rounds
        if not size:
            return []
        fetched: list[int] = []
        if not at.view.has_global_buffer:
            fetched.append(at.transfer("path_load", "exchange", (LOCAL, LOCAL), size))
        else:
            tensors = at.run.layer.graph.tensors
            held = sum(-(-tensors[name].size_bytes // at.active_cores) for name in at.run.reads)
            for sent_bytes, fetched_bytes in zip(
                in_parts(min(size, max(held, 1)), rounds), in_parts(size, rounds), strict=True
            ):
                sent = at.transfer("path_store", "exchange", (LOCAL, GLOBAL), sent_bytes, fetched[-1:])
                place_there = address(at.execution.addresses.sent, 0)
                buffer = Buffer(GLOBAL, sent_bytes, label=f"{at.label} exchange", address=place_there)
                staging = at.builder.allocate(sent, buffer)
                fetched.append(at.transfer("path_load", "exchange", (GLOBAL, LOCAL), fetched_bytes, (sent,)))
                at.builder.free(fetched[-1], staging)
        place_here = address(at.execution.addresses.halo, 0)
        buffer = Buffer(LOCAL, size, label=f"{at.label} exchange", address=place_here)
        self._halo = at.builder.allocate(fetched[0], buffer)
        return fetched[-1:]

    def _compute(
        self, jobs: Sequence[Job], work: TileWork, inputs: list[int], *, first: bool, between_bytes: int
    ) -> int:
        """Add the tile's computation, one nest after the other; return its last instruction.

        The first pass over the depth allocates the output tile, unless the output stays where it is computed. What
        nests hand to each other, ``between_bytes``, has one buffer: the next tile waits for it.
        """
        at, addresses = self._at, self._at.execution.addresses
        outgoing = at.output_memory != LOCAL
        after = [*inputs, *(self._before if self.first_compute < 0 else ())]
        if first and outgoing:
            after.extend(self._storer.slot())
        if between_bytes and self.done:
            after.append(self.done[-1])
        done = between = -1
        for number, job in enumerate(jobs):
            done = at.builder.add(job.work, at.label, after, job.duration_ps)
            after = [done]
            if self.first_compute < 0:
                self.first_compute = done
            if number == 0 and first and outgoing:
                place = address(addresses.output, len(self.done))
                buffer = Buffer(LOCAL, work.output_bytes, label=at.label, address=place)
                self._output = at.builder.allocate(done, buffer)
            if number == 0 and between_bytes:
                label, place = f"{at.label} between nests", address(addresses.between, 0)
                between = at.builder.allocate(done, Buffer(LOCAL, between_bytes, label=label, address=place))
        if between_bytes:
            at.builder.free(done, between)
        self._loader.used_by(done)
        return done


def in_parts(size_bytes: int, parts: int) -> list[int]:
    """Return ``size_bytes`` in parts of nearly one size."""
    return [size_bytes * (part + 1) // parts - size_bytes * part // parts for part in range(parts)]


def _up_to(anchor: LoopNest | None, jobs: Sequence[Assignment], storage: Mapping[str, str]) -> list[Assignment]:
    """Return the jobs of the anchor and of what computes its operands, in order."""
    found: list[Assignment] = []
    needed: set[str] = set()
    for job in reversed(jobs):
        nest = job.work.nest
        if nest is anchor or nest.write.tensor in needed:
            found.append(job)
            needed.update(storage.get(read.tensor, read.tensor) for read in nest.reads)
    return found[::-1]


def merged(
    jobs: Sequence[Assignment], work: TileWork, storage: Mapping[str, str]
) -> list[tuple[str, Compute, int]]:
    """Return the tile's jobs by unit and their time, with neighbours on one vector unit made one, traffic filled in.

    Fused element operations hand values over in registers: only operands from outside, and results that leave the
    unit, pass the local buffer. ``storage``: the tensor behind each view.
    """
    found: list[tuple[str, Compute, int]] = []
    for place, job in enumerate(jobs):
        local_bytes = _local_bytes(job.work, work, place, jobs, storage)
        unit, before, spent_ps = found[-1] if found else ("", job.payload, 0)
        if unit == job.unit and before.shape is None and job.payload.shape is None:
            both = replace(
                before,
                macs=before.macs + job.payload.macs,
                simple=before.simple + job.payload.simple,
                special=before.special + job.payload.special,
                traffic=((LOCAL, before.traffic[0][1] + local_bytes),),
            )
            found[-1] = unit, both, spent_ps + job.duration_ps
        else:
            found.append((job.unit, replace(job.payload, traffic=((LOCAL, local_bytes),)), job.duration_ps))
    return found


def _local_bytes(
    nest: NestWork, work: TileWork, place: int, jobs: Sequence[Assignment], storage: Mapping[str, str]
) -> int:
    """Return the bytes that one nest of a tile reads from and writes to the local buffer."""
    handed_over = work.output_bytes if place and jobs[place - 1].unit != jobs[place].unit else 0
    written = work.output_bytes if place == len(jobs) - 1 else 0
    if jobs[place].operand_bytes:
        return jobs[place].operand_bytes + written + handed_over
    read = (storage.get(access.tensor, access.tensor) for access in nest.nest.reads)
    external = sum(work.operand_bytes.get(name, 0) for name in read)
    return external + written + 2 * handed_over
