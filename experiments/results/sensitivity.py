"""Records of a what-if study: the effects of changed values of the machine on one design point."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import get_args

from dsascape.experiments.question.config import ScheduleMode
from dsascape.experiments.question.points import RunRecord
from dsascape.hw_models.common.spec_types import DType
from dsascape.hw_models.machine_files.sources import Source

SMALLEST = 0.001
"""Smallest relative change that counts as an effect."""
TOLERANCE = 0.02
"""Largest relative slow-down with more of a resource that is no anomaly."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Run with one value changed, relative to the unchanged machine."""

    setting: str
    """New value as text."""
    factor: float | None
    """New number by the old one, as requested; None for a value that is no number."""
    latency_s: float | None = None
    energy_j: float | None = None
    latency_change: float = 0.0
    """Relative change of the latency: 0.1 is ten per cent slower."""
    energy_change: float = 0.0
    area_change: float = 0.0
    """Relative change of the machine's area; 0 where it has none."""
    bottleneck: str = ""
    resource: str = ""
    """Resource whose time on the critical path changes most; empty where the latency hardly changes."""
    is_anomaly: bool = False
    """Whether more of a resource is slower, or less of it faster, by more than ``TOLERANCE``."""
    is_less: bool = False
    """Whether there is less of a resource: of a bandwidth, a frequency, a capacity or a count."""
    refusal: str = ""
    """Reason why there is no run; empty if there is one."""


@dataclass(frozen=True, slots=True)
class Swing:
    """All effects of one value."""

    path: str
    base: str
    """Value of the unchanged machine, as text."""
    source: Source
    effects: tuple[Effect, ...]

    def most(self, change: str) -> float:
        """Return the largest absolute ``latency_change`` or ``energy_change``; 0 without a run."""
        return max((abs(getattr(each, change)) for each in self.effects), default=0.0)

    def rank(self, change: str) -> tuple[float, float]:
        """Return the key that sorts values by what they gain, the most first; those that gain nothing by least loss.

        Values without a run are behind all others.
        """
        changes = [getattr(each, change) for each in self.effects if not each.refusal]
        gain = -min(changes, default=0.0)
        return -gain if gain >= SMALLEST else 0.0, max(changes, default=math.inf)

    @property
    def resource(self) -> str:
        """Resource through which the value changes the latency most; empty without an effect."""
        return max(self.effects, key=lambda each: abs(each.latency_change)).resource if self.effects else ""


def _lost(run: tuple[Swing, Effect]) -> tuple[float, float, float]:
    effect = run[1]
    lost = effect.latency_change if effect.latency_change >= SMALLEST else 0.0
    return lost, effect.area_change, effect.energy_change


@dataclass(frozen=True, slots=True)
class Gain:
    """Share of a resource in the critical path, and the latency gained by more of it."""

    resource: str
    share: float
    """Fraction of the unchanged machine's critical path."""
    path: str
    """Value that makes the resource faster; empty if none of the varied ones does."""
    faster: Effect | None
    """Effect of the better of the varied values."""
    limit: Effect | None
    """Effect of a hundredfold improvement; None where the value is no rate or time."""


@dataclass(frozen=True)
class WhatIf:
    """Effects of changed values on one design point."""

    base: RunRecord
    schedule: ScheduleMode
    swings: tuple[Swing, ...]
    """Varied values, the one that gains most latency first; those that gain nothing by least loss."""
    gains: tuple[Gain, ...] = field(default=())
    """Resources of the critical path, the largest share first."""

    @cached_property
    def by_energy(self) -> tuple[Swing, ...]:
        """Varied values, the one that gains most energy first; those that gain nothing by least loss."""
        return tuple(sorted(self.swings, key=lambda swing: swing.rank("energy_change")))

    @property
    def runs(self) -> list[tuple[Swing, Effect]]:
        """All changes that ran."""
        return [(swing, each) for swing in self.swings for each in swing.effects if not each.refusal]

    @property
    def gains_most(self) -> tuple[tuple[Swing, Effect], ...]:
        """The change that gains most latency, and those that gain as much; empty if none gains anything.

        Anomalies count for nothing.
        """
        ranked = sorted([run for run in self.runs if not run[1].is_anomaly], key=lambda run: run[1].latency_change)
        best = ranked[0][1].latency_change if ranked else 0.0
        if best > -SMALLEST:
            return ()
        return tuple([run for run in ranked if run[1].latency_change - best < SMALLEST])

    @property
    def less_of(self) -> tuple[tuple[Swing, Effect], ...]:
        """Changes to less of a resource, the one that loses least latency first; of those that lose none, by area.

        Rates of a dtype that the run does not have are left out where they change nothing.
        """
        others = {*get_args(DType)} - {self.base.dtype}
        less = [
            (swing, each) for swing, each in self.runs
            if each.is_less and not each.is_anomaly
            and (abs(each.latency_change) >= SMALLEST or others.isdisjoint(swing.path.split(".")))
        ]  # fmt: skip
        return tuple(sorted(less, key=_lost))

    @property
    def anomalies(self) -> tuple[tuple[Swing, Effect], ...]:
        """Values with which more of a resource is slower."""
        return tuple((swing, each) for swing in self.swings for each in swing.effects if each.is_anomaly)
