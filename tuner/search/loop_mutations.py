"""Decisions about a program for a CPU besides sizes of tiles: places, what is parallel, what is written out.

Mutations change one of them; a beam search makes one after the other. A mutation returns a legal program, or None where
what it chose to change has no other value or makes no legal program.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import Parallel, PartialSums, Steps, UnrollReduction
from dsascape.tuner.search.genes import step_of, tile_groups, with_step
from dsascape.tuner.search.kinds.kind import Decision
from dsascape.tuner.search.locations import flexible
from dsascape.tuner.search.mutations import Mutation, tile_size
from dsascape.tuner.search.space import Program, Space


def parallel_granularity(space: Space, steps: Steps, rng: random.Random) -> Program | None:
    """Fuse one more of a stage's outermost loops into the parallel one, or one less."""
    stages = [stage for stage in space.roots(steps) if space.most_parallel(steps, stage) > 1]
    if not stages:
        return None
    stage = rng.choice(stages)
    step, most = step_of(steps, stage, Parallel), space.most_parallel(steps, stage)
    own = 0 if step is None else step.loops
    near = [each for each in (own - 1, own + 1) if 1 <= each <= most]
    return space.completed(with_step(steps, Parallel(stage, rng.choice(near)))) if near else None


def pragma(space: Space, steps: Steps, rng: random.Random) -> Program | None:
    """Draw the unrolling of a stage anew, or the number of its partial sums."""
    group = rng.choice(tile_groups(steps))
    sums = step_of(steps, group.inner, PartialSums)
    if sums is not None:
        count = rng.choice(space.sums_counts(steps, sums))
        return space.completed(with_step(steps, replace(sums, count=count)))
    if group.inner.endswith(SUMS) and rng.random() < 1 / 2:
        factor = rng.choice(space.reduction_factors(steps, group))
        return space.completed(with_step(steps, UnrollReduction(group.inner, factor)))
    return space.completed(space.unrolled(steps, group, rng))


def location(space: Space, steps: Steps, rng: random.Random) -> Program | None:
    """Compute a flexible node inside of other loops, or by itself."""
    stages = flexible(space.nodes, steps) if space.options.locations else ()
    if not stages:
        return None
    stage = rng.choice(stages)
    changed = space.moved(steps, stage, rng)
    if stage in space.roots(changed):
        most = space.most_parallel(changed, stage)
        changed = with_step(changed, Parallel(stage, rng.randint(min(1, most), most)))
    return space.completed(changed)


LOOP_MUTATIONS: tuple[tuple[Mutation[Space], float], ...] = (
    (tile_size, 0.90), (parallel_granularity, 0.01), (pragma, 0.04), (location, 0.05),
)  # fmt: skip
"""Mutations, and how often each is chosen: TVM's defaults."""


def loop_decisions(space: Space, steps: Steps) -> Iterator[Decision]:
    """Yield places, what is parallel, what is written out."""
    if space.options.locations:
        for stage in flexible(space.nodes, steps):
            yield partial(_placed, space, stage)
    yield partial(_parallel, space)
    for number, _ in enumerate(tile_groups(steps)):
        yield partial(_unrolled, space, number)


def _placed(space: Space, stage: str, steps: Steps, rng: random.Random) -> Steps:
    return space.moved(steps, stage, rng)


def _parallel(space: Space, steps: Steps, rng: random.Random) -> Steps:
    for stage in space.roots(steps):
        most = space.most_parallel(steps, stage)
        steps = with_step(steps, Parallel(stage, rng.randint(min(1, most), most)))
    return steps


def _unrolled(space: Space, number: int, steps: Steps, rng: random.Random) -> Steps:
    return space.unrolled(steps, tile_groups(steps)[number], rng)
