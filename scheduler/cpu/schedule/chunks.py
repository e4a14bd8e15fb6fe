"""How the parallel loop of a kernel is split over threads."""

import math
from dataclasses import dataclass

from dsascape.scheduler.cpu.schedule.tiles import TiledLoops
from dsascape.scheduler.kernels.operands import Footprints
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
    densities: tuple[float, ...] = ()
    """Work of an iteration of each chunk by that of one in the mean, where a mask makes them differ; empty: alike."""

    @property
    def heaviest(self) -> float:
        """The work of the chunk that has most by that of a full one in the mean."""
        return max([self.share(number) * each for number, each in enumerate(self.densities)], default=1.0)

    def density(self, number: int) -> float:
        """Return the work of an iteration of chunk ``number`` by that of one in the mean."""
        return self.densities[number] if number < len(self.densities) else 1.0

    @property
    def last_share(self) -> float:
        """The last chunk's iterations by those of a full one."""
        return self.last_iterations / self.iterations

    @property
    def in_all(self) -> float:
        """All chunks together by a full one."""
        return self.count - 1 + self.last_share

    def share(self, number: int) -> float:
        """Return the iterations of chunk ``number``, from 0, by those of a full one; 0 where there is no such chunk."""
        return 0.0 if number >= self.count else self.last_share if number == self.count - 1 else 1.0


def chunks_of(shape: Extents, loops: TiledLoops, threads: int) -> Chunks:
    """Return the chunks that ``threads`` make of the loops over tiles.

    Loops along one dimension that are split over threads together count as one.
    """
    tile, covered = loops.tile(shape), list(shape)
    for dim, inside in loops.loops[: loops.parallel]:
        covered[dim] = inside
    fused = tuple(reversed(dict.fromkeys(reversed(loops.parallel_dims))))
    iterations = {dim: -(-shape[dim] // covered[dim]) for dim in fused}
    whole = math.prod(iterations.values())
    each = -(-whole // min(threads, whole))
    number = -(-whole // each)
    counts, left = [-(-size // part) for size, part in zip(shape, tile, strict=True)], each
    parts: dict[int, int] = {}
    for dim in reversed(fused):
        own = min(iterations[dim], left)
        left = -(-left // own)
        counts[dim] = min(counts[dim], own * -(-covered[dim] // tile[dim]))
        parts[dim] = -(-iterations[dim] // own)
    split = tuple([(dim, parts[dim]) for dim in fused if iterations[dim] > 1])
    return Chunks(number, each, whole - (number - 1) * each, tuple(counts), split)


def split_operands(found: Footprints, chunks: Chunks) -> tuple[bool, ...]:
    """Return for each operand whether chunks use different parts of it; of the others every chunk uses the same."""
    parallel = frozenset([dim for dim, _ in chunks.parts])
    return tuple([not parallel.isdisjoint(operand.depends_on) for operand in found.operands])
