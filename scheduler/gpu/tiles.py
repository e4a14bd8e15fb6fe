"""How one layer is computed on a GPU: the grid of thread blocks, and what a block's threads do."""

import math
from dataclasses import dataclass
from typing import Literal

from dsascape.scheduler.kernels.loops.columns import anywhere
from dsascape.wording import count
from dsascape.workloads.loopnest import Extents

ComputeUnit = Literal["lanes", "tensor"]


@dataclass(frozen=True, slots=True)
class FrontTiles:
    """Tiles of a contraction in front of the last one, for what a block needs of it.

    All threads of the block do it together, before the last contraction begins; the result lies in shared memory. The
    elements that the tile needs are cut into parts, which threads (warps, on tensor units) take in turns: as many parts
    at a time as there are threads. Where operands are staged, each turn stages what its elements need, step by step.
    """

    part: Extents
    """Elements of each dimension of the contraction's result that one thread computes; on tensor units, one warp."""
    depth_step: int | None
    """Iterations of its longest reduction loop that are staged in shared memory at a time; None: operands come straight
    from the caches."""
    unit: ComputeUnit
    """Unit for its multiply-accumulates."""
    at_once: Extents | None = None
    """Elements of each dimension whose operands are staged together, all steps of the depth, before those of the next
    ones are; None: all that the tile needs, or nothing is staged."""

    def __post_init__(self) -> None:
        _check_unit(self.unit, self.depth_step)
        if self.at_once is not None and self.depth_step is None:
            raise ValueError(f"the box {self.at_once} is computed at once, but nothing is staged for it")
        if self.at_once is not None and (
            len(self.at_once) != len(self.part)
            or any(anywhere(part > size) for part, size in zip(self.part, self.at_once, strict=True))
        ):
            raise ValueError(f"part {self.part} is larger than what is computed at once, {self.at_once}")


@dataclass(frozen=True, slots=True)
class GpuTiles:
    """The loops around a layer's sink, the last output of its fused operators; its dimensions are numbered as stored.

    Its sizes may be columns of those of several candidates (`scheduler.kernels.loops.columns`).

    From outside: the grid, one block for each tile; inside a block the contractions in front of the anchor, the last
    contraction, one after the other; then the loop over steps of the anchor's depth, each staged in shared memory
    before it is used; inside that each thread's part of the tile, its sums in registers. What the layer computes before
    a contraction is computed where it is staged, or in shared memory where a reduction makes it; what follows the
    anchor (bias, activation) is computed on the sums.
    """

    tile: Extents
    """Elements of each dimension of the sink that a block computes; the last ones may have fewer."""
    order: tuple[int, ...]
    """The dimensions of the grid; blocks are numbered, and handed out, along the last one fastest."""
    part: Extents
    """Elements of each dimension that one thread computes; on tensor units, that one warp does."""
    split: int
    """Threads (warps) that share the reduction of one part, each taking some of its iterations."""
    depth_step: int | None
    """Iterations of the anchor's longest reduction loop that are staged in shared memory at a time; None: operands
    come straight from the caches."""
    stages: int
    """Steps that are in shared memory or on their way at a time."""
    unit: ComputeUnit
    """Unit for the anchor's multiply-accumulates."""
    shares: int = 1
    """Blocks that share the reduction of each tile, each taking some of its iterations; the last of them to end puts
    their partial results together."""
    fronts: tuple[FrontTiles, ...] = ()
    """Tiles of the contractions in front of the last one, first to last; `depth_step` and `unit` are those of the last.
    Of reductions that are no contractions, statistics of rows for example, threads share out the elements, and the
    reduction of each where there are more threads (`scheduler.gpu.staging.sharing`)."""
    stream: int | None = None
    """Iterations of the anchor's depth for which fronts and statistics are computed at a time (`Layer.streamed`): a
    block adds up what they give before it begins with the next ones. None: all of them first."""
    cluster: Extents = ()
    """Blocks of each dimension that form a cluster and share their loads (`scheduler.gpu.clusters`); empty: none do."""

    def __post_init__(self) -> None:
        dims = len(self.tile)
        if sorted(self.order) != list(range(dims)) or len(self.part) != dims:
            raise ValueError(f"tiles of {count(dims, 'dimension')} have order {self.order}, part {self.part}")
        if any(anywhere(small > large) for small, large in zip(self.part, self.tile, strict=True)):
            raise ValueError(f"part {self.part} is larger than tile {self.tile}")
        if anywhere(self.shares < 1) or (anywhere(self.shares > 1) and self.depth_step is not None):
            raise ValueError(f"{count(self.shares, 'block')} share a reduction; needs at least one, and nothing staged")
        if self.cluster and (len(self.cluster) != dims or self.unit != "tensor"):
            raise ValueError(f"cluster {self.cluster}: needs blocks of {count(dims, 'dimension')}, on tensor units")
        _check_unit(self.unit, self.depth_step)

    def blocks_along(self, shape: Extents) -> Extents:
        """Return the blocks of the grid along each dimension."""
        return blocks_along(shape, self.tile)

    def parts(self, tile: Extents) -> int:
        """Return the parts of a whole or an edge ``tile``."""
        return math.prod([-(-size // part) for size, part in zip(tile, self.part, strict=True)])

    def threads(self, warp: int) -> int:
        """Return the threads of a block, whole warps of ``warp``."""
        each = self.parts(self.tile) * self.split * (warp if self.unit == "tensor" else 1)
        return -(-each // warp) * warp


def blocks_along(shape: Extents, tile: Extents) -> Extents:
    """Return the blocks along each dimension of a grid whose blocks compute ``tile`` of ``shape``."""
    return tuple([-(-size // part) for size, part in zip(shape, tile, strict=True)])


def _check_unit(unit: ComputeUnit, depth_step: int | None) -> None:
    if unit == "tensor" and depth_step is None:
        raise ValueError("tensor units take their operands from shared memory; depth_step is missing")
