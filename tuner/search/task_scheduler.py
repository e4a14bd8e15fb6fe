"""Which task gets the next unit of trials (Ansor, section 6 and appendix A)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dsascape.tuner.search.objectives import Objective, Progress

Strategy = Literal["gradient", "round-robin"]


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
    open_tasks: Sequence[int], rng: random.Random,
) -> int | None:  # fmt: skip
    """Return the task that gets the next unit, of those that are open; None where no task promises anything.

    Those without a unit are first; each history has one latency per unit.
    """
    if not open_tasks:
        return None
    fresh = [task for task in open_tasks if not progress.history[task]]
    if fresh:
        return fresh[0]
    if options.strategy == "round-robin":
        return min(open_tasks, key=lambda task: len(progress.history[task]))
    if rng.random() < options.epsilon:
        return rng.choice(open_tasks)
    slopes = gradients(progress, facts, objective, options)
    best = max(open_tasks, key=lambda task: abs(slopes[task]))
    return best if slopes[best] else None
