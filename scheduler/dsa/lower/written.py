"""Instructions of layer runs, stored by the arguments that they are a function of.

Runs that differ only in the rates of DDR mostly have equal instructions: burst sizes that lead to the same bursts are
one argument (`smallest_burst_bytes`), and fetches of staged operands are coalesced into bursts afterwards.
"""

from typing import NamedTuple

from dsascape.scheduler.dsa.lower.bursts import Bursts, bursts_of, staged_burst_bytes
from dsascape.scheduler.dsa.lower.code import RunCode, Target
from dsascape.scheduler.dsa.lower.emit import Emitting, Transfers
from dsascape.scheduler.dsa.lower.layer import WrittenLayer, written_layer
from dsascape.scheduler.dsa.lower.prefetch import PrefetchUse
from dsascape.scheduler.dsa.lower.stores import smallest_burst_bytes
from dsascape.scheduler.dsa.lower.tile_waits import Waits
from dsascape.scheduler.dsa.placing.needs import outermost_memory
from dsascape.scheduler.dsa.view import DDR
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.programs.fragments import FragmentWriter
from dsascape.workloads.memo import memoized

_MOST_LAYERS = 4_000
"""Size of the cache of lowered layers per network; each may have hundreds of instructions."""

Shares = tuple[tuple[str, float], ...]
"""Fraction of the output that goes to each memory, 0 to 1."""


class BurstSizes(NamedTuple):
    """Sizes that bursts are cut to, in bytes."""

    loaded: int
    """DMA bursts that load weights and staged operands."""
    stored: int
    """Bursts of output tiles."""
    prefetch_buffer: int
    """Global prefetch buffer; 0 without one."""


@memoized(most=_MOST_LAYERS)
def written_run(
    layer: Layer, code: RunCode, waits: Waits, shares: Shares, sizes: BurstSizes, target: Target
) -> WrittenLayer:
    """Return the instructions of a layer run. ``waits``: producer tiles that each tile waits for."""
    execution = code.execution(layer)
    stored_bytes = sizes.stored if outermost_memory(dict(shares)) == DDR else 0
    stored_bytes = smallest_burst_bytes(layer, code, execution.tiling, dict(shares), stored_bytes)
    bursts = bursts_of(layer, code, sizes.loaded, sizes.prefetch_buffer, stored_bytes)
    written = _written(layer, code, waits, shares, bursts, target)
    staged_bytes = staged_burst_bytes(execution, sizes.loaded)
    return written.in_bursts(staged_bytes) if staged_bytes else written


@memoized(most=_MOST_LAYERS)
def _written(
    layer: Layer, code: RunCode, waits: Waits, shares: Shares, bursts: Bursts, target: Target
) -> WrittenLayer:
    """Return the instructions of a layer run before its fetches of staged operands are coalesced."""
    writer = FragmentWriter()
    emitting = Emitting(
        writer, Transfers(writer, layer, code.cores, target.paths), target.rates, target.paths, layer, code,
        code.execution(layer), dict(shares), outermost_memory(dict(shares)), bursts, target.dtype,
    )  # fmt: skip
    return written_layer(emitting, PrefetchUse(writer) if target.prefetches else None, waits)
