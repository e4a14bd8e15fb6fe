"""Attention as a library computes it: a block has some queries of one head, and goes through the keys step by step.

In each step a block multiplies its queries with keys, takes exponentials of the scores by a running maximum, and
multiplies these with values (FlashAttention; cuDNN's kernels do the same). Its warps fall into groups that take turns:
products of one run while the other takes exponentials, so that a step takes as long as the longer of both, and the
first product or the last exponentials of a block are hidden by nothing. Registers and shared memory leave room for one
block on an SM, so each block's trips to memory are exposed. Where heads leave SMs without work, as when tokens are
decoded, blocks share the keys of a head, and a second kernel combines what they have (FlashAttention's split keys).
"""

import math

from dsascape.hw_models.common.spec_types import MEMORY, TENSOR
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer

QUERIES = KEYS = 128
"""Queries of a block and keys of a step, as in the kernels of FlashAttention 2 and 3 for heads of 64 (`launch_template`
and `tile_size` there); queries and keys beyond the last are computed too."""
FEW_QUERIES = 64
"""Queries of a block of its kernels for split keys, where there are no more of them."""
_MOST_SPLITS = 128
"""Blocks that share the keys of a head at most (`num_splits_heuristic` there)."""
_BUSY = 0.8
"""Share of the SMs from which no keys are shared, as there."""
_SUM_BYTES = 4
_INSTRUCTIONS = 3.5
"""Instructions for a score beside its exponential: its maximum, scale and difference, sum, half of a conversion."""


def attention_ps(layer: Layer, view: GpuView, dram_bytes: float) -> float:
    """Return picoseconds of a library's kernel for attention, the launch included; 0 where a layer is nothing like it.

    ``dram_bytes``: moved between L2 and DRAM.
    """
    nests, spec, units, library = nests_of(layer), view.spec, view.tensor, view.spec.library
    if library is None or units is None or len(nests.fronts) != 1 or not nests.statistics:
        return 0.0
    scores = nests.product(layer, layer.sink.shape, nests.fronts[0])
    values = nests.product(layer, layer.sink.shape)
    if scores is None or values is None or scores.columns != nests.depth or scores.rows == 1:
        return 0.0
    sms, width = spec.sms, nests.nests[nests.anchor].reads[0].element_bytes
    queries = FEW_QUERIES if scores.rows <= FEW_QUERIES else QUERIES
    blocks = scores.number * math.ceil(scores.rows / queries)
    steps = math.ceil(values.depth / KEYS)
    macs_per_cycle = units.macs_per_cycle * spec.library_efficiency.get(TENSOR, 1.0)
    products = queries * KEYS * (scores.depth + values.columns) / macs_per_cycle
    exponentials = queries * KEYS * (1 / sms.special_per_cycle + _INSTRUCTIONS / (sms.issued_per_cycle * sms.warp))
    through = blocks * steps * KEYS * (scores.depth + values.columns) * width
    memory_bytes_per_s = spec.dram.sustained_bytes_per_s * spec.library_efficiency.get(MEMORY, 1.0)
    moved_ps = PS_PER_S * max(through / spec.l2.bandwidth_bytes_per_s, dram_bytes / memory_bytes_per_s)

    def taken_ps(splits: int) -> float:
        """Return the time where so many blocks share the keys, the kernel that combines their results included."""
        written = _SUM_BYTES if splits > 1 else width
        cycles = math.ceil(steps / splits) * max(products, exponentials) + min(products, exponentials)
        cycles += queries * values.columns * written / library.copied_bytes_per_cycle
        block_ps = library.round_trips * spec.dram.latency_ps + cycles * spec.cycle_ps
        kernel_ps = spec.launch_ps + max(math.ceil(blocks * splits / sms.count) * block_ps, moved_ps)
        if splits == 1:
            return kernel_ps
        handed_over = scores.number * scores.rows * (values.columns + 1) * splits * 2 * _SUM_BYTES
        combined_ps = handed_over * PS_PER_S / spec.l2.bandwidth_bytes_per_s
        return kernel_ps + spec.launch_ps + 2 * spec.l2.latency_ps + combined_ps

    most = min(steps, _MOST_SPLITS) if blocks < _BUSY * sms.count else 1
    return min([taken_ps(splits) for splits in range(1, most + 1)])
