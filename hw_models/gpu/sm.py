"""Cost model of an SM for the blocks that it holds: the busiest pipe or path, and exposed latencies.

The resident blocks of a kernel share the SM's pipes; the busiest of these sets the pace. A pipe is kept busy only if
enough independent chains of operations are in flight, and data from outer levels arrives in time only if enough of it
is requested ahead (Little's law): more resident blocks, more accumulators per thread, or more stages of a
software-pipelined loop hide more latency.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dsascape.hw_models.common.product_types import BITS
from dsascape.hw_models.gpu.spec import Gpu
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.hw_models.text.quantities import PS_PER_S

SM, LANES, TENSOR, SPECIAL, ISSUE, ACCESS = "sm", "lanes", "tensor", "special", "issue", "access"
SHARED, L2, DRAM = "shared", "l2", "dram"


def packed(dtype: str) -> int:
    """Return the operations of ``dtype`` that one instruction does per thread, packed in a 32-bit register."""
    return 32 // BITS[dtype]


@dataclass(frozen=True, slots=True)
class Taken:
    """Time of the resident blocks of one SM without contention."""

    startup_ps: float
    """Exposed latency: time waiting for data with nothing else to do."""
    duration_ps: float
    """Time in ps after the exposed start-up latency."""
    limit: str
    """Limiting resource: a pipe of the SM, or a memory."""


@dataclass(frozen=True)
class SmPace:
    """Cost model of one SM for blocks of one dtype.

    Lanes work on 32-bit registers: with narrower dtypes, one instruction does several operations per thread.
    """

    spec: Gpu
    dtype: str
    product: str = ""
    """Dtype or pair of dtypes that tensor units multiply; empty: ``dtype``."""

    @cached_property
    def warps_per_cycle(self) -> dict[str, float]:
        """Throughput of each pipe, in warp instructions per cycle."""
        sms = self.spec.sms
        pipes = {
            LANES: self.spec.lanes(self.dtype) / (sms.warp * packed(self.dtype)),
            SPECIAL: sms.special_per_cycle / sms.warp,
            ISSUE: float(sms.issued_per_cycle),
            ACCESS: sms.accesses_per_cycle / sms.warp,
        }
        tensor = self.spec.tensor(self.product or self.dtype)
        if tensor is not None:
            pipes[TENSOR] = tensor.macs_per_cycle / (tensor.rows * tensor.columns * tensor.depth)
        return pipes

    @cached_property
    def bytes_per_cycle(self) -> Mapping[str, float]:
        """Peak bandwidth of a single SM to each memory, in bytes per cycle."""
        return self.fair_bytes_per_cycle(1)

    def fair_bytes_per_cycle(self, sharing: int) -> Mapping[str, float]:
        """Return bytes per cycle between one SM and each memory when ``sharing`` SMs use it equally."""
        spec, each_s = self.spec, self.spec.cycle_ps / PS_PER_S / sharing
        path = spec.sms.l2_bytes_per_cycle
        return {
            SHARED: spec.sms.shared.bytes_per_cycle,
            L2: min(path, spec.l2.bandwidth_bytes_per_s * each_s),
            DRAM: min(path, spec.dram.sustained_bytes_per_s * each_s),
        }

    @cached_property
    def latency_cycles(self) -> Mapping[str, float]:
        """Latency of each memory from the request to the data, in cycles of the SM."""
        spec = self.spec
        return {
            SHARED: spec.sms.shared.latency_cycles,
            L2: spec.l2.latency_ps / spec.cycle_ps,
            DRAM: spec.dram.latency_ps / spec.cycle_ps,
        }

    def pipe_cycles(self, issued: Issued, blocks: int) -> tuple[float, str]:
        """Return the cycles and the name of the busiest pipe for ``blocks`` resident blocks."""
        rates = self.warps_per_cycle
        chains = blocks * issued.accumulators
        latency = self.spec.sms.fma_latency_cycles
        vector = issued.fma + issued.arithmetic
        per_cycle = min(rates[ISSUE], blocks * issued.per_cycle) if issued.per_cycle else rates[ISSUE]
        passes = (issued.load + issued.store) / rates[ACCESS] + issued.held_up * self.spec.sms.shared.pass_cycles
        pipes = [
            (blocks * vector / min(rates[LANES], chains / latency), LANES),
            (blocks * issued.special / rates[SPECIAL], SPECIAL),
            (blocks * issued.total / per_cycle, ISSUE),
            (blocks * passes, ACCESS),
        ]
        if issued.matrix:
            tensor = self.spec.tensor(self.product or self.dtype)
            assert tensor is not None
            pipes.append((blocks * issued.matrix / min(rates[TENSOR], chains / tensor.latency_cycles), TENSOR))
        return max(pipes)

    def taken(self, issued: Issued, traffic: Iterable[tuple[str, float]], blocks: int, at_work: int) -> Taken:
        """Return the time of ``blocks`` resident blocks; ``traffic`` is the bytes of one block by memory.

        It is the time of the busiest pipe or memory, and no less than that of one block alone: latency and first step,
        then for each further wait one step, or the ``ahead``-th part of a latency and a step if that is longer (data is
        prefetched ``ahead`` pieces deep). The excess over the busiest pipe is the exposed latency. ``at_work`` SMs run
        at the same time with equal shares of the bandwidth. Times are monotone: more of any resource never makes one
        longer (tests).
        """
        cycles, limit = self.pipe_cycles(issued, blocks)
        together, alone, latency = cycles, self.pipe_cycles(issued, 1)[0], 0.0
        fair = self.fair_bytes_per_cycle(at_work)
        for memory, size in traffic:
            if not size:
                continue
            meeting = issued.further_passes * self.spec.sms.shared.pass_cycles if memory == SHARED else 0.0
            moving = blocks * (size / self.bytes_per_cycle[memory] + meeting)
            if moving > cycles:
                cycles, limit = moving, memory
            together = max(together, blocks * (size / fair[memory] + meeting))
            alone = max(alone, size / fair[memory] + meeting)
            latency = max(latency, self.latency_cycles[memory])
        exposed = 0.0
        if issued.waits:
            step = alone / issued.waits
            later = max(step, (latency + step) / issued.ahead)
            exposed = max(latency + step + (issued.waits - 1) * later - together, 0.0)
        cycle_ps = self.spec.cycle_ps
        return Taken(exposed * cycle_ps, cycles * cycle_ps, limit)
