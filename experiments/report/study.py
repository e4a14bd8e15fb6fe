"""What a report is made from: the points of one experiment, its machine, and pictures of simulated time."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from dsascape.experiments.results.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Study:
    """An experiment with its results; a report is a pure function of it."""

    name: str
    question: str
    """May be empty; then the name is the headline."""
    hardware_name: str
    hardware_rows: tuple[tuple[str, str], ...]
    """Dotted key and value text of the base machine, in the order of its file."""
    swept: Mapping[str, tuple[str, ...]]
    """Dotted path to the value texts tried, in the order of the experiment file."""
    objectives: tuple[str, ...]
    frame: pd.DataFrame
    """One row a design point; a failed one has its message in ``error`` and no figures."""
    timelines: tuple[Timeline, ...]
    """Runs of one telling point under different policies, drawn on one scale of time. May be empty."""
    provenance: Mapping[str, str]
    search: str = "grid"
    """How points were chosen: ``grid``, or the name of a search."""
    planned: int = 0
    """Points that the run was to compute: more than there are if it has not ended."""
    remarks: tuple[str, ...] = ()
    """What could not be read of what the report is made from."""
    layers: tuple[tuple[str, pd.DataFrame], ...] = ()
    """What to call a point, and its layers with what each took: the fastest of each network."""
    kernels: pd.DataFrame | None = None
    """Measured kernels of all points, each with its ``network`` and ``policy``, those with a prediction."""
