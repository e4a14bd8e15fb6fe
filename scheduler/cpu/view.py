"""A CPU as its scheduler sees it, and the numbers that the scheduler is tuned with."""

from dataclasses import dataclass, field
from functools import cached_property

from hw_models import Cpu
from hw_models.cpu.caches import CacheShape
from hw_models.cpu.machine import CorePace
from hw_models.cpu.spec import Cache, CoreKind
from scheduler.cpu.tuning import CpuTuning


@dataclass(frozen=True)
class CpuView:
    """A machine and its tuning."""

    spec: Cpu
    tuning: CpuTuning = field(default_factory=CpuTuning)

    @cached_property
    def kinds(self) -> tuple[CoreKind, ...]:
        """The kinds of cores, the fastest first."""
        return self.spec.kinds

    @cached_property
    def paces(self) -> tuple[CorePace, ...]:
        """How fast cores are, by kind."""
        return tuple([CorePace(self.spec, core) for core in self.kinds])

    def on_cores(self, threads: int) -> list[tuple[CorePace, int]]:
        """Return the kinds of cores that ``threads`` run on, the fastest first, and how many of each."""
        found = []
        for pace in self.paces:
            used = min(pace.core.count, threads)
            threads -= used
            found += [(pace, used)] if used else []
        return found

    @cached_property
    def thread_counts(self) -> tuple[int, ...]:
        """How many threads a kernel may be split over: one, or all cores of the fastest kinds.

        First the number that does most arithmetic in equal chunks, which the slowest of its cores ends.
        """
        if self.tuning.threads:
            return (min(self.tuning.threads, self.spec.core_count),)
        speeds = {1: 0.0}
        threads = 0
        for core in self.kinds:
            threads += core.count
            speeds[threads] = threads * core.clock_hz * core.fma_pipes
        return tuple(sorted(speeds, key=lambda number: (-speeds[number], number)))

    def shape(self, cache: Cache) -> CacheShape:
        """Return a cache as a nest sees it."""
        lines = cache.capacity_bytes // self.spec.line_bytes
        return CacheShape(lines, max(lines // cache.associativity, 1))

    @cached_property
    def last_cache_bytes(self) -> int:
        """What the outermost cache holds that more than one core uses; 0 where there is none."""
        if self.spec.l3 is not None:
            return self.spec.l3.capacity_bytes
        shared = [core.l2 for core in self.kinds if core.l2 is not None and core.l2.shared_by > 1]
        return shared[0].capacity_bytes if shared else 0

    @cached_property
    def code_key(self) -> tuple[str, CpuTuning]:
        """What the instructions of generated code depend on."""
        return self.spec.simd.model_dump_json(), self.tuning

    @cached_property
    def timing_key(self) -> tuple[str, CpuTuning]:
        """What the time of a kernel depends on."""
        return self.spec.model_dump_json(exclude={"name", "energy"}), self.tuning

    @cached_property
    def issue_key(self) -> str:
        """What the cycles of instructions on the fastest cores depend on."""
        return self.kinds[0].model_dump_json(exclude={"count", "clock_hz", "l1", "l2", "dram_bytes_per_s"})
