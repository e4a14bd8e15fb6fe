"""Beam search over incomplete programs: one decision after the other, the least promising programs given up early.

It is what Ansor is compared with (Fig. 7), after the auto-scheduler of Halide. An incomplete program has the decisions
so far, and for all others the plainest there is: one tile, no unrolling, one parallel loop. A model of complete
programs says which to go on with.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from dsascape.scheduler.kernels.loops.steps import PartialSums, Steps
from dsascape.tuner.search.evolution import Scores
from dsascape.tuner.search.genes import drawn_factors, step_of, with_axis
from dsascape.tuner.search.kinds.kind import Decision, KernelSpace
from dsascape.tuner.search.space import Program, Space


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


def beam(space: KernelSpace, scores: Scores, rng: random.Random, options: BeamOptions) -> list[Program]:
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
        program = space.completed(decision(state.program.steps, rng))
        if program is not None:
            yield _Incomplete(program, tuple(rest))


def _decisions(space: KernelSpace, steps: Steps) -> Iterator[Decision]:
    """Yield all decisions about a sketch: sizes of each axis first, then what the kind of machine has besides."""
    for number, group in enumerate(space.groups(steps)):
        if step_of(steps, group.inner, PartialSums) is None:
            for axis in range(len(space.extents(steps, group))):
                yield partial(_axis, space, number, axis)
            for axis in space.reductions(group) if len(group.reductions) > 1 else ():
                yield partial(_reduction, space, number, axis)
    yield from space.decisions(steps)


def _axis(space: Space, number: int, axis: int, steps: Steps, rng: random.Random) -> Steps:
    """Return ``steps`` with other sizes along a dimension of a group of tiles."""
    group = space.groups(steps)[number]
    factors = space.drawn_factors(steps, group, axis, space.extents(steps, group)[axis], rng)
    return with_axis(steps, group.space, axis, factors)


def _reduction(space: Space, number: int, axis: int, steps: Steps, rng: random.Random) -> Steps:
    """Return ``steps`` with other sizes along a reduction of a group of tiles."""
    group = space.groups(steps)[number]
    extent, levels = space.reductions(group)[axis], group.reductions
    return with_axis(steps, levels, axis, drawn_factors(rng, extent, len(levels), extent))
