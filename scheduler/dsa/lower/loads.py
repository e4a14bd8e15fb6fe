"""Loads of operands into the local buffers: tile by tile, double-buffered; weights through prefetch buffers.

A tile's operands come from DDR over DMA, or from a further level over its path, into the global buffer, and from there
over the on-chip path into the local buffers; data needed by several cores is broadcast if the machine supports it.
Operands that stay in the global buffer for the layer are fetched once, in bursts (`lower.staged`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dsascape.hw_models.dsa.levels import CLUSTER_LINK
from dsascape.scheduler.dsa.lower.emit import LAUNCH, PASSING, SLOTS, Emitting
from dsascape.scheduler.dsa.lower.fetches import Fetches
from dsascape.scheduler.dsa.lower.memory_rows import operand_rows, pieces
from dsascape.scheduler.dsa.lower.prefetch import FURTHER, NEAR, Burst, PrefetchedOperand, PrefetchUse
from dsascape.scheduler.dsa.lower.staged import staged_parts
from dsascape.scheduler.dsa.lower.streamed import StreamedOperand, TileBytes, bytes_from, place_along, sources_of
from dsascape.scheduler.dsa.tiling.cuts import operands_filled
from dsascape.scheduler.dsa.view import DDR, GLOBAL, LOCAL
from dsascape.scheduler.kernels.layer import DEPTH
from dsascape.scheduler.kernels.tile_work import TileWork
from dsascape.scheduler.programs.fragments import FragmentBuffer


class _Moved(NamedTuple):
    """Operands moved to the cores by one transfer."""

    names: tuple[str, ...]
    one_for_all: bool
    """Whether one read of the global buffer serves all cores that share them; else each core gets its own part."""
    what: str
    """Text for labels."""
    cores_sharing: int
    """Minimum over the operands of the number of cores that share them."""


class _Changing(NamedTuple):
    """Transfers of operands whose versions change together."""

    moved: tuple[_Moved, ...]
    staged: tuple[str, ...]
    passing: tuple[str, ...]
    """Operands that are not staged."""


class OperandLoader:
    """Writes the loads of one layer run."""

    def __init__(self, emitting: Emitting, prefetch: PrefetchUse | None) -> None:
        self._at = emitting
        self._path, self._ddr = emitting.paths.memories[0], emitting.paths.memories[-1]
        self._prefetch = prefetch
        self._reloads = emitting.view.spec.local_buffer.reloads
        tiling = emitting.execution.tiling
        self._filled = operands_filled(emitting.layer, emitting.code.extents, tiling.part, tiling.loads)
        self._operands = {name: self._operand(name) for name in tiling.loads}
        self._prefetched = {name: PrefetchedOperand(*parts) for name, parts in tiling.prefetched.items()}
        self._ahead = dict(zip(tiling.prefetched, emitting.bursts.ahead, strict=True))
        routes = emitting.execution.routes
        self._staged = {name: staged_parts(size, routes[name]) for name, size in tiling.staged.items()}
        self._sources = self._passing_sources()
        """Memories beyond the global buffer that operands come from which are not staged."""
        self._together: dict[tuple[str, ...], _Changing] = {}
        """Cached transfers by the operands whose versions change together."""
        self._passed: list[tuple[int, ...]] = []
        """On-chip transfers of each tile that passed through the global buffer."""
        self._last_transfer: dict[str, int] = {}

    def _operand(self, name: str) -> StreamedOperand:
        at, layer = self._at, self._at.layer
        depends = layer.dependencies.get(name, frozenset())
        is_weight = layer.graph.tensors[name].role == "weight"
        route = at.execution.routes[name]
        outside = tuple([
            (memory, share * at.active_cores / route.cores_sharing * self._filled[name])
            for memory, share in (*route.outside, ("", route.from_outside))
        ])  # fmt: skip
        of_cluster = route.broadcast or not at.view.has_global_buffer  # a unit that fills all local buffers
        return StreamedOperand(
            route, place_along(sorted(depends - {DEPTH})), DEPTH in depends, is_weight, outside[:-1], at.operand(name),
            at.addresses(name), at.view.cores_per_cluster if of_cluster else 1, outside[-1][1],
        )  # fmt: skip

    def _passing_sources(self) -> tuple[str, ...]:
        each = [operand.outside for name, operand in self._operands.items() if name not in self._staged]
        return tuple(dict.fromkeys([memory for outside in each for memory, _ in outside]))

    def used_by(self, position: int) -> None:
        """Record that the instruction at ``position`` uses the current version of every operand."""
        for operand in self._operands.values():
            if operand.users:
                operand.users[-1] = position

    def bytes_of(self, work: TileWork) -> TileBytes:
        """Return the bytes of each streamed operand for a tile."""
        operands, whole = self._operands.items(), work.operand_bytes
        return TileBytes(
            {name: math.ceil(whole[name] * operand.route.streamed) for name, operand in operands},
            {
                memory: {
                    name: bytes_from(memory, operand, whole[name])
                    for name, operand in operands if name not in self._staged
                }
                for memory in self._sources
            },
            {} if self._at.view.has_global_buffer else operand_rows(self._at.layer, work),
        )

    def load(self, position: tuple[int, ...], depth_step: int, work: TileWork, needed: TileBytes) -> list[int]:
        """Load the operands whose versions change with this tile; return the transfers that its jobs wait for."""
        ahead: list[str] = []
        changing: list[str] = []
        for name, operand in self._operands.items():
            place = operand.place(position)
            version = (place, depth_step) if operand.by_depth else place
            if self._reloads:
                version = position, depth_step
            if version != operand.version:
                operand.version = version
                (ahead if name in self._prefetched else changing).append(name)
        transfers = self._load_prefetched(ahead, work, needed.streamed) if ahead else []
        if not changing:
            return transfers
        together = self._changing(tuple(changing))
        waits = self._free_slots(changing)
        kept = [load for name in together.staged for load in self._to_stay(name, work)]
        fetched, buffers = self._passing(together.passing, needed, waits)
        moved = fetched
        if self._at.view.has_global_buffer:
            after = (*waits, *fetched, *kept)
            moved = [self._to_cores(each, needed.streamed, after) for each in together.moved]
            if fetched:
                for transfer in moved:
                    for buffer in buffers:
                        self._at.writer.free(transfer, buffer)
                self._passed.append(tuple(moved))
        for name in changing:
            owner = moved[-1] if self._operands[name].route.broadcast else moved[0]
            self._last_transfer[name] = owner
            self._allocate_operand(name, owner, needed.streamed[name])
        return [*transfers, *moved]

    def _changing(self, names: tuple[str, ...]) -> _Changing:
        """Return the transfers of operands whose versions change together, broadcasts last."""
        transfers = self._together.get(names)
        if transfers is None:
            moved = [self._moved([name for name in names if self._operands[name].route.broadcast is one_for_all])
                     for one_for_all in (False, True)]  # fmt: skip
            transfers = self._together[names] = _Changing(
                tuple([each for each in moved if each.names]), tuple([name for name in names if name in self._staged]),
                tuple([name for name in names if name not in self._staged]),
            )  # fmt: skip
        return transfers

    def _moved(self, names: Sequence[str]) -> _Moved:
        """Return the transfer of operands, all or none of which are broadcast."""
        operands = [self._operands[name] for name in names]
        what = "weights" if all(operand.is_weight for operand in operands) else "tile"
        sharing = min([operand.route.cores_sharing for operand in operands], default=1)
        return _Moved(tuple(names), any(operand.route.broadcast for operand in operands), what, sharing)

    def _load_prefetched(self, names: list[str], work: TileWork, streamed_bytes: Mapping[str, int]) -> list[int]:
        """Load the next versions of weights through the prefetch buffers; loads wait for space and the launch."""
        assert self._prefetch is not None
        waits: dict[int, None] = {}
        for name in names:
            weights, operand = self._prefetched[name], self._operands[name]
            if operand.buffer >= 0:
                self._at.writer.free(operand.users[-1], operand.buffer)
            if weights.entry >= 0:
                self._prefetch.used_by(NEAR, weights.entry, operand.users[-1])
            weights.entry, room = self._prefetch.admit(NEAR, work.operand_bytes[name])
            waits[room] = None
            operand.users.append(-1)
        large = [name for name in names if not self._ahead[name].versions]
        transfers = [transfer for name in large for transfer in self._in_chunks(name, work, streamed_bytes, waits)]
        names = [name for name in names if name not in large]
        bursts = self._bursts(names)
        for broadcast in (False, True):
            same_kind = tuple([name for name in names if self._operands[name].route.broadcast is broadcast])
            if same_kind:
                loads = (bursts[name].load for name in same_kind)
                after = tuple(dict.fromkeys((*waits, *loads)))
                transfers.append(self._to_cores(self._changing(same_kind).moved[0], streamed_bytes, after))
            for name in same_kind:
                self._allocate_operand(name, transfers[-1], streamed_bytes[name])
                bursts[name].left -= 1
                if not bursts[name].left:
                    self._at.writer.free(transfers[-1], bursts[name].buffer)
                    self._prefetch.used_by(FURTHER, bursts[name].entry, transfers[-1])
        self._prefetch.filled_by(NEAR, transfers)
        return transfers

    def _cluster_bytes(self, name: str, work: TileWork) -> int:
        """Return the bytes of an operand's tile for all cores."""
        route = self._at.execution.routes[name]
        return math.ceil(work.operand_bytes[name] * self._at.active_cores / route.cores_sharing * self._filled[name])

    def _in_chunks(
        self, name: str, work: TileWork, streamed_bytes: Mapping[str, int], waits: Iterable[int]
    ) -> list[int]:
        """Load a version that is larger than a burst, in chunks through the global prefetch buffer."""
        assert self._prefetch is not None
        launch = self._at.writer.outside(LAUNCH)
        left = self._prefetched[name].take(self._cluster_bytes(name, work), 1)
        moved = self._moved([name])
        transfers: list[int] = []
        chunks = -(-left // self._ahead[name].room_bytes)
        for chunk in range(chunks):
            size = left // (chunks - chunk)
            left -= size
            entry, room = self._prefetch.admit(FURTHER, size)
            load = self._at.transfer(self._ddr.load, "weights", (DDR, GLOBAL), size, (launch, room))
            self._prefetch.filled_by(FURTHER, (load,))
            buffer = self._at.writer.allocate(load, FragmentBuffer(GLOBAL, size, self._at.operand(name)))
            transfers.append(self._to_cores(moved, streamed_bytes, (*waits, load), (chunk, chunks)))
            self._at.writer.free(transfers[-1], buffer)
            self._prefetch.used_by(FURTHER, entry, transfers[-1])
        self._allocate_operand(name, transfers[0], streamed_bytes[name])
        return transfers

    def _bursts(self, names: list[str]) -> dict[str, Burst]:
        """Return the burst with each operand's next version; one new DMA transfer serves all exhausted bursts."""
        assert self._prefetch is not None
        wanted: dict[str, tuple[int, int, int]] = {}
        after = [self._at.writer.outside(LAUNCH)]
        for name in names:
            weights = self._prefetched[name]
            if weights.burst is not None and weights.burst.left:
                continue
            ahead = self._ahead[name]
            versions = min(ahead.versions, weights.versions_left)
            size = weights.take(ahead.version_bytes * versions, versions)
            entry, room = self._prefetch.admit(FURTHER, size)
            after.append(room)
            wanted[name] = size, versions, entry
        if wanted:
            total = sum(size for size, _, _ in wanted.values())
            load = self._at.transfer(self._ddr.load, "weights", (DDR, GLOBAL), total, after)
            self._prefetch.filled_by(FURTHER, (load,))
            for name, (size, versions, entry) in wanted.items():
                buffer = self._at.writer.allocate(load, FragmentBuffer(GLOBAL, size, self._at.operand(name)))
                self._prefetched[name].burst = Burst(load, buffer, entry, versions)
        current = ((name, self._prefetched[name].burst) for name in names)
        return {name: burst for name, burst in current if burst is not None}

    def _free_slots(self, changing: list[str]) -> tuple[int, ...]:
        """Free the current versions; return the last users of the versions whose slots are filled now."""
        waits: dict[int, None] = {}
        for name in changing:
            operand = self._operands[name]
            if operand.buffer >= 0:
                self._at.writer.free(operand.users[-1], operand.buffer)
            if len(operand.users) >= SLOTS:
                waits[operand.users[-SLOTS]] = None
            operand.users.append(-1)
        return tuple(waits)

    def _passing(
        self, names: tuple[str, ...], needed: TileBytes, waits: tuple[int, ...]
    ) -> tuple[list[int], list[int]]:
        """Load operands from beyond the global buffer into it, or directly into the local ones if there is none.

        Return the transfers, one from each memory, and the numbers of the global buffer's buffers.
        """
        at, loads, buffers, offset = self._at, list[int](), list[int](), 0
        routes = {name: self._operands[name].route for name in names}
        for memory, receivers, sent_after, together in sources_of(routes, self._sources):
            sizes = {name: needed.outside[memory][name] for name in together}
            size = sum(sizes.values())
            if not size:
                continue
            if not at.view.has_global_buffer:
                unit, own = at.paths.to(memory).load, self._operands[names[0]].route.cores_sharing
                fan_out = own if len(names) == 1 else 1
                in_rows = pieces(sizes, needed.rows)
                loads.append(at.transfer(unit, "load", (memory, LOCAL), size, waits, fan_out, in_rows))
                continue
            passed = len(self._passed)
            slot = self._passed[-SLOTS] if passed >= SLOTS else ()
            loads.append(at.fetch(memory, size, receivers, (*slot, *loads) if sent_after else slot))
            buffer = FragmentBuffer(GLOBAL, size, at.label(" load"), PASSING, passed % SLOTS, offset)
            buffers.append(at.writer.allocate(loads[-1], buffer))
            offset += size
        return loads, buffers

    def _to_stay(self, name: str, work: TileWork) -> list[int]:
        """Return the transfers that load a staged operand's current version, new ones if necessary."""
        version, cluster_bytes = self._operands[name].version, self._cluster_bytes(name, work)
        together, loads = self._operands[name].route.is_loaded_together, list[int]()
        for part in self._staged[name]:
            after = loads if together and part.memory == CLUSTER_LINK else ()
            load = part.load(self._at, name, version, cluster_bytes, after)
            if load >= 0:
                loads = [*loads, load]
        return loads

    def _to_cores(
        self, moved: _Moved, streamed_bytes: Mapping[str, int], after: tuple[int, ...], part: tuple[int, int] = (0, 1)
    ) -> int:
        """Move operands from the global buffer to the cores. ``part``: (number of the chunk, number of chunks)."""
        names, one_for_all, what, sharing = moved
        chunk, chunks = part
        whole = sum([streamed_bytes[name] for name in names])
        streamed = whole * (chunk + 1) // chunks - whole * chunk // chunks
        if not one_for_all:
            return self._at.transfer(self._path.load, what, (GLOBAL, LOCAL), streamed, after)
        distinct = -(-streamed * self._at.active_cores // sharing)
        return self._at.transfer("broadcast", what, (GLOBAL, LOCAL), distinct, after, sharing)

    def _allocate_operand(self, name: str, owner: int, size_bytes: int) -> None:
        """Allocate the operand's new version in the local buffers."""
        operand = self._operands[name]
        key = size_bytes, (len(operand.users) - 1) % SLOTS
        buffer = operand.held.get(key)
        if buffer is None:
            buffer = operand.held[key] = FragmentBuffer(
                LOCAL, size_bytes, operand.label, operand.addresses, key[1], fan_out=operand.copies
            )
        operand.buffer = self._at.writer.allocate(owner, buffer)

    @property
    def fetches(self) -> tuple[Fetches, ...]:
        """Fetches of each operand that stays in the global buffer; what comes over the link forms no bursts."""
        every = [part for parts in self._staged.values() for part in parts]
        return tuple([part.fetches for part in every if part.memory != CLUSTER_LINK])

    def release(self) -> None:
        """Free the last versions of all operands."""
        for operand in self._operands.values():
            if operand.buffer >= 0 and operand.users:
                self._at.writer.free(operand.users[-1], operand.buffer)
        for name, weights in self._prefetched.items():
            if weights.entry >= 0:
                assert self._prefetch is not None
                self._prefetch.used_by(NEAR, weights.entry, self._operands[name].users[-1])
        for name, parts in self._staged.items():
            for part in parts:
                if part.buffer >= 0:
                    self._at.writer.free(self._last_transfer[name], part.buffer)
