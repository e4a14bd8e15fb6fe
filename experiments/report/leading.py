"""Choice of the latencies that points are compared by: measured ones if there are any, otherwise simulated ones."""

from dataclasses import replace

import pandas as pd

from dsascape.experiments.report.frames import against_base
from dsascape.experiments.report.layout import Evaluation
from dsascape.experiments.report.words import MEASURED, SIMULATED


def source_of(points: pd.DataFrame) -> str:
    """Return "measured" if any point was measured, otherwise "simulated"."""
    return MEASURED if "measured_s" in points and points["measured_s"].notna().any() else SIMULATED


def leading(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with latencies to compare; if any was measured, only measured ones, with measured figures."""
    if source_of(points) == SIMULATED:
        return points
    measured = points.loc[points["measured_s"].notna() | (points["error"] != "")]
    seconds, images = measured["measured_s"], pd.to_numeric(measured["batch"], errors="coerce")
    return measured.assign(latency_s=seconds, throughput_per_s=images / seconds)


def with_leading_source(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with the latencies that points are compared by."""
    points, every = leading(evaluation.points), leading(evaluation.every)
    embedded = evaluation.embedded.loc[evaluation.embedded.index.isin(points.index)]
    embedded = embedded.assign(latency_s=points["latency_s"], throughput_per_s=points["throughput_per_s"])
    return replace(evaluation, points=points, every=every, embedded=embedded, against_base=against_base(every))
