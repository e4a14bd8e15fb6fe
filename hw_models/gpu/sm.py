"""How long an SM takes for the blocks that it holds: which pipe or path is busiest, and which latencies show.

Blocks of one kernel that an SM holds share its pipes; the busiest of these sets the pace. A pipe is kept busy only if
enough chains of operations that do not wait for each other are in flight, and data from further out is there in time
only if enough of it is asked for ahead (Little's law): more blocks at a time, more registers' worth of sums in a
thread, or more stages of a pipelined loop hide more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dsascape.hw_models.gpu.spec import Gpu
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.hw_models.text.quantities import PS_PER_S

SM, LANES, TENSOR, SPECIAL, ISSUE, ACCESS = "sm", "lanes", "tensor", "special", "issue", "access"
SHARED, L2, DRAM = "shared", "l2", "dram"


def packed(dtype: str) -> int:
    """Return how many operations of ``dtype`` a lane's instruction does for one thread."""
    return {"fp32": 1, "fp16": 2, "bf16": 2, "int8": 4}[dtype]


@dataclass(frozen=True, slots=True)
class Taken:
    """What the blocks that an SM holds take, alone on the machine."""

    startup_ps: float
    """Waiting for data with nothing else to do."""
    duration_ps: float
    """After that."""
    limit: str
    """What sets the duration: a pipe of the SM, or a memory."""


@dataclass(frozen=True)
class SmPace:
    """How fast one SM does blocks of one dtype.

    Lanes work on registers of 32 bit: of narrower dtypes one instruction of theirs does several operations for each
    thread.
    """

    spec: Gpu
    dtype: str

    @cached_property
    def warps_per_cycle(self) -> dict[str, float]:
        """Warps' instructions that each pipe takes in a cycle."""
        sms = self.spec.sms
        pipes = {
            LANES: self.spec.lanes(self.dtype) / (sms.warp * packed(self.dtype)),
            SPECIAL: sms.special_per_cycle / sms.warp,
            ISSUE: float(sms.issued_per_cycle),
            ACCESS: sms.accesses_per_cycle / sms.warp,
        }
        tensor = self.spec.tensor(self.dtype)
        if tensor is not None:
            pipes[TENSOR] = tensor.macs_per_cycle / (tensor.rows * tensor.columns * tensor.depth)
        return pipes

    @cached_property
    def bytes_per_cycle(self) -> Mapping[str, float]:
        """What one SM moves at most between itself and each memory."""
        return self.fair_bytes_per_cycle(1)

    def fair_bytes_per_cycle(self, sharing: int) -> Mapping[str, float]:
        """Return what one SM moves between itself and each memory when so many of them move as much."""
        spec, each_s = self.spec, self.spec.cycle_ps / PS_PER_S / sharing
        path = spec.sms.l2_bytes_per_cycle
        return {
            SHARED: spec.sms.shared.bytes_per_cycle,
            L2: min(path, spec.l2.bandwidth_bytes_per_s * each_s),
            DRAM: min(path, spec.dram.sustained_bytes_per_s * each_s),
        }

    @cached_property
    def latency_cycles(self) -> Mapping[str, float]:
        """From the request to the data."""
        spec = self.spec
        return {
            SHARED: spec.sms.shared.latency_cycles,
            L2: spec.l2.latency_ps / spec.cycle_ps,
            DRAM: spec.dram.latency_ps / spec.cycle_ps,
        }

    def pipe_cycles(self, issued: Issued, blocks: int) -> tuple[float, str]:
        """Return the cycles of the busiest pipe for so many blocks, and which it is."""
        rates = self.warps_per_cycle
        chains = blocks * issued.accumulators
        latency = self.spec.sms.fma_latency_cycles
        vector = issued.fma + issued.arithmetic
        found = [
            (blocks * vector / min(rates[LANES], chains / latency), LANES),
            (blocks * issued.special / rates[SPECIAL], SPECIAL),
            (blocks * issued.total / rates[ISSUE], ISSUE),
            (blocks * (issued.load + issued.store) / rates[ACCESS], ACCESS),
        ]
        if issued.matrix:
            tensor = self.spec.tensor(self.dtype)
            assert tensor is not None
            found.append((blocks * issued.matrix / min(rates[TENSOR], chains / tensor.latency_cycles), TENSOR))
        return max(found)

    def taken(self, issued: Issued, traffic: Iterable[tuple[str, float]], blocks: int, at_work: int) -> Taken:
        """Return what ``blocks`` take that are held at a time; ``traffic`` is that of one of them, by memory.

        They take as long as the busiest pipe, and no less than one of them alone does: its first data, then a step of
        its work for each time that it waits, and of the data asked for ahead, which come in the time of one latency and
        one step, one piece a step. What shows of latencies is what that is longer. So many SMs are ``at_work`` and have
        equal shares of the bandwidth. No time is longer on a machine with more of anything (tests).
        """
        cycles, limit = self.pipe_cycles(issued, blocks)
        together, alone, latency = cycles, self.pipe_cycles(issued, 1)[0], 0.0
        fair = self.fair_bytes_per_cycle(at_work)
        for memory, size in traffic:
            if not size:
                continue
            moving = blocks * size / self.bytes_per_cycle[memory]
            if moving > cycles:
                cycles, limit = moving, memory
            together = max(together, blocks * size / fair[memory])
            alone = max(alone, size / fair[memory])
            latency = max(latency, self.latency_cycles[memory])
        exposed = 0.0
        if issued.waits:
            step = alone / issued.waits
            later = max(step, (latency + step) / issued.ahead)
            exposed = max(latency + step + (issued.waits - 1) * later - together, 0.0)
        cycle_ps = self.spec.cycle_ps
        return Taken(exposed * cycle_ps, cycles * cycle_ps, limit)
