"""Times that no single disturbance decides: sampled in rounds, and estimated from the samples of all rounds.

Other processes, virtual machines on the same cores and evicted caches only add to a time, and do so for seconds on end;
pages that happen to lie well in a cache, or a clock that is high for a moment, take from it. So every time is taken
once in each round, by turns with all other times and on new memory, and its estimate is the lower quartile of its
samples: it is right if a quarter of them or more are undisturbed, and one lucky sample does not decide it either. Where
all cores have to be undisturbed at once, and where a figure is a small difference of large times, it is what an eighth
of more samples fall below; where others' use of a machine is the figure itself, it is their median. A bundle carries
this module, so it uses the standard library only.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TURNS = 3
"""Samples of each time in each round, where an eighth of them decides."""
ROUNDS = 5
"""Rounds of all probes; as many more of each probe that finds what cannot be."""
_REPETITIONS = 3
"""Times that such a probe is repeated before something is assumed in its place."""
EIGHTH, QUARTER, HALF = 0.125, 0.25, 0.5
"""Shares of samples that lie below an estimate."""

Found = Mapping[str, Any]
"""Values of fields of `tuner.calibrate.figures.Figures`, by name."""


def estimate(samples: Sequence[float], share: float = QUARTER) -> float:
    """Return the value below which ``share`` of the samples lie, on a line between two of them where it is neither."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


class Times:
    """Samples of times, by key; probes ask for all times here, while they are sampled and afterwards."""

    def __init__(self) -> None:
        self._samples: dict[Hashable, list[float]] = {}
        self._is_sampling = False

    def of(self, key: Hashable, take: Callable[[], float], share: float = QUARTER) -> float:
        """Return the estimate of the time ``key``, with a new sample by ``take`` while times are sampled."""
        if self._is_sampling:
            self._samples.setdefault(key, []).append(take())
        return estimate(self._samples[key], share)

    def sample(self, probes: Iterable[Callable[[], object]], rounds: int = ROUNDS) -> None:
        """Run ``probes`` one after the other, ``rounds`` times, with a sample of each time that they ask for."""
        probes = tuple(probes)
        self._is_sampling = True
        try:
            for _ in range(rounds):
                for probe in probes:
                    probe()
        finally:
            self._is_sampling = False


def _nothing(found: Found) -> str:
    del found
    return ""


def _unchanged(found: Found) -> Found:
    return found


@dataclass(frozen=True)
class Probe:
    """Figures that are measured together, with what they can be."""

    measure: Callable[[], Found]
    """Returns the figures that follow from `Times`; called in every round, and once more at the end."""
    fault: Callable[[Found], str] = _nothing
    """Returns what cannot be about the figures; empty if nothing."""
    assumed: Callable[[Found], Found] = _unchanged
    """Returns what is assumed in place of figures that cannot be, however often they are measured."""


def figures_of(times: Times, probes: Sequence[Probe]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the figures of ``probes``, and warnings about those that stay impossible.

    A probe with a fault is repeated alone, for up to three more times as many samples; then its assumption counts.
    """
    times.sample([probe.measure for probe in probes])
    figures: dict[str, Any] = {}
    warnings = []
    for probe in probes:
        found = probe.measure()
        for _ in range(_REPETITIONS):
            if not probe.fault(found):
                break
            times.sample([probe.measure])
            found = probe.measure()
        fault = probe.fault(found)
        if fault:
            warnings.append(fault)
            found = probe.assumed(found)
        figures |= found
    return figures, tuple(warnings)
