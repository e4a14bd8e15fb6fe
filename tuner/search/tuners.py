"""Tuners: which programs of a task are tried next, given what is known of those that have been."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dsascape.tuner.search.beam import BeamOptions, beam
from dsascape.tuner.search.cost_model import ModelOptions
from dsascape.tuner.search.evolution import EvolutionOptions, chosen, evolved
from dsascape.tuner.search.mutations import mutated
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.task_scheduler import SchedulerOptions

TunerName = Literal["ansor", "random", "beam", "eto", "selective"]
UNIT = 64
"""Trials of a unit: the programs of a task that are tried between two trainings of the model (TVM's default)."""

_NEAR_BUILTIN = 4
"""One of so many programs of the first unit is the built-in choice with one decision changed."""


@dataclass(frozen=True)
class SearchOptions:
    """Settings of a search, besides its tasks and its runner."""

    tuner: TunerName = "ansor"
    trials: int = 1000
    """Programs that are tried in all, those of earlier runs among them."""
    seed: int = 0
    unit: int = UNIT
    """Trials of a unit, at most: with few trials for many tasks, units are smaller."""
    fine_tuning: bool = True
    """Whether programs are evolved; else they are drawn, and the model chooses among them (an ablation)."""
    prior: bool = False
    """Whether the machine model says what is tried first, and is a feature of the cost model; of use where candidates
    are measured."""
    hops: int | None = 1
    """How far from the operators bridges may be where programs are reused (the paper's 1); 0: none; None: any."""
    space: SpaceOptions = field(default_factory=SpaceOptions)
    evolution: EvolutionOptions = field(default_factory=EvolutionOptions)
    beam: BeamOptions = field(default_factory=BeamOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    scheduler: SchedulerOptions = field(default_factory=SchedulerOptions)


Tuner = Callable[[Searching, int, random.Random, SearchOptions], list[Program]]
"""Returns so many programs of a task to try that have not been tried; fewer where it finds no more."""


def ansor(searching: Searching, count: int, rng: random.Random, options: SearchOptions) -> list[Program]:
    """Evolve programs that the cost model expects to be fast (Ansor, section 5)."""
    space = searching.space
    if not searching.is_trained:
        near = _first(searching, count, rng, options) if options.fine_tuning else []
        return chosen(space, near, searching.tried, count, rng, 1 - len(near) / count)
    own = options.evolution
    if not options.fine_tuning:
        drawn = [space.draw(rng) for _ in range(own.population)]
        scores = searching.scores(drawn)
        ranked = [drawn[number] for number in sorted(range(len(drawn)), key=lambda number: -scores[number])]
        return chosen(space, ranked, searching.tried, count, rng, own.epsilon)
    ranked = evolved(space, searching.scores, searching.fastest(), rng, own)
    return chosen(space, ranked, searching.tried, count, rng, own.epsilon)


def _first(searching: Searching, count: int, rng: random.Random, options: SearchOptions) -> list[Program]:
    """Return programs for the first unit, before the cost model knows anything; the others of it are drawn.

    They are neighbours of the built-in choice and, with the machine model as a prior, what it expects to be fast.
    """
    space, wanted = searching.space, count // _NEAR_BUILTIN
    parents = searching.fastest() or [searching.task.program()]
    near = [mutated(space, program.steps, rng) for program in parents for _ in range(count)]
    found = [program for program in near if program is not None][:wanted]
    if searching.prior is not None:
        ranked = evolved(space, searching.expected, parents, rng, options.evolution)
        found += [program for program in ranked if program.steps not in searching.tried][: 2 * wanted]
    return list({program.steps: program for program in found}.values())


def at_random(searching: Searching, count: int, rng: random.Random, options: SearchOptions) -> list[Program]:
    """Draw programs."""
    del options
    return chosen(searching.space, (), searching.tried, count, rng, 1.0)


def by_beam(searching: Searching, count: int, rng: random.Random, options: SearchOptions) -> list[Program]:
    """Search incomplete programs with a beam, which a model of complete programs guides."""
    if not searching.is_trained:
        return chosen(searching.space, (), searching.tried, count, rng, 1.0)
    ranked = beam(searching.space, searching.scores, rng, options.beam)
    return chosen(searching.space, ranked, searching.tried, count, rng, 0.0)


TUNERS: Mapping[TunerName, Tuner] = {"ansor": ansor, "random": at_random, "beam": by_beam}
"""The tuners of single tasks by name; "eto" and "selective" are searches of their own (`tuner.search.reuse_search`)."""
LEARNING: frozenset[TunerName] = frozenset({"ansor", "beam", "eto", "selective"})
"""Those that ask the cost model."""
