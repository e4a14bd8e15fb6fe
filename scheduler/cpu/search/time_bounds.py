"""Bounds on what a kernel takes among others, without the search for its tiles.

No tiles take less than the multiply-accumulates do on full vectors. The tiles that a search finds have, of all that it
costs, the shortest time with empty caches if nothing overlaps: so one of these tells how long theirs is at most, and
with what caches have, or with fewer threads, the kernel takes no longer than that. Only what all cores move together
may take longer than the same bytes take each of them; what is left of the time beside instructions bounds these bytes.
"""

import math
from functools import partial

from dsascape.hw_models.cpu.machine import DRAM, L3
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.cost.estimate import estimate
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.search.tiling import KnownTiles, Tiling, candidates, least_rough
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.parts import parts_of

_ROUNDED = 1.001
"""What whole instructions and bytes come to is no more than that much longer."""


def least_time_of_ps(layer: Layer, dtype: str, view: CpuView) -> float:
    """Return a time that the kernel of ``layer`` takes no less than."""
    return _least_ps(_vectors(layer, dtype, view), dtype, view)


def beside_products(layer: Layer, tiling: Tiling, dtype: str, view: CpuView) -> float:
    """Return how long the instructions of the slowest core take, by what multiply-accumulates on full vectors do.

    Those are split evenly over the threads of ``tiling``; so it is 1 where registers, tiles and threads waste nothing.
    """
    pace, _ = view.on_cores(tiling.threads)[-1]
    cycles = kernel_of(layer, tiling.tiles, tiling.threads, dtype, view).chunk_cycles(pace)
    return cycles * tiling.threads * pace.core.pipes_of(dtype) / max(_vectors(layer, dtype, view), 1)


def most_time_of_ps(layer: Layer, dtype: str, view: CpuView, known: KnownTiles) -> float:
    """Return a time that the kernel of ``layer`` takes no more than; infinite if it has not just one anchor."""
    part = view.timing
    return known.most_ps.get((layer.signature, dtype, part), partial(_most_time_of_ps, layer, dtype, part))


def _most_time_of_ps(layer: Layer, dtype: str, view: CpuView) -> float:
    if len(parts_of(layer)) != 1:
        return math.inf
    tiles, *_ = least_rough(candidates(layer, dtype, view), layer, dtype, view)
    apart_ps = estimate(kernel_of(layer, tiles, view.thread_counts[0], dtype, view)).apart_ps
    return _most_ps(apart_ps, _vectors(layer, dtype, view), dtype, view) * _ROUNDED


def _vectors(layer: Layer, dtype: str, view: CpuView) -> float:
    """Return the instructions of the multiply-accumulates of ``layer`` in full vectors."""
    macs, simd = layer.whole_macs, view.spec.simd
    return macs * simd.instructions_of(dtype) / max(simd.lanes_of(dtype), 1)


def _least_ps(vectors: float, dtype: str, view: CpuView) -> float:
    """Return the shortest time of so many vectors' multiply-accumulates, on whichever number of cores is fastest."""
    spec, found = view.spec, []
    for threads in range(1, spec.core_count + 1):
        pace, _ = view.on_cores(threads)[-1]
        computing_ps = vectors / threads / pace.core.pipes_of(dtype) * pace.cycle_ps
        found.append(spec.region_ps(threads) + computing_ps)
    return spec.kernel_call_ps + min(found)


def _most_ps(apart_ps: float, vectors: float, dtype: str, view: CpuView) -> float:
    """Return the longest time of a kernel that takes no longer than ``apart_ps`` if nothing overlaps."""
    spec, threads = view.spec, view.thread_counts[0]
    cores = view.on_cores(threads)
    shared = {DRAM: float(spec.dram.sustained_bytes_per_s)}
    if spec.l3 is not None:
        shared[L3] = float(spec.l3.bandwidth_bytes_per_s)
    at_once = [
        sum([used * pace.bytes_per_ps[name] for pace, used in cores]) * PS_PER_S / rate for name, rate in shared.items()
    ]
    fastest, _ = cores[0]
    moving_ps = max(apart_ps - vectors / threads / fastest.core.pipes_of(dtype) * fastest.cycle_ps, 0.0)
    startup_ps = max([latency for pace, _ in cores for latency in pace.latency_ps.values()])
    return startup_ps + max(apart_ps, max(at_once) * moving_ps)
