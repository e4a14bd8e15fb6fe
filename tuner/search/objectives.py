"""What tuning of networks is to make small (Ansor, Table 2): of the latencies of tasks, and by each of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

UNITS_OF_NOTHING = 5
"""Units without a gain after which a task counts as stopped early in f4."""


@dataclass(frozen=True)
class Progress:
    """Progress of tasks: the least latency of each after each of its units."""

    history: Sequence[Sequence[float]]
    """By task, in seconds; the last is the latency of now. Of a task without a unit, that of its built-in choice."""
    weights: Sequence[Mapping[int, int]]
    """By network, how often each task occurs."""

    @property
    def latencies(self) -> list[float]:
        """The latency of each task."""
        return [each[-1] for each in self.history]

    def networks(self) -> list[float]:
        """Return the latency of each network."""
        own = self.latencies
        return [sum([weight * own[task] for task, weight in each.items()]) for each in self.weights]


class Objective(Protocol):
    """A function of the latencies of tasks, and its derivatives."""

    def value(self, progress: Progress) -> float:
        """Return the objective."""
        ...

    def slopes(self, progress: Progress) -> list[float]:
        """Return the derivative by the latency of each task."""
        ...


class TotalLatency:
    """f1: the sum of all networks' latencies."""

    def value(self, progress: Progress) -> float:
        return sum(progress.networks())

    def slopes(self, progress: Progress) -> list[float]:
        return _summed(progress, [1.0] * len(progress.weights))


@dataclass(frozen=True)
class Requirements:
    """f2: the same, where a network that meets its requirement counts with that."""

    limits: Sequence[float]
    """Latency that each network has to meet, in seconds."""

    def value(self, progress: Progress) -> float:
        return sum(map(max, progress.networks(), self.limits))

    def slopes(self, progress: Progress) -> list[float]:
        compared = zip(progress.networks(), self.limits, strict=True)
        return _summed(progress, [float(own > limit) for own, limit in compared])


@dataclass(frozen=True)
class SpeedUp:
    """f3: less the geometric mean of the networks' speed-ups over reference latencies."""

    references: Sequence[float]
    """Seconds."""

    def value(self, progress: Progress) -> float:
        ratios = [math.log(one / own) for one, own in zip(self.references, progress.networks(), strict=True)]
        return -math.exp(sum(ratios) / len(ratios))

    def slopes(self, progress: Progress) -> list[float]:
        mean, networks = -self.value(progress), progress.networks()
        return _summed(progress, [mean / len(networks) / own for own in networks])


@dataclass(frozen=True)
class StopEarly:
    """f4: the sum of latencies, where a task that ``units`` have brought nothing stays as it is."""

    units: int = UNITS_OF_NOTHING

    def value(self, progress: Progress) -> float:
        return sum(progress.networks())

    def slopes(self, progress: Progress) -> list[float]:
        own = _summed(progress, [1.0] * len(progress.weights))
        return [0.0 if self.is_stopped(each) else slope for each, slope in zip(progress.history, own, strict=True)]

    def is_stopped(self, history: Sequence[float]) -> bool:
        """Whether the last units of a task have brought nothing."""
        return len(history) > self.units and history[-1] >= history[-1 - self.units]


@dataclass(frozen=True)
class OwnObjective:
    """A user's function of the networks' latencies in seconds, of which smaller values are better."""

    function: Callable[[list[float]], float]
    step: float = field(default=1e-3)
    """Fraction of a network's latency by which it is changed to see how the function does."""

    def value(self, progress: Progress) -> float:
        return float(self.function(progress.networks()))

    def slopes(self, progress: Progress) -> list[float]:
        networks = progress.networks()
        found = []
        for number, own in enumerate(networks):
            near = list(networks)
            near[number] = own * (1 - self.step)
            found.append((self.value(progress) - float(self.function(near))) / (own * self.step))
        return _summed(progress, found)


def _summed(progress: Progress, by_network: Sequence[float]) -> list[float]:
    """Return the derivative by each task, given those by each network's latency."""
    found = [0.0] * len(progress.history)
    for slope, weights in zip(by_network, progress.weights, strict=True):
        for task, weight in weights.items():
            found[task] += slope * weight
    return found
