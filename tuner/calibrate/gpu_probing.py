"""Probing of a GPU: figures from the times and cycles of small kernels (``tuner/on_device/gpu_probes.cu``).

A bundle carries this module, so it uses the standard library only.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dsascape.tuner.measure.cuda import Cuda, CudaLaunch
from dsascape.tuner.measure.timing import measured

STEPS = 4096
"""Number of iterations of each probe's timed loop."""
CHAINS = 8
"""Number of independent chains of operations per thread."""
LINE = 32
"""Four-byte numbers in a line of 128 bytes."""
TILE = 2048
"""Elements of the array in shared memory: four bytes each for latency, sixteen for bandwidth."""
CONSTANTS = {"STEPS": STEPS, "CHAINS": CHAINS, "LINE": LINE, "TILE": TILE}
_FLOAT_BYTES, _VECTOR_BYTES, _CYCLES_BYTES = 4, 16, 8
_LINE_BYTES = LINE * _FLOAT_BYTES
_WIDE = 1024
"""Threads of a block that has an SM to itself: its own count of cycles, behind a barrier, is the whole SM's."""
_READERS_PER_SM = 2
_APART = 4099
"""Distance in lines between consecutive links of a chain; a prime, so that no prefetcher follows it."""
_NEAR_SHARE = 4
"""Inverse fraction of the L2 that its array takes: some L2s have two halves with data of their own."""
_FAR_TIMES = 16
"""Size of the DRAM array relative to the L2, so that the L2 keeps little of it from round to round."""
_SHARE_OF_MEMORY = 8
_ROUNDS = 40
"""Rounds in which a kernel reads the L2's array."""
_LAUNCHES = 200
_WIDTH = 0.01


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """Facts about a GPU from its driver."""

    name: str
    architecture: str
    driver: str
    sms: int
    clock_hz: float
    """Highest clock of the SMs, in Hz."""
    memory_bytes: int
    memory_bytes_per_s: float
    """Two transfers per cycle over the whole bus; 0 where the driver does not tell."""
    l2_bytes: int
    shared_bytes: int
    """Shared memory per SM, in bytes."""
    shared_per_block_bytes: int
    shared_reserved_bytes: int
    registers: int
    threads: int
    threads_per_block: int
    blocks: int
    warp: int


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """Measured figures of a GPU."""

    clock_hz: float
    """Clock while all lanes are busy."""
    fma_per_s: float
    """Single-precision multiply-accumulates per second of all SMs."""
    fma_latency_cycles: float
    special_per_s: float
    """Exponentials per second of all SMs."""
    shared_bytes_per_cycle: float
    """Shared-memory bytes per cycle that one SM reads."""
    shared_latency_cycles: float
    l2_bytes_per_s: float
    """Bytes per second that all SMs read."""
    l2_of_one_bytes_per_s: float
    """Bytes per second that one SM reads."""
    l2_latency_s: float
    dram_bytes_per_s: float
    dram_latency_s: float
    launch_s: float
    """Time from one nearly empty kernel to the next."""


_ATTRIBUTES = {
    "sms": 16, "l2_bytes": 38, "shared_bytes": 81, "shared_per_block_bytes": 97, "shared_reserved_bytes": 111,
    "registers": 82, "threads": 39, "threads_per_block": 1, "blocks": 106, "warp": 10,
}  # fmt: skip
"""Attribute numbers (CUdevice_attribute)."""
_CLOCK_KHZ, _MEMORY_CLOCK_KHZ, _BUS_BITS = 13, 36, 37


def gpu_facts(cuda: Cuda) -> GpuFacts:
    """Return the driver's facts about its first device."""
    transfers_per_s = 2e3 * cuda.attribute(_MEMORY_CLOCK_KHZ)
    return GpuFacts(
        name=cuda.name, architecture=cuda.architecture, driver=cuda.driver_version,
        clock_hz=1e3 * cuda.attribute(_CLOCK_KHZ), memory_bytes=cuda.memory_bytes,
        memory_bytes_per_s=transfers_per_s * cuda.attribute(_BUS_BITS) / 8,
        **{name: cuda.attribute(number) for name, number in _ATTRIBUTES.items()},
    )  # fmt: skip


def gpu_figures(cuda: Cuda, facts: GpuFacts, probe_s: float, most_bytes: int | None = None) -> GpuFigures:
    """Probe the GPU whose loaded code holds the probes; each is repeated for ``probe_s`` seconds.

    No array is larger than ``most_bytes``, if given. Raises ``CudaError`` where a probe fails.
    """
    return _Bench(cuda, facts, probe_s, most_bytes).figures()


class _Bench:
    def __init__(self, cuda: Cuda, facts: GpuFacts, probe_s: float, most_bytes: int | None) -> None:
        self._cuda, self._facts, self._probe_s = cuda, facts, probe_s
        far_bytes = min(_FAR_TIMES * facts.l2_bytes, facts.memory_bytes // _SHARE_OF_MEMORY)
        self._far_bytes = min(far_bytes, most_bytes or far_bytes) // _LINE_BYTES * _LINE_BYTES
        self._near_bytes = min(facts.l2_bytes // _NEAR_SHARE, self._far_bytes) // _LINE_BYTES * _LINE_BYTES
        self._array = cuda.memory(self._far_bytes)
        self._held = cuda.memory(_FLOAT_BYTES * 128 * facts.sms)
        self._cycles = cuda.memory(_CYCLES_BYTES)
        cuda.write(self._held, struct.pack("128f", *[0.5] * 128) * facts.sms)

    def figures(self) -> GpuFigures:
        blocks = self._facts.sms
        busy = self._launch("fma_rate", blocks, _WIDE, self._held, self._cycles)
        fma_s = self._seconds(busy)
        clock_hz = self._cycles_of(busy) / fma_s
        done = blocks * _WIDE * CHAINS * STEPS
        special_s = self._seconds(self._launch("special_rate", blocks, _WIDE, self._held))
        alone = self._launch("fma_chain", 1, 32, self._held, self._cycles)
        shared = self._launch("shared_rate", 1, _WIDE, self._held, self._cycles)
        waiting = self._launch("shared_chase", 1, 32, self._held, self._cycles)
        return GpuFigures(
            clock_hz=clock_hz, fma_per_s=done / fma_s, fma_latency_cycles=self._cycles_of(alone) / STEPS,
            special_per_s=done / special_s,
            shared_bytes_per_cycle=_WIDE * STEPS * _VECTOR_BYTES / self._cycles_of(shared),
            shared_latency_cycles=self._cycles_of(waiting) / STEPS,
            l2_bytes_per_s=self._read(self._near_bytes, _ROUNDS, _READERS_PER_SM * self._facts.sms),
            l2_of_one_bytes_per_s=self._read(self._near_bytes, 1, 1),
            l2_latency_s=self._latency_s(self._near_bytes),
            dram_bytes_per_s=self._read(self._far_bytes, 1, _READERS_PER_SM * self._facts.sms),
            dram_latency_s=self._latency_s(self._far_bytes), launch_s=self._launch_s(),
        )  # fmt: skip

    def _launch(self, probe: str, blocks: int, threads: int, *addresses: int) -> CudaLaunch:
        return CudaLaunch(self._cuda.function(probe), blocks, threads, 0, addresses)

    def _given(self, *numbers: int) -> int:
        """Return the device address of a probe's integer arguments."""
        address = self._cuda.memory(len(numbers) * _FLOAT_BYTES)
        self._cuda.write(address, struct.pack(f"{len(numbers)}i", *numbers))
        return address

    def _cycles_of(self, launch: CudaLaunch) -> int:
        """Return the cycles counted by a probe in its second run."""
        for _ in range(2):
            self._cuda.run([launch])
        return max(int(struct.unpack("q", self._cuda.read(self._cycles, _CYCLES_BYTES))[0]), 1)

    def _seconds(self, *launches: CudaLaunch) -> float:
        with self._cuda.recorded(launches) as row:
            return self._repeated(row.seconds)

    def _repeated(self, run: Callable[[], float]) -> float:
        return measured(run, self._probe_s, _WIDTH).seconds

    def _read(self, size_bytes: int, rounds: int, blocks: int) -> float:
        """Return the bytes per second at which ``blocks`` blocks read an array."""
        given = self._given(size_bytes // _VECTOR_BYTES, rounds, blocks)
        return rounds * size_bytes / self._seconds(self._reading(given, blocks))

    def _reading(self, given: int, blocks: int) -> CudaLaunch:
        return self._launch("read_all", blocks, _WIDE, self._array, given, self._held)

    def _latency_s(self, size_bytes: int) -> float:
        """Return the latency in seconds of dependent loads through the first half of an array.

        The whole array is read before, so that an array larger than the L2 leaves only its end there.
        """
        lines = max(size_bytes // _LINE_BYTES // 2, 1)
        apart = _APART if lines % _APART else _APART + 2
        self._cuda.run([self._launch("link", STEPS // 256, 256, self._array, self._given(lines, apart))])
        chase = self._launch("chase", 1, 1, self._array, self._held)
        blocks = _READERS_PER_SM * self._facts.sms
        before = self._reading(self._given(size_bytes // _VECTOR_BYTES, 1, blocks), blocks)
        with self._cuda.recorded([before]) as reading, self._cuda.recorded([chase]) as chasing:

            def run() -> float:
                reading.seconds()
                return chasing.seconds()

            return self._repeated(run) / STEPS

    def _launch_s(self) -> float:
        row: Sequence[CudaLaunch] = [self._launch("touch", self._facts.sms, 128, self._held)] * _LAUNCHES
        return self._seconds(*row) / _LAUNCHES
