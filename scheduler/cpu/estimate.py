"""How long a kernel takes on a machine that begins with empty caches, and what it takes at least."""

from dataclasses import dataclass

from hw_models.cpu.machine import DRAM, L1, L3
from hw_models.quantities import PS_PER_S
from scheduler.cpu.tiled_kernel import TiledKernel


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a kernel takes on a machine that begins with empty caches."""

    time_ps: float
    """From its call: the slowest core, or what all move at a shared level."""
    apart_ps: float
    """The same if nothing overlapped: instructions, and what each level moves, one after the other."""
    moved_bytes: tuple[float, ...]
    """At each level behind a cache, outermost first."""


def estimate(kernel: TiledKernel) -> Estimate:
    """Return the estimate of ``kernel``."""
    view, chunks = kernel.view, kernel.chunks
    spec, line_bytes = view.spec, view.spec.line_bytes
    moved = dict.fromkeys(view.caches, 0.0)
    longest = apart = 0.0
    for pace, used in view.on_cores(chunks.count):
        levels = zip(moved, kernel.levels(pace, used), strict=True)
        traffic = [(name, passed.total * line_bytes) for name, passed in levels]
        traffic.append((L1, kernel.chunk_register_bytes))
        cycles = kernel.chunk_cycles(pace)
        startup_ps, duration_ps, _ = pace.chunk_ps(cycles, traffic, dict(kernel.meanwhile))
        longest = max(longest, startup_ps + duration_ps)
        apart = max(apart, cycles * pace.cycle_ps + sum([size / pace.bytes_per_ps[name] for name, size in traffic]))
        for name, size in traffic[:-1]:
            moved[name] += used * size
    longest = max(longest, moved[DRAM] / spec.dram.sustained_bytes_per_s * PS_PER_S)
    if spec.l3 is not None:
        longest = max(longest, moved[L3] / spec.l3.bandwidth_bytes_per_s * PS_PER_S)
    called_ps = _called_ps(kernel)
    return Estimate(called_ps + longest, called_ps + apart, tuple(reversed(moved.values())))


def takes_more_apart(kernel: TiledKernel, limit_ps: float) -> bool:
    """Whether `Estimate.apart_ps` is sure to be more than ``limit_ps``.

    What one core needs is added up, the slowest first, level by level outwards: what levels further out pass on is only
    worked out where the sum is still below.
    """
    view = kernel.view
    line_bytes, limit_ps = view.spec.line_bytes, limit_ps * _ROUNDING
    for pace, used in reversed(view.on_cores(kernel.chunks.count)):
        least_ps = _called_ps(kernel) + kernel.chunk_cycles(pace) * pace.cycle_ps
        least_ps += kernel.chunk_register_bytes / pace.bytes_per_ps[L1]
        if least_ps > limit_ps:
            return True
        for name, passed in zip(view.caches, kernel.levels(pace, used), strict=True):
            least_ps += passed.total * line_bytes / pace.bytes_per_ps[name]
            if least_ps > limit_ps:
                return True
    return False


_ROUNDING = 1 + 1e-9
"""The same numbers added up in another order come to no more than this share above."""


def least_time_ps(kernel: TiledKernel) -> float:
    """Return what `Estimate.time_ps` is not less than: the instructions of the slowest core."""
    paces = [pace for pace, _ in kernel.view.on_cores(kernel.chunks.count)]
    return _called_ps(kernel) + max([kernel.chunk_cycles(pace) * pace.cycle_ps for pace in paces])


def _called_ps(kernel: TiledKernel) -> int:
    spec = kernel.view.spec
    return spec.kernel_call_ps + (spec.parallel_region_ps if kernel.chunks.count > 1 else 0)
