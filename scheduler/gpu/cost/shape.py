"""The grid of a loop program: what a block computes of the sink, in which order blocks run, and what they share."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import cast

from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.gpu.tiles import blocks_along
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.columns import Size, by_row, chosen, least, most, row_of
from dsascape.scheduler.kernels.loops.nodes import SUMS, Loop, Statement, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class GridShape:
    """What the traffic between SMs, L2 and DRAM depends on; for several candidates its sizes are columns."""

    tile: Extents
    """Elements of each dimension of the sink that a block computes; the last blocks may have fewer."""
    order: tuple[int, ...]
    """The dimensions of the grid; blocks are handed out along the last one fastest."""
    blocks: int
    """Blocks that have something to do: a mask may leave some without."""
    threads: int
    """Threads of a block."""
    shares: int = 1
    """Blocks that share the reduction of each tile."""
    depth_step: int | None = None
    """Iterations of the longest reduction of the largest product that are staged in shared memory at a time; None:
    operands come straight from the caches."""
    stages: int = 1
    """Steps that are in shared memory or on their way at a time."""
    cluster: Extents = ()
    """Blocks of each dimension that form a cluster and share their loads; empty: none do."""

    def rows(self, count: int) -> Iterator["GridShape"]:
        """Yield the shape of each of ``count`` candidates."""
        for row in range(count):
            tile, cluster = [tuple([row_of(size, row) for size in each]) for each in (self.tile, self.cluster)]
            blocks, threads, shares, stages = [
                row_of(size, row) for size in (self.blocks, self.threads, self.shares, self.stages)
            ]
            step = None if self.depth_step is None else row_of(self.depth_step, row)
            own = cluster if math.prod(cluster) > 1 else ()
            yield GridShape(tile, self.order, blocks, threads, shares, step, stages, own)


def shape_of(layer: Layer, program: LoopProgram) -> GridShape:
    """Return the grid of ``program``, which computes ``layer``.

    Raises ``StepError`` where the sink is computed in no loops of blocks and threads.
    """
    around, sink = _statement(program, layer.sink.name, "store")
    blocks, threads = around[0], [loop for loop in around if loop.kind == "thread"]
    if blocks.kind != "block" or not threads:
        raise StepError(f"{layer.sink.name} is computed in no loops of blocks and threads")
    along = [dict(each.terms) for each in sink.element]
    of_grid = dict(blocks.fused or ((blocks.name, blocks.extent),))
    tile = tuple([
        _tile(terms, each, size, of_grid, program.extents)
        for terms, each, size in zip(along, sink.element, layer.sink.shape, strict=True)
    ])  # fmt: skip
    numbered = [dim for loop in of_grid for dim, terms in enumerate(along) if loop in terms]
    others = [dim for dim in range(len(tile)) if dim not in numbered]
    moving = {loop for each in along for loop in each}
    shares = math.prod([extent for loop, extent in of_grid.items() if loop not in moving])

    def computed(*tile: int) -> int:
        return math.prod(blocks_along(layer.computed_part(layer.sink.shape, tile), tile))

    return GridShape(
        tile, tuple(dict.fromkeys([*others, *numbered])), by_row(computed, *tile) * shares, program.threads, shares,
        _depth_step(layer, program), reduce(most, [buffer.slots for buffer in program.buffers]),
        _cluster(blocks, along),
    )  # fmt: skip


def _tile(
    strides: Mapping[str, int], element: Affine, size: int, of_grid: Mapping[str, int], extents: Mapping[str, int]
) -> int:  # fmt: skip
    """Return how many elements of a dimension a block computes: as many as the grid's innermost loop along it skips."""
    own = {name: extent for name, extent in extents.items() if name not in of_grid}
    low, end = Affine(0, tuple([term for term in element.terms if term[0] in own])).span(own)
    along = [loop for loop in of_grid if loop in strides]
    tile = size if along else least(end - low, size)
    for loop in along:
        tile = chosen(of_grid[loop] > 1, least(tile, strides[loop]), tile)
    return tile


def _cluster(blocks: Loop, along: Sequence[Mapping[str, int]]) -> Extents:
    own = tuple([math.prod([count for name, count in blocks.cluster if name in terms]) for terms in along])
    return own if blocks.cluster else ()


def _depth_step(layer: Layer, program: LoopProgram) -> int | None:
    """Return the step in which blocks advance through the depth of the largest product."""
    nests = nests_of(layer)
    if nests.largest < 0:
        return None
    written = [each.nest.write.tensor for each in reversed(layer.nests) if not each.is_view]
    name, depth = written[nests.largest] + SUMS, nests.nests[nests.largest].depth_loop
    if depth is None or all(stage.name != name for stage in program.stages):
        return None
    around, statement = _statement(program, name, "update")
    strides = dict(dict(statement.reduced).get(depth, Affine()).terms)
    copies = [program.buffer(copy) for copy in program.copies(name).values()]
    staged = [buffer for buffer in copies if buffer.scope == "shared" and program.stage(buffer.name).kind == "copy"]

    def step(inside: str) -> Size:
        found: Size = nests.nests[nests.largest].depth
        for loop in around:
            found = chosen(loop.extent > 1, strides.get(loop.name, nests.nests[nests.largest].depth), found)
            if loop.name == inside:
                return found
        return nests.nests[nests.largest].depth

    return cast(int, reduce(least, map(step, [buffer.inside for buffer in staged]))) if staged else None  # or a column


def _statement(program: LoopProgram, stage: str, role: str) -> tuple[tuple[Loop, ...], Statement]:
    for around, each in statements_of(program.body):
        if each.stage == stage and each.role == role:
            return around, each
    raise StepError(f"{stage} has no loops of its own")
