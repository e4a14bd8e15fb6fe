"""Who did what when in a simulated run, as it is stored and drawn."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that one unit did."""

    start_ps: int
    end_ps: int
    label: str
    category: str
    """What kind of work it was: "matrix", "vector", "load", "store", "launch", "wait", or another word."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Who did what when, in one simulated run."""

    title: str
    lanes: tuple[tuple[str, tuple[Span, ...]], ...]
    """Each unit with its spans in order of time."""
    makespan_ps: int
    critical: tuple[Span, ...] = ()
    """What set the pace when, from zero to the makespan; the categories are the resources that did."""
    trace: str = ""
    """File beside the report that has the same run as Perfetto takes it; none if empty."""
