"""One layer's instructions: load, compute and store its tiles, two buffers each, so that the three overlap.

Loading the next version of an operand waits until the version before the last has been used; computing a tile waits
until the tile before the last has been stored.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from hw_models import Buffer, MatrixCompute, VectorCompute
from scheduler.builder import Make, ProgramBuilder
from scheduler.device import Assignment, DsaDevice
from scheduler.emitting import Emitting, LayerPlace
from scheduler.lower_loads import OperandLoader
from scheduler.lower_stores import OutputStorer
from scheduler.overlap import TileWaits
from scheduler.prefetch import Prefetch
from scheduler.slots import address
from scheduler.work import NestWork, TileWork

Job = MatrixCompute | VectorCompute
_LOCAL_TO_GLOBAL = ("local_buffer", "global_buffer")
_GLOBAL_TO_LOCAL = ("global_buffer", "local_buffer")


@dataclass(frozen=True, slots=True)
class Planned:
    """A part of a tile's computation: what makes its instruction, where it runs, how long."""

    make: Make
    unit: str
    duration_ps: int


Works = dict[tuple[object, ...], tuple[TileWork, list[Planned]]]
"""Tiles of layers and their computation: instances of a sub-graph have many in common."""


class LayerEmitter:
    """Writes one layer run into a program.

    ``before``: what has to end before anything here computes; ``waits``: what else each tile waits for; ``works``: the
    tiles that are known already.
    """

    def __init__(
        self, builder: ProgramBuilder, device: DsaDevice, place: LayerPlace, prefetch: Prefetch | None,
        before: tuple[int, ...], waits: TileWaits, works: Works,
    ) -> None:  # fmt: skip
        self._at = Emitting(builder, device, place)
        self._loader = OperandLoader(self._at, prefetch)
        self._storer = OutputStorer(self._at)
        self._before = before
        self._waits = waits
        self._works = works
        self._exchanged: int | None = None
        self._output = -1
        self.first_compute = -1
        self.done: list[int] = []
        """By tile: the instruction that completes it."""

    @property
    def active_cores(self) -> int:
        """Cores that have a part of the layer."""
        return self._at.active_cores

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
        place = self._at.place
        last_depth = place.tiling.depth_steps - 1
        tiles = math.prod(place.tiling.counts)
        exchange: list[int] | None = None
        last = -1
        for position, extents, depth_step, depth in place.tiling.steps():
            work, jobs = self._work(extents, depth, last=depth_step == last_depth)
            inputs = self._loader.load(position, depth_step, work)
            if exchange is None:  # behind the first loads, which need not wait for the layer before
                exchange = self._exchange()
            written = self._waits.of(position, extents) if depth_step == 0 else []
            partial_sums = [last] if depth_step else []
            waits = [*inputs, *exchange, *written, *partial_sums]
            between_bytes = work.internal_bytes if depth_step == last_depth else 0
            last = self._compute(jobs, work, waits, first=depth_step == 0, between_bytes=between_bytes)
            if depth_step == last_depth:
                self.done.append(last)
                self._storer.store(work, last, self._output, final=len(self.done) == tiles)
        self._loader.release()
        if self._exchanged is not None:
            self._at.builder.free(last, self._exchanged)

    def _work(self, extents: tuple[int, ...], depth: int | None, *, last: bool) -> tuple[TileWork, list[Planned]]:
        """Return a tile's work and its jobs; before the last pass over the depth only the products are done."""
        run = self._at.place.run
        key = (run.layer.ops, run.binding.cores, extents, depth, last)
        if key not in self._works:
            layer = self._at.place.run.layer
            work = layer.tile_work(extents, depth)
            jobs = self._at.device.assign(work, self._at.place.dtype)
            if not last:
                jobs = [job for job in jobs if job.work.nest is layer.contraction]
            merged_jobs = merged(jobs, work, layer.graph.storage)
            self._works[key] = work, [_planned(job, spent_ps, self._at) for job, spent_ps in merged_jobs]
        return self._works[key]

    def _exchange(self) -> list[int]:
        """Fetch what other cores hold: each sends its border to the global buffer and reads what it lacks."""
        at, place = self._at, self._at.place
        size, rounds = place.exchange.core_bytes, place.exchange.rounds
        if not size:
            return []
        fetched: list[int] = []
        if not place.has_global_buffer:
            fetched.append(at.transfer("path_load", "exchange", ("local_buffer", "local_buffer"), size))
        else:
            tensors = place.run.layer.graph.tensors
            held = sum(-(-tensors[name].size_bytes // place.run.binding.cores) for name in place.run.reads)
            for sent_bytes, fetched_bytes in zip(
                in_parts(min(size, max(held, 1)), rounds), in_parts(size, rounds), strict=True
            ):
                sent = at.transfer("path_store", "exchange", _LOCAL_TO_GLOBAL, sent_bytes, fetched[-1:])
                place_there = address(place.slots.sent, 0)
                buffer = Buffer("global_buffer", sent_bytes, label=f"{at.label} exchange", address=place_there)
                staging = at.builder.allocate(sent, buffer)
                fetched.append(at.transfer("path_load", "exchange", _GLOBAL_TO_LOCAL, fetched_bytes, (sent,)))
                at.builder.free(fetched[-1], staging)
        place_here = address(place.slots.exchange, 0)
        buffer = Buffer("local_buffer", size, label=f"{at.label} exchange", address=place_here)
        self._exchanged = at.builder.allocate(fetched[0], buffer)
        return fetched[-1:]

    def _compute(
        self, jobs: Sequence[Planned], work: TileWork, inputs: list[int], *, first: bool, between_bytes: int
    ) -> int:
        """Add the tile's computation, one nest after the other; return its last instruction.

        The first pass over the depth allocates the output tile, unless the output stays where it is computed. What
        nests hand to each other, ``between_bytes``, has one buffer: the next tile waits for it.
        """
        at, slots = self._at, self._at.place.slots
        outgoing = at.place.scope != "local_buffer"
        after = [*inputs, *(self._before if self.first_compute < 0 else ())]
        if first and outgoing:
            after.extend(self._storer.slot())
        if between_bytes and self.done:
            after.append(self.done[-1])
        done = between = -1
        for number, job in enumerate(jobs):
            done = at.builder.add(job.make, job.unit, after, job.duration_ps)
            after = [done]
            if self.first_compute < 0:
                self.first_compute = done
            if number == 0 and first and outgoing:
                slot = address(slots.output, len(self.done))
                buffer = Buffer("local_buffer", work.output_bytes, label=at.label, address=slot)
                self._output = at.builder.allocate(done, buffer)
            if number == 0 and between_bytes:
                label, slot = f"{at.label} between nests", address(slots.between, 0)
                buffer = Buffer("local_buffer", between_bytes, label=label, address=slot)
                between = at.builder.allocate(done, buffer)
        if between_bytes:
            at.builder.free(done, between)
        self._loader.used_by(done)
        return done


def in_parts(size_bytes: int, parts: int) -> list[int]:
    """Return ``size_bytes`` in parts of nearly one size."""
    return [size_bytes * (part + 1) // parts - size_bytes * part // parts for part in range(parts)]


def merged(jobs: Sequence[Assignment], work: TileWork, storage: Mapping[str, str]) -> list[tuple[Job, int]]:
    """Return the tile's jobs and their time, with neighbours on one vector unit made one, local bytes filled in.

    Fused element operations hand values over in registers: only operands from outside, and results that leave the
    unit, pass the local buffer. ``storage``: the tensor behind each view.
    """
    found: list[tuple[Job, int]] = []
    for place, assigned in enumerate(jobs):
        job = replace(assigned.job, local_bytes=_local_bytes(assigned.work, work, place, jobs, storage))
        before, spent_ps = found[-1] if found else (None, 0)
        if isinstance(job, VectorCompute) and isinstance(before, VectorCompute) and before.unit == job.unit:
            both = replace(
                before,
                macs=before.macs + job.macs,
                simple=before.simple + job.simple,
                special=before.special + job.special,
                local_bytes=before.local_bytes + job.local_bytes,
            )
            found[-1] = both, spent_ps + assigned.duration_ps
        else:
            found.append((job, assigned.duration_ps))
    return found


def _planned(job: Job, duration_ps: int, at: Emitting) -> Planned:
    """Return ``job`` for the time when it is known what it waits for."""
    open_fields = ("after", "allocates", "frees", "label", "active_cores", "layer_run")
    given = {f.name: getattr(job, f.name) for f in fields(job) if f.name not in open_fields}
    make = partial(type(job), label=at.label, active_cores=at.active_cores, **given)
    return Planned(make, job.unit, duration_ps)


def _local_bytes(
    nest: NestWork, work: TileWork, place: int, jobs: Sequence[Assignment], storage: Mapping[str, str]
) -> int:
    """Return the bytes that one nest of a tile reads from and writes to the local buffer."""
    read = (storage.get(access.tensor, access.tensor) for access in nest.nest.reads)
    external = sum(work.operand_bytes.get(name, 0) for name in read)
    written = work.output_bytes if place == len(jobs) - 1 else 0
    handed_over = 2 * work.output_bytes if place and jobs[place - 1].unit != jobs[place].unit else 0
    return external + written + handed_over
