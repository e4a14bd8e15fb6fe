"""Steps as genes: those of one stage found, replaced and taken away, and chains of tile levels that belong together.

The consumer of a tiled node has the outer levels of its tiles; the node has the others. Both make one chain for each
dimension: factors whose product is the dimension, outermost first.
"""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import Axes, ComputeAt, Level, Step, Steps, Tile

StepT = TypeVar("StepT", bound=Step)
Factors = tuple[int, ...]


def step_of(steps: Sequence[Step], stage: str, kind: type[StepT]) -> StepT | None:
    """Return the step of that kind that a stage has, the last of several; None where it has none."""
    return next((step for step in reversed(steps) if step.stage == stage and isinstance(step, kind)), None)


def with_step(steps: Steps, step: Step) -> Steps:
    """Return ``steps`` with ``step`` in place of that of the same kind and stage, or behind all where there is none."""
    places = [number for number, each in enumerate(steps) if each.stage == step.stage and type(each) is type(step)]
    if not places:
        return (*steps, step)
    return tuple([step if number == places[-1] else each for number, each in enumerate(steps)])


def without(steps: Steps, stage: str, kind: type[Step]) -> Steps:
    """Return ``steps`` less those of a kind that a stage has."""
    return tuple([step for step in steps if step.stage != stage or not isinstance(step, kind)])


@dataclass(frozen=True)
class TileGroup:
    """Levels of tiles that belong together: those of a consumer, then those of the node that is fused into it."""

    inner: str
    """The stage whose innermost level it is."""
    consumer: str
    """The stage that has the outer levels; that itself where it is alone."""
    space: tuple[tuple[str, int], ...]
    """Stage and number of each level of space loops, outermost first; the innermost level is not among them."""
    reductions: tuple[tuple[str, int], ...]
    """Stage and number of each level of reduction loops, outermost first; the last goes through single iterations."""

    def levels(self, axes: Axes) -> tuple[tuple[str, int], ...]:
        """Return the levels of space loops, or of reduction loops."""
        return self.space if axes == "space" else self.reductions

    @property
    def is_multi_level(self) -> bool:
        """Whether it is that of a node with data reuse: more levels of reductions than one, or of space alone."""
        return len(self.reductions) > 1 or (not self.inner.endswith(SUMS) and len(self.space) > 1)


def tile_groups(steps: Steps) -> tuple[TileGroup, ...]:
    """Return the groups of levels that ``steps`` have, in the order in which their consumers are listed."""
    tiles = {step.stage: step for step in steps if isinstance(step, Tile)}
    inner_of = {}
    for step in steps:
        if isinstance(step, ComputeAt) and step.stage in tiles and step.consumer in tiles and is_fused(steps, step):
            inner_of[step.consumer] = step.stage
    found = []
    for name in tiles:
        if name in inner_of.values():
            continue
        inner = inner_of.get(name, name)
        levels = [
            (stage, number, level.axes)
            for stage in dict.fromkeys((name, inner))
            for number, level in enumerate(tiles[stage].levels)
        ]
        found.append(TileGroup(
            inner, name, tuple([(stage, number) for stage, number, axes in levels if axes == "space"]),
            tuple([(stage, number) for stage, number, axes in levels if axes == "reduction"]),
        ))  # fmt: skip
    return tuple(found)


def is_fused(steps: Steps, step: ComputeAt) -> bool:
    """Whether a stage of sums is computed inside of all levels of tiles of what finishes it."""
    consumer = step_of(steps, step.consumer, Tile)
    return step.stage.endswith(SUMS) and consumer is not None and step.loops == slots(consumer)


def slots(tile: Tile) -> int:
    """Return the loops of all levels of a stage."""
    return sum([len(level.order) for level in tile.levels])


def factors_of(steps: Steps, levels: Sequence[tuple[str, int]], axis: int, extent: int, *, is_open: bool) -> Factors:
    """Return the factors of an axis, outermost first; none where sizes are no multiples of each other.

    ``is_open``: an innermost level follows those that are listed, as in space. The outermost tile may stick out.
    """
    sizes = []
    for stage, number in levels:
        level = _level(steps, stage, number)
        sizes.append(_size(level, axis))
    sizes += [1] if is_open else []
    if not sizes or any(outer % inner for outer, inner in itertools.pairwise(sizes)):
        return ()
    found = [-(-extent // sizes[0]), *[outer // inner for outer, inner in itertools.pairwise(sizes)]]
    return tuple(found) if is_open or sizes[-1] == 1 else ()


def with_factors(
    steps: Steps, levels: Sequence[tuple[str, int]], chosen: Mapping[int, Factors]
) -> Steps:
    """Return ``steps`` with sizes of ``levels`` that follow from the factors of each axis."""
    sizes: dict[tuple[str, int], dict[int, int]] = {place: {} for place in levels}
    for axis, factors in chosen.items():
        inside = 1
        for factor in factors[len(levels) :]:
            inside *= factor
        for place, factor in zip(reversed(levels), reversed(factors[: len(levels)]), strict=True):
            sizes[place][axis] = inside
            inside *= factor
    for (stage, number), own in sizes.items():
        tile = step_of(steps, stage, Tile)
        assert tile is not None
        level = tile.levels[number]
        changed = replace(level, sizes=tuple([own[axis] for axis in level.order]))
        steps = with_step(
            steps, replace(tile, levels=(*tile.levels[:number], changed, *tile.levels[number + 1 :]))
        )  # fmt: skip
    return steps


def with_axis(steps: Steps, levels: Sequence[tuple[str, int]], axis: int, factors: Factors) -> Steps:
    """Return ``steps`` with other sizes of one axis in all levels that have it."""
    inside = 1
    for factor in factors[len(levels) :]:
        inside *= factor
    for (stage, number), factor in zip(reversed(levels), reversed(factors[: len(levels)]), strict=True):
        tile = step_of(steps, stage, Tile)
        assert tile is not None
        level = tile.levels[number]
        if level.sizes is not None and axis in level.order:
            place = level.order.index(axis)
            sizes = (*level.sizes[:place], inside, *level.sizes[place + 1 :])
            changed = (*tile.levels[:number], replace(level, sizes=sizes), *tile.levels[number + 1 :])
            steps = with_step(steps, replace(tile, levels=changed))
        inside *= factor
    return steps


def innermost_sizes(steps: Steps, group: TileGroup, shape: Sequence[int]) -> dict[int, int]:
    """Return what the innermost level covers of each dimension."""
    if not group.space:
        return dict(enumerate(shape))
    level = _level(steps, *group.space[-1])
    assert level.sizes is not None
    return dict(zip(level.order, level.sizes, strict=True))


def _level(steps: Steps, stage: str, number: int) -> Level:
    tile = step_of(steps, stage, Tile)
    assert tile is not None
    return tile.levels[number]


def _size(level: Level, axis: int) -> int:
    if level.sizes is None or axis not in level.order:
        return 1
    return level.sizes[level.order.index(axis)]


def drawn_factors(rng: random.Random, extent: int, count: int, most: int) -> Factors:
    """Return ``count`` factors that make ``extent``, drawn uniformly from all whose last is at most ``most``.

    The times that a prime divides the extent are spread over the factors, each way as likely as any other; what is too
    large at the end is drawn again. A single factor is the extent, whatever that is.
    """
    if count == 1:
        return (extent,)
    primes = _primes(extent)
    for _ in range(_DRAWS):
        found = [1] * count
        for prime, times in primes:
            ends = sorted(rng.sample(range(times + count - 1), count - 1))
            for place, (begin, end) in enumerate(itertools.pairwise((-1, *ends, times + count - 1))):
                found[place] *= prime ** (end - begin - 1)
        if found[-1] <= most:
            return tuple(found)
    return (extent, *[1] * (count - 1))


_DRAWS = 1000
"""Draws before factors count as too large at the end."""


@lru_cache(maxsize=4096)
def _primes(number: int) -> tuple[tuple[int, int], ...]:
    """Return the primes that divide a number, and how many times each does."""
    found = []
    prime = 2
    while number > 1:
        if prime * prime > number:
            prime = number
        times = 0
        while number % prime == 0:
            number //= prime
            times += 1
        if times:
            found.append((prime, times))
        prime += 1
    return tuple(found)
