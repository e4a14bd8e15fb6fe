"""Places where flexible nodes can be computed: copies, and nodes that have loops of their own and are no result."""

from collections.abc import Iterator, Sequence

from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import CacheRead, ComputeAt, Inline, Steps, Tile
from dsascape.tuner.search.analysis import KernelNodes
from dsascape.tuner.search.genes import slots, step_of, tile_groups, with_step, without

Place = tuple[str, int]
"""A consumer, and how many of its loops a node is computed inside of."""


def flexible(nodes: KernelNodes, steps: Steps) -> tuple[str, ...]:
    """Return the stages that can move, readers before what they read."""
    copies = [step.stage for step in steps if isinstance(step, CacheRead)]
    own = [
        group.consumer
        for group in tile_groups(steps)
        if not group.consumer.endswith(SUMS) and not nodes.by_name[group.consumer].is_result
    ]
    rank = {name: number for number, name in enumerate(nodes.names)}
    behind = {step.stage: rank[step.reader.removesuffix(SUMS)] for step in steps if isinstance(step, CacheRead)}
    order = {**{name: 2 * rank[name] for name in own}, **{name: 2 * behind[name] - 1 for name in copies}}
    return tuple(sorted(order, key=lambda name: -order[name]))


def places(nodes: KernelNodes, steps: Steps, stage: str) -> list[Place]:
    """Return the loops that a stage may be computed inside of: those that all of its readers are in."""
    found: list[Place] | None = None
    for reader in sorted(_readers(nodes, steps, stage)):
        own = list(_around(steps, reader))
        found = own if found is None else [place for place in found if place in own]
    return found or []


def moved(steps: Steps, stage: str, place: Place | None) -> Steps:
    """Return ``steps`` with a stage in another place; None: by itself, in front of what reads it."""
    if place is None:
        return without(steps, stage, ComputeAt)
    return with_step(steps, ComputeAt(stage, *place))


def _around(steps: Steps, reader: str) -> Iterator[Place]:
    """Yield the loops of a reader, then those of what it is computed inside of, as far in as it is."""
    tile = step_of(steps, reader, Tile)
    inside = 0 if tile is None else slots(tile)
    at: ComputeAt | None = ComputeAt(reader, reader, inside)
    while at is not None:
        yield from ((at.consumer, loops) for loops in range(1, at.loops + 1))
        at = step_of(steps, at.consumer, ComputeAt)


def _readers(nodes: KernelNodes, steps: Steps, stage: str) -> set[str]:
    """Return the stages with loops of their own that read a stage, also by what is inlined into them."""
    copies = {step.stage: step.reader for step in steps if isinstance(step, CacheRead)}
    if stage in copies:
        return {copies[stage]}
    inlined = {step.stage for step in steps if isinstance(step, Inline)}
    found: set[str] = set()
    for name in nodes.readers.get(stage, ()):
        for reader in _stages_reading(nodes, name, stage):
            copy = _copy_of(steps, stage, reader)
            if copy is not None:
                found.add(copy)
            elif reader in inlined:
                found |= _readers(nodes, steps, reader)
            else:
                found.add(reader)
    return found


def _stages_reading(nodes: KernelNodes, name: str, tensor: str) -> Iterator[str]:
    """Yield the sums of a node, or the node itself, or both, if they read a tensor."""
    stages = nodes.naive.stages
    for stage in (name + SUMS, name):
        if stage in nodes.naive.readers.get(tensor, ()) and stage in stages:
            yield stage


def _copy_of(steps: Sequence[object], tensor: str, reader: str) -> str | None:
    copies = [each for each in steps if isinstance(each, CacheRead)]
    return next((each.stage for each in copies if (each.tensor, each.reader) == (tensor, reader)), None)
