"""Changes of a program for a GPU by one decision each, besides sizes of tiles: copies, rows, shares, threads.

Each returns a legal program, or None where what it chose to change has no other value or makes no legal program.
"""

import random

from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import ShareReduction, Steps
from dsascape.tuner.search.genes import step_of
from dsascape.tuner.search.grid_space import GridSpace
from dsascape.tuner.search.space import Program, Space


def copied_operands(space: Space, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew whether a product's operands are copied to shared memory, and how many steps ahead."""
    grid = _grid(space)
    tensors = [tensor for tensor in grid.held.nests if grid.goes_in_steps(steps, tensor)]
    return grid.completed(grid.staged(steps, rng.choice(tensors), rng)) if tensors else None


def padded_rows(space: Space, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew how rows of the copies in shared memory are padded."""
    grid = _grid(space)
    program = grid.built(steps)
    changed = None if program is None else grid.padded(program, rng)
    return None if changed is None or changed.steps == steps else changed


def shared_reduction(space: Space, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew how many threads, or blocks, share a reduction."""
    grid = _grid(space)
    tensors = [
        tensor for tensor in grid.held.nests
        if step_of(steps, tensor + SUMS, ShareReduction) is not None or grid.goes_in_steps(steps, tensor)
    ]  # fmt: skip
    return grid.completed(grid.shared(steps, rng.choice(tensors), rng)) if tensors else None


def threads_of_block(space: Space, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew how many threads a block has at least."""
    grid = _grid(space)
    changed = grid.crowded(steps, rng)
    return None if changed == steps else grid.completed(changed)


def order_of_blocks(space: Space, steps: Steps, rng: random.Random) -> Program | None:
    """Draw anew in which order blocks are numbered."""
    grid = _grid(space)
    changed = grid.reordered(steps, rng)
    return None if changed == steps else grid.completed(changed)


def _grid(space: Space) -> GridSpace:
    assert isinstance(space, GridSpace)
    return space
