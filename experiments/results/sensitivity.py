"""Records of a what-if study: the effects of changed values of the machine on one design point."""

from dataclasses import dataclass, field
from functools import cached_property

from dsascape.experiments.question.config import ScheduleMode
from dsascape.experiments.question.points import RunRecord
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
    bottleneck: str = ""
    resource: str = ""
    """Resource whose time on the critical path changes most; empty where the latency hardly changes."""
    is_anomaly: bool = False
    """Whether more of a resource is slower, or less of it faster, by more than ``TOLERANCE``."""
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

    @property
    def resource(self) -> str:
        """Resource through which the value changes the latency most; empty without an effect."""
        return max(self.effects, key=lambda each: abs(each.latency_change)).resource if self.effects else ""


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
    """Varied values, the one with the largest effect on the latency first, then by energy."""
    gains: tuple[Gain, ...] = field(default=())
    """Resources of the critical path, the largest share first."""

    @cached_property
    def by_energy(self) -> tuple[Swing, ...]:
        """Varied values, the one with the largest effect on the energy first."""
        return tuple(sorted(self.swings, key=lambda swing: -swing.most("energy_change")))

    @property
    def anomalies(self) -> tuple[tuple[Swing, Effect], ...]:
        """Values with which more of a resource is slower."""
        return tuple((swing, each) for swing in self.swings for each in swing.effects if each.is_anomaly)
