"""Changes of a program by one decision, and programs of two parents (Ansor, section 5.1): on any kind of machine.

Each returns a legal program, or None where what it chose to change has no other value or makes no legal program.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import (
    CacheRead,
    ComputeAt,
    Inline,
    PartialSums,
    Step,
    Steps,
    Tile,
)
from dsascape.scheduler.parts import divisors
from dsascape.tuner.search.genes import (
    Factors,
    TileGroup,
    factors_of,
    is_fused,
    slots,
    step_of,
    with_axis,
)
from dsascape.tuner.search.space import INNERMOST, Program, Space

SpaceT = TypeVar("SpaceT", bound=Space)
Mutation: TypeAlias = Callable[[SpaceT, Steps, random.Random], Program | None]
"""Change of one decision of a program, drawn at random."""


def tile_size(space: Space, steps: Steps, rng: random.Random) -> Program | None:
    """Move a factor of one dimension or reduction from one level of tiles to another: the product stays."""
    groups = [group for group in space.groups(steps) if step_of(steps, group.inner, PartialSums) is None]
    if not groups:
        return None
    group = rng.choice(groups)
    choices = [*_chains(space, steps, group)]
    if not choices:
        return None
    is_space, axis, factors = rng.choice(choices)
    source = rng.choice([place for place, factor in enumerate(factors) if factor > 1])
    target = rng.choice([place for place in range(len(factors)) if place != source])
    part = rng.choice([each for each in divisors(factors[source]) if each > 1])
    changed = list(factors)
    changed[source] //= part
    changed[target] *= part
    if is_space and changed[-1] > INNERMOST:
        return None
    levels = group.levels("space" if is_space else "reduction")
    return space.completed(with_axis(steps, levels, axis, tuple(changed)))


def _chains(space: Space, steps: Steps, group: TileGroup) -> Iterable[tuple[bool, int, Factors]]:
    """Yield the axes of a group that have a factor to move: whether it is a dimension, which one, its factors."""
    for axis, extent in enumerate(space.extents(steps, group)):
        factors = factors_of(steps, group.space, axis, extent, is_open=True)
        if len(factors) > 1 and max(factors) > 1:
            yield True, axis, factors
    for axis, extent in space.reductions(group).items():
        factors = factors_of(steps, group.reductions, axis, extent, is_open=False)
        if len(factors) > 1 and max(factors) > 1:
            yield False, axis, factors


def drawn(
    space: SpaceT, mutations: Sequence[tuple[Mutation[SpaceT], float]], steps: Steps, rng: random.Random
) -> Program | None:
    """Return a program with one decision changed, by one of pairs (mutation, how often it is chosen)."""
    (mutation,) = rng.choices([each for each, _ in mutations], [weight for _, weight in mutations])
    return mutation(space, steps, rng)


def crossed(space: Space, one: Steps, other: Steps, rng: random.Random) -> Program | None:
    """Return a program whose nodes have the steps of one parent each, chosen at random.

    Nodes that either parent fuses have the same parent, as the levels of a consumer and of what is fused into it belong
    together. Places that a consumer from the other parent does not have are moved to the nearest that it has.
    """
    clusters = _clusters(space, (one, other))
    chosen = [(cluster, one if rng.random() < 1 / 2 else other) for cluster in clusters]
    found: list[Step] = []
    for cluster, parent in chosen:
        copies = {step.stage for step in parent if isinstance(step, CacheRead) and _node(step.reader) in cluster}
        found += [step for step in parent if _node(step.stage) in cluster or step.stage in copies]
    return put_together(space, found)


def put_together(space: Space, steps: Sequence[Step]) -> Program | None:
    """Return the program of steps of nodes that were decided apart from each other; None where it is not legal.

    Copies and what is inlined come first, and places are moved to the nearest that there is.
    """
    named = [step for step in steps if isinstance(step, CacheRead | Inline)]
    return space.completed(_adjusted((*named, *[step for step in steps if step not in named])))


def _adjusted(steps: Steps) -> Steps:
    """Return ``steps`` with places that there are: consumers with loops, and no more loops than those have."""
    inlined = {step.stage for step in steps if isinstance(step, Inline)}
    found: list[Step] = []
    for step in steps:
        if isinstance(step, ComputeAt):
            tile = step_of(steps, step.consumer, Tile)
            if tile is None or step.consumer in inlined:
                continue
            found.append(replace(step, loops=min(step.loops, slots(tile))))
        else:
            found.append(step)
    return tuple(found)


def _node(stage: str) -> str:
    return stage.removesuffix(SUMS)


def _clusters(space: Space, parents: Sequence[Steps]) -> list[set[str]]:
    """Return the nodes in sets that have one parent together: those that are fused in any of ``parents``."""
    clusters = [{name} for name in space.nodes.names if space.nodes.by_name[name].stage is not None]
    for steps in parents:
        inlined = {step.stage for step in steps if isinstance(step, Inline)}
        links = [(_node(s.stage), s.consumer) for s in steps if isinstance(s, ComputeAt) and is_fused(steps, s)]
        links += [(name, reader) for name in inlined for reader in space.nodes.readers[name]]
        for link in links:
            joined = [cluster for cluster in clusters if cluster & set(link)]
            clusters = [cluster for cluster in clusters if cluster not in joined]
            clusters.append(set().union(*joined))
    order = {name: number for number, name in enumerate(space.nodes.names)}
    return sorted(clusters, key=lambda cluster: min(order[name] for name in cluster))
