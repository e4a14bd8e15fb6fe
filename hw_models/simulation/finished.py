"""What a run of a program leaves behind, whoever ran it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dsascape.hw_models.simulation.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that has come to its end; memories are ports, in the order of ``ports``."""

    trace: Trace
    busy_ps: Mapping[str, int]
    """By kind of unit: how long all members together were under way."""
    waited_ps: Mapping[str, Mapping[str, int]]
    """By kind of unit: how long all members together had nothing to do, by what they waited for."""
    ports: Sequence[str]
    moved_bytes: Sequence[float]
    """By port: what has crossed it."""
    peak_bytes: Sequence[int]
    """By port: the most that was held."""
    was_short_of_space: bool
    """Whether any buffer did not get its space at once."""
    events: int
    """Turns taken by whoever had something to do."""
