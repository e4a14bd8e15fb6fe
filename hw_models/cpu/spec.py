"""CPU with caches: cores of one or several kinds, private and shared cache levels, DRAM.

The abstraction is that of a phone's or a server's processor running a thread pool: the chunks of parallel loops are
distributed over cores of different kinds (big and LITTLE), and every level between a core's registers and DRAM has a
size and a bandwidth. Figures of a real part belong in its YAML file, with their source.
"""

import itertools
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dsascape.hw_models.common.cached_parts import CachedArea, Dram, LaneEnergy
from dsascape.hw_models.common.interface import interface_mm2
from dsascape.hw_models.common.machine_spec import MachineSpec
from dsascape.hw_models.common.product_types import operands_of
from dsascape.hw_models.common.silicon import CACHE_OVER_SRAM, sram_mm2_per_mib
from dsascape.hw_models.common.spec_types import Efficiency
from dsascape.hw_models.cpu.core_kinds import ActiveCores, CoreKind, KindName, SharedCache, Simd
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.text.quantities import (
    PS_PER_S,
    Bytes,
    PicojoulesOrByCore,
    PicojoulesPerByteOrBySize,
    Picoseconds,
)
from dsascape.wording import count


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
    """Overhead of a split loop on fewer threads than there are cores, by their number: ``{2: 1 us, 8: 2 us}``. On
    numbers in between it is interpolated, on fewer than the least that of the least, on all cores
    ``parallel_region``."""
    library_region: dict[ActiveCores, Picoseconds] = Field(default_factory=dict)
    """What each loop that a library's runtime splits costs beyond its parts, by number of threads: ``{4: 45 us, 8:
    150 us}``. That is waking threads and waiting for the last, and what rises with it: lines that pass from core to
    core, parts that are not equal. On numbers in between it is interpolated, from nothing on one thread; beyond the
    largest it grows on as before it. The expected latency has it where it exceeds the overhead of generated code
    (``parallel_region``); the bound does not."""
    claimed_line_ps: Picoseconds | None = Field(None, alias="claimed_line")
    """Time that a core's stores take for each line of a stream of lines which caches of other cores hold, as these have
    read or written them before, and have to give up. ``null``: not measured, and taken to cost nothing beyond what
    moves."""
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
    def _has_lanes_for_products(self) -> "Cpu":
        stated = {"simd.product_instructions": self.simd.product_instructions}
        stated |= {f"cores.{name}.product_pipes": core.product_pipes for name, core in self.cores.items()}
        for place, values in stated.items():
            for product in values:
                if product not in self.simd.lanes:
                    raise ValueError(f"{place} has {product}; simd.lanes has {', '.join(self.simd.lanes)} only")
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
        if self.l3 is not None:
            sharing = min(self.l3.shared_by or self.core_count, self.core_count)
            if self.l3.capacity_bytes < self.line_bytes * sharing:
                raise ValueError(
                    f"l3.capacity is {self.l3.capacity_bytes} B; needs a line for each of the"
                    f" {count(sharing, 'core')}, of {self.line_bytes} B, at least"
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
        caches_bytes += self.l3_copies * self.l3.capacity_bytes if self.l3 is not None else 0
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
    def l3_copies(self) -> int:
        """Number of copies of the shared cache, one for each group of cores that share one; 1 without such a cache."""
        shared_by = None if self.l3 is None else self.l3.shared_by
        return 1 if shared_by is None else -(-self.core_count // shared_by)

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

    @property
    def states_libraries(self) -> bool:
        return super().states_libraries or bool(self.library_region)

    def library_regions_ps(self, threads: int, regions: int) -> float:
        if threads <= 1 or not self.library_region:
            return 0.0
        points = [(1, 0.0), *sorted((int(number), float(each)) for number, each in self.library_region.items())]
        beyond = next((place for place, (number, _) in enumerate(points) if number >= threads), len(points) - 1)
        (first, first_ps), (last, last_ps) = points[max(beyond, 1) - 1], points[max(beyond, 1)]
        each_ps = first_ps + (threads - first) / max(last - first, 1) * (last_ps - first_ps)
        return max(each_ps - self.region_ps(threads), 0.0) * regions

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
            sizes["l3"] = self.l3_copies * self.l3.capacity_bytes
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
        lanes = self.simd.lanes_of(product) / self.simd.instructions_of(product)
        pipes_hz = [
            self.clock_hz(core) / self.active_share(1) * core.pipes_of(product)
            for core in self.cores.values() for _ in range(core.count)
        ]  # fmt: skip
        pipes_hz.sort(reverse=True)
        numbers = {self.core_count, *(min(number, self.core_count) for number, _ in self._active_shares)}
        return lanes * max(self.active_share(number) * sum(pipes_hz[:number]) for number in numbers)

    def cycle_ps(self, core: CoreKind, active: int = 1) -> float:
        """Return the length of a cycle of ``core`` in picoseconds while ``active`` cores work."""
        return PS_PER_S / self.clock_hz(core, active)
