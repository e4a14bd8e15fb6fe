"""CPU with caches: cores of one or several kinds, private and shared cache levels, DRAM.

The abstraction is that of a phone's or a server's processor running a thread pool: cores that differ (big and LITTLE
ones) share out the chunks of parallel loops, and every level between a core's registers and DRAM has a size and a
bandwidth. Numbers of a real part go into YAML, with their source.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from dsascape.hw_models.common.cached_parts import CachedMachine, Dram, LaneEnergy
from dsascape.hw_models.common.spec_types import STRICT, Count, DType, Efficiency, MachineName, PerCycle
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.hw_models.text.quantities import (
    PS_PER_S,
    Bytes,
    BytesPerSecond,
    Hertz,
    PicojoulesPerByteOrBySize,
    Picoseconds,
)

KindName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Cycles = Annotated[float, Field(gt=0, le=1e6)]
Rate = Annotated[float, Field(ge=0.01, le=4096)]
Few = Annotated[int, Field(gt=0, le=64)]
Behind = Literal["l2", "l3", "dram"]
"""A memory behind a cache."""


class Simd(BaseModel):
    """Vector instructions: those of all cores, as they run the same code."""

    model_config = STRICT

    lanes: dict[DType, PerCycle] = Field(min_length=1)
    """Multiply-accumulates of one vector instruction, for each dtype that is computed."""
    register_bytes: Bytes = Field(alias="register")
    """Of one vector register, which one load or store fills or empties."""
    registers: Annotated[int, Field(ge=8, le=1024)]
    """Vector registers that code can name."""
    multiplies_by_lane: bool
    """Whether a multiply-accumulate takes one lane of a register for all of the others' lanes (NEON does): values that
    are the same for all lanes are then loaded a register at a time, else one by one."""

    def lanes_of(self, dtype: str) -> int:
        """Return the numbers of ``dtype`` in a vector; 0 for one that is not computed."""
        return next((count for name, count in self.lanes.items() if name == dtype), 0)

    @property
    def product_step(self) -> Issued:
        """One step in depth of a product whose sums fill the registers: six rows, operands loaded for each step."""
        rows = 6
        columns = max((self.registers - 1) // (rows + 1), 1)
        by_row = -(-rows // next(iter(self.lanes.values()))) if self.multiplies_by_lane else rows
        return Issued(fma=rows * columns, load=columns + by_row, accumulators=rows * columns)


class Cache(BaseModel):
    """A cache of one core, or of a few cores of one kind."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Of one copy."""
    associativity: Count
    """Lines that one set holds."""
    bytes_per_cycle: Rate
    """Between it and the level further in, for one core, reads and writes together."""
    latency_cycles: Cycles
    """Of the core's clock, from the request to the first bytes."""
    shared_by: Count = 1
    """Cores that share one copy, and its bandwidth; 1 for a private one."""


class SharedCache(BaseModel):
    """The cache that all cores share; its sets are chosen by a hash of the address."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Of the whole."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """For all cores together, reads and writes sharing it."""
    bytes_per_cycle: Rate
    """For one core, at that core's clock."""
    latency_ps: Picoseconds = Field(alias="latency")
    """From the request to the first bytes."""
    kept_ps: Picoseconds | None = Field(None, alias="kept")
    """Time in which others, those on the rest of a machine of which this is a part, bring as much into it as it holds.
    A line that is not used for so long is likely to be gone. ``null`` where nobody else uses it."""
    fresh_bytes: Bytes | None = Field(None, alias="fresh")
    """What there is of it for lines that come from DRAM, until they are used again: some caches keep what is new to
    them for less long. ``null`` where they are kept like all others."""


class CoreKind(BaseModel):
    """Cores that are alike."""

    model_config = STRICT

    count: Count
    """Cores of this kind."""
    clock_hz: Hertz = Field(alias="clock")
    """The highest; what is sustained is the machine's ``sustained_factor`` of it."""
    order: Literal["in_order", "out_of_order"]
    """In-order cores pay for vector loads and stores on top of arithmetic, as they cannot issue them together; for
    out-of-order ones the busiest of the ports sets the pace."""
    issue_width: Few
    """Instructions per cycle, of whatever class."""
    fma_pipes: Few
    """Vector arithmetic instructions per cycle."""
    fma_latency_cycles: Cycles
    """Until a multiply-accumulate can be added to: with fewer accumulators than this times the pipes, pipes idle."""
    loads_per_cycle: Rate
    """Vector or scalar loads; less than one where the path is narrower than a register."""
    stores_per_cycle: Rate
    """Vector or scalar stores."""
    special_cycles: Cycles
    """Of one pipe, for one vector of divisions, square roots, exponentials or the like."""
    loop_cycles: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """Lost at the end of each innermost loop: a branch that is predicted wrongly, pipes that fill and run empty."""
    overlap: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the time that data takes on its way which hides behind arithmetic, or behind that of another level. 1:
    the slowest sets the pace; 0: all wait for each other."""
    exposed: dict[Behind, Annotated[float, Field(ge=0, le=10)]] = Field(default_factory=dict)
    """For single memories, what is left of 1 where it is not what ``overlap`` leaves: the time that does not hide, by
    that of a stream of reads. It is more than 1 where data come more slowly while the core computes."""
    exposed_stores: dict[Behind, Annotated[float, Field(ge=0, le=10)]] = Field(default_factory=dict)
    """The same for what is stored, by the time of a stream of writes."""
    writing: dict[Behind, Annotated[float, Field(ge=0, le=100)]] = Field(default_factory=dict)
    """Time in which a line is written back to a memory, by that of fetching one of many that follow each other; 1 where
    nothing is said, 0 where nobody waits for it."""
    scattered: dict[Behind, Annotated[float, Field(ge=1, le=1000)]] = Field(default_factory=dict)
    """Time in which a line is fetched that does not follow the one before, and that nobody has foreseen, by that of one
    that does; 1 where nothing is said."""
    l1: Cache
    """For data."""
    l2: Cache | None
    """None where the shared cache or DRAM is next."""
    dram_bytes_per_s: BytesPerSecond = Field(alias="dram_bandwidth")
    """Most that one core of this kind moves to and from DRAM."""


class CpuEnergy(LaneEnergy):
    """Energy by component, cores of all kinds taken alike."""

    l1: PicojoulesPerByteOrBySize = None
    """By default that of an SRAM of its size (`hw_models.common.technology`); of the first kind where cores differ."""
    l2: PicojoulesPerByteOrBySize = None
    """By default that of an SRAM of its size, as for l1."""
    l3: PicojoulesPerByteOrBySize = None
    """As for l1, of the whole."""


class Cpu(CachedMachine):
    """A whole processor. What makes no sense is refused with a ``ValueError`` (pydantic)."""

    kind: Literal["cpu"]
    """Which kind of machine the file describes."""
    name: MachineName
    """What tables and reports call it; a file with a base that states none is called after the file."""
    cores: dict[KindName, CoreKind] = Field(min_length=1, max_length=8)
    """The kinds of cores, by name."""
    simd: Simd
    line_bytes: Annotated[Bytes, Field(ge=8, le=4096)] = Field(alias="line")
    """Of all caches: what moves between two levels at once."""
    l3: SharedCache | None
    """None where private caches are next to DRAM."""
    dram: Dram
    write_allocate: bool
    """Whether a store that misses fetches its line first; false for cores that see streams of whole-line stores."""
    kernel_call_ps: Picoseconds = Field(alias="kernel_call")
    """Of one kernel: the call, its arguments checked and looked up."""
    parallel_region_ps: Picoseconds = Field(alias="parallel_region")
    """Of one loop that is split over threads: waking them, and waiting for the last."""
    sustained_factor: Efficiency = 1.0
    """Share of the clocks that the cores hold when all are busy (heat, power, wide vectors)."""
    energy: CpuEnergy

    @model_validator(mode="after")
    def _has_energy_for_every_dtype(self) -> "Cpu":
        self.energy.check_dtypes(self.simd.lanes, "simd.lanes")
        return self

    @model_validator(mode="after")
    def _has_whole_lines(self) -> "Cpu":
        levels = [
            (f"cores.{name}.{level}", cache)
            for name, core in self.cores.items() for level, cache in (("l1", core.l1), ("l2", core.l2)) if cache
        ]  # fmt: skip
        for place, cache in levels:
            lines = cache.capacity_bytes // self.line_bytes
            if lines < cache.associativity:
                needs = f"one set of {cache.associativity} lines"
            elif lines < cache.shared_by:
                needs = f"a line for each of the {cache.shared_by} cores that share it,"
            else:
                continue
            raise ValueError(
                f"{place}.capacity is {cache.capacity_bytes} B; needs {needs} of {self.line_bytes} B at least"
            )
        if self.l3 is not None and self.l3.capacity_bytes < self.line_bytes * self.core_count:
            raise ValueError(
                f"l3.capacity is {self.l3.capacity_bytes} B; needs a line for each of the {self.core_count} cores, of"
                f" {self.line_bytes} B, at least"
            )
        return self

    @model_validator(mode="after")
    def _has_l2_everywhere_or_nowhere(self) -> "Cpu":
        has = [name for name, core in self.cores.items() if core.l2 is not None]
        if has and len(has) < len(self.cores):
            raise ValueError(f"cores have l2 in {', '.join(has)} only; needs it in all kinds of cores or in none")
        return self

    @property
    def core_count(self) -> int:
        return sum(core.count for core in self.cores.values())

    def clock_hz(self, core: CoreKind) -> float:
        """Return the clock that ``core`` sustains."""
        return core.clock_hz * self.sustained_factor

    @property
    def kinds(self) -> tuple[CoreKind, ...]:
        """The kinds of cores, the fastest in a matrix product first; of equal ones, as they stand in the file."""
        return tuple(sorted(self.cores.values(), key=lambda core: -self.products_per_s(core)))

    def products_per_s(self, core: CoreKind) -> float:
        """Return the multiply-accumulates of vectors per second of ``core`` in a matrix product whose data is at hand.

        Loads and the front end bound it too, so that pipes which nothing feeds do not count.
        """
        step = self.simd.product_step
        return step.fma / issue_cycles(core, step) * core.clock_hz

    @property
    def sram_pj_per_byte(self) -> dict[str, float]:
        """Picojoules per byte of every cache level: as given, or by their sizes."""
        first = next(iter(self.cores.values()))
        sizes = {"l1": first.l1.capacity_bytes}
        if first.l2 is not None:
            sizes["l2"] = first.l2.capacity_bytes
        if self.l3 is not None:
            sizes["l3"] = self.l3.capacity_bytes
        given = {"l1": self.energy.l1, "l2": self.energy.l2, "l3": self.energy.l3}
        return self.energy.sram_pj_per_byte(sizes, given)

    def peak_macs_per_s(self, dtype: str) -> float:
        """Multiply-accumulates per second of all cores at the clocks that they sustain; 0 for a dtype without lanes."""
        lanes = self.simd.lanes_of(dtype)
        return sum(core.count * self.clock_hz(core) * core.fma_pipes * lanes for core in self.cores.values())

    def cycle_ps(self, core: CoreKind) -> float:
        """Return the length of a cycle of ``core``."""
        return PS_PER_S / self.clock_hz(core)
