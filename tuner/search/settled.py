"""What follows from sizes and locations: memory of sums, layouts of weights, unrolling that is too much.

Mutations and crossover change what is drawn; this brings the steps that depend on it in line.
"""

import math

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Stage
from dsascape.scheduler.kernels.loops.steps import (
    CacheRead,
    ComputeAt,
    Layout,
    Parallel,
    PartialSums,
    Steps,
    Tile,
    Unroll,
    UnrollReduction,
    Vectorise,
)
from dsascape.tuner.search.genes import TileGroup, innermost_sizes, step_of, tile_groups, with_step, without
from dsascape.tuner.search.layouts import layouts

UNROLLED = (0, 16, 64, 512)
"""Statements that unrolled loops may make of one: the values that are drawn, as in TVM."""
MOST_UNROLLED = max(UNROLLED)

_IN_REGISTERS = 1024
"""Most sums that are kept in registers, as far as the compiler has any: memory of the thread's stack behind them."""


def settled(naive: NaiveProgram, steps: Steps, *, has_layouts: bool = True) -> Steps:
    """Return ``steps`` with all that follows from sizes and locations set anew."""
    for group in tile_groups(steps):
        stage = naive.stages.get(group.inner)
        if stage is None:
            continue
        steps = _with_scope(steps, group)
        steps = _with_less_unrolled(steps, group, stage)
        steps = _with_layouts(naive, steps, group, stage, has_layouts=has_layouts)
    inside = {step.stage for step in steps if isinstance(step, ComputeAt)}
    return tuple([step for step in steps if not (isinstance(step, Parallel) and step.stage in inside)])


def statements(steps: Steps, group: TileGroup, stage: Stage) -> int:
    """Return the statements that the innermost level would make of one if all its loops were unrolled."""
    sizes = innermost_sizes(steps, group, stage.shape)
    vector = step_of(steps, stage.name, Vectorise)
    inner = next((dim for dim in reversed(stage.order) if sizes.get(dim, 1) > 1), -1)
    lanes = 1 if vector is None or inner < 0 else math.gcd(sizes[inner], vector.lanes)
    return math.prod(sizes.values()) // lanes


def _with_scope(steps: Steps, group: TileGroup) -> Steps:
    """Return steps in which sums are in registers where no loop over parts of them is around their reduction."""
    at = step_of(steps, group.inner, ComputeAt)
    if group.inner == group.consumer or at is None:
        return steps
    own = [number for stage, number in group.space if stage == group.inner]
    tile, outer = step_of(steps, group.inner, Tile), step_of(steps, group.consumer, Tile)
    assert tile is not None
    assert outer is not None
    covered = outer.levels[-1].sizes if outer.levels else None
    counts = [tile.levels[number].sizes for number in own]
    is_whole = covered is not None and all(sizes == covered for sizes in counts)
    is_whole = is_whole and covered is not None and math.prod(covered) <= _IN_REGISTERS
    return with_step(steps, ComputeAt(at.stage, at.consumer, at.loops, "register" if is_whole else "stack", at.rounded))


def _with_less_unrolled(steps: Steps, group: TileGroup, stage: Stage) -> Steps:
    """Return steps without unrolling that makes more statements than it may."""
    unroll, written_out = step_of(steps, stage.name, Unroll), step_of(steps, stage.name, UnrollReduction)
    own = 1 if step_of(steps, stage.name, PartialSums) is not None else statements(steps, group, stage)
    most = MOST_UNROLLED if unroll is None or not unroll.most else unroll.most
    if unroll is not None and own > most:
        steps, own = without(steps, stage.name, Unroll), 1
    if written_out is not None and (written_out.factor == 1 or own * written_out.factor > MOST_UNROLLED):
        steps = without(steps, stage.name, UnrollReduction)
    return steps


def _with_layouts(
    naive: NaiveProgram, steps: Steps, group: TileGroup, stage: Stage, *, has_layouts: bool
) -> Steps:
    """Return steps in which weights lie as the tiles need them, where they did or the node has several levels.

    The built-in choice has weights in panels even where one level of reductions is all that it has.
    """
    had = step_of(steps, stage.name, Layout) is not None
    steps = without(steps, stage.name, Layout)
    if not has_layouts or not (had or group.is_multi_level):
        return steps
    copied = {step.tensor for step in steps if isinstance(step, CacheRead) and step.reader == stage.name}
    return (*steps, *[each for each in layouts(naive, steps, group, stage) if each.tensor not in copied])
