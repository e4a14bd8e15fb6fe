"""How long a kernel takes with empty caches, what it takes at least, and what it takes among others."""

from collections.abc import Mapping
from dataclasses import dataclass

from dsascape.hw_models import Cpu
from dsascape.hw_models.caches.lines import random_placement_hit_rate
from dsascape.hw_models.cpu.machine import DRAM, L3
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.cost.tiled_kernel import SplitKernel
from dsascape.scheduler.cpu.cost.work import Found, KernelWork, held_by_others, kernel_work
from dsascape.scheduler.cpu.view import CacheSize, CpuView
from dsascape.scheduler.kernels.footprints import footprints_of
from dsascape.scheduler.kernels.operands import Footprints


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a kernel takes on a machine that begins with empty caches."""

    time_ps: float
    """From its call: the slowest core, or what all move at a shared level."""
    apart_ps: float
    """The same if nothing overlapped: instructions, and what each level moves, one after the other."""
    moved_bytes: tuple[float, ...]
    """At each level behind a cache, outermost first."""


def estimate(kernel: SplitKernel) -> Estimate:
    """Return the estimate of ``kernel``."""
    view, threads = kernel.view, kernel.threads
    spec = view.spec
    moved = dict.fromkeys(view.caches, 0.0)
    longest = apart = 0.0
    for pace, used in view.on_cores(threads):
        steps = kernel.steps(pace, used)
        startup_ps, duration_ps, _ = pace.steps_ps(steps)
        longest, own_ps = max(longest, startup_ps + duration_ps), 0.0
        for (cycles, traffic, *_), own in zip(steps, kernel.of_parts, strict=True):
            own_ps += cycles * pace.cycle_ps + sum([pace.moved_ps(each) for each in traffic])
            for each in traffic[1:]:
                moved[each.memory] += used * each.size_bytes / own.heaviest
        apart = max(apart, own_ps)
    longest = max(longest, _shared_ps(spec, moved))
    called_ps = _called_ps(spec, threads, kernel.regions)
    return Estimate(called_ps + longest, called_ps + apart, tuple(reversed(moved.values())))


def handed_over(footprints: Footprints, scratch: int, threads: int, cache: CacheSize) -> Found:
    """Return what a kernel finds if the one before it has made what it reads, and the one behind it reads its results.

    Those are taken to touch as much as this one does, ``scratch`` bytes of what its parts hand on among it; weights are
    not there. Their cores have each used a part of what this one writes.
    """
    touched = sum([operand.used_bytes for operand in footprints.operands]) + scratch
    parts = cache.copies(threads)
    left = random_placement_hit_rate(touched / (cache.capacity_bytes * parts))
    share = left / parts
    operands = [(place, operand) for place, operand in enumerate(footprints.operands) if not operand.array.is_packed]
    results = [(place, operand) for place, operand in operands if operand.is_written]
    return Found(
        tuple([(place, share) for place, _ in operands]), tuple([(place, share) for place, _ in results]),
        (share, share), left * held_by_others(1.0, parts) * sum([operand.used_bytes for _, operand in results]),
    )  # fmt: skip


def among_others_ps(kernel: SplitKernel) -> float:
    """Return how long a kernel takes as one of many, whose operands are in caches as far as they fit."""
    found = footprints_of(kernel.layer)
    work = kernel_work(kernel).with_found({
        name: handed_over(found, kernel.traffic.scratch_bytes, kernel.threads, cache)
        for name, cache in kernel.view.caches.items()
    })  # fmt: skip
    return time_ps(work, kernel.view)


def time_ps(work: KernelWork, view: CpuView) -> float:
    """Return how long a kernel takes from its call if no other is at work: its slowest core, or a shared level."""
    spec = view.spec
    paces = [pace for pace, used in view.on_cores(work.threads) for _ in range(used)]
    moved = dict.fromkeys(view.caches, 0.0)
    longest, given = 0.0, 0
    for each in work.chunks:
        startup_ps, duration_ps, _ = paces[given].work_ps(each.payload)
        longest = max(longest, startup_ps + duration_ps)
        given += each.count
        for name, size in each.payload.traffic:
            if name in moved:
                moved[name] += size * each.count
    return _called_ps(spec, work.threads, work.regions) + max(longest, _shared_ps(spec, moved))


def _called_ps(spec: Cpu, threads: int, regions: int) -> float:
    return spec.kernel_call_ps + spec.region_ps(threads) * regions


def _shared_ps(spec: Cpu, moved: Mapping[str, float]) -> float:
    """Return how long what all cores share takes to move so many bytes."""
    dram_ps = moved[DRAM] / spec.dram.sustained_bytes_per_s * PS_PER_S
    return dram_ps if spec.l3 is None else max(dram_ps, moved[L3] / spec.l3.bandwidth_bytes_per_s * PS_PER_S)
