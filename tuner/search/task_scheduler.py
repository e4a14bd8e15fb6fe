"""Which task gets the next unit of trials (Ansor, section 6 and appendix A).

The paper warms up with a round of one unit for each task, in any order, and has trials for many rounds. Two departures
are for fewer trials: the warm-up begins with the tasks that the objective weighs most (for the total latency: weight
times time), and where there are not enough trials for a round there is none: a task without a unit counts with its
built-in choice as if that had been one, so that heavy tasks get several units before light ones get any.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from dsascape.tuner.search.objectives import Objective, Progress

Strategy = Literal["gradient", "round-robin"]
LEAST_UNIT = 8
"""Trials of a unit, at least: fewer tell little of a task (assumed)."""


@dataclass(frozen=True)
class SchedulerOptions:
    """Numbers of the scheduler, TVM's where the paper has none."""

    strategy: Strategy = "gradient"
    """Whether tasks are chosen by what they promise, or in turn (the ablation without a task scheduler)."""
    alpha: float = 0.2
    """Trust in what the last units have brought, against what is hoped for."""
    beta: float = 2.0
    """Factor by which a task may be slower per operation than similar ones before it is expected to
    catch up with them."""
    window: int = 3
    """Units that are looked back on."""
    epsilon: float = 0.05
    """Share of units that go to any task."""


@dataclass(frozen=True)
class TaskFacts:
    """Properties of a task that the scheduler uses besides its latency."""

    flops: int
    similarity: object
    """Equal for similar tasks."""


def unit_trials(trials: int, tasks: int, unit: int) -> int:
    """Return the trials of a unit: ``unit``, less where that is too much for each of the ``tasks``, but not tiny."""
    return max(min(unit, trials // max(tasks, 1)), min(unit, LEAST_UNIT), 1)


def cut_to(left: int, size: int) -> int:
    """Return the trials of the next unit of ``size`` where ``left`` are left; the last two share evenly."""
    return min(left, size) if left >= 2 * size or left <= size else -(-left // 2)


def gradients(
    progress: Progress, facts: Sequence[TaskFacts], objective: Objective, options: SchedulerOptions
) -> list[float]:
    """Return the derivative of the objective by the units of each task, as far as it can be guessed.

    With ``g`` the latency of a task after ``t`` units: what the last units have brought, and the better of two hopes,
    that as many units again bring the latency down to nothing, and that it becomes that of similar tasks per operation:
    ``df/dg (a (g(t) - g(t - w)) / w + (1 - a) min(-g / t, b C / max V - g))``.
    """
    found = []
    for task, (own, slope) in enumerate(zip(progress.history, objective.slopes(progress), strict=True)):
        latency, units = own[-1], len(own)
        backward = (latency - own[-1 - options.window]) / options.window if units > options.window else 0.0
        speeds = [
            facts[other].flops / progress.history[other][-1]
            for other in range(len(facts))
            if facts[other].similarity == facts[task].similarity
        ]
        similar = options.beta * facts[task].flops / max(speeds) - latency if max(speeds) else 0.0
        hoped = min(-latency / units, similar)
        found.append(slope * (options.alpha * backward + (1 - options.alpha) * hoped))
    return found


def next_task(
    progress: Progress, facts: Sequence[TaskFacts], objective: Objective, options: SchedulerOptions,
    open_tasks: Sequence[int], rng: random.Random, *, first: Collection[int] = (),
) -> int | None:  # fmt: skip
    """Return the task that gets the next unit, of those that are open; None where no task promises anything.

    Each history has one latency per unit; of tasks without a unit, that of the built-in choice. Tasks that are
    ``first`` (the warm-up) are before all others, those that the objective weighs most before the rest.
    """
    if not open_tasks:
        return None
    if options.strategy == "round-robin":
        return min(open_tasks, key=lambda task: (task not in first, len(progress.history[task])))
    waiting = [task for task in open_tasks if task in first]
    if waiting:
        weighed = objective.slopes(progress)
        return max(waiting, key=lambda task: abs(weighed[task] * progress.latencies[task]))
    if rng.random() < options.epsilon:
        return rng.choice(open_tasks)
    slopes = gradients(progress, facts, objective, options)
    best = max(open_tasks, key=lambda task: abs(slopes[task]))
    return best if slopes[best] else None
