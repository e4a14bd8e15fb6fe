"""Structure of a report: sections of figures, each with a caption and numbers."""

from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from dsascape.experiments.report.canvas import Looks
from dsascape.experiments.report.frames import Axes
from dsascape.experiments.report.phones import fits_phones
from dsascape.experiments.report.study import Study
from dsascape.experiments.report.tables import Table


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A study with the data that its sections share."""

    study: Study
    points: pd.DataFrame
    """Prepared points, failed ones included, reduced to the networks, policies and values that charts can show."""
    axes: Axes
    looks: Looks
    """Looks of the policies, the baseline first."""
    every: pd.DataFrame
    """All points, prepared, by their numbers."""
    embedded: pd.DataFrame
    """Points listed one by one on the page: all of them, or a sample."""
    against_base: pd.Series
    """Per usable point, latency on the base machine over its own."""

    @property
    def baseline(self) -> str:
        return next(iter(self.looks), "")


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing or tables, with a caption and the numbers behind the drawing."""

    caption: str
    svg: Markup | None = None
    tables: tuple[Table, ...] = ()
    numbers: Table | None = None
    legend: Looks | None = None
    links: tuple[tuple[str, str], ...] = ()
    """Links below the figure: (file in the report's folder, description)."""
    timeline: int | None = None
    """Index of the timeline that the page's script draws in place of the drawing; None for other figures."""
    still: str = ""
    """Remark that applies to the drawing only, not to the script's timeline."""

    @property
    def fits_phones(self) -> bool:
        """Whether a phone shows the whole drawing: it shrinks enough, or is there once more for phones."""
        return self.svg is not None and fits_phones(self.svg)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its figures."""

    anchor: str
    title: str
    figures: tuple[Figure, ...]
    source: str = "simulated"
    """"simulated", "measured", or empty for a section with both kinds of figures."""
