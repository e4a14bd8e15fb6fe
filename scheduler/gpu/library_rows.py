"""Softmax and layer norm as PyTorch computes them: a row at a time, read as often as its kernel passes over it.

Rows of at most 1024 elements lie in the registers of a warp while it computes their softmax. Other rows are read from
memory by every pass: a softmax has three of them, for the maximum, the sum and the results, a layer norm two. Between
two passes over a row, all other blocks have read theirs and written a part of the results: where that is little, the L2
still has the row, and where it is much, it comes from DRAM again. Kernels and blocks are those of PyTorch 2.1
(``PersistentSoftmax.cuh``, ``SoftMax.cu``, ``layer_norm_kernel.cu`` of ATen).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dsascape.fusion.eager import EAGER
from dsascape.hw_models import Gpu
from dsascape.hw_models.common.spec_types import MEMORY
from dsascape.hw_models.gpu.sm import DRAM
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.lower import works
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer

_MOST_IN_REGISTERS = 1024
"""Elements of the longest row whose softmax a warp computes in its registers."""
_VECTOR = 4
"""Elements that a thread of a block loads at once."""
_MOST_THREADS = 1024
_NORM_THREADS = 128
"""Threads of a block of a layer norm."""
_KEPT_BELOW, _LOST_ABOVE = 0.5, 1.2
"""Bytes between two passes over a row, by the capacity of the L2, up to which it has the row, and from which it has
not: between them the share falls evenly, as with layer norms of a T4 of NeuSight's data set (docs/gpu-kernels.md)."""


class Rows(NamedTuple):
    """Kernel that computes rows."""

    number: int
    row_bytes: float
    """Bytes of a row, read or written."""
    passes: int
    """Reads of a row."""
    threads: int
    """Threads of the block of a row."""


def with_rows(times: Sequence[float], schedule: GpuSchedule, view: GpuView) -> list[float]:
    """Return ``times`` of a library's kernels with those of rows added, in picoseconds, if PyTorch calls them."""
    all_rows = [rows_of(kernel.layer) if schedule.policy == EAGER else None for kernel in schedule.runs]
    if not any(all_rows):
        return list(times)
    found = []
    for time, rows, work in zip(times, all_rows, works(schedule, view), strict=True):
        dram_bytes = dict(work.payload.traffic)[DRAM] * work.blocks
        found.append(time if time or rows is None else rows_ps(rows, view.spec, dram_bytes))
    return found


def rows_ps(rows: Rows, spec: Gpu, dram_bytes: float) -> float:
    """Return picoseconds of a kernel for rows, the launch included.

    ``dram_bytes``: moved between L2 and DRAM if no pass but the first reads from DRAM.
    """
    again_bytes = rows.number * rows.row_bytes * (rows.passes - 1) * (1 - kept_share(rows, spec))
    per_s = spec.dram.sustained_bytes_per_s * spec.library_efficiency.get(MEMORY, 1.0)
    return spec.launch_ps + spec.dram.latency_ps + (dram_bytes + again_bytes) * PS_PER_S / per_s


def kept_share(rows: Rows, spec: Gpu) -> float:
    """Return the share of a row that the L2 has when a kernel passes over it again."""
    held = min(spec.sms.threads // rows.threads, spec.sms.blocks) * spec.sms.count
    between = min(held, rows.number) * rows.row_bytes * (1 + 1 / rows.passes) / spec.l2.capacity_bytes
    return min(max((_LOST_ABOVE - between) / (_LOST_ABOVE - _KEPT_BELOW), 0.0), 1.0)


def rows_of(layer: Layer) -> Rows | None:
    """Return the kernel of a layer that is a softmax or a layer norm along the last dimension; None for all else."""
    nests = nests_of(layer)
    own = [each.nest for each in layer.nests if not each.is_view]
    shape = layer.sink.shape
    if nests.anchor >= 0 or not nests.statistics or nests.fronts or not own:
        return None
    sums = [nest for nest in own if nest.has_reduction]
    if any(nest.reads[0].shape != shape or nest.write.shape != (*shape[:-1], 1) for nest in sums):
        return None
    length, is_softmax = shape[-1], any(nest.running for nest in sums)
    row_bytes = length * float(layer.described(own[0].write.tensor).element_bytes)
    number = math.prod(shape[:-1])
    if not is_softmax:
        return Rows(number, row_bytes, 2, _NORM_THREADS)
    if length <= _MOST_IN_REGISTERS:
        return Rows(number, row_bytes, 1, 32)
    threads = 32
    while threads < min(length // _VECTOR, _MOST_THREADS) / 2:
        threads *= 2
    return Rows(number, row_bytes, 3, threads)
