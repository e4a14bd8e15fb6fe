"""Stores of finished tiles: to the global buffer, and from there in bursts to the memories beyond it."""

import math
from collections.abc import Iterable, Mapping

from dsascape.scheduler.dsa.lower.code import RunCode
from dsascape.scheduler.dsa.lower.emit import SLOTS, STORING, Emitting, shared_out
from dsascape.scheduler.dsa.lower.memory_rows import output_row, pieces
from dsascape.scheduler.dsa.tiling.tiling import Tiling
from dsascape.scheduler.dsa.view import GLOBAL, LOCAL
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.tile_work import TileWork
from dsascape.scheduler.parts import filled
from dsascape.scheduler.programs.fragments import FragmentBuffer


def smallest_burst_bytes(
    layer: Layer, code: RunCode, tiling: Tiling, shares: Mapping[str, float], burst_bytes: int
) -> int:
    """Return the smallest burst size with which output tiles are gathered into the same bursts as with ``burst_bytes``.

    ``shares``: fraction of the output that goes to each memory; 0 where none goes beyond the global buffer.
    """
    beyond = sum([share for memory, share in shares.items() if memory not in (LOCAL, GLOBAL)], 0.0)
    if not beyond or not code.burst_room:
        return 0
    last_depth, (room_bytes,) = tiling.depth_steps - 1, code.burst_room
    tile_bytes = layer.tile_work(tiling.tile, tiling.depth).output_bytes * code.cores
    kept = gathered = 0
    for _, extents, step, depth in tiling.steps():
        if step == last_depth:
            kept = max(kept, gathered)
            gathered += math.ceil(layer.tile_work(extents, depth).output_bytes * beyond) * code.cores
            if gathered + tile_bytes > room_bytes or gathered >= burst_bytes:
                gathered = 0
    return kept + 1


class OutputStorer:
    """Writes the stores of one layer run."""

    def __init__(self, emitting: Emitting) -> None:
        self._at = emitting
        self._stored: list[int] = []
        """Instruction that moves each output tile out of the local buffer."""
        self._gathered: list[tuple[int, int, int]] = []
        """Output tiles waiting in the global buffer for a burst: (transfer, buffer, bytes)."""
        self._sent: list[tuple[int, ...]] = []
        """Instructions of each burst to the memories beyond the global buffer."""
        paths, shares = emitting.paths, emitting.shares
        self._beyond = [(memory.name, shares[memory.name]) for memory in paths.outer if memory.name in shares]
        """Memories beyond the global buffer that the output goes to, with their shares of it."""
        self._beyond_share = sum([share for _, share in self._beyond], 0.0)
        self._leaving_share = sum([shares.get(memory.name, 0.0) for memory in paths.memories[1:]], 0.0)
        """Fraction of the output that does not stay in the local buffers."""
        layer, tiling, code = emitting.layer, emitting.execution.tiling, emitting.code
        self._burst_room = sum(code.burst_room)
        """Bytes of the global buffer in which a burst is gathered."""
        self._filled = filled(code.extents, tiling.part)
        """Fraction of the padded per-core tiles that holds data, where the cores' parts are uneven."""
        self._tile_bytes = layer.tile_work(tiling.tile, tiling.depth).output_bytes * code.cores
        """Bytes of a full output tile (not cut short by an edge), for all cores."""
        self.first_stores: dict[str, int] = {}
        """First transfer into each memory."""

    def slot(self) -> tuple[int, ...]:
        """Return the instructions that have to end before another output tile has space."""
        return tuple(self._stored[-SLOTS:][:1]) if len(self._stored) >= SLOTS else ()

    def store(self, work: TileWork, computed: int, output: int, *, final: bool) -> None:
        """Store the tile ``computed`` last, in buffer ``output``, to its memory; gather tiles into bursts."""
        at, memory = self._at, self._at.output_memory
        if memory == LOCAL:
            return
        size, cores = math.ceil(work.output_bytes * self._leaving_share), at.active_cores
        if not at.view.has_global_buffer:
            row = output_row(at.layer, work)
            (sent,) = self._sent_from(LOCAL, math.ceil(size * cores * self._filled), (computed,), row)
            at.writer.free(sent, output)
            self._stored.append(sent)
            return
        moved = at.transfer(at.paths.to(GLOBAL).store, "store", (LOCAL, GLOBAL), size, (computed,))
        at.writer.free(moved, output)
        self._stored.append(moved)
        self.first_stores.setdefault(GLOBAL, moved)
        if self._beyond:
            size = math.ceil(work.output_bytes * self._beyond_share)
            if not self._gathered and len(self._sent) >= SLOTS:
                at.writer.wait(moved, self._sent[-SLOTS])
            gathered = sum(gathered_bytes for _, _, gathered_bytes in self._gathered)
            place = STORING, len(self._sent) % SLOTS, gathered
            held = FragmentBuffer(GLOBAL, size, at.label(" store"), *place)
            buffer = at.writer.allocate(moved, held)
            self._gathered.append((moved, buffer, size * cores))
            gathered += size * cores
            if final or gathered + self._tile_bytes > self._burst_room or gathered >= at.bursts.stored_bytes:
                self._send()

    def _send(self) -> None:
        """Write the gathered tiles out in one burst to each memory."""
        total = math.ceil(sum(size for _, _, size in self._gathered) * self._filled)
        sources = [moved for moved, _, _ in self._gathered]
        for sent in self._sent_from(GLOBAL, total, sources):
            for _, buffer, _ in self._gathered:
                self._at.writer.free(sent, buffer)
        self._gathered = []

    def _sent_from(self, source: str, size_bytes: int, after: Iterable[int], row: int = 0) -> tuple[int, ...]:
        """Return the transfers of one burst from ``source``, one to each memory beyond the global buffer.

        ``row``: bytes that are contiguous in memory; 0 where all of them are.
        """
        at, sent = self._at, list[int]()
        for memory, part_bytes in shared_out(size_bytes, self._beyond):
            unit, in_rows = at.paths.to(memory).store, pieces({"": part_bytes}, {"": row}) if row else ()
            sent.append(at.transfer(unit, "store", (source, memory), part_bytes, after, pieces=in_rows))
            self.first_stores.setdefault(memory, sent[-1])
        self._sent.append(tuple(sent))
        return self._sent[-1]
