"""Simulated machine of a CPU with caches: units, memories, and the cost model of a chunk of a parallel loop.

The traffic of a chunk at each level is part of its payload, computed by the scheduler (`hw_models.caches`). Private
levels bound the pace of a core; shared levels are contended for in the simulation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.hw_models.caches.lines import CacheShape
from dsascape.hw_models.common.spec_types import NETWORK_DTYPES
from dsascape.hw_models.common.summary import MachineSummary, OnChipTotal
from dsascape.hw_models.cpu.core_kinds import Behind, Cache, CoreKind
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.cpu.spec import Cpu
from dsascape.hw_models.simulation.clock import whole_ps
from dsascape.hw_models.simulation.instructions import CHIP, Compute, Launch, Payload, ProgramError
from dsascape.hw_models.simulation.machine import HardwareError, Level, Machine, Members, Memory, Serve, Service, Unit
from dsascape.hw_models.text.quantities import PS_PER_S

CORE, LAUNCH = "core", "launch"
L1, L2, L3, DRAM = "l1", "l2", "l3", "dram"


def cpu_machine(spec: Cpu) -> Machine:
    """Return the memories and units of a CPU.

    Units: ``core`` (fastest kinds first) takes chunks of parallel loops, one at a time per core; ``launch`` calls
    kernels and starts their parallel loops. Memories: ``l1``, ``l2`` (one per core if it is private, otherwise one for
    the chip), ``l3`` and ``dram``. If kinds of cores differ, the port of a private level is as wide as the widest
    of them; its own cache bounds the pace of each core, at the clock of as many active cores as a payload is `at_work`.
    """
    kinds = spec.kinds
    memories = [_cache_level(spec, L1, [(core, core.l1) for core in kinds])]
    second = [(core, core.l2) for core in kinds if core.l2 is not None]
    if second:
        memories.append(_cache_level(spec, L2, second))
    if spec.l3 is not None:
        memories.append(Memory(L3, CHIP, spec.l3_copies * spec.l3.capacity_bytes, spec.l3.bandwidth_bytes_per_s))
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
    """Return a cache level: one memory per core, or the sum of all copies if any of them is shared."""
    rates = [cache.bytes_per_cycle * spec.clock_hz(core) * _both_ways(core, name) for core, cache in copies]
    if all(cache.shared_by == 1 for _, cache in copies):
        return Memory(name, CORE, max(cache.capacity_bytes for _, cache in copies), max(rates))
    counts = [-(-core.count // cache.shared_by) for core, cache in copies]
    rates = [
        cache.whole_bytes_per_cycle * spec.clock_hz(core) * _both_ways(core, name) for core, cache in copies
    ]
    capacity = sum(count * cache.capacity_bytes for count, (_, cache) in zip(counts, copies, strict=True))
    return Memory(name, CHIP, capacity, sum(count * rate for count, rate in zip(counts, rates, strict=True)))


def _both_ways(core: CoreKind, name: str) -> float:
    """Return what the port of a cache moves, lines that are written back included, relative to lines that it reads.

    It exceeds 1 where these have a path of their own (`CoreKind.writing` below 1): as many may go each way.
    """
    return 2 / (1 + min(core.writing.get("l2", 1.0), 1.0)) if name == L2 else 1.0


def _shape(spec: Cpu, cache: Cache) -> CacheShape:
    """Return the cache's shape for the loop-nest model; if a way is larger than a page, page placement is random."""
    lines = cache.capacity_bytes // spec.line_bytes
    is_randomly_placed = cache.capacity_bytes > cache.associativity * _PAGE_BYTES
    return CacheShape(lines, max(lines // cache.associativity, 1), is_lru=False, is_randomly_placed=is_randomly_placed)


_PAGE_BYTES = 4096
"""Smallest page size: memory is contiguous within a page, whatever the system does."""


_BEHIND: tuple[Behind, ...] = ("l2", "l3", "dram")


@dataclass(frozen=True, slots=True)
class Moved:
    """Traffic of a chunk at one memory level, with shares of it from 0 to 1."""

    memory: str
    size_bytes: float
    written: float = 0.0
    """Fraction of the lines that is written back, 0 to 1."""
    scattered: float = 0.0
    """Fraction of the lines that is not sequential, 0 to 1."""
    stored: float = 0.0
    """Share due to stores: lines written back, or fetched to be written."""


Step = tuple[float, Sequence[Moved], Mapping[str, float], float]
"""Step of a chunk: issue cycles, traffic per level, per memory the share of the instructions that it overlaps with, and
the bytes that are written to lines which other cores hold."""


class CorePace:
    """Cost model of one core of a kind for chunks of work while ``active`` cores do the same, the fastest first.

    Of a level that cores share, each has what it reaches alone or its part of the whole, whichever is less.
    """

    def __init__(self, spec: Cpu, core: CoreKind, active: int = 1) -> None:
        self.spec, self.core = spec, core
        self.cycle_ps = spec.cycle_ps(core, active)
        clock_hz = spec.clock_hz(core, active)
        rates = {L1: core.l1.bytes_per_cycle * clock_hz}
        latencies = {L1: core.l1.latency_cycles * self.cycle_ps}
        at_work = spec.at_work(active)
        if core.l2 is not None:
            beside = min(core.l2.shared_by, max([number for kind, number in at_work if kind is core], default=1))
            rates[L2] = clock_hz * min(core.l2.bytes_per_cycle, core.l2.whole_bytes_per_cycle / beside)
            latencies[L2] = core.l2.latency_cycles * self.cycle_ps
        if spec.l3 is not None:
            wanted = [(spec.l3.bytes_per_cycle * spec.clock_hz(kind, active), number) for kind, number in at_work]
            rates[L3] = _part(spec.l3.bytes_per_cycle * clock_hz, wanted, spec.l3.bandwidth_bytes_per_s)
            latencies[L3] = float(spec.l3.latency_ps)
        wanted = [(kind.dram_bytes_per_s, number) for kind, number in at_work]
        rates[DRAM] = _part(core.dram_bytes_per_s, wanted, spec.dram.sustained_bytes_per_s)
        latencies[DRAM] = float(spec.dram.latency_ps)
        self.exposed: list[dict[str, float]] = [
            {name: of(name) for name in _BEHIND} for of in (core.exposed_of, core.exposed_stores_of)
        ]
        """Fraction of each memory's time that is not overlapped with arithmetic: for loads, for stores."""
        self.writing: dict[str, float] = {name: core.writing.get(name, 1.0) for name in _BEHIND}
        self.scattered: dict[str, float] = {name: core.scattered.get(name, 1.0) for name in _BEHIND}
        self.claimed_byte_ps = (spec.claimed_line_ps or 0) / spec.line_bytes
        self.bytes_per_ps = {name: rate / PS_PER_S for name, rate in rates.items()}
        self.latency_ps = latencies
        self.caches = [(_shape(spec, core.l1), 1)]
        """Cache shapes below the shared cache, innermost first, each with the number of cores that share it."""
        if core.l2 is not None:
            self.caches.append((_shape(spec, core.l2), core.l2.shared_by))

    def slowed(self, moved: Moved) -> float:
        """Return the time of ``moved`` relative to reading the same bytes in sequential lines."""
        if moved.memory == L1:
            return 1.0
        random = moved.scattered * (self.scattered[moved.memory] - 1)
        return 1 + moved.written * (self.writing[moved.memory] - 1) + random

    def chunk_ps(
        self, issue_cycles_taken: float, traffic: Sequence[Moved], meanwhile: Mapping[str, float],
        claimed_bytes: float = 0.0,
    ) -> tuple[float, float, str]:  # fmt: skip
        """Return start-up and duration (picoseconds) of a chunk, and its limiting resource: ``core`` or a memory.

        ``traffic`` is per level, innermost first. The start-up is the latency of the outermost level that moves
        anything. Then instructions are issued while data moves at all levels, and the slowest of these sets the pace. A
        memory named in ``meanwhile`` overlaps with that share of the instructions only. For the bytes that come from
        (or go to) a level and no outer one, the part that does not overlap with issuing is added. Traffic of the first
        cache is part of issuing. Stores leave the core in order, so that lines which other cores hold are claimed one
        after the other, while all else goes on.
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
        if (claimed_ps := claimed_bytes * self.claimed_byte_ps) > longest:
            longest, limit = claimed_ps, CORE
        return startup_ps, longest + exposed_ps, limit

    def moved_ps(self, moved: Moved) -> float:
        """Return the time in picoseconds that a level takes for its traffic."""
        return moved.size_bytes * self.slowed(moved) / self.bytes_per_ps[moved.memory]

    def steps_ps(self, steps: Iterable[Step]) -> tuple[float, float, str]:
        """Return start-up, duration and limiting resource of a chunk of sequential ``steps``, that of the longest."""
        startups_ps, durations_ps, limits = zip(*[self.chunk_ps(*step) for step in steps], strict=True)
        longest = max(range(len(limits)), key=durations_ps.__getitem__)
        return max(startups_ps), sum(durations_ps), limits[longest]

    def parts_ps(self, work: Compute) -> dict[str, float]:
        """Return the time in picoseconds that the core's issue, and each memory that moves anything, takes alone."""
        parts = {CORE: 0.0}
        for cycles, traffic, *_ in [self._step(each) for each in work.steps or (work,)]:
            parts[CORE] += cycles * self.cycle_ps
            for each in traffic:
                if each.size_bytes:
                    parts[each.memory] = parts.get(each.memory, 0.0) + self.moved_ps(each)
        return parts

    def work_ps(self, work: Compute) -> tuple[int, int, str]:
        """Return start-up, duration (picoseconds) and limiting resource of ``work``.

        Raises ``HardwareError`` for a dtype that the cores do not compute, ``ProgramError`` for work without
        instruction counts.
        """
        if work.dtype not in self.spec.simd.lanes:
            raise HardwareError(f"{self.spec.name}: cores compute {', '.join(self.spec.simd.lanes)}, not {work.dtype}")
        startup_ps, duration_ps, limit = self.steps_ps([self._step(each) for each in work.steps or (work,)])
        return whole_ps(startup_ps), whole_ps(duration_ps), limit

    def _step(self, work: Compute) -> Step:
        if work.issued is None:
            raise ProgramError("a core needs instruction counts; the payload has none")
        shares = [dict(each) for each in (work.issued.written, work.issued.scattered, work.issued.stored)]
        traffic = [Moved(name, size, *(share.get(name, 0.0) for share in shares)) for name, size in work.traffic]
        cycles = issue_cycles(self.core, work.issued, work.dtype)
        return cycles, traffic, dict(work.issued.meanwhile), work.issued.claimed_bytes


def _part(alone: float, wanted: Sequence[tuple[float, int]], whole: float) -> float:
    """Return what one core gets of the bandwidth ``whole`` if cores want so much each, and it ``alone``."""
    return min(alone, whole) * min(1.0, whole / sum([min(each, whole) * number for each, number in wanted]))


def _computing(spec: Cpu, core: CoreKind) -> Serve:
    paces: dict[int, CorePace] = {}
    services: dict[Payload, Service] = {}

    def serve(payload: Payload, blocks: int) -> Service:
        if not isinstance(payload, Compute):
            raise ProgramError(f"a core computes only, not {type(payload).__name__}")
        service = services.get(payload)
        if service is None:
            active = payload.at_work or spec.core_count
            pace = paces.get(active) or paces.setdefault(active, CorePace(spec, core, active))
            startup_ps, duration_ps, limit = pace.work_ps(payload)
            largest = max((size for _, size in payload.traffic), default=0)
            touches = tuple((memory, size / largest) for memory, size in payload.traffic if size)
            service = services[payload] = Service(startup_ps, duration_ps, largest, touches, limit)
        if blocks == 1:
            return service
        return replace(
            service, duration_ps=service.duration_ps * blocks, bytes_moved=service.bytes_moved * blocks
        )

    return serve


def _launching(spec: Cpu) -> Serve:
    def serve(payload: Payload, blocks: int) -> Service:
        del blocks
        if not isinstance(payload, Launch):
            raise ProgramError(f"launch starts kernels only, not {type(payload).__name__}")
        regions_ps = spec.region_ps(payload.threads) * payload.regions
        return Service(spec.kernel_call_ps + whole_ps(regions_ps), 0, 0, (), LAUNCH)

    return serve


def cpu_summary(spec: Cpu) -> MachineSummary:
    """Return a one-line summary; the peak is for the first dtype of the vector instructions."""
    dtype = next(iter(spec.simd.lanes))
    kinds = spec.kinds
    memories = [OnChipTotal(name=L1, capacity_bytes=kinds[0].l1.capacity_bytes, copies=spec.core_count)]
    if kinds[0].l2 is not None:
        copies = sum(-(-core.count // core.l2.shared_by) for core in kinds if core.l2 is not None)
        memories.append(OnChipTotal(name=L2, capacity_bytes=kinds[0].l2.capacity_bytes, copies=copies))
    if spec.l3 is not None:
        memories.append(OnChipTotal(name=L3, capacity_bytes=spec.l3.capacity_bytes, copies=spec.l3_copies))
    return MachineSummary(
        cores=spec.core_count, arrangement=" + ".join(str(core.count) for core in kinds), dtype=dtype,
        peak_macs_per_s=spec.peak_macs_per_s(dtype), on_chip=tuple(memories),
        off_chip_bytes_per_s=spec.dram.bandwidth_bytes_per_s, off_chip_efficiency=spec.dram.efficiency,
    )  # fmt: skip


def cpu_dtypes(spec: Cpu) -> frozenset[str]:
    """Return the dtypes of whole networks that the vector instructions support."""
    return frozenset(str(dtype) for dtype in spec.simd.lanes if dtype in NETWORK_DTYPES)
