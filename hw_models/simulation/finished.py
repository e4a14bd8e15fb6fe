"""Raw figures of a finished run, as every engine returns them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dsascape.hw_models.simulation.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """Trace and counters of a finished run; per-memory values are in the order of ``ports``."""

    engine: str = field(compare=False)
    """Name of the engine that ran it; runs that differ in nothing else are equal."""
    trace: Trace
    busy_ps: Mapping[str, int]
    """Busy time per kind of unit, summed over its members."""
    waited_ps: Mapping[str, Mapping[str, int]]
    """Idle time per kind of unit, summed over its members, by what was waited for: a kind of unit or ``space``."""
    ports: Sequence[str]
    """Names of the memories."""
    moved_bytes: Sequence[float]
    """Bytes read and written per port."""
    peak_bytes: Sequence[int]
    """Peak occupancy per port."""
    was_short_of_space: bool
    """Whether any allocation had to wait for space."""
    events: int
    """Number of events that were handled."""
