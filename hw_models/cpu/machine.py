"""The units and memories of a CPU with caches, and how long its cores take for a chunk of a parallel loop.

What a chunk moves at each level is part of its payload, worked out by who made it (`hw_models.caches`). A core's
own levels bound its pace; what cores share, they contend for in the simulation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dsascape.hw_models.caches.lines import CacheShape
from dsascape.hw_models.common.summary import MachineSummary, OnChipTotal
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.cpu.spec import Behind, Cache, CoreKind, Cpu
from dsascape.hw_models.simulation.clock import whole_ps
from dsascape.hw_models.simulation.energy import EnergyModel
from dsascape.hw_models.simulation.instructions import CHIP, Compute, Launch, Payload, ProgramError
from dsascape.hw_models.simulation.machine import HardwareError, Level, Machine, Members, Memory, Serve, Service, Unit
from dsascape.hw_models.text.quantities import PS_PER_S

CORE, LAUNCH = "core", "launch"
L1, L2, L3, DRAM = "l1", "l2", "l3", "dram"


def cpu_machine(spec: Cpu) -> Machine:
    """Return the memories and units of a CPU.

    Units: ``core``, of which the fastest kinds come first, takes chunks of parallel loops, one at a time each;
    ``launch`` calls kernels and starts their parallel loops. Memories: ``l1``, ``l2`` (on the level of the cores if it
    is private, else one for all), ``l3`` and ``dram``. Where kinds of cores differ, a private level's own port is as
    wide as the widest of them; each core's pace is bounded by its own.
    """
    kinds = spec.kinds
    memories = [_cache_level(spec, L1, [(core, core.l1) for core in kinds])]
    second = [(core, core.l2) for core in kinds if core.l2 is not None]
    if second:
        memories.append(_cache_level(spec, L2, second))
    if spec.l3 is not None:
        memories.append(Memory(L3, CHIP, spec.l3.capacity_bytes, spec.l3.bandwidth_bytes_per_s))
    memories.append(Memory(DRAM, CHIP, spec.dram.capacity_bytes, spec.dram.sustained_bytes_per_s))
    cores = tuple(Members(core.count, _computing(spec, core)) for core in kinds)
    units = (
        Unit(CORE, CORE, cores, most_blocks=1),
        Unit(LAUNCH, CHIP, (Members(1, _launching(spec)),)),
    )
    return Machine(
        spec.name, (Level(CORE, spec.core_count),), {memory.name: memory for memory in memories},
        {unit.name: unit for unit in units},
    )  # fmt: skip


def _cache_level(spec: Cpu, name: str, copies: list[tuple[CoreKind, Cache]]) -> Memory:
    """Return a level of caches: one of each core's own, or all of them taken together where cores share some."""
    rates = [cache.bytes_per_cycle * spec.clock_hz(core) for core, cache in copies]
    if all(cache.shared_by == 1 for _, cache in copies):
        return Memory(name, CORE, max(cache.capacity_bytes for _, cache in copies), max(rates))
    counts = [-(-core.count // cache.shared_by) for core, cache in copies]
    capacity = sum(count * cache.capacity_bytes for count, (_, cache) in zip(counts, copies, strict=True))
    return Memory(name, CHIP, capacity, sum(count * rate for count, rate in zip(counts, rates, strict=True)))


def _shape(spec: Cpu, cache: Cache) -> CacheShape:
    """Return the cache as a nest sees it; where a way is larger than a page, pages lie in it by chance."""
    lines = cache.capacity_bytes // spec.line_bytes
    by_chance = cache.capacity_bytes > cache.associativity * _PAGE_BYTES
    return CacheShape(lines, max(lines // cache.associativity, 1), forgets_oldest=False, by_chance=by_chance)


_PAGE_BYTES = 4096
"""The smallest: what programs get of memory lies in order within it, whatever the system does."""


_BEHIND: tuple[Behind, ...] = ("l2", "l3", "dram")


@dataclass(frozen=True, slots=True)
class Moved:
    """What a level moves for a chunk, and shares of it."""

    memory: str
    size_bytes: float
    written: float = 0.0
    """Written back."""
    scattered: float = 0.0
    """Lines that do not follow the one before."""
    stored: float = 0.0
    """For stores: written back, or fetched to be written."""


Step = tuple[float, Sequence[Moved], Mapping[str, float]]
"""Cycles to issue instructions, what each level moves, and during which share of the instructions it does."""


class CorePace:
    """How fast one core of a kind does chunks when it has the machine to itself."""

    def __init__(self, spec: Cpu, core: CoreKind) -> None:
        self.spec, self.core = spec, core
        self.cycle_ps = spec.cycle_ps(core)
        clock_hz = spec.clock_hz(core)
        rates = {L1: core.l1.bytes_per_cycle * clock_hz}
        latencies = {L1: core.l1.latency_cycles * self.cycle_ps}
        if core.l2 is not None:
            rates[L2] = core.l2.bytes_per_cycle * clock_hz
            latencies[L2] = core.l2.latency_cycles * self.cycle_ps
        if spec.l3 is not None:
            rates[L3] = min(spec.l3.bytes_per_cycle * clock_hz, spec.l3.bandwidth_bytes_per_s)
            latencies[L3] = float(spec.l3.latency_ps)
        rates[DRAM] = min(core.dram_bytes_per_s, spec.dram.sustained_bytes_per_s)
        latencies[DRAM] = float(spec.dram.latency_ps)
        self.exposed: list[dict[str, float]] = [
            {name: given.get(name, 1 - core.overlap) for name in _BEHIND}
            for given in (core.exposed, core.exposed_stores)
        ]
        """What does not hide behind arithmetic of the time that a memory takes, by that time: for loads, for stores."""
        self.writing: dict[str, float] = {name: core.writing.get(name, 1.0) for name in _BEHIND}
        self.scattered: dict[str, float] = {name: core.scattered.get(name, 1.0) for name in _BEHIND}
        self.bytes_per_ps = {name: rate / PS_PER_S for name, rate in rates.items()}
        self.latency_ps = latencies
        self.caches = [(_shape(spec, core.l1), 1)]
        """Those that come before a shared one, innermost first, as a nest sees each, and how many cores share it."""
        if core.l2 is not None:
            self.caches.append((_shape(spec, core.l2), core.l2.shared_by))

    def slowed(self, moved: Moved) -> float:
        """Return the time of what a memory moves by that of reading as much in lines that follow each other."""
        if moved.memory == L1:
            return 1.0
        apart = moved.scattered * (self.scattered[moved.memory] - 1)
        return 1 + moved.written * (self.writing[moved.memory] - 1) + apart

    def chunk_ps(
        self, issue_cycles_taken: float, traffic: Sequence[Moved], meanwhile: Mapping[str, float]
    ) -> tuple[float, float, str]:
        """Return start-up and duration of a chunk that takes so many cycles to issue, and what sets its pace.

        ``traffic`` is that of each level, innermost first. The start-up is the latency of the level furthest out that
        moves anything. Then instructions are issued while data move at all levels: the slowest of these sets the pace,
        ``core`` or a memory. A memory that moves its bytes ``meanwhile`` in a share of the instructions hides behind
        these only. Of what comes from a level, and no level further out, or goes there, the part is added that does not
        hide behind issuing. What the first cache moves is part of issuing.
        """
        issue_ps, startup_ps = issue_cycles_taken * self.cycle_ps, 0.0
        limit = CORE
        for each in traffic:
            if each.size_bytes:
                startup_ps = max(startup_ps, self.latency_ps[each.memory])
                if each.memory == L1 and self.moved_ps(each) > issue_ps:
                    issue_ps, limit = self.moved_ps(each), L1
        longest, exposed_ps, further = issue_ps, 0.0, [0.0, 0.0]
        for each in reversed(traffic):
            if not each.size_bytes or each.memory == L1:
                continue
            duration, beside_ps = self.moved_ps(each), meanwhile.get(each.memory, 1.0) * issue_ps
            together = issue_ps + max(duration - beside_ps, 0.0)
            if together > longest:
                longest = together
                limit = each.memory if duration > issue_ps else limit
            for kind, share in enumerate((1 - each.stored, each.stored)):
                size = share * each.size_bytes
                if size > further[kind]:
                    own_ps = duration * (size - further[kind]) / each.size_bytes
                    exposed_ps += self.exposed[kind][each.memory] * min(own_ps, beside_ps)
                    further[kind] = size
        return startup_ps, longest + exposed_ps, limit

    def moved_ps(self, moved: Moved) -> float:
        """Return how long a level takes to move so much."""
        return moved.size_bytes * self.slowed(moved) / self.bytes_per_ps[moved.memory]

    def steps_ps(self, steps: Iterable[Step]) -> tuple[float, float, str]:
        """Return the same for a chunk that is done in ``steps``: the longest sets its pace."""
        startups_ps, durations_ps, limits = zip(*[self.chunk_ps(*step) for step in steps], strict=True)
        longest = max(range(len(limits)), key=durations_ps.__getitem__)
        return max(startups_ps), sum(durations_ps), limits[longest]

    def work_ps(self, work: Compute) -> tuple[int, int, str]:
        """Return the same for ``work``; raise ``HardwareError`` for a dtype that the cores do not compute."""
        if work.dtype not in self.spec.simd.lanes:
            raise HardwareError(f"{self.spec.name}: cores compute {', '.join(self.spec.simd.lanes)}, not {work.dtype}")
        startup_ps, duration_ps, limit = self.steps_ps([self._step(each) for each in work.steps or (work,)])
        return whole_ps(startup_ps), whole_ps(duration_ps), limit

    def _step(self, work: Compute) -> Step:
        if work.issued is None:
            raise ProgramError("a core runs instructions; the work says none")
        shares = [dict(each) for each in (work.issued.written, work.issued.scattered, work.issued.stored)]
        traffic = [Moved(name, size, *(share.get(name, 0.0) for share in shares)) for name, size in work.traffic]
        return issue_cycles(self.core, work.issued), traffic, dict(work.issued.meanwhile)


def _computing(spec: Cpu, core: CoreKind) -> Serve:
    pace = CorePace(spec, core)
    known: dict[Payload, Service] = {}

    def serve(payload: Payload, blocks: int) -> Service:
        if not isinstance(payload, Compute):
            raise ProgramError(f"a core computes only, not {type(payload).__name__}")
        found = known.get(payload)
        if found is None:
            startup_ps, duration_ps, limit = pace.work_ps(payload)
            largest = max((size for _, size in payload.traffic), default=0)
            touches = tuple((memory, size / largest) for memory, size in payload.traffic if size)
            found = known[payload] = Service(startup_ps, duration_ps, largest, touches, limit)
        if blocks == 1:
            return found
        return Service(
            found.startup_ps, found.duration_ps * blocks, found.bytes_moved * blocks, found.touches, found.limit
        )

    return serve


def _launching(spec: Cpu) -> Serve:
    def serve(payload: Payload, blocks: int) -> Service:
        del blocks
        if not isinstance(payload, Launch):
            raise ProgramError(f"launch starts kernels only, not {type(payload).__name__}")
        region_ps = spec.parallel_region_ps * payload.regions if payload.threads > 1 else 0
        return Service(spec.kernel_call_ps + region_ps, 0, 0, (), LAUNCH)

    return serve


def cpu_energy(spec: Cpu) -> EnergyModel:
    """Return the energy of a machine's operations and of the bytes in its memories."""
    return spec.energy.model(spec.name, DRAM, spec.sram_pj_per_byte)


def cpu_summary(spec: Cpu) -> MachineSummary:
    """Return the machine in one line; the peak is at the first dtype of its vector instructions."""
    dtype = next(iter(spec.simd.lanes))
    kinds = spec.kinds
    memories = [OnChipTotal(name=L1, capacity_bytes=kinds[0].l1.capacity_bytes, copies=spec.core_count)]
    if kinds[0].l2 is not None:
        copies = sum(-(-core.count // core.l2.shared_by) for core in kinds if core.l2 is not None)
        memories.append(OnChipTotal(name=L2, capacity_bytes=kinds[0].l2.capacity_bytes, copies=copies))
    if spec.l3 is not None:
        memories.append(OnChipTotal(name=L3, capacity_bytes=spec.l3.capacity_bytes, copies=1))
    return MachineSummary(
        cores=spec.core_count, arrangement=" + ".join(str(core.count) for core in kinds), dtype=dtype,
        peak_macs_per_s=spec.peak_macs_per_s(dtype), on_chip=tuple(memories),
        off_chip_bytes_per_s=spec.dram.bandwidth_bytes_per_s,
    )  # fmt: skip


def cpu_dtypes(spec: Cpu) -> frozenset[str]:
    """Return the dtypes that the vector instructions compute."""
    return frozenset(str(dtype) for dtype in spec.simd.lanes)
