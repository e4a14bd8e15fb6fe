"""Tuners: which programs of a task are tried next, given what is known of those that have been."""

import random
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.search.beam import BeamOptions, beam
from dsascape.tuner.search.cost_model import ModelOptions
from dsascape.tuner.search.evolution import EvolutionOptions, chosen, evolved
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.reformer.options import ReformerOptions
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.task_scheduler import SchedulerOptions

TunerName = Literal["ansor", "ago", "random", "beam", "eto", "selective"]
UNIT = 64
"""Trials of a unit: the programs of a task that are tried between two trainings of the model (TVM's default)."""

_NEAR_BUILTIN = 4
"""One of so many programs of the first unit is near what the search begins with: the built-in choice, or one that was
composed."""
_JOINT = 2
"""One of so many programs of the first unit computes a complex operator inside of another's tiles, at most."""


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
    builtin: bool = True
    """Whether programs evolve from the built-in choice, too; else it is tried, and kept where nothing is faster."""
    space: SpaceOptions = field(default_factory=SpaceOptions)
    evolution: EvolutionOptions = field(default_factory=EvolutionOptions)
    beam: BeamOptions = field(default_factory=BeamOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    reformer: ReformerOptions = field(default_factory=ReformerOptions)
    """SPLIT and JOIN of the tuner ``ago``."""
    scheduler: SchedulerOptions = field(default_factory=SchedulerOptions)


Tuner = Callable[[Searching, int, random.Random, SearchOptions], list[Program]]
"""Returns so many programs of a task to try that have not been tried; fewer where it finds no more."""


def ansor(searching: Searching, count: int, rng: random.Random, options: SearchOptions) -> list[Program]:
    """Evolve programs that the cost model expects to be fast (Ansor, section 5)."""
    space = searching.space
    begin = _begin(searching, count, rng)
    if not searching.is_trained:
        near = _first(searching, count, rng, options) if options.fine_tuning else []
        ranked = [*begin, *near][:count]
        return chosen(space, ranked, searching.tried, count, rng, 1 - len(ranked) / count)
    own = options.evolution
    if not options.fine_tuning:
        drawn = [space.draw(rng) for _ in range(own.population)]
        scores = searching.scores(drawn)
        ranked = [drawn[number] for number in sorted(range(len(drawn)), key=lambda number: -scores[number])]
        return chosen(space, [*begin, *ranked], searching.tried, count, rng, own.epsilon)
    ranked = evolved(space, searching.scores, searching.parents(), rng, own)
    return chosen(space, [*begin, *ranked], searching.tried, count, rng, own.epsilon)


def _begin(searching: Searching, count: int, rng: random.Random) -> list[Program]:
    """Return the programs that a search begins with, if it has such, and programs near the first of them.

    Those near it compute one stage elsewhere, or have one decision changed: a quarter of the unit at most, those that
    are expected to be fast first. Where the first computes no complex operator inside of another's tiles, as what JOIN
    composes, those near it that do so come before them, up to half of the unit: no program that the cost model has
    learned from was such.
    """
    own = searching.to_begin_with()
    if not own:
        return []
    space, steps = searching.space, own[0].steps
    placed = [*space.placed_inside(steps)]
    joint = [] if space.is_joint(own[0]) else [each for each in placed if space.is_joint(each)]
    near = [each for each in placed if each not in joint]
    near += [each for _ in range(count) if (each := space.mutated(steps, rng)) is not None]
    joint, near = [_by_score(searching, _distinct(own[0], each, searching.tried)) for each in (joint, near)]
    return [*own, *joint[: count // _JOINT], *near[: count // _NEAR_BUILTIN]]


def _distinct(own: Program, programs: Sequence[Program], tried: Set[Steps]) -> list[Program]:
    """Return programs that have not been tried, one of those with the same loops; none with the loops of ``own``."""
    found = {str(each.loops): each for each in reversed(programs) if each.steps not in tried}
    found.pop(str(own.loops), None)
    return list(reversed(found.values()))


def _by_score(searching: Searching, programs: list[Program]) -> list[Program]:
    """Return programs in the order of what the cost model expects of them, as they are if it knows nothing."""
    if not searching.is_trained or not programs:
        return programs
    scores = searching.scores(programs)
    return [programs[number] for number in sorted(range(len(programs)), key=lambda number: -scores[number])]


def _first(searching: Searching, count: int, rng: random.Random, options: SearchOptions) -> list[Program]:
    """Return programs for the first unit, before the cost model knows anything; the others of it are drawn.

    They are neighbours of the built-in choice, unless the search is without it, and, with the machine model as a prior,
    what that expects to be fast.
    """
    space, wanted = searching.space, count // _NEAR_BUILTIN
    parents = searching.parents() or ([searching.task.program()] if options.builtin else [])
    near = [space.mutated(program.steps, rng) for program in parents for _ in range(count)]
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


TUNERS: Mapping[TunerName, Tuner] = {"ansor": ansor, "ago": ansor, "random": at_random, "beam": by_beam}
"""The tuners of single tasks by name; "eto" and "selective" are searches of their own (`tuner.search.reuse_search`).

AGO's programs are Ansor's; its reformer says which task is next, and what that begins with.
"""
LEARNING: frozenset[TunerName] = frozenset({"ansor", "ago", "beam", "eto", "selective"})
"""Those that ask the cost model."""
