"""Beam search over incomplete programs: one decision after the other, the least promising programs given up early.

It is what Ansor is compared with (Fig. 7), after the auto-scheduler of Halide. An incomplete program has the decisions
so far, and for all others the plainest there is: one tile, no unrolling, one parallel loop. A model of complete
programs says which to go on with.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import Parallel, PartialSums, Steps, Tile
from dsascape.tuner.search.evolution import Scores
from dsascape.tuner.search.genes import drawn_factors, step_of, tile_groups, with_axis, with_step
from dsascape.tuner.search.grid_space import GridSpace
from dsascape.tuner.search.locations import flexible
from dsascape.tuner.search.space import Program, Space

Decision = Callable[[Space, Steps, random.Random], Steps]
"""One decision, drawn for a program."""


@dataclass(frozen=True)
class BeamOptions:
    """Numbers of the beam search."""

    width: int = 32
    """Incomplete programs that are kept after each decision."""
    draws: int = 8
    """Values that are tried for each decision of each of them."""


@dataclass(frozen=True)
class _Incomplete:
    """A program, and the decisions that are open."""

    program: Program
    open: tuple[Decision, ...]


def beam(space: Space, scores: Scores, rng: random.Random, options: BeamOptions) -> list[Program]:
    """Return complete programs, those of the highest score first."""
    states = [
        _Incomplete(program, tuple(_decisions(space, program.steps)))
        for sketch in space.sketches
        if (program := space.plain(sketch.steps)) is not None
    ]
    done: dict[Steps, Program] = {}
    while states:
        finished = [each for each in states if not each.open]
        done |= {each.program.steps: each.program for each in finished}
        children = [child for state in states if state.open for child in _children(space, state, rng, options.draws)]
        distinct = list({(child.program.steps, len(child.open)): child for child in children}.values())
        ranked = _ranked(scores, [child.program for child in distinct])
        states = [distinct[number] for number in ranked[: options.width]]
    complete = list(done.values())
    return [complete[number] for number in _ranked(scores, complete)]


def _ranked(scores: Scores, programs: Sequence[Program]) -> list[int]:
    """Return the places of ``programs``, those of the highest score first."""
    if not programs:
        return []
    values = scores(programs)
    return sorted(range(len(programs)), key=lambda number: -values[number])


def _children(space: Space, state: _Incomplete, rng: random.Random, draws: int) -> Iterator[_Incomplete]:
    decision, *rest = state.open
    yield _Incomplete(state.program, tuple(rest))
    for _ in range(draws):
        program = space.completed(decision(space, state.program.steps, rng))
        if program is not None:
            yield _Incomplete(program, tuple(rest))


def _decisions(space: Space, steps: Steps) -> Iterator[Decision]:
    """Yield all decisions about a sketch: sizes of each axis first, then what the kind of machine has besides."""
    for number, group in enumerate(space.groups(steps)):
        if step_of(steps, group.inner, PartialSums) is None:
            for axis in range(len(space.extents(steps, group))):
                yield _axis(number, axis, is_space=True)
            for axis in space.reductions(group) if len(group.reductions) > 1 else ():
                yield _axis(number, axis, is_space=False)
    yield from _on_grid(space, steps) if isinstance(space, GridSpace) else _on_cores(space, steps)


def _on_cores(space: Space, steps: Steps) -> Iterator[Decision]:
    """Yield places, what is parallel, what is written out."""
    if space.options.locations:
        for stage in flexible(space.nodes, steps):
            yield _place(stage)
    yield _parallel
    for number, _ in enumerate(tile_groups(steps)):
        yield _unrolling(number)


def _on_grid(space: GridSpace, steps: Steps) -> Iterator[Decision]:
    """Yield copies of operands, who shares reductions, the least threads of a block, the order of blocks."""
    for tensor in space.held.nests:
        if step_of(steps, tensor + SUMS, Tile) is not None:
            yield _of_tensor(GridSpace.staged, tensor)
            yield _of_tensor(GridSpace.shared, tensor)
    yield _of_grid(GridSpace.crowded)
    yield _of_grid(GridSpace.reordered)


def _of_tensor(drawn: Callable[[GridSpace, Steps, str, random.Random], Steps], tensor: str) -> Decision:
    def decided(space: Space, steps: Steps, rng: random.Random) -> Steps:
        assert isinstance(space, GridSpace)
        return drawn(space, steps, tensor, rng)

    return decided


def _of_grid(drawn: Callable[[GridSpace, Steps, random.Random], Steps]) -> Decision:
    def decided(space: Space, steps: Steps, rng: random.Random) -> Steps:
        assert isinstance(space, GridSpace)
        return drawn(space, steps, rng)

    return decided


def _axis(number: int, axis: int, *, is_space: bool) -> Decision:
    def drawn(space: Space, steps: Steps, rng: random.Random) -> Steps:
        group = space.groups(steps)[number]
        if is_space:
            factors = space.drawn_factors(steps, group, axis, space.extents(steps, group)[axis], rng)
            return with_axis(steps, group.space, axis, factors)
        extent = space.reductions(group)[axis]
        return with_axis(
            steps, group.reductions, axis, drawn_factors(rng, extent, len(group.reductions), extent)
        )

    return drawn


def _place(stage: str) -> Decision:
    return lambda space, steps, rng: space.moved(steps, stage, rng)


def _parallel(space: Space, steps: Steps, rng: random.Random) -> Steps:
    for stage in space.roots(steps):
        most = space.most_parallel(steps, stage)
        steps = with_step(steps, Parallel(stage, rng.randint(min(1, most), most)))
    return steps


def _unrolling(number: int) -> Decision:
    return lambda space, steps, rng: space.unrolled(steps, tile_groups(steps)[number], rng)
