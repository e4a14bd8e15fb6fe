"""Stores of finished tiles: to the global buffer, and in bursts to DDR."""

import math

from dsascape.scheduler.dsa.lower.emit import SLOTS, STORING, Emitting
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
        self._sent: list[int] = []
        """Instructions of the bursts to DDR."""
        run, tiling = emitting.run, emitting.execution.tiling
        self._burst_room = tiling.global_buffers[-1] if tiling.global_buffers else 0
        """Bytes of the global buffer in which a burst is gathered."""
        self._filled = filled(run.extents, tiling.part)
        """Fraction of the padded per-core tiles that holds data, where the cores' parts are uneven."""
        self._tile_bytes = run.layer.tile_work(tiling.tile, tiling.depth).output_bytes * run.binding.cores
        """Bytes of a full output tile (not cut short by an edge), for all cores."""
        self._kept_bytes, self._sent_bytes = -1, _MOST_BYTES
        """Largest gathered size that was not sent, and smallest that was, where the burst size decided."""
        self.first_path_store = -1
        self.first_dma_store = -1

    def slot(self) -> tuple[int, ...]:
        """Return the instructions that have to end before another output tile has space."""
        return tuple(self._stored[-SLOTS:][:1]) if len(self._stored) >= SLOTS else ()

    def store(self, work: TileWork, computed: int, output: int, *, final: bool) -> None:
        """Store the tile ``computed`` last, in buffer ``output``, to its memory; gather tiles for DDR into bursts."""
        at, memory = self._at, self._at.output_memory
        if memory == "local_buffer":
            return
        size, cores = self._leaving(work, ("global_buffer", "ddr")), at.active_cores
        if not at.view.has_global_buffer:
            whole = math.ceil(size * cores * self._filled)
            sent = at.transfer("dma_store", "store", ("local_buffer", "ddr"), whole, (computed,))
            at.writer.free(sent, output)
            self._stored.append(sent)
            self._note_burst(sent)
            return
        moved = at.transfer("path_store", "store", ("local_buffer", "global_buffer"), size, (computed,))
        at.writer.free(moved, output)
        self._stored.append(moved)
        self.first_path_store = moved if self.first_path_store < 0 else self.first_path_store
        if memory == "ddr":
            size = self._leaving(work, ("ddr",))
            if not self._gathered and len(self._sent) >= SLOTS:
                at.writer.wait(moved, (self._sent[-SLOTS],))
            gathered = sum(gathered_bytes for _, _, gathered_bytes in self._gathered)
            place = STORING, len(self._sent) % SLOTS, gathered
            held = FragmentBuffer("global_buffer", size, at.label(" store"), *place)
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

    def _leaving(self, work: TileWork, memories: tuple[str, ...]) -> int:
        """Return the bytes of one core's output tile that go to ``memories``."""
        return math.ceil(work.output_bytes * sum([self._at.shares.get(memory, 0.0) for memory in memories], 0.0))

    def _send(self) -> None:
        """Write the gathered tiles to DDR in one burst."""
        total = math.ceil(sum(size for _, _, size in self._gathered) * self._filled)
        sources = [moved for moved, _, _ in self._gathered]
        sent = self._at.transfer("dma_store", "store", ("global_buffer", "ddr"), total, sources)
        for _, buffer, _ in self._gathered:
            self._at.writer.free(sent, buffer)
        self._gathered = []
        self._note_burst(sent)

    def _note_burst(self, sent: int) -> None:
        self._sent.append(sent)
        self.first_dma_store = sent if self.first_dma_store < 0 else self.first_dma_store
