"""Attention as a library computes it: a block has some queries of one head, and goes through the keys step by step.

In each step a block multiplies its queries with keys, takes exponentials of the scores by a running maximum, and
multiplies these with values (FlashAttention; cuDNN's kernels do the same). Its warps fall into groups that take turns:
products of one run while the other takes exponentials, so that a step takes as long as the longer of both, and the
first product or the last exponentials of a block are hidden by nothing. Registers and shared memory leave room for one
block on an SM, so each block's trips to memory are exposed. Where there are few heads, SMs are left without work.
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
_INSTRUCTIONS = 3.5
"""Instructions for a score beside its exponential: its maximum, scale and difference, sum, half of a conversion."""


def attention_ps(layer: Layer, view: GpuView, dram_bytes: float) -> float:
    """Return picoseconds of a library's kernel for attention, the launch included; 0 where a layer is nothing like it.

    ``dram_bytes``: moved between L2 and DRAM.
    """
    nests, spec, units = nests_of(layer), view.spec, view.tensor
    if spec.library is None or units is None or len(nests.fronts) != 1 or not nests.statistics:
        return 0.0
    scores = nests.product(layer, layer.sink.shape, nests.fronts[0])
    values = nests.product(layer, layer.sink.shape)
    if scores is None or values is None or scores.columns != nests.depth or scores.rows == 1:
        return 0.0
    sms, width = spec.sms, nests.nests[nests.anchor].reads[0].element_bytes
    blocks = scores.number * math.ceil(scores.rows / QUERIES)
    steps = math.ceil(values.depth / KEYS)
    macs_per_cycle = units.macs_per_cycle * spec.library_efficiency.get(TENSOR, 1.0)
    products = QUERIES * KEYS * (scores.depth + values.columns) / macs_per_cycle
    exponentials = QUERIES * KEYS * (1 / sms.special_per_cycle + _INSTRUCTIONS / (sms.issued_per_cycle * sms.warp))
    cycles = steps * max(products, exponentials) + min(products, exponentials)
    cycles += QUERIES * values.columns * width / spec.library.copied_bytes_per_cycle
    block_ps = spec.library.round_trips * spec.dram.latency_ps + cycles * spec.cycle_ps
    through = blocks * steps * KEYS * (scores.depth + values.columns) * width
    memory_bytes_per_s = spec.dram.sustained_bytes_per_s * spec.library_efficiency.get(MEMORY, 1.0)
    moved_ps = PS_PER_S * max(through / spec.l2.bandwidth_bytes_per_s, dram_bytes / memory_bytes_per_s)
    return spec.launch_ps + max(math.ceil(blocks / sms.count) * block_ps, moved_ps)
