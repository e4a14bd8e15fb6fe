"""One layer's instructions: load, compute and store its tiles, two buffers each, so that the three overlap.

A tile's operands come from DDR over DMA into the global buffer and from there over the on-chip path into the local
buffers; what several cores need is broadcast where the machine can. Loading the next version of an operand waits until
the version before the last has been used; computing a tile waits until the tile before the last has been stored.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hw_models import Buffer, MatrixCompute, Transfer, VectorCompute
from scheduler.builder import ProgramBuilder
from scheduler.device import Assignment, DsaDevice
from scheduler.prefetch import Ahead, Burst, Prefetch
from scheduler.schedule import LayerRun
from scheduler.tiling import Route, Tiling, burst_bytes
from scheduler.work import DEPTH, NestWork, TileWork

_SLOTS = 2
"""Buffers per operand: one is filled while the other is used."""


@dataclass(frozen=True, slots=True)
class LayerPlace:
    """A layer run with everything decided about it."""

    run: LayerRun
    routes: Mapping[str, Route]
    tiling: Tiling
    scope: str
    """Memory that the output goes to."""
    exchanged_bytes: int
    """Per core: inputs resident in other cores' local buffers (halos)."""
    dtype: str
    has_global_buffer: bool
    broadcast: bool


@dataclass(slots=True)
class _Operand:
    """The versions of one streamed operand so far."""

    place: tuple[object, ...] | None = None
    """Position of the tile that the current version belongs to."""
    buffer: int = -1
    users: list[int] = field(default_factory=list)
    """For each version: the last instruction that uses it."""


@dataclass(slots=True)
class _Staged:
    """An operand that stays in the global buffer: what has been fetched of it so far."""

    left_bytes: int
    buffer: int = -1
    versions: dict[tuple[object, ...], int] = field(default_factory=dict)
    """The DMA transfer that brought each version."""
    ahead_bytes: int = 0
    """Fetched beyond the versions used so far."""


class LayerEmitter:
    """Writes one layer run into a program."""

    def __init__(
        self, builder: ProgramBuilder, device: DsaDevice, place: LayerPlace, prefetch: Prefetch | None,
        before: tuple[int, ...],
    ) -> None:  # fmt: skip
        self._builder = builder
        self._device = device
        self._place = place
        self._layer = place.run.layer
        self._operands = {name: _Operand() for name in place.tiling.loads}
        self._prefetch = prefetch
        self._before = before
        """What has to end before anything here computes."""
        self._ahead = {name: Ahead(*parts) for name, parts in place.tiling.ahead.items()}
        self._passed: list[int] = []
        """Last on-chip transfer of each tile that came through the global buffer."""
        self._staged = {name: _Staged(size) for name, size in place.tiling.staged.items()}
        self._stored: list[int] = []
        """Last instruction that takes each output tile out of the local buffer."""
        self._gathered: list[tuple[int, int, int]] = []
        """Output tiles in the global buffer that no burst has taken yet: transfer, buffer, bytes."""
        self._sent: list[int] = []
        """Bursts to DDR."""
        self._last_burst: dict[str, int] = {}
        self._last_transfer: dict[str, int] = {}
        self._works: dict[tuple[object, ...], tuple[TileWork, list[Assignment]]] = {}
        self.first_compute = -1
        self.first_path_store = -1
        self.first_dma_store = -1

    def run(self) -> None:
        """Add all tiles, in the tiling's order."""
        exchange: list[int] | None = None
        last_depth = self._place.tiling.depth_steps - 1
        tiles, done = math.prod(self._place.tiling.counts), 0
        for position, extents, depth_step, depth in self._place.tiling.steps():
            work, jobs = self._work(extents, depth, last=depth_step == last_depth)
            loads = self._load(position, depth_step, work)
            if exchange is None:  # behind the first loads, which need not wait for the layer before
                exchange = self._exchange()
            self._compute(jobs, work, [*loads, *exchange], depth_step == 0, depth_step == last_depth)
            if depth_step == last_depth:
                done += 1
                self._store(work, final=done == tiles)
        self._release_operands()

    def _work(self, extents: tuple[int, ...], depth: int | None, *, last: bool) -> tuple[TileWork, list[Assignment]]:
        key = (extents, depth, last)
        if key not in self._works:
            work = self._layer.tile_work(extents, depth)
            jobs = self._device.assign(work, self._place.dtype)
            if not last:
                jobs = [job for job in jobs if job.work.nest is self._layer.contraction]
            self._works[key] = work, merged(jobs, work, self._layer.graph.tensors)
        return self._works[key]

    def _exchange(self) -> list[int]:
        """Fetch what other cores hold: each sends its border to the global buffer and reads what it lacks."""
        size = self._place.exchanged_bytes
        if not size:
            return []
        label = f"{self._layer.sink.name} exchange"
        if not self._place.has_global_buffer:
            fetch = self._transfer("path_load", label, "local_buffer", "local_buffer", size)
        else:
            held = sum(-(-self._input_bytes(name) // self._place.run.binding.cores) for name in self._place.run.reads)
            sent_bytes = min(size, max(held, 1))
            sent = self._transfer("path_store", label, "local_buffer", "global_buffer", sent_bytes)
            staging = self._builder.allocate(sent, Buffer("global_buffer", sent_bytes, label=label))
            fetch = self._transfer("path_load", label, "global_buffer", "local_buffer", size, (sent,))
            self._builder.free(fetch, staging)
        buffer = self._builder.allocate(fetch, Buffer("local_buffer", size, label=label))
        self._operands[label] = _Operand(("whole",), buffer, [])
        return [fetch]

    def _input_bytes(self, name: str) -> int:
        return self._layer.graph.tensors[name].size_bytes

    def _transfer(  # noqa: PLR0913 - what a transfer consists of
        self, unit: str, label: str, source: str, destination: str, size: int, after: tuple[int, ...] = (), fan_out: int = 1
    ) -> int:
        instruction = Transfer(
            unit=unit, label=label, source=source, destination=destination, size_bytes=size, fan_out=fan_out
        )
        return self._builder.add(instruction, after)

    def _load(self, position: tuple[int, ...], depth_step: int, work: TileWork) -> list[int]:
        """Bring the operands that change with this tile; return the transfers that the computation waits for."""
        changing = []
        for name, operand in self._operands.items():
            if name not in self._place.tiling.loads:
                continue
            depends = self._layer.dependencies.get(name, frozenset())
            place: tuple[object, ...] = tuple(where for dim, where in enumerate(position) if dim in depends)
            if DEPTH in depends:
                place = (*place, depth_step)
            if place != operand.place:
                operand.place = place
                changing.append(name)
        if not changing:
            return []
        transfers = self._load_ahead([name for name in changing if name in self._ahead], work)
        changing = [name for name in changing if name not in self._ahead]
        if not changing:
            return transfers
        waits = self._free_slots(changing)
        exclusive = [name for name in changing if not self._is_shared(name)]
        shared = [name for name in changing if self._is_shared(name)]
        kept = [load for name in changing if (load := self._from_global(name, work)) >= 0]
        passing = [name for name in changing if name not in self._place.tiling.staged]
        fetched, buffer = self._from_ddr(passing, work, waits)
        moved = []
        if self._place.has_global_buffer:
            for names, one_for_all in ((exclusive, False), (shared, True)):
                if names:
                    moved.append(self._to_cores(names, work, one_for_all, (*waits, *fetched, *kept)))
            if fetched:
                for transfer in moved:
                    self._builder.free(transfer, buffer)
                self._passed.append(moved[-1])
        else:
            moved = fetched
        for name in changing:
            owner = moved[-1] if name in shared else moved[0]
            self._last_transfer[name] = owner
            self._allocate_operand(name, owner, work, name in shared)
        return [*transfers, *moved]

    def _load_ahead(self, names: list[str], work: TileWork) -> list[int]:
        """Bring the next versions of weights through the windows: they wait for room there and for the launch only."""
        transfers = []
        for name in names:
            assert self._prefetch is not None
            ahead, operand = self._ahead[name], self._operands[name]
            if operand.buffer >= 0:
                self._builder.free(operand.users[-1], operand.buffer)
            if ahead.entry is not None:
                ahead.entry.user = operand.users[-1]
            size = math.ceil(work.operand_bytes[name])
            ahead.entry, waits = self._prefetch.local.admit(size)
            burst = self._burst(name, work)
            shared = self._is_shared(name)
            transfer = self._to_cores([name], work, shared, (*waits, burst.load))
            burst.left -= 1
            if not burst.left:
                self._builder.free(transfer, burst.buffer)
                burst.entry.user = transfer
            operand.users.append(-1)
            self._allocate_operand(name, transfer, work, shared)
            transfers.append(transfer)
        return transfers

    def _burst(self, name: str, work: TileWork) -> Burst:
        """Return the DMA transfer that brings the operand's next version, adding it if the last one is used up."""
        assert self._prefetch is not None
        ahead, route = self._ahead[name], self._place.routes[name]
        if ahead.burst is None or not ahead.burst.left:
            size = math.ceil(work.operand_bytes[name]) * self._place.run.binding.cores // route.sharing
            room = min(burst_bytes(self._device), self._prefetch.shared.capacity_bytes // (2 * len(self._ahead)))
            versions = min(max(room // max(size, 1), 1), ahead.versions_left)
            size = max(min(size * versions, ahead.bytes_left), 1)
            entry, waits = self._prefetch.shared.admit(size)
            label = f"{self._layer.sink.name} weights"
            after = tuple(dict.fromkeys((*waits, self._prefetch.launch)))
            load = self._transfer("dma_load", label, "ddr", "global_buffer", size, after)
            buffer = self._builder.allocate(load, Buffer("global_buffer", size, label=name))
            ahead.burst = Burst(load, buffer, entry, versions)
            ahead.versions_left -= versions
            ahead.bytes_left -= size
        return ahead.burst

    def _is_shared(self, name: str) -> bool:
        return self._place.broadcast and self._place.routes[name].sharing > 1

    def _free_slots(self, changing: list[str]) -> tuple[int, ...]:
        """Return the last uses of the versions whose slots are filled now, and end the current versions' lives."""
        waits: dict[int, None] = {}
        for name in changing:
            operand = self._operands[name]
            if operand.buffer >= 0:
                self._builder.free(operand.users[-1], operand.buffer)
            if len(operand.users) >= _SLOTS:
                waits[operand.users[-_SLOTS]] = None
            operand.users.append(-1)
        return tuple(waits)

    def _from_ddr(self, names: list[str], work: TileWork, waits: tuple[int, ...]) -> tuple[list[int], int]:
        """Fetch what lies in DDR: into the global buffer, or straight into the local ones where there is none."""
        cores = self._place.run.binding.cores
        size = 0
        for name in names:
            route = self._place.routes[name]
            size += math.ceil(work.operand_bytes[name] * route.from_ddr * cores / route.sharing)
        if not size:
            return [], -1
        label = f"{self._layer.sink.name} load"
        if not self._place.has_global_buffer:
            fan_out = max(self._place.routes[name].sharing for name in names) if len(names) == 1 else 1
            return [self._transfer("dma_load", label, "ddr", "local_buffer", size, waits, fan_out)], -1
        slot = self._passed[-_SLOTS:][:1] if len(self._passed) >= _SLOTS else []
        load = self._transfer("dma_load", label, "ddr", "global_buffer", size, tuple(slot))
        return [load], self._builder.allocate(load, Buffer("global_buffer", size, label=label))

    def _from_global(self, name: str, work: TileWork) -> int:
        """Return the DMA burst that brings a staged operand's current version, adding it if it is a new one; else -1."""
        staged = self._staged.get(name)
        if staged is None:
            return -1
        place = self._operands[name].place
        assert place is not None
        if place in staged.versions:
            return staged.versions[place]
        route = self._place.routes[name]
        size = math.ceil(work.operand_bytes[name] * route.from_ddr) * self._place.run.binding.cores // route.sharing
        if staged.ahead_bytes < size and staged.left_bytes:
            fetched = min(max(burst_bytes(self._device), size - staged.ahead_bytes), staged.left_bytes)
            label = f"{self._layer.sink.name} load"
            load = self._transfer("dma_load", label, "ddr", "global_buffer", fetched)
            if staged.buffer < 0:
                whole = self._place.tiling.staged[name]
                staged.buffer = self._builder.allocate(load, Buffer("global_buffer", whole, label=name))
            staged.left_bytes -= fetched
            staged.ahead_bytes += fetched
            self._last_burst[name] = load
        staged.ahead_bytes = max(staged.ahead_bytes - size, 0)
        staged.versions[place] = self._last_burst[name]
        return staged.versions[place]

    def _to_cores(self, names: list[str], work: TileWork, one_for_all: bool, after: tuple[int, ...]) -> int:
        """Move operands from the global buffer to the cores: each its own part, or one read for all that share it."""
        streamed = {name: math.ceil(work.operand_bytes[name] * self._place.routes[name].streamed) for name in names}
        label = f"{self._layer.sink.name} {'weights' if one_for_all else 'tile'}"
        if not one_for_all:
            return self._transfer("path_load", label, "global_buffer", "local_buffer", sum(streamed.values()), after)
        cores = self._place.run.binding.cores
        sharing = min(self._place.routes[name].sharing for name in names)
        distinct = -(-sum(streamed.values()) * cores // sharing)
        return self._transfer("broadcast", label, "global_buffer", "local_buffer", distinct, after, sharing)

    def _allocate_operand(self, name: str, owner: int, work: TileWork, shared: bool) -> None:
        """Give the operand's new version its space in the local buffers."""
        route = self._place.routes[name]
        size = math.ceil(work.operand_bytes[name] * route.streamed)
        cluster_wide = shared or not self._place.has_global_buffer
        if cluster_wide:
            size = size * self._device.cores_per_cluster
        self._operands[name].buffer = self._builder.allocate(owner, Buffer("local_buffer", size, label=name))

    def _compute(
        self, jobs: list[MatrixCompute | VectorCompute], work: TileWork, inputs: list[int], first: bool, last: bool
    ) -> None:
        """Add the tile's computation, one nest after the other; note it as the last user of every operand."""
        label = self._layer.sink.name
        after = [*inputs, *(self._before if self.first_compute < 0 else ())]
        if first and len(self._stored) >= _SLOTS and self._place.scope != "local_buffer":
            after.append(self._stored[-_SLOTS])
        done = -1
        for job in jobs:
            done = self._builder.add(replace(job, label=label), after)
            after = [done]
            if self.first_compute < 0:
                self.first_compute = done
            if job is jobs[0] and first and self._place.scope != "local_buffer":
                size = work.output_bytes + work.internal_bytes
                self._output = self._builder.allocate(done, Buffer("local_buffer", size, label=label))
        for operand in self._operands.values():
            if operand.users:
                operand.users[-1] = done
            elif operand.place == ("whole",):
                operand.users.append(done)
        self._last_compute = done

    def _store(self, work: TileWork, *, final: bool) -> None:
        """Take the finished tile where the output belongs; tiles for DDR gather in the global buffer to bursts."""
        scope, label = self._place.scope, f"{self._layer.sink.name} store"
        if scope == "local_buffer":
            return
        cores = self._place.run.binding.cores
        size = work.output_bytes
        after: tuple[int, ...] = (self._last_compute,)
        if not self._place.has_global_buffer:
            sent = self._transfer("dma_store", label, "local_buffer", "ddr", size * cores, after)
            self._builder.free(sent, self._output)
            self._stored.append(sent)
            self.first_dma_store = sent if self.first_dma_store < 0 else self.first_dma_store
            return
        moved = self._transfer("path_store", label, "local_buffer", "global_buffer", size, after)
        self._builder.free(moved, self._output)
        self._stored.append(moved)
        self.first_path_store = moved if self.first_path_store < 0 else self.first_path_store
        if scope == "ddr":
            if not self._gathered and len(self._sent) >= _SLOTS:
                self._builder.wait(moved, (self._sent[-_SLOTS],))
            buffer = self._builder.allocate(moved, Buffer("global_buffer", size, label=label))
            self._gathered.append((moved, buffer, size * cores))
            if final or sum(size for _, _, size in self._gathered) >= burst_bytes(self._device):
                self._send(label)

    def _send(self, label: str) -> None:
        """Write the gathered tiles to DDR in one burst."""
        total = sum(size for _, _, size in self._gathered)
        sources = tuple(moved for moved, _, _ in self._gathered)
        sent = self._transfer("dma_store", label, "global_buffer", "ddr", total, sources)
        for _, buffer, _ in self._gathered:
            self._builder.free(sent, buffer)
        self._gathered = []
        self._sent.append(sent)
        self.first_dma_store = sent if self.first_dma_store < 0 else self.first_dma_store

    def _release_operands(self) -> None:
        """End the lives of the last versions."""
        for operand in self._operands.values():
            if operand.buffer >= 0 and operand.users:
                self._builder.free(operand.users[-1], operand.buffer)
        for name, ahead in self._ahead.items():
            if ahead.entry is not None:
                ahead.entry.user = self._operands[name].users[-1]
        for name, staged in self._staged.items():
            if staged.buffer >= 0:
                self._builder.free(self._last_transfer[name], staged.buffer)


def merged(
    jobs: list[Assignment], work: TileWork, tensors: Mapping[str, object]
) -> list[MatrixCompute | VectorCompute]:
    """Return the tile's jobs with neighbours on one vector unit made one, and the local buffer's bytes of each.

    Fused element operations hand values over in registers: only operands from outside, tensors inside an operator,
    and results that leave the unit pass the local buffer.
    """
    found: list[MatrixCompute | VectorCompute] = []
    for place, assigned in enumerate(jobs):
        job = replace(assigned.job, local_bytes=_local_bytes(assigned.work, work, place, jobs))
        before = found[-1] if found else None
        if isinstance(job, VectorCompute) and isinstance(before, VectorCompute) and before.unit == job.unit:
            found[-1] = replace(
                before, macs=before.macs + job.macs, simple=before.simple + job.simple,
                special=before.special + job.special, local_bytes=before.local_bytes + job.local_bytes,
            )  # fmt: skip
        else:
            found.append(job)
    return found


def _local_bytes(nest: NestWork, work: TileWork, place: int, jobs: list[Assignment]) -> int:
    """Return the bytes that one nest of a tile reads from and writes to the local buffer."""
    external = sum(work.operand_bytes.get(read.tensor, 0) for read in nest.nest.reads)
    written = work.output_bytes if place == len(jobs) - 1 else 0
    handed_over = 0
    if place and jobs[place - 1].unit != jobs[place].unit:
        handed_over = 2 * work.output_bytes
    return external + written + handed_over
