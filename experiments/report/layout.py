"""How a report is built up: sections of figures, each with its caption and its numbers."""

from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from dsascape.experiments.report.canvas import Looks
from dsascape.experiments.report.frames import Axes
from dsascape.experiments.report.study import Study
from dsascape.experiments.report.tables import Table


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A study with what its sections have in common."""

    study: Study
    points: pd.DataFrame
    """Prepared, failed ones included; of so many networks, policies and swept values as can be told apart."""
    axes: Axes
    looks: Looks
    """Of the policies, the baseline first."""
    every: pd.DataFrame
    """All points, prepared, by their numbers."""
    embedded: pd.DataFrame
    """The points that the page has one by one: all of them, or a sample."""
    against_base: pd.Series
    """Of each usable point: latency on the base machine over its own."""

    @property
    def baseline(self) -> str:
        return next(iter(self.looks), "")


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing or tables to look at, with a caption and the numbers behind a drawing."""

    caption: str
    svg: Markup | None = None
    tables: tuple[Table, ...] = ()
    numbers: Table | None = None
    legend: Looks | None = None
    links: tuple[tuple[str, str], ...] = ()
    """Files beside the report, each with what it is."""
    timeline: int | None = None
    """Which timeline the page's script draws in place of the drawing."""
    still: str = ""
    """What is to be said of the drawing only."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its figures."""

    anchor: str
    title: str
    figures: tuple[Figure, ...]
    source: str = "simulated"
    """Whether its figures are simulated or measured; empty where they are both."""
