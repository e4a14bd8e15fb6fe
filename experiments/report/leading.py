"""Measured figures lead where there are any: the latencies that points are compared by, and what they are called."""

from dataclasses import replace

import pandas as pd

from dsascape.experiments.report.frames import against_base
from dsascape.experiments.report.layout import Evaluation
from dsascape.experiments.report.words import MEASURED, SIMULATED


def source_of(points: pd.DataFrame) -> str:
    """Return whether points are compared by measured or by simulated latencies."""
    return MEASURED if "measured_s" in points and points["measured_s"].notna().any() else SIMULATED


def leading(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points by the latencies that lead: those that were measured, if any was, by what was measured."""
    if source_of(points) == SIMULATED:
        return points
    measured = points.loc[points["measured_s"].notna() | (points["error"] != "")]
    seconds, images = measured["measured_s"], pd.to_numeric(measured["batch"], errors="coerce")
    return measured.assign(latency_s=seconds, throughput_per_s=images / seconds)


def by_leading(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation whose points are compared by the latencies that lead."""
    points, every = leading(evaluation.points), leading(evaluation.every)
    embedded = evaluation.embedded.loc[evaluation.embedded.index.isin(points.index)]
    embedded = embedded.assign(latency_s=points["latency_s"], throughput_per_s=points["throughput_per_s"])
    return replace(evaluation, points=points, every=every, embedded=embedded, against_base=against_base(every))
