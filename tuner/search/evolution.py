"""Evolutionary search for programs that a cost model expects to be fast (Ansor, section 5.1)."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.search.kinds.kind import KernelSpace
from dsascape.tuner.search.mutations import crossed
from dsascape.tuner.search.space import Program, Space

Scores = Callable[[Sequence[Program]], NDArray[np.float64]]
"""Expected throughput of programs of one task, the more the better; its unit does not matter."""


@dataclass(frozen=True)
class EvolutionOptions:
    """Numbers of the search; those that are not the paper's are TVM's."""

    population: int = 512
    """Programs of a generation (TVM: 2,048)."""
    generations: int = 4
    mutation: float = 0.85
    """Share of programs that come from one parent; the others come from two."""
    measured: float = 0.2
    """Most of the first generation that are the best programs measured before, as a fraction of it."""
    epsilon: float = 0.05
    """Share of the programs to try that are drawn at random, whatever is expected of them."""


def evolved(
    space: KernelSpace, scores: Scores, measured: Sequence[Program], rng: random.Random, options: EvolutionOptions
) -> list[Program]:
    """Return all programs of the generations, those of the highest score first; ``measured`` has the best first."""
    elders = list(measured[: int(options.population * options.measured)])
    generation = elders + [space.draw(rng) for _ in range(options.population - len(elders))]
    known: dict[Steps, tuple[Program, float]] = {}
    for number in range(options.generations + 1):
        fresh = {each.steps: each for each in generation if each.steps not in known}
        if fresh:
            found = scores(list(fresh.values()))
            known |= {steps: (each, float(score)) for (steps, each), score in zip(fresh.items(), found, strict=True)}
        if number < options.generations:
            generation = _next(space, generation, [known[each.steps][1] for each in generation], rng, options)
    ranked = sorted(known.values(), key=lambda pair: -pair[1])
    return [program for program, _ in ranked]


def _next(
    space: KernelSpace, parents: Sequence[Program], scores: Sequence[float], rng: random.Random,
    options: EvolutionOptions,
) -> list[Program]:  # fmt: skip
    """Return the next generation: parents are selected in proportion to their scores, below 0 counting as 0."""
    weights = [max(score, 0.0) for score in scores]
    if not any(weights):
        weights = [1.0] * len(parents)
    found = []
    for _ in range(options.population):
        one, other = rng.choices(parents, weights, k=2)
        if rng.random() < options.mutation:
            child = space.mutated(one.steps, rng)
        else:
            child = crossed(space, one.steps, other.steps, rng)
        found.append(one if child is None else child)
    return found


def chosen(
    space: Space, ranked: Sequence[Program], tried: Collection[Steps], count: int, rng: random.Random, epsilon: float
) -> list[Program]:
    """Return ``count`` programs to try that have not been: the first of ``ranked``, and a few drawn at random."""
    drawn = round(count * epsilon)
    found: dict[Steps, Program] = {}
    for program in ranked:
        if len(found) == count - drawn:
            break
        if program.steps not in tried:
            found.setdefault(program.steps, program)
    for _ in range(_DRAWS * count):
        if len(found) >= count:
            break
        program = space.draw(rng)
        if program.steps not in tried:
            found.setdefault(program.steps, program)
    return list(found.values())


_DRAWS = 4
"""Draws for each program that is missing, before a space counts as exhausted."""
