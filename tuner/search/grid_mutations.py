"""Decisions about a program for a GPU besides sizes of tiles: copies, rows, shares, threads.

Mutations change one of them; a beam search makes one after the other. A mutation returns a legal program, or None where
what it chose to change has no other value or makes no legal program.
"""

import random
from collections.abc import Iterator
from functools import partial

from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import ShareReduction, Steps, Tile
from dsascape.tuner.search.genes import step_of
from dsascape.tuner.search.grid_space import GridSpace
from dsascape.tuner.search.kinds.kind import Decision
from dsascape.tuner.search.mutations import Mutation, tile_size
from dsascape.tuner.search.space import Program


def copied_operands(grid: GridSpace, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew whether a product's operands are copied to shared memory, and how many steps ahead."""
    tensors = [tensor for tensor in grid.held.nests if grid.goes_in_steps(steps, tensor)]
    return grid.completed(grid.staged(steps, rng.choice(tensors), rng)) if tensors else None


def padded_rows(grid: GridSpace, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew how rows of the copies in shared memory are padded."""
    program = grid.built(steps)
    changed = None if program is None else grid.padded(program, rng)
    return None if changed is None or changed.steps == steps else changed


def shared_reduction(grid: GridSpace, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew how many threads, or blocks, share a reduction."""
    tensors = [
        tensor for tensor in grid.held.nests
        if step_of(steps, tensor + SUMS, ShareReduction) is not None or grid.goes_in_steps(steps, tensor)
    ]  # fmt: skip
    return grid.completed(grid.shared(steps, rng.choice(tensors), rng)) if tensors else None


def threads_of_block(grid: GridSpace, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew how many threads a block has at least."""
    changed = grid.crowded(steps, rng)
    return None if changed == steps else grid.completed(changed)


def order_of_blocks(grid: GridSpace, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew in which order blocks are numbered."""
    changed = grid.reordered(steps, rng)
    return None if changed == steps else grid.completed(changed)


GRID_MUTATIONS: tuple[tuple[Mutation[GridSpace], float], ...] = (
    (tile_size, 0.90), (copied_operands, 0.03), (padded_rows, 0.02), (shared_reduction, 0.02), (threads_of_block, 0.01),
    (order_of_blocks, 0.02),
)  # fmt: skip
"""Mutations, and how often each is chosen: TVM's defaults, whose tenth for unrolling is shared out among the others, as
parts of threads are always unrolled."""


def grid_decisions(grid: GridSpace, steps: Steps) -> Iterator[Decision]:
    """Yield copies of operands, who shares reductions, the least threads of a block, the order of blocks."""
    for tensor in grid.held.nests:
        if step_of(steps, tensor + SUMS, Tile) is not None:
            yield partial(_staged, grid, tensor)
            yield partial(_shared, grid, tensor)
    yield grid.crowded
    yield grid.reordered


def _staged(grid: GridSpace, tensor: str, steps: Steps, rng: random.Random) -> Steps:
    return grid.staged(steps, tensor, rng)


def _shared(grid: GridSpace, tensor: str, steps: Steps, rng: random.Random) -> Steps:
    return grid.shared(steps, tensor, rng)
