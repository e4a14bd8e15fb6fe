"""Cores of a CPU and the caches around them: vectors, pipes, private and shared levels, loads and stores."""

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, Field

from dsascape.hw_models.common.core_energy import Order, cycle_pj
from dsascape.hw_models.common.product_types import BITS, ProductType, operands_of
from dsascape.hw_models.common.silicon import core_logic_mm2
from dsascape.hw_models.common.spec_types import STRICT, Count, PerCycle
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.hw_models.text.quantities import (
    Bytes,
    BytesPerSecond,
    Hertz,
    PicojoulesOrByCore,
    Picoseconds,
    SquareMillimetresOrByNode,
)

KindName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Cycles = Annotated[float, Field(gt=0, le=1e6)]
Rate = Annotated[float, Field(ge=0.01, le=4096)]
Few = Annotated[int, Field(gt=0, le=64)]
ActiveCores = Annotated[
    str, Field(pattern=r"^[1-9][0-9]{0,3}$"), BeforeValidator(lambda key: str(key) if type(key) is int else key)
]
"""Number of active cores as the key of a mapping, where YAML and JSON differ in what a number may be."""
Behind = Literal["l2", "l3", "dram"]
"""Memory levels beyond the first cache."""
_EXPOSED: dict[Behind, float] = {"l2": 0.1, "l3": 0.5, "dram": 1.0}
_EXPOSED_STORES: dict[Behind, float] = {"l2": 0.0, "l3": 0.1, "dram": 0.6}


class VectorShape(NamedTuple):
    """Vectors that a dtype is computed in: those of results, and of the sums behind them."""

    lanes: int
    """Numbers of a vector."""
    depth: int = 1
    """Products that an instruction adds up in each lane, as a dot product of four bytes does."""
    instructions: float = 1.0
    """Vector instructions for ``lanes`` times ``depth`` products."""
    converts: bool = False
    """Whether numbers are stored narrower than they are computed: each load and store has a conversion beside it."""


_OWN_SUMS = ("fp32", "fp16")
"""Dtypes whose sums are no wider than they are."""
_SUM_BYTES = 4
"""Size of sums of all others."""


class Simd(BaseModel):
    """Vector instruction set, the same for all cores because they run the same code."""

    model_config = STRICT

    lanes: dict[ProductType, PerCycle] = Field(min_length=1)
    """Multiply-accumulates per vector instruction, or per group of ``product_instructions``, for each dtype that the
    cores compute, or pair of dtypes where an instruction multiplies a wide operand with a narrow one, as ``int8 x
    int4``. Sums of integers, of bf16 and of fp8 have four bytes: where these are fewer lanes, several products are
    added up in each. fp16 with as many lanes as fp32 is stored only, and converted where it is loaded and stored."""
    product_instructions: dict[ProductType, Rate] = Field(default_factory=dict)
    """Vector instructions that take the place of one multiply-accumulate of ``lanes``, by dtype: 3 for int8 without dot
    products (a widening multiplication, another that accumulates, a pairwise addition to the sums); 1 if not stated."""
    register_bytes: Bytes = Field(alias="register")
    """Size of one vector register, which one load or store moves."""
    path_bytes: Bytes | None = Field(None, alias="path")
    """Bytes of a register that pipes and ports take in one pass; ``null``: all of it. Where it is less, as in cores
    that compute on registers of 64 B in halves, rates of cores are those of whole registers, and instructions on
    shorter vectors take fewer passes."""
    registers: Annotated[int, Field(ge=8, le=1024)]
    """Number of architectural vector registers."""
    multiplies_by_lane: bool
    """Whether a multiply-accumulate can broadcast one lane of an operand register (as NEON can): values that are the
    same for all lanes are then loaded a register at a time, otherwise one by one."""

    def lanes_of(self, dtype: str) -> int:
        """Return the number of lanes for ``dtype``; 0 for a dtype that the cores do not compute."""
        return next((count for name, count in self.lanes.items() if name == dtype), 0)

    def vector(self, dtype: str) -> VectorShape:
        """Return the vectors that a dtype, or pair of dtypes, is computed in; no lanes for what cores do not compute.

        There are as many lanes as sums fit into a register.
        """
        products, wide = self.lanes_of(dtype), operands_of(dtype)[0]
        if not products:
            return VectorShape(0)
        sum_bytes = BITS[wide] // 8 if wide in _OWN_SUMS else _SUM_BYTES
        depth = max(products * sum_bytes // self.register_bytes, 1)
        lanes = max(products // depth, 1)
        converts = wide == "fp16" and lanes * sum_bytes < self.register_bytes
        return VectorShape(lanes, depth, self.instructions_of(dtype), converts)

    def instructions_of(self, dtype: str) -> float:
        """Return the vector instructions that one multiply-accumulate of all lanes takes."""
        return next((count for name, count in self.product_instructions.items() if name == dtype), 1.0)

    @property
    def product_step(self) -> Issued:
        """Instructions of one step in depth of a register-blocked product: six rows, operands loaded in each step."""
        rows = 6
        columns = max((self.registers - 1) // (rows + 1), 1)
        by_row = -(-rows // next(iter(self.lanes.values()))) if self.multiplies_by_lane else rows
        return Issued(fma=rows * columns, load=columns + by_row, accumulators=rows * columns)


class Cache(BaseModel):
    """Cache of one core, or shared by a few cores of one kind."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity of one copy."""
    associativity: Count
    """Number of ways: lines per set."""
    bytes_per_cycle: Rate
    """Bandwidth to the next inner level per core, in bytes per cycle: reads and writes together, unless lines that are
    written back have a path of their own (``writing``)."""
    latency_cycles: Cycles
    """Latency from the request to the first bytes, in cycles of the core."""
    shared_by: Count = 1
    """Number of cores that share one copy and its bandwidth; 1 for a private cache."""
    shared_bytes_per_cycle: Rate | None = None
    """Bandwidth of one copy to all cores that share it, in bytes per cycle; ``null``: no more than one core reaches."""

    @property
    def whole_bytes_per_cycle(self) -> float:
        """Bandwidth of one copy to all cores that share it, in bytes per cycle."""
        return self.bytes_per_cycle if self.shared_bytes_per_cycle is None else self.shared_bytes_per_cycle


class SharedCache(BaseModel):
    """Cache that all cores share, or groups of them, each group a copy; a hash of the address selects its sets."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity of the whole cache; of one copy, where groups of cores have one each."""
    shared_by: Count | None = None
    """Number of cores that share one copy, as the eight of a core complex do; ``null``: all cores. What several groups
    read, each of them fetches from DRAM for itself."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Bandwidth for all cores together, of all copies, shared by reads and writes."""
    bytes_per_cycle: Rate
    """Bandwidth per core, in bytes per cycle of that core."""
    latency_ps: Picoseconds = Field(alias="latency")
    """Latency from the request to the first bytes."""
    kept_ps: Picoseconds | None = Field(None, alias="kept")
    """Time in which other users of the cache (on the rest of a machine of which this is a part) fill it once. A line
    that is unused for that long is likely to have been evicted. ``null`` if there are no other users."""
    fresh_bytes: Bytes | None = Field(None, alias="fresh")
    """Capacity available to lines that come from DRAM, until they are used again: some caches evict new lines earlier.
    ``null`` if new lines are kept like all others."""


class CoreKind(BaseModel):
    """Kind of cores: a group of identical cores."""

    model_config = STRICT

    count: Count
    """Number of cores of this kind."""
    clock_hz: Hertz = Field(alias="clock")
    """Highest clock; the sustained clock is this times the machine's ``sustained_factor`` and, where that is stated,
    the share of ``active_clock`` for the number of cores at work."""
    order: Order
    """Issue order. In-order cores cannot issue vector loads and stores together with arithmetic, so their times add up;
    in out-of-order cores the busiest port sets the pace."""
    issue_width: Few
    """Instructions per cycle, of all classes together."""
    fma_pipes: Few
    """Vector arithmetic instructions per cycle."""
    product_pipes: dict[ProductType, Rate] = Field(default_factory=dict)
    """Vector instructions of products per cycle, by dtype, where fewer or other pipes than ``fma_pipes`` take them: 1.5
    if two multiplications share a pipe and the addition behind them has another."""
    fma_latency_cycles: Cycles
    """Latency of a multiply-accumulate: with fewer accumulators than this times the pipes, pipes idle."""
    loads_per_cycle: Rate
    """Vector or scalar loads per cycle; less than 1 if the path is narrower than a register."""
    stores_per_cycle: Rate
    """Vector or scalar stores per cycle."""
    special_cycles: Cycles
    """Cycles of one pipe for one vector of divisions, square roots, exponentials or the like."""
    loop_cycles: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """Cycles lost at the end of each innermost loop: branch misprediction, pipes that drain and refill."""
    loop_vector_cycles: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Further cycles lost there for each vector of the register tile: its sums are stored and its registers cleared
    while no multiply-accumulate is in flight."""
    overlap: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the time of data movement that overlaps with arithmetic, or with data movement at another level. 1: the
    slowest sets the pace; 0: their times add up. ``null``: as cores of this ``order`` do, see ``exposed``."""
    exposed: dict[Behind, Annotated[float, Field(ge=0, le=10)]] = Field(default_factory=dict)
    """Per-memory override of the fraction of loads' time that is not overlapped, relative to the time of a stream of
    reads. It exceeds 1 if data arrives more slowly while the core computes. Default: 1 - ``overlap``; without that, 1
    in order, where the first use of what is missing stops the core, and out of order 0.1 (l2), 0.5 (l3) and 1 (dram),
    rounded from what `dsascape calibrate` has measured on a server's core (0.10, 0.47 and 1.27)."""
    exposed_stores: dict[Behind, Annotated[float, Field(ge=0, le=10)]] = Field(default_factory=dict)
    """Per-memory override of the fraction of stores' time that is not overlapped, relative to a stream of writes.
    Default: 1 - ``overlap``; without that 0 (l2), 0.1 (l3) and 0.6 (dram) in both orders, as stores wait in buffers,
    measured likewise (0.00, 0.09 and 0.56)."""
    writing: dict[Behind, Annotated[float, Field(ge=0, le=100)]] = Field(default_factory=dict)
    """Time to write a line back to a memory, relative to fetching a sequential one; 1 if not stated, 0 if write-backs
    are never waited for, as where a cache moves lines both ways at the same time."""
    scattered: dict[Behind, Annotated[float, Field(ge=1, le=1000)]] = Field(default_factory=dict)
    """Time to fetch a random line that no prefetcher brought, relative to a sequential one; 1 if not stated."""
    l1: Cache
    """First-level data cache."""
    l2: Cache | None
    """Second-level cache; null if the shared cache or DRAM is next."""
    dram_bytes_per_s: BytesPerSecond = Field(alias="dram_bandwidth")
    """Peak DRAM bandwidth of a single core of this kind, reads and writes together. Cores that together want more than
    ``dram`` sustains get parts of that in proportion."""
    cycle_energy: PicojoulesOrByCore = None
    """Energy of one active cycle besides instructions: clock tree, pipeline, leakage of a core that computes or waits
    for memory or other cores; by default from issue width, clock and node (`hw_models.common.core_energy`)."""
    area: SquareMillimetresOrByNode = None
    """Area of one core without caches; by default from issue width, clock and node
    (`hw_models.common.silicon.core_logic_mm2`)."""

    def pipes_of(self, product: str) -> float:
        """Return the vector instructions of products per cycle, of a dtype or pair of dtypes."""
        return next((rate for name, rate in self.product_pipes.items() if name == product), float(self.fma_pipes))

    def exposed_of(self, memory: Behind) -> float:
        """Return the fraction of the time of loads from ``memory`` that is not overlapped."""
        by_order = 1.0 if self.order == "in_order" else _EXPOSED[memory]
        return self.exposed.get(memory, by_order if self.overlap is None else 1 - self.overlap)

    def exposed_stores_of(self, memory: Behind) -> float:
        """Return the fraction of the time of stores to ``memory`` that is not overlapped."""
        return self.exposed_stores.get(memory, _EXPOSED_STORES[memory] if self.overlap is None else 1 - self.overlap)

    def logic_mm2(self, node_nm: float) -> float:
        """Return the area of one core without caches: as stated, or derived."""
        return core_logic_mm2(self.issue_width, self.clock_hz, node_nm) if self.area is None else self.area

    def cycle_pj(self, node_nm: float) -> float:
        """Return picojoules of an active cycle: as stated, or derived."""
        stated = self.cycle_energy
        return cycle_pj(self.issue_width, self.clock_hz, node_nm) if stated is None else stated
