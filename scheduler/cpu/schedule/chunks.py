"""How the parallel loop of a kernel is split over threads."""

import math
from dataclasses import dataclass

from dsascape.scheduler.cpu.cost.operands import Footprints
from dsascape.scheduler.cpu.schedule.tiles import TiledLoops
from dsascape.workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class Chunks:
    """How the parallel loop of a kernel is split: equal contiguous chunks, the last perhaps shorter."""

    count: int
    iterations: int
    """Iterations of a full chunk."""
    last_iterations: int
    """Iterations of the last chunk."""
    per_dim: tuple[int, ...]
    """Tiles of a full chunk along each dimension of the sink."""
    parts: tuple[tuple[int, int], ...] = ()
    """Dimensions that chunks are split along, and the parts that this makes of each."""

    @property
    def last_share(self) -> float:
        """The last chunk's iterations by those of a full one."""
        return self.last_iterations / self.iterations

    @property
    def in_all(self) -> float:
        """All chunks together by a full one."""
        return self.count - 1 + self.last_share


def chunks_of(shape: Extents, loops: TiledLoops, threads: int) -> Chunks:
    """Return the chunks that ``threads`` make of the loops over tiles."""
    counts = [-(-size // part) for size, part in zip(shape, loops.tile(shape), strict=True)]
    fused = loops.parallel_dims
    in_all = tuple(counts)
    whole = math.prod([counts[dim] for dim in fused])
    each = -(-whole // min(threads, whole))
    number = -(-whole // each)
    left = each
    for dim in reversed(fused):
        counts[dim] = min(counts[dim], left)
        left = -(-left // counts[dim])
    parts = tuple([(dim, -(-in_all[dim] // counts[dim])) for dim in fused if in_all[dim] > 1])
    return Chunks(number, each, whole - (number - 1) * each, tuple(counts), parts)


def split_operands(found: Footprints, chunks: Chunks) -> tuple[bool, ...]:
    """Return for each operand whether chunks use different parts of it; of the others every chunk uses the same."""
    parallel = frozenset([dim for dim, _ in chunks.parts])
    return tuple([not parallel.isdisjoint(operand.depends_on) for operand in found.operands])
