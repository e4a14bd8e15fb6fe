"""Stores of finished tiles: to the global buffer, and from there in bursts to the memories beyond it."""

import math
from collections.abc import Iterable

from dsascape.scheduler.dsa.lower.emit import SLOTS, STORING, Emitting, shared_out
from dsascape.scheduler.dsa.view import GLOBAL, LOCAL
from dsascape.scheduler.kernels.tile_work import TileWork
from dsascape.scheduler.parts import filled
from dsascape.scheduler.programs.fragments import FragmentBuffer

_MOST_BYTES = 1 << 62
"""Burst size that stands for no limit."""


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
        view, shares = emitting.view, emitting.shares
        self._beyond = [(level.name, shares[level.name]) for level in view.outer if level.name in shares]
        """Memories beyond the global buffer that the output goes to, with their shares of it."""
        self._beyond_share = sum([share for _, share in self._beyond], 0.0)
        self._leaving_share = sum([shares.get(level.name, 0.0) for level in view.levels[1:]], 0.0)
        """Fraction of the output that does not stay in the local buffers."""
        run, tiling = emitting.run, emitting.execution.tiling
        self._burst_room = tiling.global_buffers[-1] if tiling.global_buffers else 0
        """Bytes of the global buffer in which a burst is gathered."""
        self._filled = filled(run.extents, tiling.part)
        """Fraction of the padded per-core tiles that holds data, where the cores' parts are uneven."""
        self._tile_bytes = run.layer.tile_work(tiling.tile, tiling.depth).output_bytes * run.binding.cores
        """Bytes of a full output tile (not cut short by an edge), for all cores."""
        self._kept_bytes, self._sent_bytes = -1, _MOST_BYTES
        """Largest gathered size that was not sent, and smallest that was, where the burst size decided."""
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
            (sent,) = self._sent_from(LOCAL, math.ceil(size * cores * self._filled), (computed,))
            at.writer.free(sent, output)
            self._stored.append(sent)
            return
        moved = at.transfer(at.view.level[GLOBAL].store.unit, "store", (LOCAL, GLOBAL), size, (computed,))
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
            if final or gathered + self._tile_bytes > self._burst_room:
                self._send()
            elif gathered >= at.bursts.stored_bytes:
                self._sent_bytes = min(self._sent_bytes, gathered)
                self._send()
            else:
                self._kept_bytes = max(self._kept_bytes, gathered)

    @property
    def equivalent_bytes(self) -> range:
        """Range of burst sizes, in bytes, with which the stores so far are the same."""
        return range(self._kept_bytes + 1, self._sent_bytes + 1)

    def _send(self) -> None:
        """Write the gathered tiles out in one burst to each memory."""
        total = math.ceil(sum(size for _, _, size in self._gathered) * self._filled)
        sources = [moved for moved, _, _ in self._gathered]
        for sent in self._sent_from(GLOBAL, total, sources):
            for _, buffer, _ in self._gathered:
                self._at.writer.free(sent, buffer)
        self._gathered = []

    def _sent_from(self, source: str, size_bytes: int, after: Iterable[int]) -> tuple[int, ...]:
        """Return the transfers of one burst from ``source``, one to each memory beyond the global buffer."""
        at, sent = self._at, list[int]()
        for memory, part_bytes in shared_out(size_bytes, self._beyond):
            sent.append(at.transfer(at.view.level[memory].store.unit, "store", (source, memory), part_bytes, after))
            self.first_stores.setdefault(memory, sent[-1])
        self._sent.append(tuple(sent))
        return self._sent[-1]
