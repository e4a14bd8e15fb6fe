"""Input of a report: the points of one experiment, its machine, and timelines of simulated runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from dsascape.experiments.report.together import Course, Together
from dsascape.experiments.results.sensitivity import WhatIf
from dsascape.experiments.results.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Study:
    """An experiment with its results; a report is a pure function of it."""

    name: str
    question: str
    """Question of the experiment; if empty, the name is the headline."""
    hardware_name: str
    hardware_rows: tuple[tuple[str, str], ...]
    """(dotted path, value) of the base machine, in the order of its file."""
    swept: Mapping[str, tuple[str, ...]]
    """Values tried by dotted path, as text in the order of the experiment file."""
    objectives: tuple[str, ...]
    frame: pd.DataFrame
    """One row per design point; a failed one has its message in ``error`` and no figures."""
    timelines: tuple[Timeline, ...]
    """Runs of one telling point under different policies, drawn on a common time scale. May be empty."""
    provenance: Mapping[str, str]
    search: str = "grid"
    """Search method: ``grid``, ``random``, ``tpe`` or ``nsga2``."""
    planned: int = 0
    """Number of points of the run; more than the frame has if it has not ended."""
    remarks: tuple[str, ...] = ()
    """Damage found in the report's sources."""
    layers: tuple[tuple[str, pd.DataFrame], ...] = ()
    """(title, layers with their figures) of the fastest point of each network."""
    kernels: pd.DataFrame | None = None
    """Measured kernels of all points that have a prediction, each with its ``network`` and ``policy``."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Kinds of the machines' compute units by name; names with several kinds are left out."""
    what_if: WhatIf | None = None
    """Effects of changed machine values on one point; None where none were simulated."""
    constraints: tuple[str, ...] = ()
    """Constraints of the experiment, as written; points that do not keep one have it in ``violates``."""
    together: Together | None = None
    """Designs over all networks; None where each network is compared by itself."""
    tuned: str = ""
    """Folder of tuned kernels that all points use; empty for the built-in choice."""
    courses: tuple[Course, ...] = ()
    """What the searches found, trial by trial."""
