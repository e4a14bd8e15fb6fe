"""Short form of a report for a terminal: the headline, and the fastest point of each network."""

from dataclasses import dataclass

from dsascape.experiments.report.frames import FIGURES, axes_of, best_points, prepared
from dsascape.experiments.report.leading import leading
from dsascape.experiments.report.page import headline_of
from dsascape.experiments.report.study import Study
from dsascape.experiments.report.tables import Table, figure_formats, table_of


@dataclass(frozen=True, slots=True)
class Summary:
    """A report in a sentence and a table."""

    headline: str
    best: Table
    """Fastest point of each network; without rows if no point has a latency."""


def summary_of(study: Study) -> Summary:
    """Return the headline of the study's report and its fastest points."""
    points = prepared(study.frame, study.swept)
    axes = axes_of(points, study.swept)
    best = best_points(leading(points))
    figures = [name for name in dict.fromkeys(("latency_s", *study.objectives)) if name in best and name in FIGURES]
    shown = best[["network", "policy", *axes, *figures, "bottleneck"]].rename(columns={"bottleneck": "bound by"})
    return Summary(headline_of(study), table_of(shown, figure_formats(shown, figures, "")))
