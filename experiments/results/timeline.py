"""Timelines of simulated runs, as they are stored and drawn: spans of activity per unit."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """One activity of one unit."""

    start_ps: int
    end_ps: int
    label: str
    category: str
    """Kind of activity: "matrix", "vector", "load", "store", "launch", "wait", or another word."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Activities of all units in one simulated run."""

    title: str
    lanes: tuple[tuple[str, tuple[Span, ...]], ...]
    """(unit, its spans in order of time)."""
    makespan_ps: int
    critical: tuple[Span, ...] = ()
    """Critical path from zero to the makespan; each span's category is the limiting resource."""
    trace: str = ""
    """Name of the same run's Perfetto file, in the report's folder; empty if there is none."""
