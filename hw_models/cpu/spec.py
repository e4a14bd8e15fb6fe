"""CPU with caches: cores of one or several kinds, private and shared cache levels, DRAM.

The abstraction is that of a phone's or a server's processor running a thread pool: the chunks of parallel loops are
distributed over cores of different kinds (big and LITTLE), and every level between a core's registers and DRAM has a
size and a bandwidth. Figures of a real part belong in its YAML file, with their source.
"""

import itertools
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from dsascape.hw_models.common.cached_parts import CachedArea, Dram, LaneEnergy
from dsascape.hw_models.common.core_energy import Order, cycle_pj
from dsascape.hw_models.common.interface import interface_mm2
from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.common.product_types import ProductType, operands_of
from dsascape.hw_models.common.silicon import CACHE_OVER_SRAM, core_logic_mm2, sram_mm2_per_mib
from dsascape.hw_models.common.spec_types import STRICT, Count, Efficiency, PerCycle
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.hw_models.text.quantities import (
    PS_PER_S,
    Bytes,
    BytesPerSecond,
    Hertz,
    PicojoulesOrByCore,
    PicojoulesPerByteOrBySize,
    Picoseconds,
    SquareMillimetresOrByNode,
)
from dsascape.wording import count

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


class Simd(BaseModel):
    """Vector instruction set, the same for all cores because they run the same code."""

    model_config = STRICT

    lanes: dict[ProductType, PerCycle] = Field(min_length=1)
    """Multiply-accumulates per vector instruction, for each dtype that the cores compute, or pair of dtypes where an
    instruction multiplies a wide operand with a narrow one, as ``int8 x int4``."""
    register_bytes: Bytes = Field(alias="register")
    """Size of one vector register, which one load or store moves."""
    registers: Annotated[int, Field(ge=8, le=1024)]
    """Number of architectural vector registers."""
    multiplies_by_lane: bool
    """Whether a multiply-accumulate can broadcast one lane of an operand register (as NEON can): values that are the
    same for all lanes are then loaded a register at a time, otherwise one by one."""

    def lanes_of(self, dtype: str) -> int:
        """Return the number of lanes for ``dtype``; 0 for a dtype that the cores do not compute."""
        return next((count for name, count in self.lanes.items() if name == dtype), 0)

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
    """Bandwidth to the next inner level per core, reads and writes together, in bytes per cycle."""
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
    """Cache that all cores share; a hash of the address selects its sets."""

    model_config = STRICT

    capacity_bytes: Bytes = Field(alias="capacity")
    """Capacity of the whole cache."""
    bandwidth_bytes_per_s: BytesPerSecond = Field(alias="bandwidth")
    """Bandwidth for all cores together, shared by reads and writes."""
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
    are never waited for."""
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


class CpuEnergy(LaneEnergy):
    """Energy by component, the same for all kinds of cores but for the cycles of each (`cores.NAME.cycle_energy`)."""

    instruction: PicojoulesOrByCore = None
    """Energy of executing one scalar or vector instruction besides its arithmetic and vector registers: fetch, decode,
    rename, control, scalar registers, in the mean over kinds of cores by the products that they compute; by default
    from the order of issue and the node (`hw_models.common.core_energy`)."""
    vector_register: PicojoulesOrByCore = None
    """Energy of reading or writing one vector register, of which an instruction moves one to four; by default from its
    size, the order of issue and the node."""
    l1: PicojoulesPerByteOrBySize = None
    """Energy per byte read or written; by default that of an SRAM of its size (`hw_models.common.technology`), for the
    first kind of cores if they differ."""
    l2: PicojoulesPerByteOrBySize = None
    """Energy per byte read or written; by default that of an SRAM of its size, as for l1."""
    l3: PicojoulesPerByteOrBySize = None
    """Energy per byte read or written; by default that of an SRAM of its whole size."""


class Cpu(MachineSpec):
    """A whole processor. Raises ``ValueError`` (pydantic) for values that are inconsistent."""

    kind: Literal["cpu"]
    """Kind of machine that the file describes."""
    cores: dict[KindName, CoreKind] = Field(min_length=1, max_length=8)
    """Kinds of cores, by name."""
    simd: Simd
    line_bytes: Annotated[Bytes, Field(ge=8, le=4096)] = Field(alias="line")
    """Line size of all caches: the unit of transfer between two levels."""
    l3: SharedCache | None
    """Cache shared by all cores; null if private caches are next to DRAM."""
    dram: Dram
    write_allocate: bool
    """Whether a store that misses fetches its line first; false for cores that see streams of whole-line stores."""
    kernel_call_ps: Picoseconds = Field(alias="kernel_call")
    """Time of one kernel call, including look-up and checks of its arguments."""
    parallel_region_ps: Picoseconds = Field(alias="parallel_region")
    """Overhead of one loop that is split over threads: waking them, and waiting for the last."""
    fewer_threads_region: dict[ActiveCores, Picoseconds] = Field(default_factory=dict)
    """That overhead on fewer threads than there are cores, by their number: ``{2: 1 us, 8: 2 us}``. On numbers in
    between it is interpolated, on fewer than the least that of the least, on all cores ``parallel_region``."""
    sustained_factor: Efficiency = 1.0
    """Share of the highest clock that the cores sustain in long runs (heat, power, wide vectors), however many work."""
    active_clock: dict[ActiveCores, Efficiency] = Field(default_factory=dict)
    """Share of the highest clock while at most so many cores are active, by their number, as tables of turbo clocks
    state it: ``{1: 1.0, 8: 0.9, 18: 0.8}``. More cores than the largest number run at its share. Without it the clock
    does not depend on the number of active cores."""
    energy: CpuEnergy
    area: CachedArea = CachedArea()

    @model_validator(mode="after")
    def _has_energy_for_every_dtype(self) -> "Cpu":
        computed = dict.fromkeys([operands_of(product)[0] for product in self.simd.lanes])
        self.energy.check_dtypes(computed, "simd.lanes")
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
                needs = f"one set of {count(cache.associativity, 'line')}"
            elif lines < cache.shared_by:
                needs = f"a line for each of the {count(cache.shared_by, 'core')} that share it,"
            else:
                continue
            raise ValueError(
                f"{place}.capacity is {cache.capacity_bytes} B; needs {needs} of {self.line_bytes} B at least"
            )
        if self.l3 is not None and self.l3.capacity_bytes < self.line_bytes * self.core_count:
            raise ValueError(
                f"l3.capacity is {self.l3.capacity_bytes} B; needs a line for each of the"
                f" {count(self.core_count, 'core')}, of"
                f" {self.line_bytes} B, at least"
            )
        return self

    @model_validator(mode="after")
    def _has_caches_as_fast_as_for_one_core(self) -> "Cpu":
        for name, core in self.cores.items():
            cache = core.l2
            if cache is not None and cache.whole_bytes_per_cycle < cache.bytes_per_cycle:
                raise ValueError(
                    f"cores.{name}.l2.shared_bytes_per_cycle is {cache.shared_bytes_per_cycle}; needs at least"
                    f" {cache.bytes_per_cycle}, what one core reaches"
                )
        return self

    @model_validator(mode="after")
    def _has_clocks_that_fall(self) -> "Cpu":
        shares = list(self._active_shares)
        for (fewer, faster), (more, slower) in itertools.pairwise(shares):
            if slower > faster:
                raise ValueError(
                    f"active_clock.{more} is {slower}; needs at most {faster}, the share for {count(fewer, 'core')}"
                )
        return self

    @model_validator(mode="after")
    def _has_l2_everywhere_or_nowhere(self) -> "Cpu":
        has = [name for name, core in self.cores.items() if core.l2 is not None]
        if has and len(has) < len(self.cores):
            raise ValueError(f"cores have l2 in {', '.join(has)} only; needs it in all kinds of cores or in none")
        return self

    def vector_ops_per_s(self, dtype: str) -> float:
        """Return operations per second, taken to be as many as multiply-accumulates (`peak_macs_per_s`)."""
        return self.peak_macs_per_s(dtype)

    @property
    def layer_start_ps(self) -> int:
        """Picoseconds of a kernel that computes nothing: its call, a loop over threads, a trip to DRAM and one back."""
        return self.kernel_call_ps + self.parallel_region_ps + 2 * self.dram.latency_ps

    @property
    def area_parts_mm2(self) -> dict[str, float]:
        """Square millimetres of cores without caches, caches, the interface to DRAM (``dram``) and the rest."""
        node, area = self.energy.node_nm, self.area
        logic = caches_bytes = 0.0
        for core in self.cores.values():
            logic += core.count * core.logic_mm2(node)
            levels = [core.l1, *([core.l2] if core.l2 is not None else [])]
            copies = [(level, -(-core.count // level.shared_by)) for level in levels]
            caches_bytes += sum(number * level.capacity_bytes for level, number in copies)
        caches_bytes += self.l3.capacity_bytes if self.l3 is not None else 0
        per_mib = sram_mm2_per_mib(node) * CACHE_OVER_SRAM if area.sram is None else area.sram
        return {
            "cores": logic,
            "caches": caches_bytes / 2**20 * per_mib,
            "dram": interface_mm2(self.dram.bandwidth_bytes_per_s, area.dram, node),
            "other": area.other,
        }

    @property
    def area_mm2(self) -> float:
        """Area of what the file describes."""
        return sum(self.area_parts_mm2.values())

    @property
    def core_count(self) -> int:
        """Number of cores of all kinds."""
        return sum(core.count for core in self.cores.values())

    @property
    def _active_shares(self) -> tuple[tuple[int, float], ...]:
        return tuple(sorted((int(number), share) for number, share in self.active_clock.items()))

    def at_work(self, active: int) -> list[tuple[CoreKind, int]]:
        """Return the kinds of cores that ``active`` threads run on, the fastest first, and how many of each."""
        found = []
        for core in self.kinds:
            used = min(core.count, active)
            active -= used
            found += [(core, used)] if used else []
        return found

    def region_ps(self, threads: int) -> float:
        """Return the overhead of a loop that is split over ``threads`` threads; 0 for one thread."""
        if threads <= 1:
            return 0.0
        if not self.fewer_threads_region:
            return self.parallel_region_ps
        stated = {int(number): taken_ps for number, taken_ps in self.fewer_threads_region.items()}
        stated[max(self.core_count, *stated, 2)] = self.parallel_region_ps
        points = sorted(stated.items())
        first, taken_ps = points[0]
        for number, more_ps in points:
            if number >= threads:
                share = 1.0 if number == first else (threads - first) / (number - first)
                return taken_ps + share * (more_ps - taken_ps)
            first, taken_ps = number, more_ps
        return taken_ps

    def active_share(self, active: int) -> float:
        """Return the share of the highest clock while ``active`` cores work, 1.0 where the machine states none."""
        shares = self._active_shares
        return next((share for number, share in shares if active <= number), shares[-1][1] if shares else 1.0)

    def clock_hz(self, core: CoreKind, active: int = 1) -> float:
        """Return the sustained clock of ``core`` while ``active`` cores work."""
        return core.clock_hz * self.sustained_factor * self.active_share(active)

    @property
    def kinds(self) -> tuple[CoreKind, ...]:
        """Kinds of cores, the fastest in a matrix product first; equal ones in the order of the file."""
        return tuple(sorted(self.cores.values(), key=lambda core: -self.products_per_s(core)))

    def products_per_s(self, core: CoreKind) -> float:
        """Return vector multiply-accumulates per second of ``core`` in a matrix product with all data in its l1.

        Loads and the front end bound it too, so that pipes that cannot be fed do not count.
        """
        step = self.simd.product_step
        return step.fma / issue_cycles(core, step) * core.clock_hz

    @property
    def sram_pj_per_byte(self) -> dict[str, float]:
        """Picojoules per byte of every cache level: as stated, or derived from their sizes."""
        first = next(iter(self.cores.values()))
        sizes = {"l1": first.l1.capacity_bytes}
        if first.l2 is not None:
            sizes["l2"] = first.l2.capacity_bytes
        if self.l3 is not None:
            sizes["l3"] = self.l3.capacity_bytes
        given = {"l1": self.energy.l1, "l2": self.energy.l2, "l3": self.energy.l3}
        return self.energy.sram_pj_per_byte(sizes, given)

    @property
    def product_types(self) -> frozenset[str]:
        """Dtypes, and pairs of dtypes, in which vector instructions multiply."""
        return frozenset(map(str, self.simd.lanes))

    def peak_macs_per_s(self, product: str) -> float:
        """Return multiply-accumulates per second at sustained clocks, of as many cores as do most together.

        These are all cores unless ``active_clock`` falls faster than their number grows; 0 for a dtype without lanes.
        """
        lanes = self.simd.lanes_of(product)
        pipes_hz = [
            self.clock_hz(core) / self.active_share(1) * core.fma_pipes
            for core in self.cores.values() for _ in range(core.count)
        ]  # fmt: skip
        pipes_hz.sort(reverse=True)
        numbers = {self.core_count, *(min(number, self.core_count) for number, _ in self._active_shares)}
        return lanes * max(self.active_share(number) * sum(pipes_hz[:number]) for number in numbers)

    def cycle_ps(self, core: CoreKind, active: int = 1) -> float:
        """Return the length of a cycle of ``core`` in picoseconds while ``active`` cores work."""
        return PS_PER_S / self.clock_hz(core, active)
