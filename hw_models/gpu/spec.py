"""GPU: streaming multiprocessors (SMs) that run thread blocks, a shared L2 cache, DRAM.

The abstraction is that of CUDA and OpenCL devices: a kernel is a grid of thread blocks, each of which runs on one SM
from beginning to end, together with as many others as the SM's registers, shared memory and threads allow. Vendors use
other terms for some of it (compute unit, shader core, work group, wave, local memory); the terms here are NVIDIA's.
Figures of a real part belong in its YAML file, with their source.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from dsascape.hw_models.common.cached_parts import CachedArea, Dram
from dsascape.hw_models.common.interface import interface_mm2
from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.common.product_types import ProductType, operands_of
from dsascape.hw_models.common.silicon import (
    CROSSBAR_MM2,
    GPU_CACHE_OVER_SRAM,
    SCHEDULER_MM2,
    logic_over_7nm,
    macs_mm2,
    sram_mm2_per_mib,
)
from dsascape.hw_models.common.spec_types import NETWORK_DTYPES, STRICT, Count, DType, Efficiency, PerCycle
from dsascape.hw_models.gpu.energy import GpuEnergy
from dsascape.hw_models.gpu.host import GpuHost
from dsascape.hw_models.gpu.library import LibraryProducts
from dsascape.hw_models.simulation.machine import HardwareError
from dsascape.hw_models.text.quantities import (
    PS_PER_S,
    Bytes,
    BytesFromZero,
    BytesPerSecond,
    Hertz,
    Picoseconds,
    SquareMillimetresOrByNode,
    Watts,
)

Cycles = Annotated[float, Field(gt=0, le=1e6)]
Rate = Annotated[float, Field(ge=0.01, le=65536)]
Few = Annotated[int, Field(gt=0, le=1024)]
WORD_BYTES = 4
"""Width of a bank of shared memory."""


class TensorUnits(BaseModel):
    """Matrix units of one SM, for one dtype or pair of dtypes; accumulation is in FP32 (INT32)."""

    model_config = STRICT

    macs_per_cycle: PerCycle
    """Multiply-accumulates per cycle of all tensor units of one SM together."""
    rows: Few
    """Rows of the matrix product that one warp instruction computes."""
    columns: Few
    """Columns of the matrix product that one warp instruction computes."""
    depth: Few
    """Depth of the matrix product that one warp instruction computes; matrices whose sides are not multiples of rows,
    columns and depth are padded."""
    warps: Few
    """Warps that share one read of an operand from shared memory: they work on adjacent parts of the product."""
    latency_cycles: Cycles
    """Latency until the sums of an instruction can be accumulated further."""


class SharedMemory(BaseModel):
    """Scratchpad of one SM, divided among its blocks."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity per SM: what the L1 cache leaves of the array that both share."""
    per_block_bytes: Bytes = Field(alias="per_block")
    """Most shared memory per block."""
    reserved_bytes: BytesFromZero = Field(alias="reserved")
    """Shared memory that the system reserves for every block, in addition to what it requests."""
    unit_bytes: Bytes = Field(alias="unit")
    """Allocation granularity per block."""
    bytes_per_cycle: Rate
    """Bandwidth per SM, reads and writes together, in bytes per cycle; L1 hits take the same path."""
    banks: Annotated[int, Field(ge=0, le=1024)] = 32
    """Banks, each of words of 4 B: threads that ask for different words of one bank at a time are served one after the
    other. 0: threads never get in each other's way."""
    latency_cycles: Cycles
    """Latency from the request to the data."""

    @property
    def pass_cycles(self) -> float:
        """Cycles in which every bank gives one word."""
        return self.banks * WORD_BYTES / self.bytes_per_cycle

    def of_block(self, asked_bytes: int) -> int:
        """Return the bytes allocated for a block that requests ``asked_bytes``."""
        return -(-(asked_bytes + self.reserved_bytes) // self.unit_bytes) * self.unit_bytes


class Sms(BaseModel):
    """Streaming multiprocessors (SMs), all identical."""

    model_config = STRICT

    count: Count
    """Number of SMs of the chip."""
    clock_hz: Hertz = Field(alias="clock")
    """Peak clock; the sustained clock is this times the machine's ``sustained_factor``."""
    lanes: dict[DType, PerCycle] = Field(min_length=1)
    """Multiply-accumulates per SM and cycle without tensor units, for each dtype that lanes compute."""
    tensor: dict[ProductType, TensorUnits]
    """Tensor units, by dtype, or by pair where they multiply a wide operand with a narrow one, as ``fp16 x int4``;
    ``{}`` for an SM that has none. A product of a dtype that is not listed is computed in the next wider one."""
    warp: Few
    """Threads per warp, which run in lockstep."""
    issued_per_cycle: Few
    """Warp instructions that one SM issues per cycle."""
    fma_latency_cycles: Cycles
    """Latency of a multiply-accumulate: with too few independent chains in flight to cover it, lanes idle."""
    special_per_cycle: Count
    """Divisions, roots, exponentials and the like per SM and cycle, counted per thread."""
    accesses_per_cycle: Count
    """Loads and stores per SM and cycle, counted per thread."""
    l2_bytes_per_cycle: Rate
    """Bandwidth between one SM and the L2, reads and writes together, in bytes per cycle."""
    cluster: Annotated[int, Field(gt=0, le=64)] = 1
    """Most blocks of a cluster, on as many neighbouring SMs, that share what they load: an operand that several of
    them need comes from the L2 once and is multicast to their shared memories. 1: blocks load for themselves."""
    shared: SharedMemory
    registers: Annotated[int, Field(gt=0, le=2**24)]
    """Number of 32-bit registers per SM."""
    registers_unit: Few
    """Granularity of register allocation per warp."""
    registers_per_thread: Few
    """Most registers per thread."""
    threads: Count
    """Most resident threads per SM."""
    threads_per_block: Count
    """Most threads per block."""
    blocks: Few
    """Most resident blocks per SM."""


class L2(BaseModel):
    """L2 cache that all SMs share."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity of the whole cache."""
    sector_bytes: Annotated[Bytes, Field(ge=8, le=4096)] = Field(alias="sector")
    """Unit of transfer between the L2 and DRAM, and between the L2 and SMs."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Bandwidth for all SMs together, shared by reads and writes."""
    latency_ps: Picoseconds = Field(alias="latency")
    """Latency from the request to the first bytes."""


class GpuArea(CachedArea):
    """Silicon by component."""

    sm: SquareMillimetresOrByNode = None
    """Area of one SM without SRAM and multiply-accumulates; by default from its warp schedulers and the node
    (`hw_models.common.silicon`)."""


class Gpu(MachineSpec):
    """A whole GPU. Raises ``ValueError`` (pydantic) for values that are inconsistent."""

    kind: Literal["gpu"]
    """Kind of machine that the file describes."""
    sms: Sms
    l2: L2
    dram: Dram
    launch_ps: Picoseconds = Field(alias="launch")
    """Time from the end of a kernel to the first loads of the next: it includes draining the machine, handing out the
    first blocks and fetching their instructions, not the latency of those loads."""
    graph_launch_ps: Picoseconds | None = Field(None, alias="graph_launch")
    """Launch time of a kernel inside of a recorded graph (CUDA graphs); null where none is published."""
    host: GpuHost | None = None
    """Host that issues kernels, for runs in which it may be late (``tuning.host``); null where it is not known."""
    sustained_factor: Efficiency = 1.0
    """Share of the peak clock that the SMs sustain when all are busy, whatever they do (heat)."""
    power_limit_w: Watts | None = Field(None, alias="power_limit")
    """Most power of the whole board in the mean over a run that is repeated. Where a run would draw more, the clock of
    the SMs falls further, until it does not; null: clocks never fall for power."""
    library: LibraryProducts | None = None
    """Kernels that libraries have for products, from which expected latencies follow; null: nothing is known."""
    energy: GpuEnergy
    area: GpuArea = GpuArea()

    def vector_ops_per_s(self, dtype: str) -> float:
        """Return operations per second of the lanes of all SMs at the sustained clock; 0 for a dtype that they lack."""
        return self.sms.count * self.lanes(dtype) * self.clock_hz

    @property
    def stated_power_w(self) -> float | None:
        """Watts that the maker states for the product, or else the power limit; None if both are unknown."""
        return self.power_limit_w if self.product.power_w is None else self.product.power_w

    @property
    def layer_start_ps(self) -> int:
        """Picoseconds of a kernel that computes nothing: its launch, one trip to DRAM and one back."""
        return self.launch_ps + 2 * self.dram.latency_ps

    @property
    def launched_in_graphs(self) -> "Gpu":
        """The machine with kernels launched as parts of graphs.

        Raises ``HardwareError`` where its file does not say how long that takes.
        """
        if self.graph_launch_ps is None:
            raise HardwareError(f"{self.name}: tuning.graphs needs graph_launch in the machine's file; it has none")
        return self.model_copy(update={"launch_ps": self.graph_launch_ps})

    @property
    def hosted(self) -> "Gpu":
        """The machine itself, whose file says how long its host takes.

        Raises ``HardwareError`` where it does not.
        """
        if self.host is None:
            raise HardwareError(f"{self.name}: tuning.host needs host in the machine's file; it has none")
        return self

    @model_validator(mode="after")
    def _has_energy_for_every_dtype(self) -> "Gpu":
        computed = dict.fromkeys([*self.sms.lanes, *[operands_of(product)[0] for product in self.sms.tensor]])
        self.energy.check_dtypes(computed, "sms")
        return self

    @model_validator(mode="after")
    def _has_power_to_run(self) -> "Gpu":
        if self.power_limit_w is not None and self.power_limit_w <= self.energy.static_power_w:
            raise ValueError(
                f"power_limit is {self.power_limit_w:g} W; needs more than energy.static_power:"
                f" {self.energy.static_power_w:g} W"
            )
        return self

    @model_validator(mode="after")
    def _has_lanes_for_what_tensor_units_compute(self) -> "Gpu":
        lacking = [dtype for dtype in self.sms.tensor if dtype in NETWORK_DTYPES and dtype not in self.sms.lanes]
        if lacking:
            has, needs = ", ".join(self.sms.lanes), ", ".join(lacking)
            raise ValueError(f"sms.lanes has {has}; needs {needs} too, for what tensor units cannot do")
        return self

    @model_validator(mode="after")
    def _has_whole_sectors(self) -> "Gpu":
        if self.l2.capacity_bytes < self.l2.sector_bytes:
            raise ValueError(
                f"l2.capacity is {self.l2.capacity_bytes} B; needs at least one sector of {self.l2.sector_bytes} B"
            )
        return self

    @model_validator(mode="after")
    def _holds_a_block(self) -> "Gpu":
        sms = self.sms
        if sms.threads_per_block % sms.warp:
            raise ValueError(f"sms.threads_per_block is {sms.threads_per_block}; needs a multiple of warp: {sms.warp}")
        if sms.threads < sms.threads_per_block:
            raise ValueError(
                f"sms.threads is {sms.threads}; needs at least threads_per_block: {sms.threads_per_block}"
            )
        taken_bytes = sms.shared.of_block(sms.shared.per_block_bytes)
        if taken_bytes > sms.shared.capacity_bytes:
            raise ValueError(
                f"sms.shared.per_block is {sms.shared.per_block_bytes} B, which takes {taken_bytes} B;"
                f" sms.shared.capacity is {sms.shared.capacity_bytes} B"
            )
        return self

    @property
    def area_parts_mm2(self) -> dict[str, float]:
        """Square millimetres of multiply-accumulates, SRAM, the rest of the SMs, interface (``dram``) and the rest."""
        node, area, sms = self.energy.node_nm, self.area, self.sms
        macs = max(macs_mm2(dtype, number, node) for dtype, number in sms.lanes.items())
        tensor = [(operands_of(product)[0], units.macs_per_cycle) for product, units in sms.tensor.items()]
        macs += max([macs_mm2(dtype, number, node) for dtype, number in tensor], default=0.0)
        logic = SCHEDULER_MM2 * sms.issued_per_cycle * logic_over_7nm(node) if area.sm is None else area.sm
        sram_bytes = sms.count * (sms.registers * 4 + sms.shared.capacity_bytes) + self.l2.capacity_bytes
        per_mib = sram_mm2_per_mib(node) * GPU_CACHE_OVER_SRAM if area.sram is None else area.sram
        return {
            "macs": sms.count * macs,
            "sram": sram_bytes / 2**20 * per_mib,
            "sms": sms.count * (logic + CROSSBAR_MM2 * logic_over_7nm(node)),
            "dram": interface_mm2(self.dram.bandwidth_bytes_per_s, area.dram, node),
            "other": area.other,
        }

    @property
    def area_mm2(self) -> float:
        """Area of what the file describes."""
        return sum(self.area_parts_mm2.values())

    @property
    def clock_hz(self) -> float:
        """Sustained clock of the SMs."""
        return self.sms.clock_hz * self.sustained_factor

    def slowed(self, share: float) -> "Gpu":
        """Return the machine with its SMs at a share of their sustained clock."""
        return self if share == 1 else self.model_copy(update={"sustained_factor": self.sustained_factor * share})

    @property
    def cycle_ps(self) -> float:
        """Length of a cycle of the SMs in picoseconds, at the sustained clock."""
        return PS_PER_S / self.clock_hz

    @property
    def sram_pj_per_byte(self) -> dict[str, float]:
        """Picojoules per byte of shared memory and L2: as stated, or derived from their sizes."""
        given = {"shared": self.energy.shared, "l2": self.energy.l2}
        sizes = {"shared": self.sms.shared.capacity_bytes, "l2": self.l2.capacity_bytes}
        return self.energy.sram_pj_per_byte(sizes, given)

    def lanes(self, dtype: str) -> int:
        """Return multiply-accumulates per SM and cycle without tensor units; 0 for a dtype that lanes lack."""
        return {str(name): count for name, count in self.sms.lanes.items()}.get(dtype, 0)

    def tensor(self, product: str) -> TensorUnits | None:
        """Return the tensor units for a dtype or pair of dtypes; None if there are none."""
        return {str(name): units for name, units in self.sms.tensor.items()}.get(product)

    @property
    def product_types(self) -> frozenset[str]:
        """Dtypes, and pairs of dtypes, in which lanes or tensor units multiply."""
        return frozenset([*map(str, self.sms.lanes), *map(str, self.sms.tensor)])

    def peak_macs_per_s(self, product: str) -> float:
        """Return multiply-accumulates per second of all SMs at the sustained clock, on lanes or tensor units."""
        tensor = self.tensor(product)
        per_cycle = max(self.lanes(product), tensor.macs_per_cycle if tensor else 0)
        return self.sms.count * per_cycle * self.clock_hz
