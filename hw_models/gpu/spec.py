"""GPU: streaming multiprocessors (SMs) that run thread blocks, an L2 cache that all share, DRAM.

The abstraction is that of CUDA and OpenCL devices: a kernel is a grid of thread blocks, each of which runs on one SM
from beginning to end, beside as many others as the SM's registers, shared memory and threads allow. Makers have other
words for some of it (compute unit, shader core, work group, wave, local memory); the words here are NVIDIA's. Numbers
of a real part go into YAML, with their source.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from dsascape.hw_models.common.cached_parts import CachedMachine, Dram, LaneEnergy
from dsascape.hw_models.common.spec_types import STRICT, Count, DType, Efficiency, MachineName, PerCycle
from dsascape.hw_models.text.quantities import (
    PS_PER_S,
    Bytes,
    BytesFromZero,
    BytesPerSecond,
    Hertz,
    PicojoulesPerByteOrBySize,
    Picoseconds,
)

Cycles = Annotated[float, Field(gt=0, le=1e6)]
Rate = Annotated[float, Field(ge=0.01, le=65536)]
Few = Annotated[int, Field(gt=0, le=1024)]


class TensorUnits(BaseModel):
    """Matrix units of one SM, for one dtype; sums are kept in FP32 (INT32)."""

    model_config = STRICT

    macs_per_cycle: PerCycle
    """Of all such units of one SM together."""
    rows: Few
    """Of the product that one instruction of a warp computes."""
    columns: Few
    """Of that product."""
    depth: Few
    """Of that product; matrices whose sides are no multiples of these are padded."""
    warps: Few
    """Warps whose instructions take one operand from shared memory together, once for all: one beside the other."""
    latency_cycles: Cycles
    """Until an instruction's sums can be added to."""


class SharedMemory(BaseModel):
    """Scratchpad of one SM, which its blocks share out."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Of one SM, whatever the first cache leaves of the array that both share."""
    per_block_bytes: Bytes = Field(alias="per_block")
    """Most that one block may have."""
    reserved_bytes: BytesFromZero = Field(alias="reserved")
    """Taken by the system for every block, on top of what it asks for."""
    unit_bytes: Bytes = Field(alias="unit")
    """What a block has is a multiple of this."""
    bytes_per_cycle: Rate
    """Of one SM, reads and writes together; what hits the first cache takes the same path."""
    latency_cycles: Cycles
    """From the request to the data."""

    def of_block(self, asked_bytes: int) -> int:
        """Return what a block takes that asks for so much."""
        return -(-(asked_bytes + self.reserved_bytes) // self.unit_bytes) * self.unit_bytes


class Sms(BaseModel):
    """Streaming multiprocessors, all alike."""

    model_config = STRICT

    count: Count
    """Of the chip."""
    clock_hz: Hertz = Field(alias="clock")
    """At which peaks are reached; what is sustained is the machine's ``sustained_factor`` of it."""
    lanes: dict[DType, PerCycle] = Field(min_length=1)
    """Multiply-accumulates of one SM per cycle without tensor units, for each dtype that is computed."""
    tensor: dict[DType, TensorUnits]
    """Tensor units, by dtype; ``{}`` for an SM that has none."""
    warp: Few
    """Threads that run in step."""
    issued_per_cycle: Few
    """Instructions of warps that one SM issues."""
    fma_latency_cycles: Cycles
    """Until a multiply-accumulate can be added to: with fewer chains in flight, lanes idle."""
    special_per_cycle: Count
    """Divisions, roots, exponentials and the like of one SM, by thread."""
    accesses_per_cycle: Count
    """Loads and stores of one SM, by thread."""
    l2_bytes_per_cycle: Rate
    """Between one SM and the L2, reads and writes together."""
    shared: SharedMemory
    registers: Annotated[int, Field(gt=0, le=2**24)]
    """Of 32 bit, of one SM."""
    registers_unit: Few
    """What a warp has is a multiple of this."""
    registers_per_thread: Few
    """Most that one thread may have."""
    threads: Count
    """Most that one SM holds at a time."""
    threads_per_block: Count
    """Most of one block."""
    blocks: Few
    """Most that one SM holds at a time."""


class L2(BaseModel):
    """The cache that all SMs share."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Of the whole."""
    sector_bytes: Annotated[Bytes, Field(ge=8, le=4096)] = Field(alias="sector")
    """What moves at once, between the L2 and DRAM and between the L2 and SMs."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """For all SMs together, reads and writes sharing it."""
    latency_ps: Picoseconds = Field(alias="latency")
    """From the request to the first bytes."""


class GpuEnergy(LaneEnergy):
    """Energy by component."""

    shared: PicojoulesPerByteOrBySize = None
    """By default that of an SRAM of its size (`hw_models.common.technology`)."""
    l2: PicojoulesPerByteOrBySize = None
    """By default that of an SRAM of its size."""


class Gpu(CachedMachine):
    """A whole GPU. What makes no sense is refused with a ``ValueError`` (pydantic)."""

    kind: Literal["gpu"]
    """Which kind of machine the file describes."""
    name: MachineName
    """What tables and reports call it; a file with a base that states none is called after the file."""
    sms: Sms
    l2: L2
    dram: Dram
    launch_ps: Picoseconds = Field(alias="launch")
    """From the end of a kernel to the work of the next, as measured between kernels that do next to nothing: emptying
    the machine, handing out the first blocks, and the latency of their first loads are in it."""
    sustained_factor: Efficiency = 1.0
    """Share of the clock that the SMs hold when all are busy (heat, power)."""
    energy: GpuEnergy

    @model_validator(mode="after")
    def _has_energy_for_every_dtype(self) -> "Gpu":
        computed = dict.fromkeys([*self.sms.lanes, *self.sms.tensor])
        self.energy.check_dtypes(computed, "sms")
        return self

    @model_validator(mode="after")
    def _has_lanes_for_what_tensor_units_compute(self) -> "Gpu":
        lacking = [dtype for dtype in self.sms.tensor if dtype not in self.sms.lanes]
        if lacking:
            has, needs = ", ".join(self.sms.lanes), ", ".join(lacking)
            raise ValueError(f"sms.lanes has {has}; needs {needs} too, for what tensor units cannot do")
        return self

    @model_validator(mode="after")
    def _has_whole_sectors(self) -> "Gpu":
        if self.l2.capacity_bytes < self.l2.sector_bytes:
            raise ValueError(
                f"l2.capacity is {self.l2.capacity_bytes} B; needs one sector of {self.l2.sector_bytes} B at least"
            )
        return self

    @model_validator(mode="after")
    def _holds_a_block(self) -> "Gpu":
        sms = self.sms
        if sms.threads_per_block % sms.warp:
            raise ValueError(f"sms.threads_per_block is {sms.threads_per_block}; needs a multiple of warp: {sms.warp}")
        if sms.threads < sms.threads_per_block:
            raise ValueError(
                f"sms.threads is {sms.threads}; needs one block's at least: threads_per_block is"
                f" {sms.threads_per_block}"
            )
        taken_bytes = sms.shared.of_block(sms.shared.per_block_bytes)
        if taken_bytes > sms.shared.capacity_bytes:
            raise ValueError(
                f"sms.shared.per_block is {sms.shared.per_block_bytes} B, which takes {taken_bytes} B;"
                f" sms.shared.capacity is {sms.shared.capacity_bytes} B"
            )
        return self

    @property
    def clock_hz(self) -> float:
        """The clock that is sustained."""
        return self.sms.clock_hz * self.sustained_factor

    @property
    def cycle_ps(self) -> float:
        """The length of a cycle of the SMs."""
        return PS_PER_S / self.clock_hz

    @property
    def sram_pj_per_byte(self) -> dict[str, float]:
        """Picojoules per byte of shared memory and L2: as given, or by their sizes."""
        given = {"shared": self.energy.shared, "l2": self.energy.l2}
        sizes = {"shared": self.sms.shared.capacity_bytes, "l2": self.l2.capacity_bytes}
        return self.energy.sram_pj_per_byte(sizes, given)

    def lanes(self, dtype: str) -> int:
        """Multiply-accumulates of one SM per cycle without tensor units; 0 for a dtype that is not computed."""
        return {str(name): count for name, count in self.sms.lanes.items()}.get(dtype, 0)

    def tensor(self, dtype: str) -> TensorUnits | None:
        """Return the tensor units for ``dtype``, if there are any."""
        return {str(name): units for name, units in self.sms.tensor.items()}.get(dtype)

    def peak_macs_per_s(self, dtype: str) -> float:
        """Multiply-accumulates per second of all SMs at the clock that they sustain, on whichever units are faster."""
        tensor = self.tensor(dtype)
        per_cycle = max(self.lanes(dtype), tensor.macs_per_cycle if tensor else 0)
        return self.sms.count * per_cycle * self.clock_hz
